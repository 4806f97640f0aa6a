#!/usr/bin/env bash
# serverk_held_disk: while a write stands still, as on a disk that does not answer, reads of other
# data files are answered; while all workers wait for it, the daemon still tells of itself, and
# begins sessions.
. "$(dirname "$0")/lib.sh"

server_program=$MQKV_BUILD/tests/held_disk
export MQKV_DISK_SAYS=$MQKV_TEST_DIR/says MQKV_DISK_WAITS=$MQKV_TEST_DIR/waits
mkfifo "$MQKV_DISK_SAYS" "$MQKV_DISK_WAITS" || exit 2
exec {says}<>"$MQKV_DISK_SAYS" {waits}<>"$MQKV_DISK_WAITS"
# Copied under the lock of its file, by a call.
large_value=$(head -c 16383 /dev/zero | tr '\0' v)

by_message() {
    client --direct off --timeout 20000 "$@"
}

# keys_by_file: how many keys each data file has, a line each.
keys_by_file() {
    client --format json stats files | grep -o '"file":[0-9]*,"keys":[0-9]*'
}

# file_of KEY: stores the key, and prints which data file that was.
file_of() {
    local before after
    before=$(keys_by_file)
    client put "$1" "value of $1" >"$MQKV_TEST_DIR/put" || return
    after=$(keys_by_file)
    diff <(echo "$before") <(echo "$after") | grep -m1 -oE '^[0-9]+'
}

# keys_apart: a key for $held, and some of other data files for $others.
keys_apart() {
    local file held_file key
    held=key0 others=()
    held_file=$(file_of key0)
    for key in key{1..12}; do
        file=$(file_of "$key")
        [ "$file" = "$held_file" ] || others+=("$key")
    done
}

# hold_writes NUMBER: as many writes to the held file stand still, or wait for those that do.
hold_writes() {
    local i
    writers=()
    for ((i = 0; i < $1; i++)); do
        by_message put "$held" "$large_value" >"$MQKV_TEST_DIR/held.$i" 2>&1 &
        writers+=($!)
    done
    read -r -N 1 -t 30 -u "$says" _
}

let_go() {
    printf x >&"$waits"
    wait "${writers[@]}"
}

# One session may have been ended by clientk kill.
let_go_all_but_killed() {
    local writer failed=0
    printf x >&"$waits"
    for writer in "${writers[@]}"; do
        wait "$writer" || failed=$((failed + 1))
    done
    [ "$failed" -le 1 ]
}

start_server --workers 4 --datafiles 4
keys_apart
check_status 0 "a write stands still" hold_writes 1
for key in "${others[@]}"; do
    check_status 0 "beside it $key is read by message" by_message get "$key"
    check_equal "value of $key" "$output" "and is right"
done
check_status 0 "what stood still goes on" let_go
check_equal OK "$(cat "$MQKV_TEST_DIR/held.0")" "and is answered"
stop_server

# So many that all workers wait, and that more requests wait than there are credits and queues for.
start_server --workers 2 --metrics "$MQKV_TEST_DIR/metrics"
check_status 0 "many writes stand still" hold_writes 40
all_wait() {
    client --format json stats server | grep -q '"workers_away":2,"set_aside":[1-9]'
}
check_status 0 "stats tells that all workers wait" wait_until 30 all_wait
check_status 0 "stats tells of the data files" client --format json stats files
check_match '"stale_files":1' "$output" "one of them keeps them waiting"
check_match '"stale_ms":[1-9]' "$output" "its numbers are older"
no_statistics_are_slow() {
    local slow
    slow=$(client slow) && ! grep -qi stats <<<"$slow"
}
check_status 0 "statistics that waited for the file are none of the slow requests" \
    no_statistics_are_slow
check_status 0 "metrics are told" client metrics
check_match '^mqkv_messages_set_aside [1-9]' "$output" "with those that wait"
check_status 0 "sessions are told" client sessions
check_status 0 "a ping is answered" client ping
all_have_waited() {
    client --format json stats server | grep -qE '"all_away_ms":[0-9]{4,}'
}
check_status 0 "stats tells for how long" wait_until 30 all_have_waited
check_status 1 "doctor sees it" client doctor
check_match 'all workers \(2\) have waited for [0-9]+ s' "$output" "and says that all workers wait"
check_match 'the disk keeps 1 file waiting' "$output" "and for what"
check_status 0 "a session that begins now reads directly" client --direct auto get "${others[0]}"
check_equal "value of ${others[0]}" "$output" "what is right"
told_in_file() {
    grep -q '^mqkv_stale_files 1' "$MQKV_TEST_DIR/metrics"
}
check_status 0 "the file of the metrics is written anew" wait_until 40 told_in_file
killed_too() {
    local session
    session=$(client --format json sessions | grep -oE '"session":[0-9]+' | head -n 1)
    client kill "${session#*:}"
}
check_status 0 "a session can be ended" killed_too
check_status 0 "what stood still goes on" let_go_all_but_killed
check_equal 0 "$(client --format json stats server | grep -oE '"set_aside":[0-9]+' | cut -d: -f2)" \
    "nothing waits any more"
check_equal "$large_value" "$(by_message get "$held")" "the value is that of the writes"
stop_server

# As many requests of a client as it has credits wait: so its end has no place behind them.
start_server --workers 1 --max-bytes 100M --evict s3fifo
exec_client --direct off bench --window 64 --mix get=100 --keys 100 --seconds 600 \
    >"$MQKV_TEST_DIR/bench" 2>&1 &
bench=$!
# credits_of_bench: those of its sessions, the fewest first.
credits_of_bench() {
    local sessions
    sessions=$(client --format json stats sessions) || return
    tr '}' '\n' <<<"$sessions" | sed -nE "s/.*\"pid\":$bench,.*\"credits\":([0-9]+).*/\1/p" |
        sort -n
}
has_session() {
    [ -n "$(credits_of_bench)" ]
}
has_no_session() {
    local credits
    credits=$(credits_of_bench) && [ -z "$credits" ]
}
all_credits_wait() {
    local credits
    credits=$(credits_of_bench | tail -n 1)
    client --format json stats server | grep -q "\"workers_away\":1,\"set_aside\":$credits,"
}
check_status 0 "a client sends many requests" wait_until 30 has_session
check_status 0 "a write stands still" hold_writes 1
check_status 0 "all that the client may send wait" wait_until 30 all_credits_wait
check_status 0 "stats tells of the bound" client --format json stats bound
check_match '"policy_bytes":[1-9]' "$output" "and of the memory for the order of eviction"
check_status 0 "metrics of it are told" client metrics
kill -KILL "$bench"
wait "$bench" 2>"$MQKV_TEST_DIR/killed"
check_status 0 "the session of a dead client ends" wait_until 30 has_no_session
check_status 0 "what stood still goes on" let_go
check_status 0 "the daemon stops" stop_server
