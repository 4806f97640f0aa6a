#!/usr/bin/env bash
# replies: they come through shared memory or a queue as client and server choose, both say which
# and why, and the end of either side is noticed
. "$(dirname "$0")/lib.sh"
has_lab 'replies' || exit 0
unset MQKV_REPLIES

way() { # [OPTION...]: what doctor says of it
    client "$@" doctor | grep -oE 'replies come through [^,:]*'
}

by_session() { # of the one that asks
    client "$@" --format json stats sessions | tr -d ' \n' |
        grep -oE '"replies":"[a-z]*"' | tail -n 1
}

no_object_is_left() {
    [ -z "$(find /dev/shm -name "${server_queue#/}.*")" ]
}

sessions() { # how many there are, that of the one that asks among them
    client --format json stats sessions | tr -d ' \n' | grep -oE '"live":[0-9]+' | cut -d: -f2
}

have_come() { # SESSIONS
    [ "$(sessions)" -ge "$1" ]
}

is_alone() {
    [ "$(sessions)" = 1 ]
}

# bench [OPTION...]: its errors.
bench_errors() {
    client --format csv bench --keys 100 --preload --mix get=50,put=50 --verify "$@" | python3 -c '
import csv, sys
print(next(csv.DictReader(sys.stdin))["errors"])'
}

start_server
check_equal 'replies come through shared memory' "$(way)" 'by default through shared memory'
check_equal '"replies":"shared"' "$(by_session)" 'and stats sessions says so'
check_equal 'replies come through a queue' "$(way --replies queue)" 'through a queue as asked for'
check_equal '"replies":"queue"' "$(by_session --replies queue)" 'and stats sessions says so'
check_match 'this client asks for a reply queue' "$(client --replies queue doctor)" \
    'doctor says why'
check_equal 'replies come through a queue' "$(MQKV_REPLIES=queue way)" 'the environment asks for it'
check_equal 'replies come through shared memory' "$(MQKV_REPLIES=queue way --replies shared)" \
    'an option comes first'
check_status 2 'another word is a usage error' client --replies ring get key
check_match 'must be auto, queue or shared' "$errors" 'and is told'
for replies in queue shared; do
    for options in "-n 1" "-n 5 --batch 16" "-n 20" "-n 8 --processes 8" "-n 2 -L 65536"; do
        # shellcheck disable=SC2086 # options are words
        check_equal 0 "$(bench_errors --replies $replies -c 2000 $options)" \
            "$replies: bench $options has no errors"
    done
done

# The clients die.
exec_client --replies shared bench -n 12 --processes 12 -t 60 >/dev/null 2>&1 &
bench_pid=$!
check_status 0 'twelve clients have sessions' wait_until 20 have_come 13
check_equal 12 "$(pgrep -P "$bench_pid" | wc -l)" 'in a process each'
# shellcheck disable=SC2046 # pids are words
kill -9 $(pgrep -P "$bench_pid") "$bench_pid"
wait "$bench_pid" 2>/dev/null
check_status 0 'sessions of clients that were killed end' wait_until 20 is_alone
check_status 0 'and leave nothing in /dev/shm' no_object_is_left

# The server dies.
check_status 0 'a value is stored' client put key value
hold_still "$server_pid"
client --timeout 60000 get key >"$MQKV_TEST_DIR/get" 2>&1 &
get_pid=$!
sleep 0.3
kill -9 "$server_pid"
wait "$server_pid" 2>/dev/null
get_ended() {
    ! kill -0 "$get_pid" 2>/dev/null
}
check_status 0 'a client that sleeps notices the end of its server' wait_until 20 get_ended
wait "$get_pid"
check_equal 3 $? 'and says that there is none'
start_server
check_equal value "$(client get key)" 'the value is there'
client --replies shared --timeout 20000 --format csv bench -n 4 -t 3 --keys 100 \
    --mix get=1 >"$MQKV_TEST_DIR/bench" 2>&1 &
bench_pid=$!
sleep 0.7
kill -9 "$server_pid"
wait "$server_pid" 2>/dev/null
start_server
wait "$bench_pid"
check_equal 0 $? 'reads go on with the next server'
check_equal 0 "$(tail -n 1 "$MQKV_TEST_DIR/bench" | cut -d, -f16-20 | grep -c '^$')" 'all of them'
stop_server

# What a client leaves that is killed in its handshake is removed by the next server.
sleep 0 &
dead=$!
wait "$dead"
touch "/dev/shm$server_queue.r$dead.7" "/dev/shm$server_queue.r$$.7"
start_server
only_of_the_living() {
    [ -e "/dev/shm$server_queue.r$$.7" ] && [ ! -e "/dev/shm$server_queue.r$dead.7" ]
}
check_status 0 'a start removes the rings of dead processes, and no others' only_of_the_living
rm -f "/dev/shm$server_queue.r$$.7"
stop_server

# The server's choice.
for options in "--replies queue" "--replies shared"; do
    rm -rf "$server_dir"
    # shellcheck disable=SC2086 # options are words
    start_server $options
    if [ "$options" = "--replies queue" ]; then
        check_equal 'replies come through a queue' "$(way)" "$options: through a queue"
        check_match 'the server does not offer it' "$(client doctor)" "$options: doctor says why"
        check_status 4 "$options: a client that insists fails" client --replies shared get key
        check_match 'cannot come through shared memory' "$errors" "$options: and says why"
    else
        check_equal 'replies come through shared memory' "$(way)" "$options: shared"
        check_status 4 "$options: a client with a queue is refused" client --replies queue get key
        check_match 'through shared memory only' "$errors" "$options: and told why"
    fi
    stop_server
done

# Where other servers differ: their dispatch, and when they answer.
for options in "--dispatch event" "--dispatch thread" "--dispatch process" "--sync always -d 2" \
    "--lanes worker -w 4" "--sched cost"; do
    rm -rf "$server_dir"
    # shellcheck disable=SC2086 # options are words
    start_server $options
    check_equal 0 "$(bench_errors --replies shared -c 1000 -n 4)" "$options: no errors"
    check_equal 0 "$(bench_errors --replies shared -c 1000 -n 4 --processes 4 --batch 4)" \
        "$options: no errors in batches"
    check_equal 0 "$(bench_errors --replies shared -c 100 -n 2 -L 100000)" \
        "$options: no errors with large values"
    stop_server
    check_equal 0 $? "$options: the daemon stops cleanly"
done
check_status 0 'nothing is left in /dev/shm' no_object_is_left
