#!/usr/bin/env bash
# serverk_removed_data: a data directory that is removed or moved under the daemon is told of, in
# the log, by doctor and in the metrics; and until the daemon stops a backup saves what was in it
. "$(dirname "$0")/lib.sh"

logs() {
    grep -q "$1" "$server_log"
}

start_server -d 2
client put name Ada >/dev/null
client put large "$(head -c 100000 /dev/zero | tr '\0' x)" >/dev/null
client compact >/dev/null
check_match '"nameless_files":0' "$(client --format json stats files | tr -d ' ')" \
    'compactions, which replace files, are no loss'
mv "$server_dir" "$server_dir.moved"
check_status 0 'that the directory was moved is logged' wait_until 30 logs 'somebody moved the data'
check_match 'BAD +the data directory is not at .* move it back' "$(client doctor)" \
    'doctor tells of it'
check_equal OK "$(client put moved yes)" 'writes go on'
mv "$server_dir.moved" "$server_dir"
check_match 'no failed sync' "$(client doctor)" 'moved back, doctor is content with the files'
check_equal 0 "$(client doctor | grep -c 'not at')" 'and with the directory'

rm -rf "$server_dir"
check_status 0 'that the files were removed is logged' wait_until 30 logs 'somebody removed or'
output=$(client doctor)
check_match 'BAD +somebody removed 2 data files \(data.0000, data.0001\): .* a backup saves it' \
    "$output" 'doctor tells of it, too'
check_equal OK "$(client put last yes)" 'writes go on'
check_match '^mqkv_nameless_files 2$' "$(client metrics)" 'the metrics have the number'
command=$(client doctor --fix | grep -E '^clientk .* backup ')
check_status 0 "doctor --fix prints the backup's command" test -n "$command"
PATH=$MQKV_BUILD:$PATH check_status 0 'which works' eval "$command"
stop_server
server_dir=$server_dir.saved
start_server
check_equal Ada "$(client get name)" 'all of it is in the backup'
check_equal yes "$(client get last)" 'what was written last, too'
check_equal 100000 "$(client get large | wc -c)" 'and a large value'
stop_server
