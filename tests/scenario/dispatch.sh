#!/usr/bin/env bash
# dispatch: every --dispatch serves all kinds of requests, keeps its limit, and leaves neither
# zombies nor processes behind, whichever of its processes is killed
. "$(dirname "$0")/lib.sh"
has_lab 'dispatch' || exit 0

# server_fact NAME: a number of the statistics' section server.
server_fact() {
    client --format json stats server | grep -oE "\"$1\": *[0-9]+" | grep -oE '[0-9]+$'
}

# Processes of this daemon: itself, and children that have not ended. (Zombies have no command
# line.)
daemon_processes() {
    pgrep -f -- "serverk -m $server_queue -f " | wc -l
}

# client_from FILE ARGUMENT...: clientk with the file as its standard input.
client_from() {
    local file=$1
    shift
    client "$@" <"$file"
}

daemon_processes_are() {
    [ "$(daemon_processes)" = "$1" ]
}

for dispatch in pool event thread process; do
    server_dir=$MQKV_TEST_DIR/$dispatch
    limit=(-w 2)
    [ "$dispatch" != event ] || limit=()
    start_server --dispatch "$dispatch" "${limit[@]}" --sync none
    check_match "\"dispatch\": *\"$dispatch\"" "$(client --format json stats server)" \
        "$dispatch: the statistics name it"

    # Every kind of operation, 50 clients, at a limit of two. Some wait ten times as long as most,
    # which on a busy machine are the five seconds that clients wait unless told otherwise.
    check_status 0 "$dispatch: 50 threads of 5 processes, reads and writes" client --timeout 60000 \
        bench -n 50 --processes 5 -c 4000 --keys 200 --preload --verify \
        --mix get=60,put=20,exists=10,scan=10
    check_equal 0 "$(client --format json stats operations |
        grep -oE '"(io|bad_request|corrupt)": *[0-9]+' | wc -l)" \
        "$dispatch: no operation failed in the server"
    check_equal "$dispatch" \
        "$(printf 'PUT own %s\nGET own\n' "$dispatch" | client batch - 2>/dev/null | tail -n 1)" \
        "$dispatch: a client reads its own write"

    # Values that need shared memory, or parts where there is none.
    head -c 300000 /dev/urandom >"$MQKV_TEST_DIR/big"
    check_status 0 "$dispatch: a large value is stored" client_from "$MQKV_TEST_DIR/big" put big -
    client --format raw get big >"$MQKV_TEST_DIR/big.read" 2>/dev/null
    check_status 0 "$dispatch: and read again, whole" cmp "$MQKV_TEST_DIR/big" \
        "$MQKV_TEST_DIR/big.read"

    case $dispatch in
    thread | process)
        check_equal 2 "$(server_fact most)" "$dispatch: two requests were alive at once, no more"
        check_status 0 "$dispatch: the limit made the receiver wait" \
            test "$(server_fact limit_waits)" -gt 0
        ;;
    esac
    check_equal 0 "$(pgrep -c --runstates Z -P "$server_pid")" "$dispatch: no zombie is left"
    wait_until 20 daemon_processes_are 1
    check_equal 1 "$(daemon_processes)" "$dispatch: no process is left beside the daemon"
    stop_server
    check_equal 0 $? "$dispatch: stops cleanly"
    check_equal 0 "$(daemon_processes)" "$dispatch: and nothing of it runs on"
done

# What the processes inherit is right with every way of reading.
past_cache=()
has_direct_reads && past_cache=("--io direct")
for reading in "${past_cache[@]}" "--io pread" "--locking optimistic" "--locking global-mutex"; do
    server_dir=$MQKV_TEST_DIR/${reading##* }
    # shellcheck disable=SC2086
    start_server --dispatch process --sync none $reading
    check_status 0 "process $reading: reads and writes" client --timeout 60000 bench -n 8 \
        --processes 4 -c 800 --keys 200 --preload --verify --mix get=60,put=20,exists=10,scan=10
    stop_server
done

# Whoever starts the daemon may ignore signals, which are then ignored in it as well.
server_program=$MQKV_TEST_DIR/started-by-who-ignores
printf '#!/bin/sh\nexec env --ignore-signal=CHLD --ignore-signal=ALRM "%s" "$@"\n' \
    "$MQKV_BUILD/serverk" >"$server_program"
chmod +x "$server_program"
server_dir=$MQKV_TEST_DIR/ignoring
start_server --dispatch process -w 4 --sync none
# SIGALRM is 14, SIGCHLD 17: bits 13 and 16.
check_equal 0 $((0x$(awk '/^SigIgn/ {print $2}' "/proc/$server_pid/status") & 0x12000)) \
    "process: signals that it needs are not ignored, though its parent ignored them"
client_from "$MQKV_TEST_DIR/big" put big - >/dev/null
MQKV_NO_SEGMENT=1 check_status 0 \
    "process: a reply that must be stored is left to the daemon" client get big
check_match '^[1-9]' "$(server_fact taken_back)" "process: which counts it"
check_equal 0 "$(server_fact died)" "process: and the process that left it does not count as killed"
stop_server
server_program=$MQKV_BUILD/serverk

# A process that serves a request is killed: the client gets its answer all the same.
server_dir=$MQKV_TEST_DIR/killed
start_server --dispatch process -w 4
exec_client --timeout 60000 bench -n 8 --processes 4 -t 60 --keys 5000 --preload --verify \
    --mix get=50,scan=50 --scan-length 2000 >"$MQKV_TEST_DIR/bench.out" 2>&1 &
bench=$!
# Kills what children there are at the moment, many times: few live long enough to be met.
kill_children() {
    local list children child i
    for ((i = 0; i < 200; i++)); do
        for list in /proc/"$server_pid"/task/*/children; do
            read -r -a children <"$list"
            for child in "${children[@]}"; do
                kill -KILL "$child"
            done
        done
    done 2>/dev/null
    [ "$(server_fact died)" -ge 3 ]
}
check_status 0 "processes that serve requests are killed, and counted" wait_until 60 kill_children
check_match "ended by signal 9" "$(cat "$server_log")" "the log tells of them"
kill -INT "$bench"
wait "$bench"
check_match "verif|^all" "$(cat "$MQKV_TEST_DIR/bench.out")" "the load goes on to its end"
check_equal "" "$(grep -iE 'fail|mismatch|timed out|unknown' "$MQKV_TEST_DIR/bench.out")" \
    "and no request of it failed"
check_status 0 "the daemon serves" client put after kill

# The daemon is killed, with processes of it alive.
exec_client --timeout 1000 bench -n 8 --processes 4 -t 30 --mix get=50,scan=50 \
    >"$MQKV_TEST_DIR/bench.out" 2>&1 &
bench=$!
wait_until 20 pgrep -P "$server_pid" >/dev/null
kill_server
kill "$bench" 2>/dev/null
wait "$bench" 2>/dev/null
wait_until 20 daemon_processes_are 0
check_equal 0 "$(daemon_processes)" "after kill -9 of the daemon its processes end too"
start_server --dispatch process
check_equal kill "$(client get after)" "and another daemon takes over"
stop_server
