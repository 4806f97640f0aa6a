#!/usr/bin/env bash
# cluster_migrate: a local store goes to a cluster and back by migrate while clients write
. "$(dirname "$0")/lib.sh"

home=$server_queue
away=${server_queue}n
back=${server_queue}b
cd "$MQKV_TEST_DIR" || exit 2

# at QUEUE COMMAND...
at() {
    "$MQKV_BUILD/clientk" -m "$1" "${@:2}"
}
# check_same TEXT QUEUE OTHER: both have every entry, with its expiry, and there are some.
check_same() {
    local queue
    for queue in "${@:2}"; do
        at "$queue" dump - 2>/dev/null | grep '^PUT' | sort >"what_has.${queue#/}"
    done
    check_status 0 "$1" cmp "what_has.${2#/}" "what_has.${3#/}"
    check_status 0 "$1, not nothing" test -s "what_has.${2#/}"
}
start_local() { # QUEUE OPTION...
    local name=$MQKV_TEST_DIR/${1#/}
    mkdir "$name"
    server_queue=$1
    server_logs[$name.log]=1
    "$server_program" -m "$1" -f "$name" "${@:2}" </dev/null >>"$name.log" 2>&1 &
    wait_until "$start_timeout_s" client ping >/dev/null 2>&1 ||
        { not_ok "serverk starts at $1" "$(cat "$name.log")"; exit 1; }
}
# write_on QUEUE: some keys again and again, some once, some deleted, until the file "writing" goes.
write_on() {
    local round=0
    while [ -e writing ]; do
        round=$((round + 1))
        {
            seq 1 20 | sed "s/.*/PUT live& round$round/"
            echo "PUT once$round 1 --ttl 1h"
            echo "ADD counter 1"
            [ "$round" -lt 10 ] || echo "DEL once$((round - 5))"
        } | at "$1" batch -q -
    done
}
# move_on FROM TO: with writers at FROM, which stop when TO has some of it and two passes or more
# have been made.
move_on() {
    touch writing
    write_on "$1" &
    local writer=$! migration
    at "$1" migrate --to "$2" --until-quiet 2>reports &
    migration=$!
    sleep 3
    rm writing
    wait "$writer"
    wait "$migration"
    check_equal 0 $? "migrate from $1 to $2 while clients write" || cat reports
    sed 's/^/# /' reports
    check_equal "$(at "$1" get counter)" "$(at "$2" get counter)" "a counter has its last number"
    check_same "and both have the same" "$1" "$2"
}

write_nats_configs 1
start_nats 0
start_local "$home" -d 3
seq 1 3000 | sed 's/.*/PUT key& "value &"/' | at "$home" batch -q -
at "$home" put 'odd . key' "" >/dev/null
at "$home" put short life --ttl 1500ms >/dev/null
head -c 600000 /dev/urandom >some_bytes
at "$home" put large - <some_bytes >/dev/null
server_queue=$away
start_server --shards 3
move_on "$home" "$away"
check_status 1 "what has expired since is gone" at "$away" get short
at "$away" get large >copy
check_status 0 "a large value is the same" cmp some_bytes copy

head -c 1048570 /dev/zero | at "$home" put too_large - >/dev/null
check_status 4 "a value above max_payload" at "$home" migrate --to "$away" --resume
check_match "too_large: not moved: " "$errors" "is named"
key=$(printf '.%.0s' $(seq 1300))
at "$home" put "$key" 1 >/dev/null
check_status 4 "a key too long for a cluster" at "$home" migrate --to "$away" --resume
check_match "not moved: .*the key is too long for the engine nats" "$errors" "is told of"
check_match ", 2 not moved" "$errors" "and both are counted"
at "$home" clear --yes >/dev/null

start_local "$back" -d 2
move_on "$away" "$back"
version() { at "$1" get key99 --format json | sed 's/.*"version":\([0-9]*\).*/\1/'; }
# The same, unless a key that came before has a higher one.
check_status 0 "versions of data files go on from those of a cluster" \
    test "$(version "$back")" -ge "$(version "$away")"

# A second bucket, and a server that dies on the way.
bucket=other
server_queue=${away}2
start_server --shards 2
at "$back" migrate --to "$server_queue" 2>reports &
migration=$!
wait_until 30 at "$server_queue" exists key99 >/dev/null
signal_nats KILL 0
sleep 1
start_nats 0
wait "$migration"
status=$?
check_match '^[03]$' "$status" "a NATS server that dies: waited for, or given up"
[ "$status" = 0 ] ||
    check_status 0 "and gone on" at "$back" migrate --to "$server_queue" --resume
check_same "and both have the same then" "$back" "$server_queue"
for pid in $(jobs -pr); do
    [ "$pid" = "${nats_pids[0]}" ] || kill "$pid"
done
signal_nats TERM 0
wait
