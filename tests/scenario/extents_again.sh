#!/usr/bin/env bash
# extents_again: places of large values in the log that are used again, while kvcheck and backups
# read it: nothing that is overwritten is damage, and what is damaged is found.
# shellcheck disable=SC2030,SC2031 # the second server is one of a subshell
. "$(dirname "$0")/lib.sh"
cd "$MQKV_TEST_DIR" || exit 2

kvcheck() {
    "$MQKV_BUILD/kvcheck" "$@"
}

entries() {
    client scan --format csv | sort | md5sum
}

# entries_of backup|restore: what a second server has that uses a copy of the backup, or an empty
# one to which the backup is restored.
entries_of() {
    (
        rm -rf read
        [ "$1" = restore ] || cp -r copy read
        server_queue=${server_queue}b server_dir=read server_log=read.log
        start_server >&2
        [ "$1" = restore ] && client restore copy >&2
        client scan --format csv | sort | md5sum
        stop_server
    )
}

# column N: of the table that kvcheck has printed.
column() {
    awk -v n="$1" '$1 == "data.0000" { print $n }' <<<"$output"
}

# put_letters KEY LETTER: a value of 100,000 bytes.
put_letters() {
    head -c 100000 /dev/zero | tr '\0' "$2" | client put "$1" - >/dev/null
}

overwrite() {
    exec_client bench -n 2 -t 60 -L 90000-100000 --keys 20 --rate 400 --mix put=100 \
        >/dev/null 2>&1 &
    bench_pid=$!
}

start_server -d 1 --sync none
client bench -n 1 -c 20 -L 100000 --keys 20 --preload --mix put=100 >/dev/null 2>&1
overwrite
faults='' keys=''
for _ in 1 2 3 4 5 6; do
    output=$(kvcheck --online data 2>&1) || faults+=$output
    keys+="$(column 5) "
    sleep 0.2
done
check_equal '' "$faults" 'nothing that is overwritten is damage'
check_equal '20 20 20 20 20 20 ' "$keys" 'and each key is there once'
faults=''
for round in 1 2 3; do
    client backup copy 2>>backup.err || faults+="backup $round failed "
    kvcheck copy >copy.out 2>&1 || faults+="$(<copy.out)"
    sleep 0.3
done
check_equal '' "$faults" 'a backup, and two that go on from it, are sound'
kill "$bench_pid"
wait "$bench_pid" 2>/dev/null
check_status 0 'a backup when nobody writes' client backup copy
entries >had
check_equal "$(<had)" "$(entries_of backup)" 'has what the store has'
check_equal "$(<had)" "$(entries_of restore)" 'and so has a store that it is restored to'

# Rot in a value that counts no more, and in one that counts.
for letter in p q r s; do put_letters mark "$letter"; done
check_match '"spare_bytes":[1-9][0-9]{5}' "$(client --format json stats files)" \
    'stats tell what will be used again'
check_match '^mqkv_file_spare_bytes\{file="0"\} [1-9][0-9]{5}$' "$(client metrics)" 'and metrics'
rot() {
    local at
    at=$(LC_ALL=C grep -obUaE -m1 "$1{1000}" data/data.0000 | head -n 1 | cut -d: -f1)
    printf x | dd of=data/data.0000 bs=1 seek="$((at + 500))" conv=notrunc status=none
}
check_status 0 'before' kvcheck --online data
rot r
check_status 0 'a value that counts no more may be anything' kvcheck --online data
rot s
check_status 1 'one that counts may not' kvcheck --online data
check_match '^damage: data/data.0000: offset [0-9]+: [0-9]+ bytes hold no valid record' "$output" \
    'and is found'
put_letters mark t
check_status 0 'until it is replaced' kvcheck --online data
kill_server
check_status 0 'as a kill leaves the log' kvcheck data
records=$(column 4)
printed=$(kvcheck --dump data | wc -l)
[ "$records" -gt $((2 * printed)) ]
check_equal 0 $? 'extents were used again'
check_status 0 'all that counts is saved' kvcheck --salvage saved data
check_match '^saved: 21 keys saved; 0 ' "$output" 'once'
start_server -d 1 --sync none
check_equal 21 "$(client scan | wc -l)" 'and read by the daemon'
stop_server
