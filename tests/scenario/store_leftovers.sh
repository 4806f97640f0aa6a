#!/usr/bin/env bash
# store_leftovers: the index that a killed daemon left in /dev/shm goes when its store is gone, at
# the next start of any daemon of the user; what a live daemon or the next one needs stays
. "$(dirname "$0")/lib.sh"

# object_of DIR: the shared memory of its store.
object_of() {
    printf '/dev/shm/mqkv.store.%x.%x\n' "$(stat -c %d "$1")" "$(stat -c %i "$1")"
}

other_dir=$MQKV_TEST_DIR/other
main_dir=$server_dir

# start_other: a second daemon beside, which looks at its start.
start_other() {
    mkdir -p "$other_dir"
    server_queue=${MQKV_TEST_QUEUE}o server_dir=$other_dir server_log=$MQKV_TEST_DIR/other.log
    start_server -d 1
}
back() {
    server_queue=$MQKV_TEST_QUEUE server_dir=$main_dir server_log=$MQKV_TEST_DIR/serverk.log
}

start_server -d 1
client put name Ada >/dev/null
object=$(object_of "$server_dir")
check_status 0 "a daemon has its index in shared memory" test -e "$object"
first_pid=$server_pid

# A daemon lives whose directory was removed.
mv "$server_dir" "$server_dir.away"
start_other
stop_server
check_status 0 "that of a live daemon stays, whatever became of its directory" test -e "$object"
back
check_equal Ada "$(client get name)" "and it serves"
mv "$server_dir.away" "$server_dir"
server_pid=$first_pid
kill_server

# It was killed, its directory is there.
start_other
stop_server
check_status 0 "that of a killed daemon stays for the next one" test -e "$object"
check_equal 0 "$(grep -c 'indexes of' "$server_log")" "and nothing is said"
back

# The same without the directory.
rm -r "$server_dir"
start_other
check_status 1 "that of a store that is gone is removed" test -e "$object"
check_match 'removed from /dev/shm the indexes of 1 store' "$(cat "$server_log")" "with a line"
stop_server
back
