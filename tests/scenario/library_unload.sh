#!/usr/bin/env bash
# library_unload: a program may dlclose a library while threads live that used it; a process without
# thread-specific keys is told.
. "$(dirname "$0")/lib.sh"

start_server
unload=$MQKV_BUILD/tests/library_unload
# The leak checker sees the handle that the plugin left open.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
check_status 0 "libclientk.so is unloaded before its thread ends" \
    "$unload" "$MQKV_BUILD/libclientk.so" "$server_queue"
check_equal unloaded "$output" "and the thread ends"
check_status 0 "without a key left the library says so, and works when there is one" \
    "$unload" "$MQKV_BUILD/libclientk.so" "$server_queue" keys
stop_server
if has_lab "libkvstore.so with optimistic readers, unloaded before its thread ends"; then
    mkdir "$MQKV_TEST_DIR/plugin"
    check_status 0 "libkvstore.so is unloaded before its thread ends" \
        "$unload" "$MQKV_BUILD/libkvstore.so" "$MQKV_TEST_DIR/plugin"
    check_equal unloaded "$output" "and the thread ends"
fi
