#!/usr/bin/env bash
# small_cache: a cache whose bound is more than its disk has room for evicts and compacts instead of
# refusing puts, also when it is started on a disk that others have filled
. "$(dirname "$0")/lib.sh"

disk=$MQKV_TEST_DIR/disk
mkdir "$disk"
if [ "$(id -u)" != 0 ] || ! mount -t tmpfs -o size=48m none "$disk" 2>/dev/null; then
    skip "small_cache: a small disk cannot be mounted: it needs root"
    exit 0
fi
server_dir=$disk/store
mkdir "$server_dir"

stat_of() { # SECTION MEMBER
    client stats "$1" --format json | grep -oE "\"$2\":[0-9]+" | tail -1 | cut -d: -f2
}

# puts of 1 to 2 KB, 160 MB of them, to 200,000 keys
write_much() {
    client bench --mix put=90,get=10 --keys 200000 --value-size 1000-2000 -n 2 -c 120000 "$@"
}

check_status 0 "--check takes a bound that is too large" \
    "$server_program" --check -m "$server_queue" -f "$server_dir" --max-bytes 40M --evict s3fifo
check_match "warning: max-bytes 40.0 MiB: .*has room for [12][0-9.]* MiB" "$output" "and warns"
check_status 0 "--check of a bound that fits" \
    "$server_program" --check -m "$server_queue" -f "$server_dir" --max-bytes 10M --evict s3fifo
check_equal "" "$(grep warning <<<"$output")" "says nothing"

start_server --max-bytes 40M --evict s3fifo
check_match "is more than the file system has room for" "$(cat "$server_log")" "the start warns"
check_status 0 "puts of four times the disk go on" write_much
check_equal "" "$(grep no_space <<<"$output")" "and none is refused"
check_equal yes "$([ "$(stat_of bound evictions)" -gt 1000 ] && echo yes)" "entries are evicted"
live=$(stat_of bound live_bytes)
check_equal yes "$([ "$live" -gt 15000000 ] && echo yes)" "the cache is not emptied ($live bytes)"
check_equal 0 "$(stat_of files compaction_failures)" "no compaction fails"
check_match "low +max-bytes is 40.0 MiB, but .* entries are evicted" "$(client doctor)" \
    "doctor tells of the bound"
check_status 0 "data files are compacted when asked" client compact

# A store that others leave no room: a file takes all that is free.
kill_server
check_status 1 "the disk can be filled" dd if=/dev/zero of="$disk/filler" bs=64k status=none
start_server --max-bytes 40M --evict s3fifo
check_status 0 "a start on a full disk" write_much --seed 2
check_equal "" "$(grep no_space <<<"$output")" "refuses no put"
check_status 0 "compacts" client compact
stop_server
rm "$disk/filler"

start_server --max-bytes 40M --evict ttl
check_match "no_space|reached its limit" "$(write_much --seed 3 2>&1)" \
    "what never expires makes no room with ttl"
check_status 0 "statistics go on" client stats bound
stop_server
umount "$disk"
