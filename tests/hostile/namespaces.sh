#!/usr/bin/env bash
# namespaces: a client that the kernel keeps from proving its pid, or from seeing the server, is
# told so
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

ask() { # OPTIONS of unshare
    in_namespaces "$1" "$good_uid" "$MQKV_BUILD/clientk" -m "$server_queue" --timeout 3000 get name
}

# All that a client in another PID namespace prints, from the command and from doctor.
check_told() { # TEXT: after check_status
    check_match 'different PID namespaces.*--pid=host' "$errors" "$1: it is told why"
    check_equal 0 "$(grep -cE 'pid 0|overloaded|has died' <<<"$errors")" "$1: and nothing else"
}

pid_too='--pid --fork --kill-child --mount-proc'

# The server with the host's namespaces
start_server_as "$daemon_uid" --mode 0622
check_status 0 "a value is stored" client put name Ada
check_status 0 "PID and IPC shared: it works" ask --uts
check_status 4 "IPC shared, PID not: refused" ask "$pid_too"
check_told "IPC shared, PID not"
check_match "uid $good_uid\\) refused.*PID namespaces" "$(cat "$server_log")" \
    "and the daemon logs the uid"
check_status 3 "PID shared, IPC not: no queue" ask --ipc
check_match 'clientk doctor tells more' "$errors" "PID shared, IPC not: it is sent to doctor"
check_status 3 "which finds no queue" in_namespaces --ipc "$good_uid" "$MQKV_BUILD/clientk" -m \
    "$server_queue" doctor
check_match 'no queue .* in this IPC namespace' "$output" "and says in which namespace"
check_match 'one PID namespace .*--ipc=host --pid=host' "$output" \
    "and that the PID namespace is to be shared, too"
check_status 3 "neither shared: no queue" ask "--ipc $pid_too"
check_status 1 "doctor of the daemon's owner in another PID namespace finds it" \
    in_namespaces "$pid_too" "$daemon_uid" "$MQKV_BUILD/clientk" -m "$server_queue" doctor
check_match 'different PID namespaces' "$output" "and says so"
check_equal 0 "$(grep -cE 'has died|pid 0' <<<"$output")" "and not that the server has died"
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
check_status 4 "the server in a PID namespace below: refused" ask --uts
check_told "the server below"
check_status 4 "both in PID namespaces of their own: refused" ask "$pid_too"
check_told "both apart"
serverk=$(pgrep -f "^$MQKV_BUILD/serverk -m $server_queue ")
kill "$serverk"
wait_until 30 server_is_gone
wait "$server_pid" 2>/dev/null
server_pid=
