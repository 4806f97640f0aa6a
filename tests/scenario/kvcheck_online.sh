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
check_match '^total .* 2000 .* sound$' "$output" 'all of it'

# While it is written to and compacted.
exec_client bench -n 1 -t 60 -L 400 --keys 500 --rate 20000 --mix put=90,del=10 >/dev/null 2>&1 &
bench_pid=$!
faults=''
for _ in 1 2 3 4 5; do
    kvcheck --online data >online.out 2>&1 || faults+="$(cat online.out)"
    sleep 0.3
done
check_equal '' "$faults" 'nothing that is under way is damage'
kill "$bench_pid"
wait "$bench_pid" 2>/dev/null

# Damage, also of what no sync has noted, and of the last record.
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
