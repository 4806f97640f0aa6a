#!/usr/bin/env bash
# kvcheck_resize: a store gets another number of data files, or the newest format, with all versions
# and expiry; stores that older versions wrote are opened, and upgraded.
. "$(dirname "$0")/lib.sh"
data=$(realpath "$library_dir/../data")
cd "$MQKV_TEST_DIR" || exit 2

kvcheck() {
    "$MQKV_BUILD/kvcheck" "$@"
}

# entries DIR: what a server that is started from DIR has, with versions and expiry.
entries() {
    (
        server_dir=$1 server_log=$1.log
        start_server >&2
        client scan --format csv | sort
        stop_server
    )
}

# A store with replaced, deleted, expiring and large entries.
server_dir=first
start_server -d 3
seq 1 2000 | sed 's/.*/PUT key& "value \\x00 &"/' | client batch -q - 2>/dev/null
seq 1 3 900 | sed 's/.*/PUT key& again/' | client batch -q - 2>/dev/null
seq 1000 1100 | sed 's/.*/DEL key&/' | client batch -q - 2>/dev/null
client put brief x --expires-at 4102444800000 >/dev/null
head -c 300000 /dev/urandom | client put big - >/dev/null
version=$(client get --meta key1 | sed -n 's/^version \([0-9]*\),.*/\1/p')
stop_server
entries first >had.csv 2>/dev/null

for count in 1 7 64; do
    check_status 0 "--resize $count" kvcheck --resize "$count" --to "sized$count" first
    check_match "^sized$count: 1901 keys in $count data files? of format 1$" "$output" \
        'says what it made'
    check_status 0 'a sound store' kvcheck "sized$count"
    check_equal "$count" "$(find "sized$count" -name 'data.????' | wc -l)" 'of so many data files'
    entries "sized$count" 2>/dev/null | cmp - had.csv
    check_equal 0 $? 'with the same keys, values, versions and expiry'
done
server_dir=sized7
start_server
check_status 0 'a condition on an old version holds' client put key1 new --if-version "$version"
next=$(client get --meta key1 | sed -n 's/^version \([0-9]*\),.*/\1/p')
check_equal yes "$([ "$next" -gt "$version" ] && echo yes)" 'and versions go on above'
check_status 4 'a store in use is refused' kvcheck --resize 2 --to other sized7
stop_server
check_status 2 'a directory that is not empty, too' kvcheck --resize 2 --to sized1 first
check_status 2 'no directory is wrong usage' kvcheck --resize 2 first
check_status 2 'so is no data file' kvcheck --resize 0 --to other first
check_status 2 'and too many' kvcheck --resize 4097 --to other first
check_status 2 'and two things at once' kvcheck --resize 2 --salvage x --to other first
check_status 2 'salvage needs a target' kvcheck --salvage first
check_match '--salvage needs two directories: OUT, .* DIR' "$errors" 'and says so'
check_status 2 'so does resize' kvcheck --resize 2 --to first
check_match '--to needs two directories: OUT, .* DIR' "$errors" 'and says so'
check_status 2 'a target that is left out' kvcheck --salvage
check_match '--salvage needs a value: OUT, a new or empty directory' "$errors" 'is named'
cp -r first bad
printf 'XXXX' | dd of=bad/data.0001 bs=1 seek=9000 conv=notrunc status=none
check_status 4 'a damaged store is not resized' kvcheck --resize 2 --to other bad
check_match 'kvcheck --salvage OUT bad' "$errors" 'but salvaged first'
check_equal '' "$(ls other 2>/dev/null)" 'and nothing is made'

# Stores of mqkv 0.1.0 (2026-11-21): closed cleanly, with a checkpoint of the first format; and
# killed. Their headers have no notes.
tar -xzf "$data/store-0.1.0.tar.gz"
for old in closed killed; do
    check_status 0 "kvcheck reads a store of 0.1.0, $old" kvcheck "$old"
    check_status 0 '--upgrade' kvcheck --upgrade --to "new-$old" "$old"
    check_match "^new-$old: 50 keys in 2 data files of format 1$" "$output" 'says what it made'
    check_status 0 'a sound store' kvcheck "new-$old"
    entries "new-$old" 2>/dev/null | cmp - entries.csv
    check_equal 0 $? 'with all that it had'
    entries "$old" 2>/dev/null | cmp - entries.csv
    check_equal 0 $? 'and the old one is opened as it is'
done

# A format that is newer than this program.
cp -r killed newer
printf '\003' | dd of=newer/data.0000 bs=1 seek=8 conv=notrunc status=none
check_status 4 'a store of another format is refused' "$MQKV_BUILD/serverk" --check -f newer \
    -m "$server_queue"
check_match 'format version 3, this program reads versions 1 to 2' "$errors" 'with both numbers'
