#!/usr/bin/env bash
# serverk_damage: damage that a checkpoint hides at the start is found when it is read, and told
# with its place and what to do; the rest of the store goes on
. "$(dirname "$0")/lib.sh"

start_server -d 1
client put sound one >/dev/null
seq 1 50 | sed 's/.*/PUT k& &/' | client batch -q - 2>/dev/null
client put hurt RECOGNISABLE-VALUE >/dev/null
stop_server
file=$server_dir/data.0000
at=$(grep -abo RECOGNISABLE "$file" | head -n 1 | cut -d : -f 1)
printf X | dd of="$file" bs=1 seek="$at" conv=notrunc status=none

start_server
check_status 4 "a damaged value is not given out" client get hurt
check_match "a checksum does not hold" "$errors" "and the client is told why"
check_match "ERROR .*data\.0000: the record at offset [0-9]+ is damaged.*kvcheck --salvage" \
    "$(cat "$server_log")" "the log names the place and what to do"
check_match 'is damaged: its checksum does not hold \(key "hurt"\); .*kvcheck --salvage' \
    "$(cat "$server_log")" "and the key"
check_match "^mqkv_file_damaged_records\{file=\"0\"\} 1" "$(client metrics)" "metrics count it"
check_status 0 "other values are" client get sound
check_equal one "$output" "and are right"
for _ in {1..30}; do client get hurt; done >/dev/null 2>&1
check_equal 10 "$(grep -c 'is damaged' "$server_log")" \
    "readers of a damaged file do not fill the log"

check_status 4 "a backup of it is no success" client backup "$MQKV_TEST_DIR/copy"
check_match "backup is complete, but.* 1 damaged record.*data\.0000 at offset [0-9]+\).*kvcheck" \
    "$errors" "and says where, and what to do"
check_status 1 "it is there, with the damage" "$MQKV_BUILD/kvcheck" "$MQKV_TEST_DIR/copy"
check_match 'bytes hold no valid record \(key "hurt"\); to save' "$output" 'and its key'
check_status 4 "so it is to a stream" client backup -
check_match "backup is complete" "$errors" "which is complete"

damaged='data\.0000: the record at offset [0-9]+ is damaged'
check_status 4 "a scan tells of it" client scan
check_match "$damaged" "$errors" "with file and offset"
check_match "1 damaged or unreadable record is left out" "$errors" "and how many there are"
check_equal 50 "$(grep -c '^k' <<<"$output")" "and lists all others"
check_match '^sound one' "$(grep sound <<<"$output")" "whole"
check_status 4 "so does a count" client scan --count
check_equal 51 "$output" "of all others"
check_status 4 "a dump tells of it" client dump "$MQKV_TEST_DIR/rest"
check_match "$damaged" "$errors" "with file and offset, too"
check_match "51 entries dumped" "$errors" "and goes on"
check_equal 51 "$(grep -c ^PUT "$MQKV_TEST_DIR/rest")" "to the end"
check_status 0 "its dump can be loaded" client load "$MQKV_TEST_DIR/rest"
check_status 4 "an atomic scan ends" client scan --atomic
check_match "without --atomic" "$errors" "and says what to do"
check_equal 50 \
    "$(printf 'SCAN k --keys\nGET sound\n' | client batch - 2>/dev/null | grep -c '^k')" \
    "scans in a batch, too, go on"
client put sound one >/dev/null
check_status 0 "a compaction goes on" client compact
check_match "WARN .*data\.0000: [0-9]+ bytes from offset [0-9]+ are damaged, and in use by 1 keys" \
    "$(cat "$server_log")" "the log says what it keeps"
check_status 4 "which is not given out" client get hurt
kill_server
start_server
lines=$(wc -l <"$server_log")
client scan >/dev/null 2>&1
check_match 'is damaged: .* \(key "hurt"\)' "$(tail -n +"$((lines + 1))" "$server_log")" \
    "a scan that meets it names the key"
check_match '"taken_over_files":1' "$(client --format json stats server)" \
    "a start after kill -9 takes it over"
check_status 4 "with the damage" client get hurt
check_equal 50 "$(client scan k 2>/dev/null | grep -c '^k')" "and all others"
check_status 0 "the damaged entry can be replaced" client put hurt new
check_status 0 "and is sound then" client get hurt
check_equal new "$output" "with its new value"
check_match "^mqkv_file_damaged_records\{file=\"0\"\} 0" "$(client metrics)" "metrics forget it"
check_status 0 "and a backup has no complaint" client backup "$MQKV_TEST_DIR/copy"
stop_server

# What a start refuses, --check refuses, in the same words. It trusts a checkpoint, as a start does.
check_server() {
    "$server_program" -m "$server_queue" -f "$server_dir" --check
}
at=$(grep -abo 'k25' "$file" | head -n 1 | cut -d : -f 1)
printf X | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
check_status 0 "with a checkpoint --check finds nothing" check_server
check_status 1 "which kvcheck does" "$MQKV_BUILD/kvcheck" "$server_dir"
rm "$server_dir"/data.*.index
check_status 4 "without one --check says that a start will refuse the store" check_server
check_match "data\.0000: damaged at offset [0-9]+.*kvcheck --salvage" "$errors" \
    "with the place and what to do"
said=$errors
check_status 4 "and so it does" "$server_program" -m "$server_queue" -f "$server_dir"
check_equal "${said#*: }" "${errors#*: }" "in the same words"
