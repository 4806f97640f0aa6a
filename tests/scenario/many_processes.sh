#!/usr/bin/env bash
# many_processes: a thousand client processes of one user are connected and served at once at the
# kernel's default limits, as is a bench of a thousand, and of a hundred that work none starves
#
# MQKV_MANY_PROCESSES: how many instead of 1000.
. "$(dirname "$0")/lib.sh"
has_lab 'many_processes' || exit 0

processes=${MQKV_MANY_PROCESSES:-1000}

# Reads the numbers that many_clients prints for so many processes and seconds.
run_clients() {
    read -r connected operations slowest fastest wrong < <("$MQKV_BUILD/tests/many_clients" \
        "$server_queue" "$1" "$2" 2>"$MQKV_TEST_DIR/clients.log")
    check_equal "$1" "${connected:-0}$(cat "$MQKV_TEST_DIR/clients.log")" \
        "$1 processes are connected at once"
    check_equal 0 "${wrong:-all}" "$1 processes: each reads what it wrote"
}

# The one who asks has the only session.
is_alone() {
    client --format json stats sessions | tr -d ' \n' | grep -qE '"live":1[^0-9]'
}

# Whom the daemon starves is starved each time, whom the machine keeps from running is not.
for options in "" "--dispatch event" "--sched cost"; do
    rm -rf "$server_dir"
    # shellcheck disable=SC2086 # options are words
    start_server --sync none $options
    for _ in 1 2 3; do
        run_clients 100 1
        mean=$((${operations:-0} / 100))
        echo "# ${options:-default}: operations: mean $mean, slowest $slowest, fastest $fastest"
        [ $((slowest * 4)) -lt "$mean" ] || break
    done
    check_status 0 "${options:-default}: the slowest of 100 has a quarter of the mean" \
        test $((slowest * 4)) -ge "$mean"
    stop_server
done

limit=$(ulimit -n -H)
if [ "$limit" != unlimited ] && [ "$limit" -lt 4096 ]; then
    processes=100
    echo "# only $limit descriptors: $processes processes"
fi
rm -rf "$server_dir"
start_server --sync none
run_clients "$processes" 0
check_equal $((2 * processes)) "${operations:-0}" "$processes processes are served"
check_status 0 "and leave no session" wait_until 20 is_alone
check_status 0 "a bench of $processes processes works at the default timeout" \
    client bench --processes "$processes" -n "$processes" --mix put=50,get=50 -t 1
check_match ' 0 errors' "$output" "and each of its operations is answered"
check_status 0 "and leaves no session" wait_until 20 is_alone
check_equal '' "$(find /dev/shm -name "${server_queue#/}.*")" "and nothing in /dev/shm"
stop_server
check_equal 0 $? "the daemon stops cleanly"
