#!/usr/bin/env bash
# full_disk: a store that has filled its disk is usable again once entries were deleted.
. "$(dirname "$0")/lib.sh"

disk=$MQKV_TEST_DIR/small
mkdir "$disk"
if ! mount -t tmpfs -o size=16m none "$disk" 2>/dev/null; then
    skip 'a small disk: mounts need root'
    exit 0
fi
server_dir=$disk
start_server
value=$(printf '%01000d' 0)
seq 1 20000 | sed "s/.*/PUT key& $value/" | client batch -q - >/dev/null 2>&1
check_status 4 'the disk is full' client put more "$value"
check_match 'no space left' "$errors" 'and a put says so'
check_status 1 'doctor says so' client doctor
check_match 'reads and deletes go on: make room on the disk, or delete entries' "$output" \
    'with what helps'
check_equal 0 "$(grep -c 'doctor --fix' <<<"$output")" 'and announces no command: there is none'

# Half of what is left, again and again.
client_can_put() { client put more "$value" >/dev/null 2>&1; }
for rest in half fourth; do
    client scan --keys | awk 'NR % 2 { print "DEL", $1 }' | client batch -q - >/dev/null 2>&1
    [ "$rest" = fourth ] || check_match "(^|.)clientk -m '$server_queue' compact" \
        "$(client doctor --fix)" 'doctor has a command then'
done
check_status 0 'a compaction fits when three fourths are gone' client compact
check_status 0 'and puts go on' client put more "$value"
check_status 0 'also without being asked for' client clear --yes
wait_until 20 client_can_put || not_ok 'puts go on in an empty store'
seq 1 8000 | sed "s/.*/PUT again& $value/" | client batch -q - >/dev/null 2>&1
check_equal 8001 "$(client count)" 'and there is room for half of what there was'
check_status 0 'doctor is content' client doctor

# Others take the last blocks.
seq 1 20000 | sed "s/.*/PUT key& $value/" | client batch -q - >/dev/null 2>&1
mkdir "$disk/others"
dd if=/dev/zero of="$disk/others/file" bs=4096 status=none 2>/dev/null
check_equal 0 "$(df --output=avail "$disk" | tail -1 | tr -d ' ')" 'not a block is free'
check_status 0 'entries can be deleted' client clear --yes
wait_until 20 client_can_put || not_ok 'puts go on in an empty store, nevertheless'
stop_server
check_status 0 'the store is sound' "$MQKV_BUILD/kvcheck" "$disk"
umount "$disk"
