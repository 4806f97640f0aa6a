#!/usr/bin/env bash
# kill9: kill -9 of the daemon under load loses no acknowledged write, at any durability level, with
# any locking and any order of requests
# long: kills under load, for each setting
. "$(dirname "$0")/lib.sh"

rounds=${CRASH_ROUNDS:-4}
kill_rounds() { # TEXT SYNC [SERVERK-OPTION...]
    local text=$1 sync=$2
    shift 2
    local dir=$MQKV_TEST_DIR/$sync$*
    mkdir -p "${dir// /-}"
    check_status 0 "$text: $rounds kills, nothing acknowledged is lost" \
        "$MQKV_BUILD/tests/crash_loop" "$MQKV_BUILD/serverk" "$MQKV_BUILD/kvcheck" \
        "${dir// /-}" "$server_queue" "$sync" "$rounds" "$RANDOM" "$@"
    echo "# $output"
}

# One worker awake, and several: --lanes auto keeps one awake for so little.
kill_rounds "--sync none" none
kill_rounds "--sync interval:20, four workers" interval:20 --lanes shared -w 4
kill_rounds "--sync always, four workers" always --lanes worker -w 4
kill_rounds "--sync mixed, four workers" mixed --lanes shared -w 4
rounds=${CRASH_ROUNDS:-1}
has_lab "locking strategies and dispatch models" || exit 0
for locking in file-mutex global-rwlock global-mutex optimistic; do
    kill_rounds "--locking $locking" mixed --locking "$locking" --lanes worker -w 4
done
kill_rounds "--rwlock prefer-reader" mixed --rwlock prefer-reader
for dispatch in event thread process; do
    kill_rounds "--dispatch $dispatch" mixed --dispatch "$dispatch"
done
for sched in priority cost; do
    kill_rounds "--sched $sched" mixed --sched "$sched"
done
