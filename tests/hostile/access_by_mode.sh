#!/usr/bin/env bash
# access_by_mode: who may send to the daemon is decided by its uid, its group and --mode, and by
# nothing else
. "$(dirname "$0")/lib.sh"
need_root

group_gid=$((uid_base + 10))

denied_at() { # MODE UID[:GID] WHO
    check_status 4 "--mode $1: $3 is refused" client_as "$2" --timeout 1000 get name
    check_match "uid ${2%%:*} may not .*--mode" "$errors" "--mode $1: $3 is told why"
}

let_in_at() { # MODE UID[:GID] WHO
    check_status 0 "--mode $1: $3 is let in" client_as "$2" --timeout 10000 get name
    check_equal Ada "$output" "--mode $1: $3 gets the value"
}

# The daemon's own user waits for the start and stores the value.
client() {
    client_as "$daemon_uid" "$@"
}

start_server_as "$daemon_uid"
check_status 0 "the daemon's own user stores a value" client put name Ada
let_in_at 0600 "$daemon_uid:$good_uid" "the daemon's own user with another group"
denied_at 0600 "$good_uid" "another user"
denied_at 0600 "$good_uid:$daemon_uid" "another user in the daemon's group"
stop_server

# A daemon may give its queues to a group that it is in.
printf '#!/bin/sh\nexec setpriv --reuid=%s --regid=%s --groups=%s "%s" "$@"\n' "$daemon_uid" \
    "$daemon_uid" "$group_gid" "$MQKV_BUILD/serverk" >"$server_program"
start_server --mode 0620 --group "$group_gid"
let_in_at 0620 "$good_uid:$group_gid" "a member of the group"
denied_at 0620 "$hostile_uid" "a user outside of the group"
denied_at 0620 "$hostile_uid:$daemon_uid" \
    "a user in the daemon's group, which is not that of --group"
stop_server

start_server_as "$daemon_uid" --mode 0622
let_in_at 0622 "$good_uid" "any user"
let_in_at 0622 "$hostile_uid" "any other user"

# Data files have what was deleted, too: only the daemon's own user, and root, back them up.
mkdir "$common_dir/backups" && chmod 777 "$common_dir/backups"
check_status 4 "--mode 0622: any other user gets no backup" \
    client_as "$good_uid" backup "$common_dir/backups/good"
check_match 'only the user that the server runs as' "$errors" "and is told why"
check_equal '' "$(ls "$common_dir/backups")" "nothing of it is left"
check_status 4 "nor by message" client_as "$good_uid" backup --by-message "$common_dir/backups/good"
check_status 0 "the daemon's own user does" client backup "$common_dir/backups/own"
check_status 4 "whose files others cannot read" \
    client_as "$good_uid" restore "$common_dir/backups/own" --to "$common_dir/backups/good"
check_status 0 "root does" \
    "$MQKV_BUILD/clientk" -m "$server_queue" backup "$common_dir/backups/root"
check_status 0 "and it is sound" "$MQKV_BUILD/kvcheck" "$common_dir/backups/root"
stop_server
check_equal 0 $? "the daemon stops cleanly"

# HELLOs that wait their turn while the owner shuts the door get no session that stays.
python_attack greeters <<'END'
import collections, errno, os, sys, time
import mqkv

kept = collections.deque()
try:
    while True:
        try:
            kept.append(mqkv.Session(sys.argv[1], timeout=5))
        except OSError as error:
            if error.errno != errno.EMFILE:  # the user's bytes of queues, which the server frees
                raise
            time.sleep(0.01)
        if len(kept) > 2:
            first = kept.popleft()
            first.bye_quietly()
            first.close()
except (mqkv.Failure, OSError) as error:
    os.write(1, f"refused: {error!r}\n".encode())  # in one piece, beside those of the others
time.sleep(600)
END
all_are_refused() {
    [ "$(grep -c refused "$MQKV_TEST_DIR/attack.log")" -ge 4 ]
}
start_server_as "$daemon_uid" --mode 0622 -w 4
for _ in {1..4}; do
    attack_as "$hostile_uid" "$python" "$attack" "$server_queue"
done
has_come() {
    client --format json stats sessions | grep -q "\"uid\": *$hostile_uid,"
}
check_status 0 "another user has sessions" wait_until 20 has_come
check_equal 0 "$(grep -c refused "$MQKV_TEST_DIR/attack.log")" "another user comes and goes"
check_status 0 "the owner shuts the door" client config set mode 0600
wait_until 20 all_are_refused
check_equal 0 $? "the other user gets in no more"
all_are_refused || sed "s/^/# /" "$MQKV_TEST_DIR/attack.log"
sessions=$(client --format json stats sessions)
check_match "\"uid\": *$daemon_uid," "$sessions" "stats tell whose sessions there are"
check_equal 0 "$(grep -c "\"uid\": *$hostile_uid," <<<"$sessions")" \
    "and none of the other user has stayed"
end_attacks
stop_server
check_equal 0 $? "the daemon stops cleanly beside them"
