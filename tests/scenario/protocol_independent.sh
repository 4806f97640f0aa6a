#!/usr/bin/env bash
# protocol_independent: every section of docs/PROTOCOL.md holds, for a client that was written from
# the document alone.
. "$(dirname "$0")/lib.sh"
has_lab 'protocol_independent' || exit 0

# check_protocol NAME OPTION...: all checks, with a daemon of these options. With
# MQKV_REPLIES=shared in the environment the client gets its replies through shared memory.
check_protocol() {
    local name=$1
    shift
    server_logs[$MQKV_TEST_DIR/$name.log]=1
    echo "# serverk $*"
    python3 -B "$library_dir/../independent/test_protocol.py" "$MQKV_BUILD/serverk" \
        "$server_queue" \
        "$MQKV_TEST_DIR/$name" "$MQKV_TEST_DIR/$name.log" -- \
            "$@" </dev/null || failed_checks=$((failed_checks + 1))
}

check_protocol default
MQKV_REPLIES=shared check_protocol busy --lanes shared -w 4 --sched priority -d 1 --io pread
check_protocol worker --lanes worker -w 4 --locking optimistic --sync none --replies queue
MQKV_REPLIES=shared check_protocol process --dispatch process --cache 1M
