#!/usr/bin/env bash
# bench_echo: the raw echo answers messages of mqkv's sizes, alone, in groups of threads, with
# segments
. "$(dirname "$0")/lib.sh"

name=${MQKV_TEST_QUEUE}e
echo_server=$MQKV_BUILD/peers/echo_server
peer=$MQKV_BUILD/peers/peer_echo
echo_pid=

stop_echo() {
    [ -z "$echo_pid" ] && return
    kill "$echo_pid" 2>/dev/null
    wait "$echo_pid"
    echo_pid=
}
trap stop_echo EXIT

# start_echo LANES MESSAGE_BYTES: a server, once it answers.
start_echo() {
    "$echo_server" "$name" "$1" "$2" &
    echo_pid=$!
    local tries
    for tries in {1..500}; do
        "$peer" -m "$name:0:0" get key >"$MQKV_TEST_DIR/get" 2>&1 && return
        sleep 0.02
    done
    not_ok "the echo answers within $tries attempts" "$(cat "$MQKV_TEST_DIR/get")"
}

# load ADDRESS OPTION...: operations, errors of a load of a number of operations.
load() {
    local address=$1
    shift
    "$peer" -m "$name:$address" --format csv bench --keys 100 --mix get=50,put=50 "$@" 2>&1 |
        python3 -c 'import csv, sys
row = next(csv.DictReader(sys.stdin)); print(row["ops"], row["errors"])'
}

start_echo 2 8192
check_equal '400 0' "$(load 64:0 -n 4 -c 400)" 'threads with a session each'
check_equal '1600 0' "$(load 64:0 -n 1 -c 1600 --batch 16)" 'operations of a batch are one message'
check_equal '2000 0' "$(load 64:2 -n 20 -c 2000)" 'threads of two groups'
check_equal '6400 0' "$(load 64:2 -n 20 -c 6400 --batch 16)" \
    'groups whose operations do not fit one message'
check_equal '400 0' "$(load 4096:0 -n 2 -c 400 -L 4096)" 'values in messages'
check_equal '400 0' "$(load 65536:0 -n 2 -c 400 -L 65536)" 'values through shared memory'
check_equal '40 0' "$(load 1048576:0 -n 2 -c 40 -L 1048576)" 'large ones'
check_equal 65536 "$("$peer" -m "$name:65536:0" get key | head -c 65536 | wc -c)" \
    'a GET gets the bytes that the server put into its segment'

# What it cannot do is an error and no answer that would count.
check_equal '100 100' "$(load 8192:2 -n 1 -c 100 -L 8192)" 'groups have no segment'
check_equal '100 100' "$(load 4096:0 -n 1 -c 100 -L 4000 --batch 4)" \
    'nor is a message longer than a queue takes'
for address in "$name" "$name:64" "$name:x:0" "$name:64:9" /nobody:64:0; do
    "$peer" -m "$address" get key >"$MQKV_TEST_DIR/get" 2>&1
    check_equal 3 "$?" "no such server, or no NAME:VALUE_BYTES:GROUPS: $address"
done

kill "$echo_pid"
wait "$echo_pid"
check_equal 0 "$?" 'the server ends in an orderly way'
echo_pid=
check_equal '' "$(find /dev/shm -name "${name#/}*")" 'no segment is left'
