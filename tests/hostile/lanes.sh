#!/usr/bin/env bash
# lanes: each user has a request lane that no other can send to, and old clients come through the
# door.
. "$(dirname "$0")/lib.sh"
need_root
users=()
python=/usr/bin/python3 # one that every user may run
[ -x "$python" ] || python=$(command -v python3)

# start_server_with CAPABILITIES [OPTION...]: as the daemon's user.
start_server_with() {
    local capabilities=$1
    shift
    server_program=$common_dir/serverk-with
    printf '#!/bin/sh\nexec setpriv --reuid=%s --regid=%s --clear-groups %s=%s %s=%s "%s" "$@"\n' \
        "$daemon_uid" "$daemon_uid" --inh-caps "$capabilities" --ambient-caps "$capabilities" \
        "$MQKV_BUILD/serverk" >"$server_program"
    chmod 755 "$server_program"
    start_server "$@"
}

# connect_good: a session of the good client that stays, after its first request; end_attacks ends
# it.
connect_good() {
    attack_as "$good_uid" "$MQKV_BUILD/clientk" -m \
        "$server_queue" bench --mix get=1 --rate 200 -t 60
    wait_for_guest "$good_uid"
}

# wait_for_guest UID
wait_for_guest() {
    local try
    for ((try = 0; try < 100; try++)); do
        ! guests | grep " $1 " >/dev/null || return 0
        sleep 0.05
    done
}

# open_by_others: how many queues of the server a uid may send to.
open_by_others() {
    as_uid "$1" "$python" - "$server_queue" <<'PY'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
suffixes = [""] + [f".l{n}" for n in range(1, 8)] + [".b0", ".b1"] + [f".g{n}" for n in range(4096)]
queues = (libc.mq_open((sys.argv[1] + suffix).encode(), os.O_WRONLY) for suffix in suffixes)
print(sum(queue >= 0 for queue in queues))
PY
}

# A lane that was handed out is open until the first message of its session: door_alone TEXT waits.
is_closed() {
    [ "$(open_by_others "$hostile_uid")" = 1 ]
}
door_alone() {
    check_status 0 "$1" wait_until 20 is_closed
}

# squat make|remove NUMBER...: queues of the hostile user under names of guest lanes.
squat() {
    as_uid "$hostile_uid" "$python" - "$server_queue" "$@" <<'PY'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_long) for name in ("flags", "depth", "bytes", "now")]
    _fields_ += [("rest", ctypes.c_long * 4)]
for number in sys.argv[3:]:
    name = f"{sys.argv[1]}.g{number}".encode()
    if sys.argv[2] == "remove":
        libc.mq_unlink(name)
    else:
        libc.mq_open(name, os.O_CREAT | os.O_WRONLY, 0o600, ctypes.byref(Attributes(0, 1, 1, 0)))
PY
}

# idle_session UID: one of the independent client, which opens its lane and sends nothing.
idle_session() {
    attack_as "$1" env PYTHONDONTWRITEBYTECODE=1 "$python" -c '
import sys, time
sys.path.insert(0, sys.argv[1])
from mqkv_session import *
from mqkv_messages import *
with Session(sys.argv[2], abilities=GUEST_LANES) as session:
    time.sleep(60)' "$(dirname "$old_client")" "$server_queue"
    wait_for_guest "$1"
    sleep 0.3
}

# guests: "GIVEN UID SESSIONS" of each guest now.
guests() {
    as_uid "$daemon_uid" "$MQKV_BUILD/clientk" -m "$server_queue" --format json stats |
        "$python" -c '
import json, sys
for guest in json.load(sys.stdin)["server"]["lanes"]["guests"].values():
    print("given" if guest["given"] else "lent", guest["uid"], guest["sessions"])'
}

check_isolation() { # lent or given
    check_equal 1 "$(open_by_others "$hostile_uid")" \
        "$1 lanes: without a guest, others may send to the door alone"
    connect_good
    check_equal "$1 $good_uid 1" "$(guests)" "$1 lanes: the good client has one"
    door_alone "$1 lanes: others may send to the door alone"
    end_attacks
    check_status 0 "$1 lanes: a client of a second user is served" client_as "$hostile_uid" ping
    check_equal "" "$(guests)" "$1 lanes: they go with the last session"
}

old_client=$(reachable "$(dirname "$0")/../independent/mqkv.py")
start_server_as "$daemon_uid" --mode 0622
check_isolation lent

idle_session "$good_uid"
check_equal "lent $good_uid 1" "$(guests)" "a session that sends nothing has a lane"
door_alone "which does not stay open to others"
connect_good
both_are_there() {
    [ "$(guests)" = "lent $good_uid 2" ]
}
check_status 0 "another session of the user shares it" wait_until 20 both_are_there
door_alone "and it is closed again"
end_attacks

squat make {0..39}
connect_good
check_equal "lent $good_uid 1" "$(guests)" \
    "beside queues of others under such names, the good client has a lane"
end_attacks
squat remove {0..39}

# As many as there are lanes for, and more, beside 60 processes of the daemon's user.
for ((user = 2; user <= 16; user++)); do
    as_uid "$((uid_base + user))" "$MQKV_BUILD/clientk" -m \
        "$server_queue" bench --rate 20 -t 3 >/dev/null \
        2>>"$MQKV_TEST_DIR/users.log" &
    users+=($!)
done
wait_for_guest "$((uid_base + 2))"
check_status 0 "60 processes of the daemon's user find room beside 15 other users" \
    client_as "$daemon_uid" bench --processes 60 -n 60 -t 0.5
failed=0
for user in "${users[@]}"; do
    wait "$user" || failed=$((failed + 1))
done
check_equal 0 "$failed" "15 users at a time are served"
[ "$failed" = 0 ] || sed 's/^/# /' "$MQKV_TEST_DIR/users.log"

# 1,500 bytes are more than a message of the door takes; the independent client asks for no lane of
# its own.
check_status 0 "a client that knows of no such lanes comes through the door" \
    as_uid "$good_uid" env PYTHONDONTWRITEBYTECODE=1 "$python" - "$(dirname "$old_client")" \
        "$server_queue" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
from mqkv_session import *
from mqkv_messages import *
with Session(sys.argv[2]) as session:
    value = b"v" * 1500
    reply = session.request([put(b"old", value)])
    assert reply.results[0].status == 0, reply.results
    assert session.request([get(b"old")]).results[0].value == value
PY
stop_server

start_server_with +chown --mode 0622
check_isolation given
stop_server

# To unlink what belongs to others takes another capability (or a look into /dev/mqueue).
start_server_with +chown,+fowner --mode 0622
connect_good
kill_server
end_attacks
# Whoever may send to a lane may lock it once its server is dead.
attack_as "$hostile_uid" "$python" -c '
import ctypes, fcntl, os, sys, time
fcntl.lockf(ctypes.CDLL(None).mq_open(sys.argv[1].encode(), os.O_WRONLY), fcntl.LOCK_EX)
print("the lane is locked", flush=True)
time.sleep(60)' "$server_queue"
wait_until 20 grep -q "the lane is locked" "$MQKV_TEST_DIR/attack.log"
check_status 3 "who locks the lane of a dead server is no server" client get old
check_match "no server at queue $server_queue; start one" "$errors" "which is said at once"
end_attacks
start_server_with +chown,+fowner --mode 0622
check_equal "" "$(as_uid "$daemon_uid" "$MQKV_BUILD/clientk" -m "$server_queue" ping >/dev/null ||
    echo failed)" \
    "after kill -9 the next daemon starts"
check_equal 9 "$(open_by_others 0)" "and has removed the guests' lanes: there are its own alone"
