#!/usr/bin/env bash
# takeover: a program that writes to a store, killed at any instruction: the index that it leaves is
# taken over, and is what the logs say (tests/crash/takeover_kills.c). make crash-test does it for
# longer.
. "$(dirname "$0")/lib.sh"

mkdir "$MQKV_TEST_DIR/stores"
status=0
"$MQKV_BUILD/tests/takeover_kills" "$MQKV_TEST_DIR/stores" "${TAKEOVER_KILLS:-60}" \
    "${TAKEOVER_SEED:-1}" || status=$?
check_equal 0 "$status" "what is taken over is what the logs say"
check_equal "" "$(find /dev/shm -maxdepth 1 -name 'mqkv.store.*' \
    -newer "$MQKV_TEST_DIR/stores" -user "$(id -u)")" "nothing is left in shared memory"
