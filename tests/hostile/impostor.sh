#!/usr/bin/env bash
# impostor: a daemon that another user starts under the name gets nothing of a client that asked for
# a uid or was connected
. "$(dirname "$0")/lib.sh"
need_root

mkdir "$common_dir/impostor"
touch "$common_dir/its.conf"
chown "$hostile_uid:$hostile_uid" "$common_dir/impostor" "$common_dir/its.conf"
chmod 644 "$common_dir/its.conf"

impostor_answers() {
    client_as "$hostile_uid" --timeout 500 ping >/dev/null 2>&1
}

# Its configuration is right while it starts; what doctor would find in it stands there later.
start_impostor() {
    echo '[log]' >"$common_dir/its.conf"
    attack_as "$hostile_uid" "$MQKV_BUILD/serverk" -m "$server_queue" -f \
        "$common_dir/impostor" -d 1 -c "$common_dir/its.conf" \
        --mode 0622
    wait_until 20 impostor_answers || not_ok 'the impostor serves the name'
}

keys_of_impostor() {
    client_as "$hostile_uid" --timeout 5000 scan --keys | sort | tr '\n' ' '
}

start_server_as "$daemon_uid" -d 1 --mode 0622
check_status 0 'the server of the uid that was asked for is talked to' \
    client --server-uid "$daemon_uid" put asked yes
check_status 0 'also if the environment asks' \
    as_uid "$good_uid" env MQKV_SERVER_UID="$daemon_uid" "$MQKV_BUILD/clientk" -m \
        "$server_queue" get asked
check_status 4 'a server of another uid is not' client --server-uid root get asked
check_match "belongs to uid $daemon_uid, not to uid 0" "$errors" 'which is said'
check_status 2 'a user that nobody is' client --server-uid no-such-user get asked
check_match '"no-such-user": it must be a number or the name' "$errors" 'is told'
check_status 0 'doctor asks for the uid, too' client --server-uid "$daemon_uid" doctor
check_match "owner uid $daemon_uid" "$output" 'and says who serves'

# A client that is connected (one session for its life), and one that a batch is fed to slowly.
mkfifo "$common_dir/commands"
chmod 666 "$common_dir/commands"
client --timeout 20000 batch - <"$common_dir/commands" >"$MQKV_TEST_DIR/answers" 2>&1 &
connected=$!
exec 3>"$common_dir/commands"
echo 'PUT before 1' >&3
has_answers() { [ "$(grep -cE '^(OK|ERROR|[0-9])' "$MQKV_TEST_DIR/answers")" -ge "$1" ]; }
wait_until 20 has_answers 1
check_equal 0 $? 'a client is connected'
stop_server
start_impostor 3>&- # or the pipe never ends
echo 'PUT secret 2' >&3
echo 'GET secret' >&3
wait_until 30 has_answers 3
exec 3>&-
wait "$connected"
check_equal 4 $? 'a connected client does not go on with another user: exit 4'
taken="belongs to uid $hostile_uid now; .* it was uid $daemon_uid"
check_match "ERROR denied: the message queue $server_queue $taken" \
    "$(cat "$MQKV_TEST_DIR/answers")" 'and says why'
check_equal '' "$(keys_of_impostor)" 'the impostor gets nothing'
check_status 4 'nor does a new one that asks for the uid' client --server-uid \
    "$daemon_uid" put secret 3
check_equal '' "$(keys_of_impostor)" 'which gives it nothing either'
check_status 1 'doctor names the impostor' client --server-uid "$daemon_uid" doctor
check_match "served by process $attack_pid \(serverk\) of uid $hostile_uid" "$output" \
    'by its uid and process'
check_match "BAD +the queue belongs to uid $hostile_uid, not to uid $daemon_uid" "$output" \
    'and says that it is not the one that was asked for'
# What it names is not read with the rights of whoever asks: not even of root.
echo 'nonsense = 1' >>"$common_dir/its.conf"
check_status 0 'doctor of root, who asks for no uid' \
    "$MQKV_BUILD/clientk" -m "$server_queue" doctor
check_match "- +$common_dir/its.conf: not checked, a process of another user names it" "$output" \
    'does not look at the configuration of another user'
check_equal '' "$(grep nonsense <<<"$output")" 'and tells nothing of it'
check_status 1 'that user does' client_as "$hostile_uid" doctor
check_match "its.conf:2: unknown key 'nonsense'" "$output" 'and hears of the mistake'
check_status 0 'who asks for no uid is served by whoever serves' client put anybody 1

# A load is cut off in its middle.
end_attacks
"$library_dir/../leftovers" --remove "$server_queue" >/dev/null
start_server_as "$daemon_uid" -d 1 --mode 0622
client --timeout 20000 load - <"$common_dir/commands" >"$MQKV_TEST_DIR/answers" 2>&1 &
connected=$!
exec 3>"$common_dir/commands"
seq 1 3000 | sed 's/.*/PUT first& x/' >&3
some_are_loaded() { [ "$(client scan --count)" -gt 500 ]; }
wait_until 20 some_are_loaded
stop_server
start_impostor 3>&- # or the pipe never ends
(trap '' PIPE && seq 1 3000 | sed 's/.*/PUT second& x/' >&3 2>/dev/null)
exec 3>&-
wait "$connected"
check_equal 4 $? 'a load does not go on with another user: exit 4'
check_equal 'anybody ' "$(keys_of_impostor)" 'and gives it nothing'
end_attacks
"$library_dir/../leftovers" --remove "$server_queue" >/dev/null
