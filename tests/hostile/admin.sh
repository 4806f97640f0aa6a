#!/usr/bin/env bash
# admin: only the owner of the daemon and root give it administrative commands
. "$(dirname "$0")/lib.sh"
need_root

owner() {
    client_as "$daemon_uid" "$@"
}

mkdir -p "$common_dir/audit"
chown "$daemon_uid" "$common_dir/audit"
start_server_as "$daemon_uid" --mode 0622 --audit "$common_dir/audit/log"
check_status 0 "another user is served" client ping
check_status 4 "another user may not see the settings" client config get
check_match "server's own user \(uid $daemon_uid\) and root, not for uid $good_uid" "$errors" \
    "and is told why"
check_status 4 "nor change them" client config set sync none
check_equal interval:1s "$(owner config get sync)" "which changes nothing"
check_status 0 "root may" "$MQKV_BUILD/clientk" -m "$server_queue" config set sync interval:700
check_equal interval:700ms "$(owner config get sync)" "and that is in force"

for command in slow hotkeys "kill 1"; do
    # shellcheck disable=SC2086 # two words
    check_status 4 "$command is not for others" client $command
done
check_status 4 "the settings neither" client config set audit /tmp/audit

# A mode that lets nobody in ends the sessions of others, at once and for good.
exec_as_uid "$good_uid" "$MQKV_BUILD/clientk" -m "$server_queue" --timeout 20000 bench -t 20 \
    >"$common_dir/bench.out" 2>&1 &
bench=$!
sessions_of_others() {
    owner --format json stats sessions | grep -q "\"uid\":$good_uid,"
}
no_sessions_of_others() {
    ! sessions_of_others
}
wait_until 20 sessions_of_others
check_equal 0 $? "another user has a session"
check_status 0 "the owner closes the door" owner config set mode 0600
wait_until 20 no_sessions_of_others
check_equal 0 $? "its sessions end"
check_status 4 "it gets no other" client ping
check_status 0 "the owner is served" owner ping
kill "$bench"
wait "$bench" 2>/dev/null
check_status 0 "the door opens again" owner config set mode 0622
check_status 0 "for the other user too" client ping
stop_server

# What the audit log has of it.
check_equal True "$(python3 - "$common_dir/audit/log" "$good_uid" "$daemon_uid" <<'END_OF_PYTHON'
import json, sys
good, owner = int(sys.argv[2]), int(sys.argv[3])
events = [json.loads(line) for line in open(sys.argv[1])]
opened = [event for event in events if event["event"] == "opened" and event["uid"] == good]
killed = [event for event in events if event["event"] == "ended" and event["reason"] == "killed"]
changed = [event for event in events if event["event"] == "command" and event["uid"] == owner]
print(all("clientk" in event["program"] for event in opened) and len(opened) > 1
      and all(event["uid"] == good for event in killed) and len(killed) == 1
      and any(event["argument"] == "mode 0600" for event in changed))
END_OF_PYTHON
)" "the audit log has users, programs, the end of the session and the owner's commands"
