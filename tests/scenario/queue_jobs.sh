#!/usr/bin/env bash
# queue_jobs: kill -9 of daemon, producers and workers loses no job, and no job has two holders
. "$(dirname "$0")/lib.sh"

jobs=${QUEUE_JOBS:-15000}
loop() { # JOBS PRODUCERS WORKERS TOGETHER KILLS LEASE_MS
    "$MQKV_BUILD/tests/queue_loop" "$server_queue" "$@" "$RANDOM"
}

start_server
check_status 0 "producers and workers are killed: no job is lost, none has two holders" \
    loop "$jobs" 3 4 1 40 100
echo "# $output"
check_status 0 "many jobs at a time" loop "$jobs" 2 3 20 30 100
echo "# $output"

loop "$((jobs * 2))" 2 4 4 30 100 >"$MQKV_TEST_DIR/loop" 2>&1 &
loop_pid=$!
kills=0
while [ "$kills" -lt 8 ] && kill -0 "$loop_pid" 2>/dev/null; do
    sleep "0.$((RANDOM % 3 + 1))"
    kill_server
    start_server
    kills=$((kills + 1))
done
wait "$loop_pid"
check_equal 0 $? "the daemon, too, $kills times"
echo "# $(<"$MQKV_TEST_DIR/loop")"
kill_server # a start removes what clients left that were killed before the daemon knew them
start_server
