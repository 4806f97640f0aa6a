#!/usr/bin/env bash
# kill9: kill -9 of the daemon under load loses no acknowledged write, at any durability level
. "$(dirname "$0")/lib.sh"

rounds=${CRASH_ROUNDS:-4}
for sync in none interval:20 always mixed; do
    mkdir -p "$MQKV_TEST_DIR/$sync"
    check_status 0 "--sync $sync: $rounds kills, nothing acknowledged is lost" \
        "$MQKV_BUILD/tests/crash_loop" "$MQKV_BUILD/serverk" "$MQKV_BUILD/kvcheck" \
        "$MQKV_TEST_DIR/$sync" "$server_queue" "$sync" "$rounds" "$RANDOM"
    echo "# $output"
done
