#!/usr/bin/env bash
# crash_calls: a program that writes to a store, killed at system calls and instructions of its
# threads (tests/crash/crash_calls.c): what was acknowledged is there. make crash-test does it for
# longer.
. "$(dirname "$0")/lib.sh"

mkdir "$MQKV_TEST_DIR/stores"
status=0
"$MQKV_BUILD/tests/crash_calls" "$MQKV_TEST_DIR/stores" "${CRASH_KILLS:-150}" \
    "${CRASH_SEED:-1}" || status=$?
[ "$status" != 77 ] || skip "the system lets nobody trace processes"
check_equal 0 "$status" "nothing that was acknowledged is lost, wherever the writer is killed"
