#!/usr/bin/env bash
# kresp_channels_across: messages reach the subscribers of every kresp of a store, and nothing is
# written for them where there is none; and clients are told of changed keys.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server
start_kresp --allow-flush
first_pid=$kresp_pid first_socket=$kresp_socket
kresp_socket=$MQKV_TEST_DIR/second.sock
start_kresp --allow-flush --threads 2

"$redis_tests/channels_across.py" "$first_socket" "$kresp_socket" "$MQKV_BUILD/clientk" \
    "$server_queue" || failed_checks=1
"$redis_tests/key_events.py" "$kresp_socket" "$MQKV_BUILD/clientk" "$server_queue" ||
    failed_checks=1
check_status 0 "a kresp ends" stop_kresp
kresp_pid=$first_pid
check_status 0 "and so does the other" stop_kresp
check_status 0 "and so does the daemon" stop_server
