#!/usr/bin/env bash
# bank: what is moved between accounts by transactions is never lost and never seen twice: by reads
# of one moment, scans, MGET of kresp, backups and the next daemon, with one data file and with
# eight, however writes are synced, while files are compacted and indexes grow, and through kill -9.
# long: seconds for each of six settings
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

accounts=(account:{0..7})
total=8000
stop=$MQKV_TEST_DIR/stop

# transfers SEED: lines for a batch.
transfers() {
    awk -v seed="$1" 'BEGIN { srand(seed)
        for (i = 0; i < 400; i++) {
            from = int(rand() * 8); to = (from + 1 + int(rand() * 7)) % 8; n = int(rand() * 9) + 1
            print "transact --if-present account:" to " -- add account:" from " -" n " --min 0" \
                " -- add account:" to " " n
        } }'
}

# fill SEED: lines that make logs and indexes larger.
fill() {
    awk -v seed="$1" 'BEGIN { srand(seed); text = sprintf("%2000s", ""); gsub(/ /, "x", text)
        for (i = 0; i < 400; i++)
            print "put " (i % 2 ? "dead:" int(rand() * 50) " " text : "new:" seed ":" i " x") }'
}

# go_on LINES...: has what the command prints done, again and again, until $stop is there: a daemon
# that is killed may end a batch.
go_on() {
    while [ ! -e "$stop" ]; do
        "$@" "$RANDOM" | client batch -q - >/dev/null 2>&1
    done
}

# Through kresp, by WATCH and MULTI; what fails meanwhile is given up.
cat >"$MQKV_TEST_DIR/watcher.py" <<'END'
import os, random, sys
sys.path.insert(0, sys.argv[2])
from replies import Peer
peer, done = Peer(sys.argv[1]), 0
while not os.path.exists(sys.argv[3]):
    one, other = random.sample(["account:%d" % i for i in range(8)], 2)
    replies = [peer.call("watch", one, other), peer.call("mget", one, other)]
    words = replies[1].split(b"\r\n")
    if len(words) < 5 or b"-" in (replies[0][:1], replies[1][:1]):
        peer.call("unwatch")
        continue
    have, amount = [int(words[2]), int(words[4])], random.randrange(1, 9)
    peer.call("multi")
    peer.call("set", one, have[0] - amount)
    peer.call("set", other, have[1] + amount)
    done += peer.call("exec").startswith(b"*2")
print(done)
END

look_by_kresp() {
    ask 'mget account:0 account:1 account:2 account:3 account:4 account:5 account:6 account:7' |
        tr ' ' '\n' | grep '^-\?[0-9]'
}

compact_again_and_again() {
    while [ ! -e "$stop" ]; do
        client compact >/dev/null 2>&1
        sleep 0.05
    done
}

sum_of() {
    awk '{ sum += $1; count++ } END { print sum " in " count }'
}

check_sum() { # TEXT COMMAND...: prints balances, one a line
    check_equal "$total in 8" "$("${@:2}" | sum_of)" "$1"
}

look_together() {
    client get "${accounts[@]}" --together
}

look_by_scan() {
    client scan account: --atomic | sed 's/.*[[:space:]]//'
}

# look_in_copy DIR: what the next daemon finds in a backup.
look_in_copy() (
    server_queue=${server_queue}c
    "$server_program" -m "$server_queue" -f "$1" >"$MQKV_TEST_DIR/copy.log" 2>&1 &
    local pid=$!
    wait_until 20 client --timeout 500 ping >/dev/null 2>&1
    look_together
    kill "$pid"
    wait "$pid"
)

compactions_so_far() {
    client --format json stats | tr -d ' \n' | grep -oE '"compactions":[0-9]+' |
        head -1 | cut -d: -f2
}

round=0 compactions=0 watched=0
while read -ra options; do
    round=$((round + 1))
    server_dir=$MQKV_TEST_DIR/store$round
    rm -f "$stop"
    start_server "${options[@]}"
    for account in "${accounts[@]}"; do client put "$account" 1000; done >/dev/null
    workers=()
    for lines in transfers transfers fill; do
        go_on "$lines" &
        workers+=($!)
    done
    start_kresp --threads 2
    python3 "$MQKV_TEST_DIR/watcher.py" "$kresp_socket" "$redis_tests" "$stop" \
        >"$MQKV_TEST_DIR/watched" &
    workers+=($!)
    compact_again_and_again &
    workers+=($!)
    for life in 1 2; do
        for _ in 1 2 3; do
            check_sum "reads of one moment, ${options[*]}, life $life" look_together
        done
        check_sum "MGET of kresp" look_by_kresp
        [[ ${options[*]} != *"-d 1 "* ]] || check_sum "a scan of one moment" look_by_scan
        compactions=$((compactions + $(compactions_so_far)))
        check_status 0 "a backup" client backup "$MQKV_TEST_DIR/copy$round.$life"
        check_sum "and what it has" look_in_copy "$MQKV_TEST_DIR/copy$round.$life"
        kill_server
        start_server "${options[@]}"
        check_sum "after a kill -9" look_together
    done
    moved=$(client --format json get account:0 | sed 's/.*"version":\([0-9]*\).*/\1/')
    touch "$stop"
    wait "${workers[@]}"
    watched=$((watched + $(<"$MQKV_TEST_DIR/watched")))
    stop_kresp
    stop_server
    check_equal yes "$([ "$moved" -gt 20 ] && echo yes)" "money has moved ($moved)"
    check_status 0 "the store is sound" "$MQKV_BUILD/kvcheck" "$server_dir"
    start_server "${options[@]}"
    check_sum "after a stop" look_together
    stop_server
    rm -rf "$server_dir" "$MQKV_TEST_DIR/copy$round".*
done <<'END'
-d 1 --sync none
-d 8 --sync none
-d 1 --sync interval:5
-d 8 --sync interval:5
-d 1 --sync always
-d 8 --sync always
END
check_equal yes "$([ "$compactions" -gt 0 ] && echo yes)" "files were compacted meanwhile"
check_equal yes "$([ "$watched" -gt 0 ] && echo yes)" "and EXEC has moved money, too ($watched)"
