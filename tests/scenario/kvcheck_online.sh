#!/usr/bin/env bash
# kvcheck_online: kvcheck --online checks a store that a daemon is writing to, and a copy with a
# hole before its end is not sound.
. "$(dirname "$0")/lib.sh"
cd "$MQKV_TEST_DIR" || exit 2

kvcheck() {
    "$MQKV_BUILD/kvcheck" "$@"
}

# last_offset DIR: of the last record in data.0000.
last_offset() {
    kvcheck --dump "$1" 2>/dev/null | awk '$1 == "data.0000" { at = $2 } END { print at }'
}

# spoil FILE OFFSET BYTES: zeros there.
spoil() {
    dd if=/dev/zero of="$1" bs=1 seek="$2" count="$3" conv=notrunc status=none
}

start_server -d 2 --sync none
seq 1 2000 | sed 's/.*/PUT key& value&/' | client batch -q - 2>/dev/null
check_status 4 'a store in use is refused' kvcheck data
check_match 'kvcheck --online' "$errors" 'with what checks it'
check_status 0 'with --online it is checked' kvcheck --online data
check_equal 0 "$(grep -c 'order of the keys' <<<"$output")" 'no word of an order that is not kept'
check_match '^total .* 2000 .* sound$' "$output" 'all of it'

# While it is written to and compacted.
exec_client bench -n 1 -t 60 -L 400 --keys 500 --rate 20000 --mix put=90,del=10 --prefix "" \
    >/dev/null 2>&1 &
bench_pid=$!
faults=''
for _ in 1 2 3 4 5; do
    kvcheck --online data >online.out 2>&1 || faults+="$(cat online.out)"
    sleep 0.3
done
check_equal '' "$faults" 'nothing that is under way is damage'
kill "$bench_pid"
wait "$bench_pid" 2>/dev/null

# Damage, also of what no sync has noted, and of the last record. Nothing is left for a compaction,
# which would put another file in the place of the one that is copied and damaged.
check_status 0 'a compaction' client compact
seq 1 2000 | sed 's/.*/PUT late& value&/' | client batch -q - 2>/dev/null
cp -r data copy
at=$(last_offset copy)
spoil data/data.0000 "$at" 16
check_status 1 'the last record, damaged' kvcheck --online data
check_match "damage: data/data.0000: offset $at: " "$output" 'is found'
server_takes_writes() { client put "more$1" x >/dev/null; }
for i in 1 2 3 4 5 6 7 8; do server_takes_writes "$i"; done
check_status 1 'and with more behind it, too' kvcheck --online data
check_status 2 '--online only verifies' kvcheck --online --dump data
kill_server

# A copy as cp -r makes it while a daemon writes: a stretch that was not there yet when it was
# copied, and intact records behind.
for back in 500 4000 20000; do
    rm -rf hole && cp -r copy hole
    spoil hole/data.0000 $((at - back)) 200
    check_status 1 "a hole $back bytes before the end is not sound" kvcheck hole
    check_match 'no valid record, but [0-9]+ intact records follow' "$output" 'but damage'
    check_match '^data.0000 .* DAMAGED$' "$output" 'of its file'
done
truncate -s "$((at + 10))" copy/data.0000
check_status 0 'what was cut in its last record is a torn tail' kvcheck copy
check_match '^note: .* torn tail' "$output" 'and noted'
check_status 0 '--online without a daemon is as without --online' kvcheck --online copy

# The order of the keys, in the daemon's memory
# spoil_order FAULT: writes a fault into a leaf of the order of data file 0.
spoil_order() {
    python3 - "$1" "/dev/shm/mqkv.store".*."$(printf %x "$(stat -c %i data)")" <<'END'
import mmap, struct, sys
file = open(sys.argv[2], "r+b")
memory = mmap.mmap(file.fileno(), 0)
def words(at, count):
    return list(struct.unpack_from(f"<{count}I", memory, at))
files = words(60, 1)[0]
root = struct.unpack_from("<Q", memory, files + 64 + 8)[0]
node, levels = (root >> 8) * 16, root & 255
assert levels > 0, "more than a leaf"
def leaves_below(node, level):
    count, *children = words(node, 64)
    for child in children[:count] if level > 0 else []:
        yield from leaves_below(child * 16, level - 1)
    if level == 0:
        yield node
# One with room for another item.
node = next(leaf for leaf in leaves_below(node, levels) if 3 < words(leaf, 1)[0] < 63)
count, *hashes = words(node, 64)
if sys.argv[1] == "two places changed":
    hashes[0], hashes[1] = hashes[1], hashes[0]
elif sys.argv[1] == "one key left out":
    del hashes[1]
    count -= 1
elif sys.argv[1] == "one item too many":
    hashes.insert(1, hashes[0] ^ 0x40)
    count += 1
elif sys.argv[1] == "a count that is none":
    count = 64
struct.pack_into(f"<{len([count, *hashes][:64])}I", memory, node, *[count, *hashes][:64])
END
}

order_is_whole() {
    client --format json stats order | grep -q '"whole":true'
}

rm -rf data
start_server -d 2 --sync none --ordered
seq 1 4000 | sed 's/.*/PUT key& value&/' | client batch -q - 2>/dev/null
wait_until 20 order_is_whole || not_ok 'the order is built'
check_status 0 'an ordered store is sound' kvcheck --online data
check_match '^order: 4000 keys$' "$output" 'its order, too'
exec_client bench -n 1 -t 60 -L 400 --keys 500 --rate 20000 --mix put=50,del=50 --prefix "" \
    >/dev/null 2>&1 &
bench_pid=$!
faults=''
for _ in 1 2 3 4 5; do
    kvcheck --online data >online.out 2>&1 || faults+="$(cat online.out)"
done
check_equal '' "$faults" 'also while keys come and go'
check_match '^order: [0-9]+ keys$' "$(cat online.out)" 'of an order that changes'
kill "$bench_pid"
wait "$bench_pid" 2>/dev/null
stop_server

# what_is_found FAULT TEXT
what_is_found() {
    start_server -d 2 --ordered
    wait_until 20 order_is_whole || not_ok 'the order is built'
    spoil_order "$1" || not_ok 'a fault is planted'
    check_status 1 "$1: no sound order" kvcheck --online data
    check_match "^damage: data/data.0000: offset [0-9]+: $2.*; start the daemon anew" "$output" \
        'as it says'
    kill_server
}

what_is_found 'two places changed' 'the key is not in its place in the order'
what_is_found 'one key left out' 'the order does not have the key'
what_is_found 'one item too many' 'the order has an item without a key'
what_is_found 'a count that is none' 'a node of the order makes no sense'
start_server -d 2 --ordered
wait_until 20 order_is_whole || not_ok 'the order is built'
check_status 0 'a new daemon has built it anew' kvcheck --online data
stop_server

# What happens while kvcheck looks: the file grows when it was mapped; the clock goes on.
beside=$MQKV_TEST_DIR/beside.so
if [ "${MQKV_VARIANT:-release}" = release ] && cc -shared -fPIC -o "$beside" -x c - -ldl <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Runs $ON_MAP each time that data.0000 was mapped. */
void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    void *(*real)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
    void *map = real(at, size, protection, flags, fd, offset);
    char link[64], name[300] = "";
    const char *command = getenv("ON_MAP");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (command && fd >= 0 && readlink(link, name, sizeof name - 1) > 0 &&
        strstr(name, "/data.0000") && system(command) != 0)
        abort();
    return map;
}

void *mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return mmap(at, size, protection, flags, fd, offset);
}

/* Each look at the clock finds it $CLOCK_STEP_S seconds further. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    static long looks;
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    const char *step = getenv("CLOCK_STEP_S");
    if (step && clock == CLOCK_REALTIME)
        now->tv_sec += looks++ * atol(step);
    return result;
}
C
then
    cat >grow <<END
unset LD_PRELOAD
seq 1 300 | sed 's/.*/put grown& $(printf %08000d 0)/' |
    "$MQKV_BUILD/clientk" -m $server_queue batch -q - &&
    "$MQKV_BUILD/clientk" -m $server_queue sync
END
    server_dir=grown
    start_server -d 1 --sync interval:1h
    client put first x >/dev/null
    check_status 0 'a file that grows when it was mapped is sound' \
        env LD_PRELOAD="$beside" ON_MAP="sh ./grow" "$MQKV_BUILD/kvcheck" --online grown
    check_match '^data.0000 .* 301 .* sound$' "$output" 'to the end that it has now'
    stop_server
    server_dir=clock
    start_server -d 1
    for i in 1 2 3; do client put "brief$i" x --ttl 90s >/dev/null; done
    for i in 1 2 3; do client put "brief$i" y >/dev/null; done
    stop_server
    check_status 0 'a store is sound though an entry that was replaced expires meanwhile' \
        env LD_PRELOAD="$beside" CLOCK_STEP_S=60 "$MQKV_BUILD/kvcheck" clock
fi
