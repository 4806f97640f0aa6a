#!/usr/bin/env bash
# doctor_disk: doctor says what is wrong with the file system of a store that is served: it has no
# room, no inodes, or was made read-only by the kernel
. "$(dirname "$0")/lib.sh"
need_root

# A mount namespace of its own: what is mounted goes with the test.
if [ -z "${MQKV_OWN_MOUNTS:-}" ]; then
    if ! unshare --mount true 2>/dev/null; then
        skip "doctor_disk: a mount namespace cannot be had"
        exit 0
    fi
    rm -rf "$common_dir"
    MQKV_OWN_MOUNTS=1 exec unshare --mount "$0"
fi

client() {
    client_as "$daemon_uid" "$@"
}

disk=$common_dir/disk
mkdir "$disk"
mount -t tmpfs -o size=12m,nr_inodes=64,mode=711 tmpfs "$disk" || exit 1
server_dir=$disk/data
start_server_as "$daemon_uid" -d 1 --max-value 64K
check_status 0 "there is room" client put key value
check_status 0 "and doctor is content" client doctor

# Each name takes an inode.
files=0
while : 2>/dev/null >"$disk/file$files"; do files=$((files + 1)); done
check_status 1 "without inodes doctor exits 1" client doctor
check_match "BAD +the file system of $server_dir has no inodes left" "$output" "and says so"
check_status 0 "entries are read and written" client put key value2
check_status 0 "with the inodes back" rm -f "$disk"/file*
check_status 0 "it is content" client doctor

check_status 1 "a disk can be filled" dd if=/dev/zero of="$disk/filler" bs=64k status=none
head -c 60000 /dev/zero | tr '\0' x >"$MQKV_TEST_DIR/value"
refused=0
for ((i = 0; i < 40 && refused == 0; i++)); do
    client put "big$i" - <"$MQKV_TEST_DIR/value" >/dev/null 2>&1 || refused=1
done
check_equal 1 "$refused" "a put that does not fit is refused"
check_status 1 "on a full disk doctor exits 1" client doctor
check_match "BAD +no space" "$output" "and says so"
check_status 0 "entries are read" client get key
check_status 0 "and deleted" client del key
rm "$disk/filler"
check_status 0 "with room again a put is taken" client put key value
check_status 0 "and doctor exits 0" client doctor
stop_server
check_equal 0 $? "the daemon stops cleanly"

# The kernel makes a file system read-only when it finds damage in it.
image=$common_dir/image
trigger() {
    local device
    device=$(findmnt -n -o SOURCE "$disk")
    echo 1 2>/dev/null >"/sys/fs/ext4/${device#/dev/}/trigger_fs_error"
}
if command -v mkfs.ext4 >/dev/null && truncate -s 16M "$image" && mkfs.ext4 -q -F "$image" &&
    umount "$disk" && mount -o loop,errors=remount-ro "$image" "$disk" 2>/dev/null &&
    [ -w "/sys/fs/ext4/$(basename "$(findmnt -n -o SOURCE "$disk")")/trigger_fs_error" ]
then
    chmod 711 "$disk"
    start_server_as "$daemon_uid" -d 1
    check_status 0 "a put before" client put key value
    trigger
    client put key value2 >/dev/null 2>&1
    check_status 1 "on a file system that became read-only doctor exits 1" client doctor
    check_match "BAD +the file system of $server_dir is mounted read-only" "$output" "and says so"
    check_status 0 "entries are read" client get key
    stop_server
    umount "$disk"
else
    skip "doctor_disk: no ext4 file system can be made read-only here"
fi
