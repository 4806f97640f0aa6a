#!/usr/bin/env bash
# watch_slow: watchers that do not read cost nobody anything: writers go on, the daemon's memory
# does not grow with what they miss, and they are told that they missed it
. "$(dirname "$0")/lib.sh"

watchers=8
declare -a pids=()
declare -a seen=()

start_watchers() {
    local i
    for ((i = 0; i < watchers; i++)); do
        seen[i]=$MQKV_TEST_DIR/seen.$i
        exec_client watch --keys >"${seen[i]}" 2>/dev/null &
        pids[i]=$!
    done
}

# Each has a line with the text.
all_have() {
    local i
    for ((i = 0; i < watchers; i++)); do
        grep -q "$1" "${seen[i]}" || return 1
    done
}

put_until_all_have() {
    client put "$1" x >/dev/null && all_have "$1"
}

resident_kib() {
    awk '/^RssAnon/ { print $2 }' "/proc/$server_pid/status"
}

# 12 MB, of which the store keeps 2.
overwrite_all() {
    client bench -n 2 -c 3000 -L 4000 --keys 500 --mix put --prefix b: >/dev/null 2>&1
}

start_server -d 2 --keep-changes-bytes 1M
start_watchers
wait_until 30 put_until_all_have first || not_ok "all watch"
overwrite_all
hold_still "${pids[@]}"
before_kib=$(resident_kib)
for _ in {1..5}; do
    check_status 0 "writers go on" overwrite_all
    client compact >/dev/null
done
grown_kib=$(($(resident_kib) - before_kib))
if [ "${MQKV_VARIANT:-release}" = release ]; then # a sanitizer has memory of its own
    check_equal yes "$([ "$grown_kib" -lt 16384 ] && echo yes || echo "$grown_kib KiB")" \
        "60 MB of changes do not stay in the daemon's memory"
fi
kill -CONT "${pids[@]}"
check_status 0 "all are told that they missed some" wait_until 30 all_have '^missed$'
check_status 0 "and see what comes then" wait_until 30 put_until_all_have last

# Those that are killed while they are stopped leave nothing.
hold_still "${pids[@]}"
overwrite_all
kill -9 "${pids[@]}"
wait "${pids[@]}" 2>/dev/null
check_status 0 "writers go on without them" overwrite_all
no_session_is_left() {
    [ "$(client sessions --format csv | grep -c clientk)" = 1 ]
}
check_status 0 "and their sessions end" wait_until 30 no_session_is_left
