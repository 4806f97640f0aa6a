#!/usr/bin/env bash
# unfinished_copy: where a restore, a first backup or kvcheck was stopped before its end no empty
# store is started, and nothing of it is deleted.
. "$(dirname "$0")/lib.sh"
cd "$MQKV_TEST_DIR" || exit 2

# begun DIR FILE...: makes DIR what a killed copy of the store has left: these data files.
begun() {
    local to=$1 name
    mkdir "$to"
    touch "$to/lock"
    shift
    for name; do cp "whole/$name" "$to/$name.new"; done
}

start_server -d 3
seq 1 300 | sed 's/.*/put key& value&/' | client batch -q - 2>/dev/null
check_status 0 'a backup' client backup whole
stop_server
other_queue=$server_queue.other

# refused DIR: neither a start nor a check succeeds, and all stays as it is.
refused() {
    local before after
    before=$(cd "$1" && ls -l --time-style=full-iso data*)
    check_status 4 "$1: no start" timeout 10 "$server_program" -m "$other_queue" -f "$1"
    check_match "$1: no store, but one that was not finished \(data\.000[0-9]\.new\): .* Run that" \
        "$errors" 'with what to do'
    check_status 4 "$1: no check" "$server_program" -m "$other_queue" -f "$1" --check
    check_match 'not finished' "$errors" 'which says the same'
    after=$(cd "$1" && ls -l --time-style=full-iso data*)
    check_equal "$before" "$after" 'nothing is deleted'
}
begun first_file data.0000
refused first_file
begun all data.0000 data.0001 data.0002
refused all
begun some_named data.0000 data.0001
cp whole/data.0002 some_named
refused some_named
begun later data.0002 # as a salvage that has no records of the others yet
refused later
begun without_header data.0000 data.0001
dd if=/dev/zero of=without_header/data.0000.new bs=4096 count=1 conv=notrunc status=none
refused without_header # as a backup leaves it

# What goes on, and what does not.
start_server -d 3
check_status 0 'a backup goes on there' client backup all
check_status 0 'and is whole' "$MQKV_BUILD/kvcheck" all
check_status 0 'the rest of it is gone' test ! -e all/data.0000.new
check_status 2 'a restore wants an empty directory' client restore whole --to first_file
check_match 'not empty .*empty directory' "$errors" 'and says so'
stop_server

# A store whose creation was killed has no records, and is made anew.
mkdir made
head -c 4096 whole/data.0001 >made/data.0001
head -c 4096 whole/data.0000 >made/data.0000.new
: >made/data.0002.new
server_dir=made
start_server -d 3
check_status 0 'a creation that was killed begins anew' client put a b
stop_server
