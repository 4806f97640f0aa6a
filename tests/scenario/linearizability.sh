#!/usr/bin/env bash
# linearizability: what concurrent clients see of a key is explained by one order of the operations,
# with every way of feeding the workers, every dispatch and locking, and across a kill -9
. "$(dirname "$0")/lib.sh"
has_lab 'linearizability' || exit 0

threads=6
keys=40
operations=6000

judge() { # TEXT SEED
    check_status 0 "$1" "$MQKV_BUILD/tests/history_load" \
        "$server_queue" $threads $keys $operations "$2"
    echo "# $output"
}

seed=$(date +%s)
for lanes in auto worker shared; do
    server_dir=$MQKV_TEST_DIR/$lanes
    start_server -w 4 --lanes "$lanes"
    judge "linearizable with --lanes $lanes" "$seed"
    stop_server
done
for locking in file-mutex global-rwlock global-mutex optimistic; do
    server_dir=$MQKV_TEST_DIR/$locking
    start_server -w 4 --lanes shared --locking "$locking" # four workers awake: auto keeps one
    judge "linearizable with --locking $locking" "$seed"
    stop_server
done
for rwlock in prefer-reader prefer-writer; do
    server_dir=$MQKV_TEST_DIR/$rwlock
    start_server -w 4 --lanes worker --rwlock "$rwlock"
    judge "linearizable with --rwlock $rwlock" "$seed"
    stop_server
done
for dispatch in event thread process; do
    server_dir=$MQKV_TEST_DIR/$dispatch
    start_server --dispatch "$dispatch"
    judge "linearizable with --dispatch $dispatch" "$seed"
    stop_server
done

for options in "--sched priority --lanes worker" "--sched cost"; do
    server_dir=$MQKV_TEST_DIR/${options//[ -]/}
    # shellcheck disable=SC2086
    start_server -w 4 $options
    judge "linearizable with $options" "$seed"
    stop_server
done

past_cache=()
has_direct_reads && past_cache=("--io direct")
for options in "${past_cache[@]}" "--io pread" "--cache 64k --allocator locked" \
    "--cache 64k --allocator thread-local" "--io pread --cache 1M --locking optimistic"; do
    server_dir=$MQKV_TEST_DIR/${options//[ -]/}
    # shellcheck disable=SC2086
    start_server -w 4 --lanes shared $options
    judge "linearizable with $options" "$seed"
    stop_server
done

for direct in off pread; do # all others: half of the threads read mapped files, half by message
    server_dir=$MQKV_TEST_DIR/direct-$direct
    start_server -w 4 --lanes shared
    MQKV_DIRECT=$direct judge "linearizable with MQKV_DIRECT=$direct" "$seed"
    stop_server
done

server_dir=$MQKV_TEST_DIR/cost-thread
start_server -w 4 --sched cost --dispatch thread
judge "linearizable with --sched cost --dispatch thread" "$seed"
stop_server

server_dir=$MQKV_TEST_DIR/killed
start_server -w 4 --lanes shared
"$MQKV_BUILD/tests/history_load" "$server_queue" $threads 400 60000 \
    "$seed" >"$MQKV_TEST_DIR/judged" &
load=$!
for lanes in auto worker shared; do
    sleep 0.1
    kill_server
    start_server -w 4 --lanes "$lanes"
done
if wait "$load"; then
    ok "linearizable across three kills of the daemon"
else
    not_ok "linearizable across three kills of the daemon" "$(tail -n 40 "$MQKV_TEST_DIR/judged")"
fi
echo "# $(tail -n 1 "$MQKV_TEST_DIR/judged")"
