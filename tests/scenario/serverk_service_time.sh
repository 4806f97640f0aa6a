#!/usr/bin/env bash
# serverk_service_time: --service-time makes operations long, outside or under the lock, for every
# --dispatch; stats and the log tell; --sync and --cpus are checked
. "$(dirname "$0")/lib.sh"
has_lab 'serverk_service_time' || exit 0

# refused TEXT OPTION...
refused() {
    local text=$1
    shift
    mkdir -p "$server_dir"
    check_status 2 "$text is refused" timeout 20 "$MQKV_BUILD/serverk" -m "$server_queue" \
        -f "$server_dir" "$@"
}
refused 'a service time where durability is promised' --service-time fixed:1ms
check_match 'goes with --sync none only' "$errors" 'says why'
refused 'a service time that is none' --sync none --service-time fixed:1ms:blocked
check_match "'fixed:1ms:blocked'.*DIST" "$errors" 'says what would be one'
check_status 4 'a CPU that is not there' timeout 20 "$MQKV_BUILD/serverk" -m "$server_queue" \
    -f "$server_dir" --cpus 1000
check_match 'CPUs do not exist' "$errors" 'is an error'

# taken_us: what stats says of the time that operations took.
taken_us() {
    client --format json stats server | grep -o '"taken_us":[0-9]*' | cut -d : -f 2
}

# rate MIX: operations per second of four clients.
rate() {
    client bench --keys 64 --preload --mix get -c 1 >/dev/null
    client --format csv bench --keys 64 --mix "$1" -n 4 --processes 4 -t 0.7 | python3 -c '
import csv, sys
print(int(float(next(csv.DictReader(sys.stdin))["ops_per_s"])))'
}

start_server -d 4 -w 4 --sync none --cpus 0 --service-time off
check_equal '' "$(taken_us)" 'off: stats does not speak of it'
stop_server
start_server -d 4 -w 4 --sync none --service-time fixed:10ms
check_match 'WARN --service-time makes each operation slow' "$(cat "$server_log")" 'a warning'
client put a 1 >/dev/null
check_equal 1 "$(($(taken_us) >= 10000))" 'a put takes its time'
client ping >/dev/null
before=$(taken_us)
client sync >/dev/null
check_equal "$before" "$(taken_us)" 'a sync takes none'
side_by_side=$(rate get)
check_equal 1 "$((side_by_side <= 400))" 'four workers serve at most 400 a second of 10 ms'
stop_server
rm -r "$server_dir"
start_server -d 1 -w 4 --sync none --service-time fixed:10ms:locked --locking global-mutex
under_a_lock=$(rate get)
check_equal 1 "$((under_a_lock <= 100))" 'under one lock they serve at most 100'
stop_server
start_server -d 1 -w 4 --sync none --service-time fixed:10ms:locked --locking file-rwlock
check_equal 1 "$(($(rate get) > under_a_lock))" 'readers share a lock'
check_equal 1 "$(($(rate put) <= 100))" 'writers do not'
stop_server

rm -r "$server_dir"
for model in event thread process; do
    start_server -d 4 --sync none --dispatch $model --service-time exp:1ms:work:locked
    client put a $model >/dev/null
    check_equal $model "$(client get a)" "--dispatch $model serves"
    check_equal 1 "$(($(taken_us) > 0))" "and takes the time"
    stop_server
done
start_server -d 4 --sync none --locking optimistic --cache 1M --service-time fixed:1ms:locked
client put a 1 >/dev/null
for _ in 1 2 3; do client get a >/dev/null; done
check_equal 1 "$(($(taken_us) >= 4000))" 'reads without a lock take their time, too'
