#!/usr/bin/env bash
# unmapped_users: in a user namespace that shows all users which it does not map as one uid, no
# daemon runs as that uid, no section names it, and no client takes a server of it for its own.
. "$(dirname "$0")/lib.sh"
need_root
nobody=$(</proc/sys/kernel/overflowuid)
if ! as_uid "$daemon_uid" unshare --user --map-user="$nobody" true 2>/dev/null; then
    skip "unmapped_users: unshare makes no user namespaces here"
    exit 0
fi

# mapped_as UID USER COMMAND...: as USER, in a namespace that maps that user alone, to UID.
mapped_as() {
    local seen=$1 user=$2
    shift 2
    as_uid "$user" unshare --user --map-user="$seen" "$@"
}

mkdir -p "$server_dir"
chown -R "$daemon_uid" "$server_dir"
serverk=("$MQKV_BUILD/serverk" -m "$server_queue" -f "$server_dir")
check_status 4 "a daemon is refused as the uid of all that are not mapped" \
    mapped_as "$nobody" "$daemon_uid" timeout -k 1 10 "${serverk[@]}" --mode 0622
check_match "runs as uid $nobody, as which this user namespace shows all" "$errors" "and told why"
check_status 4 "--check says so, too" mapped_as "$nobody" "$daemon_uid" "${serverk[@]}" --check
check_match "runs as uid $nobody, as which" "$errors" "in the same words"

config=$common_dir/config
chmod 755 "$MQKV_TEST_DIR"
printf '[user %s]\nread = *\n' "$nobody" >"$config"
check_status 2 "nor may a section name it" mapped_as 1000 "$daemon_uid" "${serverk[@]}" \
    -c "$config" --check
check_match "stands for all users that this user namespace does not map" "$errors" "and told why"
if [ "$(awk '{ sum += $3 } END { print sum }' /proc/self/uid_map)" = 4294967295 ]; then
    check_status 0 "where everybody is mapped, it may" as_uid "$daemon_uid" "${serverk[@]}" \
        -c "$config" --check
else
    skip "where everybody is mapped: this namespace does not map everybody"
fi

server_program=$common_dir/mapped
printf '#!/bin/sh\nexec setpriv --reuid=%s --regid=%s --clear-groups %s "%s" "$@"\n' \
    "$daemon_uid" "$daemon_uid" "unshare --user --map-user=1000" "$MQKV_BUILD/serverk" \
    >"$server_program"
chmod 755 "$server_program"
start_server --mode 0622
check_status 0 "a daemon of another uid serves users that are not mapped" client put name Ada
check_status 4 "who are not its owner" client config get
check_status 0 "its own user is" as_uid "$daemon_uid" "$MQKV_BUILD/clientk" -m "$server_queue" \
    config get
head -c 300000 /dev/urandom >"$MQKV_TEST_DIR/large"
chmod 644 "$MQKV_TEST_DIR/large"
check_status 0 "a client whom its namespace shows as that uid is served, too" \
    mapped_as "$nobody" "$good_uid" "$MQKV_BUILD/clientk" -m "$server_queue" --timeout 5000 \
    put large - <"$MQKV_TEST_DIR/large"
mapped_as "$nobody" "$good_uid" "$MQKV_BUILD/clientk" -m "$server_queue" --timeout 5000 get large \
    >"$MQKV_TEST_DIR/got"
check_status 0 "with large values" cmp "$MQKV_TEST_DIR/large" "$MQKV_TEST_DIR/got"
stop_server
