#!/usr/bin/env bash
# large_values: values that are copied to the log apart from others are there after kill -9, in
# backups that continue others, after compaction, and for kvcheck.
# shellcheck disable=SC2030,SC2031 # the second server is one of a subshell
. "$(dirname "$0")/lib.sh"
cd "$MQKV_TEST_DIR" || exit 2

kvcheck() {
    "$MQKV_BUILD/kvcheck" "$@"
}

# entries: what the server has, in an order of its own, with versions; values by their checksums.
entries() {
    client scan --format csv | sort | md5sum
}

# entries_of DIR: what a server that is started from a copy of DIR has, which has to read the log.
entries_of() {
    (
        rm -rf read
        cp -r "$1" read
        server_queue=${server_queue}b server_dir=read server_log=read.log
        start_server >&2
        entries
        stop_server
    )
}

# put_round N: large and small values, from several clients at once.
put_round() {
    local key writers=()
    for key in 1 2 3 4; do
        { yes "$key $1" | head -c $((key * 70000 * $1)) | client put "large$key" - >/dev/null; } &
        writers+=($!)
        client put "small$key" "$1" >/dev/null
    done
    wait "${writers[@]}"
}

start_server -d 1
put_round 1
entries >had
kill_server
start_server -d 1
check_equal "$(<had)" "$(entries)" 'after kill -9 all is there'
check_status 0 'a first backup' client backup copy
put_round 2
entries >had
check_equal "$(<had)" "$(entries_of "$server_dir")" 'a log as a crash leaves it says the same'
check_status 0 'a backup that goes on' client backup copy
check_equal "$(<had)" "$(entries_of copy)" 'is what the store was'
check_status 0 'kvcheck finds it sound' kvcheck copy
check_equal 8 "$(kvcheck --dump copy | grep -c ' live put ')" 'with each entry once'
check_equal 16 "$(kvcheck --dump copy | wc -l)" 'and each change once'
check_status 0 'as in the running store' kvcheck --online "$server_dir"
check_status 0 'compaction' client compact
check_equal "$(<had)" "$(entries)" 'loses nothing'
put_round 1
put_round 3
entries >had
stop_server
check_status 0 'kvcheck finds the store sound' kvcheck "$server_dir"
check_status 0 'the store in format 1' kvcheck --upgrade --to older "$server_dir"
check_equal 01 "$(od -An -tx1 -j8 -N1 older/data.0000 | tr -d ' ')" 'which has no extents'
check_equal "$(<had)" "$(entries_of older)" 'has the same'

# A kill in the middle of a copy: the disk stands still, the file goes on.
export MQKV_DISK_SAYS=$MQKV_TEST_DIR/says MQKV_DISK_WAITS=$MQKV_TEST_DIR/waits
mkfifo "$MQKV_DISK_SAYS" "$MQKV_DISK_WAITS" || exit 2
exec {says}<>"$MQKV_DISK_SAYS"
head -c 200000 /dev/zero | tr '\0' n >new
server_dir=killed
server_program=$MQKV_BUILD/tests/held_disk start_server -d 1 --workers 3
copy_stands() {
    client put large - <new >"$MQKV_TEST_DIR/put" 2>&1 &
    writer=$!
    read -r -N 1 -t 30 -u "$says" _
}
check_status 0 'a value is small' client put large older
check_status 0 'a larger one is on its way' copy_stands
check_status 0 'beside it another key of the file is put' client put behind 1
check_status 0 'and read by message' client --direct off get behind
check_equal 1 "$output" 'as it is'
check_status 0 'and in place' client get large
check_equal older "$output" 'the older value as well'
# Who waited for the file's lock did so for less time than the copy has stood by now.
sleep 2
locks=$(client stats locks --format json)
check_match '"waits":[0-9]+,"longest_wait_us":[0-9.]+,"longest_hold_us":[0-9.]+' "$locks" \
    'it is told how long was waited for the lock'
check_equal '' "$(grep -oE '"longest_[a-z]+_us":[0-9]{7,}' <<<"$locks")" 'never for the copy'
check_match '^mqkv_file_lock_longest_wait_seconds\{file="0"\} [01]\.' "$(client metrics)" \
    'metrics tell it, too'
kill_server
wait "$writer"
start_server -d 1
check_equal older "$(client get large)" 'a kill leaves the older value'
check_equal 1 "$(client get behind)" 'and what came behind the copy'
check_status 0 'the store is sound' kvcheck --online "$server_dir"
check_status 0 'the value is put again' client put large - <new
check_equal "$(<new)" "$(client get large)" 'and there'
stop_server
check_status 0 'kvcheck finds the store sound' kvcheck "$server_dir"
