#!/usr/bin/env bash
# serverk_io: with --io pread a data file that ends early is an error of the request, not the end of
# the daemon; what the cache knows is still given; kills lose nothing with any; with --io direct
# each read goes to the disk
. "$(dirname "$0")/lib.sh"
has_lab 'serverk_io' || exit 0
export MQKV_DIRECT=off # each read is a message

cache_field() { # NAME
    client --format json stats cache | grep -o "\"$1\":[0-9]*" | cut -d : -f 2
}

start_server -d 1 --io pread --cache 64k --allocator locked
client put hot warm >/dev/null
client put cold ice >/dev/null
client get hot >/dev/null
client get hot >/dev/null
check_equal 1 "$(cache_field hits)" "the second get is a hit"
check_equal 1 "$(cache_field misses)" "the first was a miss"
check_equal 1 "$(cache_field entries)" "one entry is cached"
check_equal 1 "$(($(cache_field segment_bytes) > $(cache_field segment_free_bytes)))" \
    "it has its memory from the allocator"
check_match "max_bytes +65536" "$(client stats cache)" "and in words"
client put hot hotter >/dev/null
check_equal hotter "$(client get hot)" "a write is seen at once"

truncate -s 4096 "$server_dir/data.0000"
check_status 4 "a record that is not there is an error" client get cold
check_match "ERROR .*data\.0000: the record at offset [0-9]+ cannot be read: the file is shorter" \
    "$(cat "$server_log")" "the log names the place"
check_status 0 "the daemon goes on" client ping
check_equal hotter "$(client get hot)" "and gives what it has in memory"
kill_server

# A disk without room, here a bound on the size of files: writes are refused, and the log says so.
server_dir=$MQKV_TEST_DIR/bounded
size_limit=$(ulimit -S -f)
ulimit -S -f 400
start_server -d 1
head -c 100000 /dev/zero >"$MQKV_TEST_DIR/value"
for key in 1 2 3 4 5 6; do client put \
    "$key" - <"$MQKV_TEST_DIR/value"; done >/dev/null 2>"$MQKV_TEST_DIR/refused"
ulimit -S -f "$size_limit"
check_match "put 6: no space left" "$(cat "$MQKV_TEST_DIR/refused")" \
    "a write that finds no room is refused"
check_equal 1 "$(grep -cE "ERROR .*bounded/data\.0000: no space left" "$server_log")" \
    "the log tells it, once"
check_equal 100000 "$(client get 1 | wc -c)" "and reads go on"
stop_server

rounds=${CRASH_ROUNDS:-2}
ways=(pread)
has_direct_reads && ways+=(direct)
for way in "${ways[@]}"; do
    mkdir -p "$MQKV_TEST_DIR/killed-$way"
    printf '#!/bin/sh\nexec "%s" "$@" --io %s --cache 256k\n' \
        "$MQKV_BUILD/serverk" "$way" >"$MQKV_TEST_DIR/serverk"
    chmod +x "$MQKV_TEST_DIR/serverk"
    check_status 0 "$rounds kills with $way and cache, nothing acknowledged is lost" \
        "$MQKV_BUILD/tests/crash_loop" "$MQKV_TEST_DIR/serverk" "$MQKV_BUILD/kvcheck" \
        "$MQKV_TEST_DIR/killed-$way" "$server_queue" mixed "$rounds" "$RANDOM"
done

# Past the page cache
if has_direct_reads; then
    disk_bytes() {
        awk '$1 == "read_bytes:" { print $2 }' "/proc/$server_pid/io"
    }
    server_dir=$MQKV_TEST_DIR/past-cache
    unset MQKV_DIRECT
    start_server -d 2 --io direct
    check_match "INFO --io direct: each record that is looked up is read from the disk$" \
        "$(cat "$server_log")" "a line of the log says so"
    check_match '"io":"direct".*"direct":\{"mode":"off"' "$(client --format json stats server)" \
        "so do stats, and clients do not read mapped files"
    client bench --preload --keys 50 --value-size 4k --mix get=1 -c 1 >/dev/null
    before=$(disk_bytes)
    check_status 0 "values are right" client bench --keys 50 --value-size 4k --verify --mix get=1 \
        -c 100
    if [ "$(stat -f -c %T "$server_dir")" = tmpfs ]; then
        skip "each get reads the disk: the directory of the tests lies in memory"
    else
        check_equal 1 "$(($(disk_bytes) - before >= 100 * 4096))" "each get reads the disk"
    fi
    stop_server
    start_server -d 2 --io direct --direct owner
    check_match "INFO --io direct.*, but not by programs that read without" \
        "$(cat "$server_log")" "the log says where it is without effect"
    stop_server
else
    skip "--io direct: the file system has no reads past the page cache"
fi
