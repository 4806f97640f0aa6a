#!/usr/bin/env bash
# admin: only the owner of the daemon and root give it administrative commands
. "$(dirname "$0")/lib.sh"
need_root

owner() {
    client_as "$daemon_uid" "$@"
}

start_server_as "$daemon_uid" --mode 0622
check_status 0 "another user is served" client ping
check_status 4 "another user may not see the settings" client config get
check_match "server's own user \(uid $daemon_uid\) and root, not for uid $good_uid" "$errors" \
    "and is told why"
check_status 4 "nor change them" client config set sync none
check_equal interval:1000 "$(owner config get sync)" "which changes nothing"
check_status 0 "root may" "$MQKV_BUILD/clientk" -m "$server_queue" config set sync interval:700
check_equal interval:700 "$(owner config get sync)" "and that is in force"

# A mode that lets nobody in ends the sessions of others, at once and for good.
exec_as_uid "$good_uid" "$MQKV_BUILD/clientk" -m "$server_queue" --timeout 20000 bench -t 20 \
    >"$common_dir/bench.out" 2>&1 &
bench=$!
sessions_of_others() {
    [ "$(owner --format json stats sessions | grep -o "\"uid\":$good_uid" | wc -l)" "$@" ]
}
wait_until 20 sessions_of_others -gt 0
check_equal 0 $? "another user has a session"
check_status 0 "the owner closes the door" owner config set mode 0600
wait_until 20 sessions_of_others -eq 0
check_equal 0 $? "its sessions end"
check_status 4 "it gets no other" client ping
check_status 0 "the owner is served" owner ping
kill "$bench"
wait "$bench" 2>/dev/null
check_status 0 "the door opens again" owner config set mode 0622
check_status 0 "for the other user too" client ping
stop_server
