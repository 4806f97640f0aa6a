#!/usr/bin/env bash
# doctor_leftovers: doctor removes the queues and segments that dead processes of its user left, and
# no others
. "$(dirname "$0")/lib.sh"
need_root
if ! mountpoint -q /dev/mqueue; then
    rm -rf "$common_dir"
    if [ -z "${MQKV_TEST_MOUNTED:-}" ] && unshare --mount true 2>/dev/null &&
        mkdir -p /dev/mqueue; then
        trap - EXIT
        # shellcheck disable=SC2016 # the inner shell expands it
        MQKV_TEST_MOUNTED=yes exec unshare --mount bash -c \
            'mount -t mqueue none /dev/mqueue; exec bash "$0"' "$0"
    fi
    skip 'doctor_leftovers: /dev/mqueue is not mounted, and cannot be'
    exit 0
fi

start_server_as "$daemon_uid" --mode 0622
check_status 0 'a value is stored' client put name Ada

# What kill -9 between mq_open and mq_unlink leaves: a name with the pid of nobody.
sleep 0 &
dead=$!
wait "$dead"
cat >"$common_dir/leave.py" <<'P'
import ctypes, os, sys
rt = ctypes.CDLL(None, use_errno=True)
class Attributes(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_long), ("maxmsg", ctypes.c_long), ("msgsize", ctypes.c_long),
                ("curmsgs", ctypes.c_long), ("pad", ctypes.c_long * 4)]
for name in sys.argv[1:]:
    attributes = Attributes(0, 2, 4352, 0)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    assert rt.mq_open(name.encode(), flags, 0o622, ctypes.byref(attributes)) >= 0, name
P
chmod a+r "$common_dir/leave.py"
leave() { # UID NAME...
    local uid=$1
    shift
    as_uid "$uid" /usr/bin/python3 "$common_dir/leave.py" "$@"
}
leave "$good_uid" "$server_queue.c$dead.1" "$server_queue.c$dead.2" "$server_queue.c$$.1" \
    "$server_queue.other"
leave "$hostile_uid" "$server_queue.c$dead.3"
as_uid "$good_uid" touch "/dev/shm$server_queue.s$dead.1" "/dev/shm$server_queue.r$dead.1" \
    "/dev/shm$server_queue.r$$.1"

sleep 2.1 # what is younger than a second may be a handshake of another PID namespace
check_status 0 'doctor finds all well' client doctor
check_match 'removed 2 queues and 2 segments left by dead processes of yours' "$output" \
    'and removes what is left'
# shellcheck disable=SC2012 # names of queues
check_equal "$(printf '%s\n' "c$$.1" "c$dead.3" other | sort)" \
    "$(ls /dev/mqueue | sed -n "s/^${server_queue#/}\\.\\(c.*\\|other\\)$/\\1/p" | sort)" \
    'not what is of a process that lives, of another user, or no reply queue'
check_equal "r$$.1" \
    "$(find /dev/shm -name "${server_queue#/}.[rs]*" |
        sed 's/^.*[.]\([rs][0-9]*[.][0-9]*\)$/\1/')" \
    'segment and ring are gone, but not the ring of a process that lives'
rm -f "/dev/shm$server_queue.r$$.1"
check_status 0 'doctor again' client doctor
check_equal 0 "$(grep -c removed <<<"$output")" 'has nothing to remove'
stop_server
"$library_dir/../leftovers" --remove "$server_queue" >/dev/null
