#!/usr/bin/env bash
# serverk_clients: dead clients are found and cleaned up after, deaf ones disturb nobody, and an
# idle daemon sleeps
. "$(dirname "$0")/lib.sh"

session_facts() {
    client --format json stats sessions | tr -d ' \n' | grep -oE \
        "\"$1\":[0-9]+" | head -n 1 | tr -dc '0-9'
}

# Queues can be listed by root alone (tests/leftovers), segments by everybody.
names_of_one=1
[ "$(id -u)" != 0 ] || names_of_one=2
client_names() {
    "$library_dir/../leftovers" "$server_queue" | grep -cE "/${server_queue#/}\.[crs][0-9]"
}

start_server

# Dead clients
"$MQKV_BUILD/tests/held_session" "$server_queue" >"$MQKV_TEST_DIR/held.out" &
held=$!
wait_until 60 grep -q ready "$MQKV_TEST_DIR/held.out"
check_equal $names_of_one "$(client_names)" "a client that lives has a queue and a segment"
check_equal 2 "$(session_facts live)" "and a session"
{ kill -9 "$held" && wait "$held"; } 2>/dev/null
nothing_left() {
    [ "$(client_names)" = 0 ]
}
wait_until 60 nothing_left
check_equal 0 "$(client_names)" "after kill -9 both are removed"
check_equal 1 "$(session_facts live)" "and the session has ended"

# The same if its parent is not interested in its end, which makes it a zombie. The segment is one
# that the daemon was not told of yet.
(
    "$MQKV_BUILD/tests/held_session" "$server_queue" >"$MQKV_TEST_DIR/zombie.out" &
    echo $! >"$MQKV_TEST_DIR/zombie.pid"
    exec sleep 600
) &
uninterested=$!
wait_until 60 grep -q ready "$MQKV_TEST_DIR/zombie.out"
held=$(cat "$MQKV_TEST_DIR/zombie.pid")
: >"/dev/shm/${server_queue#/}.s$held.77"
stranger="/dev/shm/${server_queue#/}.s$(sh -c 'echo $$').1"
kill -9 "$held"
wait_until 60 nothing_left
check_equal Z "$(ps -o state= -p "$held")" "a client is killed, and nobody waits for it"
check_equal 0 "$(client_names)" "its queue and segments are removed too"
{ kill "$uninterested" && wait "$uninterested"; } 2>/dev/null

# There may be very many names: only those of the process that died are looked for. Others wait for
# the next start.
: >"$stranger"
"$MQKV_BUILD/tests/held_session" "$server_queue" >"$MQKV_TEST_DIR/third.out" &
held=$!
wait_until 60 grep -q ready "$MQKV_TEST_DIR/third.out"
: >"/dev/shm/${server_queue#/}.s$held.78"
{ kill -9 "$held" && wait "$held"; } 2>/dev/null
one_left() {
    [ "$(client_names)" = 1 ]
}
wait_until 60 one_left
check_equal yes "$([ -e "$stranger" ] && echo yes)" \
    "the name of a process that the daemon never knew is left alone"
# shellcheck disable=SC2119 # without options
restart_server
check_equal 0 "$(client_names)" "until it starts again"

# Deaf clients
check_status 0 "clients that never read their replies do not disturb a polite one" \
    "$MQKV_BUILD/tests/deaf_client" "$server_queue" 50
check_match '^[1-9]' "$(session_facts fault)" "their sessions were ended"

# Idle. The store's own threads look after expiry and syncs about once a second; a worker that
# polled would take 300 ticks, and one with a timer of 10 ms switch 300 times.
ticks() {
    awk '{print $14 + $15}' "/proc/$server_pid/stat"
}
switches() {
    cat "/proc/$server_pid"/task/*/status | awk '/ctxt_switches/ {sum += $2} END {print sum}'
}
# On a busy machine the daemon may still be at work for what was before: then it is looked at again.
for _ in 1 2 3 4 5; do
    sleep 0.5
    ticks_before=$(ticks) switches_before=$(switches)
    sleep 3
    used=$(($(ticks) - ticks_before)) switched=$(($(switches) - switches_before))
    if [ "$used" -le 10 ] && [ "$switched" -lt 100 ]; then
        break
    fi
done
check_equal yes "$([ "$used" -le 10 ] && echo yes || echo "$used ticks in 3 s")" \
    "an idle daemon uses no CPU time"
check_equal yes "$([ "$switched" -lt 100 ] && echo yes || echo "$switched switches in 3 s")" \
    "and wakes up next to never"

stop_server

# One process takes all sessions that it gets: the last ones are for others of the owner.
printf '#!/bin/sh\nulimit -n 400\nexec "%s" "$@"\n' "$server_program" >"$MQKV_TEST_DIR/limited"
chmod +x "$MQKV_TEST_DIR/limited"
server_program=$MQKV_TEST_DIR/limited
start_server
cat >"$MQKV_TEST_DIR/crowd.py" <<'END_OF_PROGRAM'
import sys

import mqkv

sessions = []
try:
    while True:
        sessions.append(mqkv.Session(sys.argv[1], shared=True, timeout=60))
except mqkv.Refused as refusal:
    print(len(sessions), refusal, flush=True)
sys.stdin.read()
END_OF_PROGRAM
mkfifo "$MQKV_TEST_DIR/hold"
PYTHONPATH=$library_dir/../independent python3 -B "$MQKV_TEST_DIR/crowd.py" "$server_queue" \
    <"$MQKV_TEST_DIR/hold" >"$MQKV_TEST_DIR/crowd.out" 2>&1 &
crowd=$!
exec 7>"$MQKV_TEST_DIR/hold"
wait_until 60 grep -q kept "$MQKV_TEST_DIR/crowd.out"
read -r crowded _ <"$MQKV_TEST_DIR/crowd.out"
check_match "^[0-9]+ .*the rest is kept for other processes" "$(cat "$MQKV_TEST_DIR/crowd.out")" \
    "a process takes sessions until it is refused ($crowded)"
check_status 0 "the owner's stats are served all the same" client stats sessions
check_status 0 "and doctor" client doctor
check_status 0 "and a value" client put key value
for other in 1 2 3 4 5; do
    client get key >/dev/null &
    others[other]=$!
done
check_status 0 "and several at once" wait "${others[@]}"
exec 7>&-
wait "$crowd"
check_status 0 "the next client finds all free" client get key
stop_server
