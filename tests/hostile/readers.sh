#!/usr/bin/env bash
# readers: members of --read-group read, and change nothing, whatever they send
. "$(dirname "$0")/lib.sh"
need_root

group_gid=$((uid_base + 10)) # of readers
export MQKV_SERVER_UID=$daemon_uid # /dev/mqueue may be of another namespace here

# session.py QUEUE SECRET...: what a reader's session may do; "own": what the daemon's user may
# through the readers' queue.
python_attack session <<'END_OF_PROGRAM'
import sys

import mqkv
from mqkv_messages import operation
from mqkv_queues import Queue


class Reader(mqkv.Session):
    def open_server(self):
        self.server = Queue(self.name + ".read")
        assert self.server.lock_holder() is not None

    def open_lanes(self):
        self.lane = self.bulk = Queue(self.name + ".read")


def changes():
    return [
        mqkv.put(b"name", b"x"),
        mqkv.put(b"new", b"x"),
        mqkv.delete(b"name"),
        mqkv.add(b"count", 1),
        mqkv.append(b"name", b"x"),
        mqkv.exchange(b"name", b"x"),
        mqkv.touch(b"name", 1),
        mqkv.sync(),
        operation(13, b"begin"),
        operation(14, b"config"),
    ]


mode, queue = sys.argv[1:3]
if mode == "open":
    for name in sys.argv[3:]:
        try:
            Queue(queue + name)
            print("open", name)
        except PermissionError:
            pass
elif mode == "reader":
    session = Reader(queue, timeout=30)
    print("flag", session.welcome.flags & 4, "lane", session.welcome.lane)
    print("alone", *sorted({session.request([change]).statuses[0] for change in changes()}))
    together = [mqkv.get(b"name")] + changes() + [mqkv.get(b"name")]
    statuses = session.request(together).statuses
    print("batch", statuses[0], statuses[-1], *sorted(set(statuses[1:-1])))
    print("parts", session.request([mqkv.put(b"name", bytes(20000))]).statuses[0])
    print("pages", len(session.request([mqkv.scan(b"", 0, 10)]).results[0].entries))
else:
    full, reader = mqkv.Session(queue, timeout=30), Reader(queue, timeout=30)
    print("own", reader.request([mqkv.put(b"name", b"x")]).statuses[0])
    lane = full.lane
    full.lane = reader.lane
    full.timeout = 1
    try:
        print("crossed", full.request([mqkv.put(b"name", b"x")]).statuses[0])
    except mqkv.Timeout:
        print("crossed nothing")
    full.lane = lane
    full.timeout = 30
    print("after", full.request([mqkv.get(b"name")]).results[0].value.decode())
END_OF_PROGRAM

reader() {
    client_as "$good_uid:$group_gid" --timeout 10000 "$@"
}
# The daemon's own user: waits for the start, too.
client() {
    client_as "$daemon_uid" "$@"
}

check_status 2 "--read-group needs --lanes auto" as_uid "$daemon_uid" "$MQKV_BUILD/serverk" \
    -f "$common_dir" --lanes shared --read-group "$group_gid" --check
check_match "leave out --lanes" "$errors" "and the error says so"
mkdir "$common_dir/other" && chown "$daemon_uid" "$common_dir/other"
check_status 4 "a daemon that is not in the group cannot let it in" \
    as_uid "$daemon_uid" "$MQKV_BUILD/serverk" -f "$common_dir/other" -m "$server_queue.x" \
    --read-group "$group_gid"
check_match "cannot give .*--read-group" "$errors" "and says so"

start_server_as "$daemon_uid"
printf '#!/bin/sh\nexec setpriv --reuid=%s --regid=%s --groups=%s "%s" "$@"\n' "$daemon_uid" \
    "$daemon_uid" "$group_gid" "$MQKV_BUILD/serverk" >"$server_program"
stop_server
start_server --read-group "$group_gid"
client put name Ada >/dev/null
client put count 1 >/dev/null

check_status 0 "a member reads" reader get name
check_equal Ada "$output" "the value"
check_equal 2 "$(reader scan --count)" "and scans"
check_status 0 "and asks for statistics" reader stats server --format json
check_match "\"gid\": ?$group_gid" "$output" "which tell of the queue"
check_status 4 "it does not write" reader put name x
check_match 'permission denied' "$errors" "and is told so"
check_status 4 "nor delete" reader del name
check_status 4 "nor with a prefix" reader del --prefix n
check_status 4 "nor in a transaction" reader transact -- put name x
check_status 0 "which may read" reader get name count --together
check_status 4 "nor make a backup" reader backup "$common_dir/backup"
check_status 4 "nor settings" reader config set verbose on
check_status 0 "doctor is content" reader doctor
check_match 'may read only' "$output" "and says that it may only read"
check_status 4 "another user is refused" client_as "$hostile_uid" --timeout 1000 get name
check_match "may not send" "$errors" "by the kernel"
check_status 4 "also one in the daemon's own group" \
    client_as "$hostile_uid:$daemon_uid" --timeout 1000 get name

as_reader() {
    as_uid "$good_uid:$group_gid" "$python" "$attack" "$@"
}
check_equal '' "$(as_reader open "$server_queue" '' .l1 .l2 .b0 .lock)" \
    "no other queue of the daemon is open to the reader"
as_reader reader "$server_queue" >"$common_dir/out" 2>&1
check_equal "flag 4 lane 0
alone DENIED
batch OK OK DENIED
parts DENIED
pages 2" "$(cat "$common_dir/out")" "whatever a reader sends, nothing changes"
as_uid "$daemon_uid" "$python" "$attack" own "$server_queue" >"$common_dir/out" 2>&1
check_equal "own DENIED
crossed nothing
after Ada" "$(cat "$common_dir/out")" "what comes through the readers' queue writes for nobody"
check_equal "Ada 1 2" "$(client get name) $(client get count) $(client scan --count)" "nothing did"

mkfifo "$MQKV_TEST_DIR/commands"
reader batch - <"$MQKV_TEST_DIR/commands" >"$MQKV_TEST_DIR/answers" 2>&1 &
batch_pid=$!
exec 7>"$MQKV_TEST_DIR/commands"
echo "GET name" >&7
wait_until 20 grep -q Ada "$MQKV_TEST_DIR/answers"
check_match '"read_only": ?true' "$(client stats sessions --format json)" \
    "sessions of readers are marked"
exec 7>&-
wait "$batch_pid"
kill_server
start_server --read-group "$group_gid"
check_status 0 "after kill -9 the next daemon has the queue" reader get name
stop_server

# Anybody may make a queue of that name.
start_server
as_uid "$hostile_uid" "$python" - "$server_queue" <<'END_OF_PROGRAM'
import os
import sys
from mqkv_queues import Queue
os.fchmod(Queue(sys.argv[1] + ".read", os.O_CREAT | os.O_RDWR, 0o622, 2, 1024).fd, 0o622)
END_OF_PROGRAM
check_status 4 "a queue of another user in its place is not believed" reader get name
check_match "do not belong to one server" "$errors" "and the error says why"
check_status 4 "nor where no user was named" \
    env -u MQKV_SERVER_UID setpriv --reuid="$good_uid" --regid="$good_uid" --clear-groups \
    "$MQKV_BUILD/clientk" -m "$server_queue" --timeout 1000 get name
stop_server
check_status 4 "a daemon with readers does not start beside it" \
    as_uid "$daemon_uid:$group_gid" "$MQKV_BUILD/serverk" -m "$server_queue" -f "$server_dir" \
    --read-group "$group_gid"
check_match "$server_queue.read" "$errors" "and names the queue"
"$MQKV_BUILD/tests/mqrm" "$server_queue.read"
