#!/usr/bin/env bash
# namespaces: clients in other PID and IPC namespaces, as in containers: where the queues are shared
# everything works, whatever pids they see; where they are not, doctor's advice leads to success
. "$(dirname "$0")/lib.sh"
need_root
if ! unshare --pid --ipc --fork --mount-proc true 2>/dev/null; then
    skip "namespaces: unshare makes no PID and IPC namespaces here"
    exit 0
fi

# in_namespaces OPTIONS UID COMMAND...
in_namespaces() {
    local options=$1 uid=$2
    shift 2
    # shellcheck disable=SC2086 # options are words
    unshare $options setpriv --reuid="$uid" --regid="$uid" --clear-groups "$@"
}

# there OPTIONS UID ARGUMENT...: clientk in such namespaces.
there() {
    local options=$1 uid=$2
    shift 2
    in_namespaces "$options" "$uid" "$MQKV_BUILD/clientk" -m "$server_queue" --timeout 5000 "$@"
}

pid_too='--pid --fork --kill-child --mount-proc'

# Bytes of a value that needs a segment or parts.
large_file=$MQKV_TEST_DIR/large
head -c 300000 /dev/urandom >"$large_file"
chmod 755 "$MQKV_TEST_DIR"
chmod 644 "$large_file"

# session_count: how many sessions live.
session_count() {
    client --format json stats sessions | grep -oE '"live": ?[0-9]+' | grep -oE '[0-9]+'
}

# check_all OPTIONS TEXT: every way of a client of another user and of the daemon's own.
check_all() {
    local options=$1 text=$2 number=$RANDOM
    check_status 0 "$text: another user writes" there "$options" "$good_uid" put "k$number" Ada
    check_status 0 "$text: and reads" there "$options" "$good_uid" get "k$number"
    check_equal Ada "$output" "$text: what is there"
    check_status 0 "$text: a large value" there "$options" "$good_uid" put large - <"$large_file"
    check_status 0 "$text: the daemon's user, replies through shared memory" \
        there "$options" "$daemon_uid" --replies shared --direct off get "k$number"
    check_equal Ada "$output" "$text: which arrive"
    check_status 0 "$text: through a queue" \
        there "$options" "$daemon_uid" --replies queue --direct off put "q$number" Ada
    check_status 0 "$text: a large value through a segment" \
        there "$options" "$daemon_uid" --direct off put large - <"$large_file"
    check_status 0 "$text: and back" there "$options" "$daemon_uid" --direct off get large
    check_equal "$(sha256sum <"$large_file")" "$(sha256sum <"$MQKV_TEST_DIR/.output")" \
        "$text: whole"
    check_status 0 "$text: doctor is content" there "$options" "$daemon_uid" doctor
    check_match 'ok +reads need no message' "$output" "$text: reads need no message"
    check_match 'ok +replies come through shared memory' "$output" "$text: nor replies a queue"
    check_status 0 "$text: a direct read" there "$options" "$daemon_uid" get "k$number"
}

# check_death OPTIONS TEXT: a session ends with its process, which is killed.
check_death() {
    local before holder
    wait_until 20 eval "[ \"\$(session_count)\" = 1 ]" # that of who counts
    before=1
    mkfifo "$MQKV_TEST_DIR/lines" 2>/dev/null
    there "$1" "$good_uid" batch - <"$MQKV_TEST_DIR/lines" >/dev/null 2>&1 &
    holder=$!
    exec 9>"$MQKV_TEST_DIR/lines"
    echo 'PUT held 1' >&9
    wait_until 20 eval "[ \"\$(session_count)\" = $((before + 1)) ]"
    check_equal $((before + 1)) "$(session_count)" "$2: a session"
    check_match "ok +uid $good_uid: 1 session" "$(there --uts "$daemon_uid" doctor)" \
        "$2: which doctor of the daemon's user shows"
    kill -9 "$(pgrep -n -u "$good_uid" -f "^$MQKV_BUILD/clientk -m $server_queue .* batch -")"
    wait "$holder" 2>/dev/null
    wait_until 20 eval "[ \"\$(session_count)\" = $before ]"
    check_equal "$before" "$(session_count)" "$2: ends with its process"
    exec 9>&-
    check_match 'died": ?[1-9]' "$(client --format json stats sessions)" "$2: which died"
}

# The server with the host's namespaces
start_server_as "$daemon_uid" --mode 0622
check_all --uts "both shared"
check_all "$pid_too" "IPC shared, PID not"
check_death "$pid_too" "IPC shared, PID not"
object=$(printf '/dev/shm/mqkv.store.%x.%x' "$(stat -c %d "$server_dir")" \
    "$(stat -c %i "$server_dir")")
check_status 0 "doctor where neither the daemon nor its directory is seen" unshare --mount \
    --pid --fork --kill-child --mount-proc sh -c "mount -t tmpfs tmpfs '$common_dir' &&
    exec setpriv --reuid=$daemon_uid --regid=$daemon_uid --clear-groups \
    '$MQKV_BUILD/clientk' -m '$server_queue' doctor"
check_status 0 "leaves its index alone" test -e "$object"
for options in --ipc "--ipc $pid_too"; do
    text="IPC not shared ($options)"
    check_status 3 "$text: no queue" there "$options" "$good_uid" get name
    check_match 'clientk doctor tells more' "$errors" "$text: it is sent to doctor"
    check_status 3 "$text: which finds no queue" there "$options" "$good_uid" doctor
    check_match 'no queue .* in this IPC namespace' "$output" "$text: and says in which namespace"
    check_match 'in one IPC namespace .*--ipc=host' "$output" "$text: and that it is to be shared"
    check_equal 0 "$(grep -c -- '--pid=' <<<"$output")" "$text: and no other namespace"
done
stop_server

# The server in a PID namespace of its own, which the client can see into
cat >"$server_program" <<P
#!/bin/sh
exec unshare $pid_too setpriv --reuid=$daemon_uid --regid=$daemon_uid --clear-groups \\
    "$MQKV_BUILD/serverk" "\$@"
P
client() {
    "$MQKV_BUILD/clientk" -m "$server_queue" "$@"
}
mkdir -p "$server_dir"
server_logs[$server_log]=1
"$server_program" -m "$server_queue" -f "$server_dir" --mode 0622 </dev/null >>"$server_log" 2>&1 &
server_pid=$!
wait_until 30 eval "[ \"\$(grep -c ready '$server_log')\" = 2 ]"
check_all --uts "the server below"
check_death --uts "the server below"
check_all "$pid_too" "both apart"
check_death "$pid_too" "both apart"

serverk=$(pgrep -f "^$MQKV_BUILD/serverk -m $server_queue ")
kill "$serverk"
wait_until 30 server_is_gone
wait "$server_pid" 2>/dev/null
server_pid=
check_status 3 "a server that has ended is none" there "$pid_too" "$good_uid" --timeout 500 get name
