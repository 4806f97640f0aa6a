#!/usr/bin/env bash
# kresp_tracking: clients that keep what they have read are told when it changes, whoever changes
# it, also over a restart of the daemon; who keeps much, or does not read, costs bounded memory.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server -d 1
start_kresp --threads 2 --allow-flush
"$redis_tests/key_trackers.py" "$kresp_socket" "$MQKV_BUILD/clientk" "$server_queue" ||
    failed_checks=1
check_status 0 "kresp ends" stop_kresp

start_kresp --threads 1 --buffers 4M
"$redis_tests/key_trackers.py" "$kresp_socket" "$MQKV_BUILD/clientk" "$server_queue" memory ||
    failed_checks=1
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server

# The daemon is killed and started; then kresp stands still, until what it was not told is gone.
server_dir=$MQKV_TEST_DIR/feed
start_server -d 1 --keep-changes-bytes 1M
start_kresp
mkfifo "$MQKV_TEST_DIR/go_on"
"$redis_tests/key_trackers.py" "$kresp_socket" "$MQKV_BUILD/clientk" "$server_queue" feed \
    <"$MQKV_TEST_DIR/go_on" >"$MQKV_TEST_DIR/told" &
tracker_pid=$!
exec 9>"$MQKV_TEST_DIR/go_on"
is_ready() {
    [ "$(grep -c ready "$MQKV_TEST_DIR/told")" = "$1" ]
}
wait_until 30 is_ready 1 || not_ok "a client tracks k"
kill_server
start_server -d 1 --keep-changes-bytes 1M
client put k x >/dev/null
echo >&9
wait_until 30 is_ready 2 || not_ok "it tracks k again"
hold_still "$kresp_pid"
for _ in {1..3}; do
    client bench -n 2 -c 3000 -L 4000 --keys 500 --mix put --prefix b: >/dev/null 2>&1
    client compact >/dev/null
done
kill -CONT "$kresp_pid"
echo >&9
wait "$tracker_pid" || failed_checks=1
exec 9>&-
grep -v ready "$MQKV_TEST_DIR/told"
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
