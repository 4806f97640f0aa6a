#!/usr/bin/env bash
# sessions: nobody keeps others from having a session, whatever HELLOs he sends; who is refused
# learns why
. "$(dirname "$0")/lib.sh"
need_root

independent=$common_dir/independent
cp -r "$(realpath "$library_dir/../independent")" "$independent" && chmod -R a+rX "$independent"

# python_as UID: a program on stdin, with the independent client; its argument is the daemon's
# queue.
python_as() {
    as_uid "$1" env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$independent" python3 - \
        "$server_queue" 2>&1
}

fact() { # NAME: of stats sessions, asked by the daemon's owner
    client_as "$daemon_uid" --format json stats sessions | tr -d ' \n' | grep -oE "\"$1\":[0-9]+" |
        head -n 1 | tr -dc '0-9'
}

# A daemon with few descriptors has few places.
start_server_as "$daemon_uid" --mode 0622
stop_server
sed -i 's/^exec /ulimit -n 128; exec /' "$server_program"
start_server --mode 0622

# One queue, many HELLOs
outcome=$(python_as "$hostile_uid" <<'P'
import sys
from mqkv import *
print(hello_storm(sys.argv[1], 300)["welcome"])
P
)
check_equal 300 "$outcome" "300 HELLOs with new nonces for one queue are answered"
check_at_most 2 "$(fact live)" "and make one session"
check_at_least 299 "$(fact replaced)" "each in the place of the one before"
check_status 0 "the good client gets in" client --timeout 5000 put a 1

# Many queues of one user
python_as "$hostile_uid" >"$MQKV_TEST_DIR/greedy.out" <<'P' &
import sys, time
from mqkv import *
keep = []
for _ in range(40):
    session = Session(sys.argv[1], connect=False, depth=2, message_bytes=512)
    session.open_server()
    session.create_queue()
    session.send_hello()
    try:
        session.await_welcome(5)
        session.unlink_queue()
        keep.append(session)
    except Refused as refused:
        print(len(keep), refused.status, refused, flush=True)
        session.close()
        break
time.sleep(600)
P
greedy=$!
wait_until 30 test -s "$MQKV_TEST_DIR/greedy.out"
check_match "^[0-9]+ 26 .*uid $hostile_uid has [0-9]+ of the [0-9]+ sessions .* in process [0-9]+" \
    "$(cat "$MQKV_TEST_DIR/greedy.out")" \
        "a user with all of his share is told how many he has, and who holds them"
check_status 0 "another user gets in beside him" client --timeout 5000 get a
check_status 0 "and the daemon's owner" client_as "$daemon_uid" --timeout 5000 get a
for pid in $(pgrep -P "$greedy"; echo "$greedy"); do kill "$pid" 2>/dev/null; done
wait "$greedy" 2>/dev/null

# Killed between mq_open and mq_unlink
left_of() { # HOW MANY: processes of the good client's user that leave their reply queue behind
    python_as "$good_uid" <<P
import os, sys
from mqkv import *
left = 0
for _ in range($1):
    child = os.fork()
    if child == 0:
        for size in (4352, 512):
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
                Queue(f"{sys.argv[1]}.c{os.getpid()}.0", flags, 0o622, 2, size)
                os._exit(0)
            except OSError:
                pass
        os._exit(1)
    left += os.waitpid(child, 0)[1] == 0
print(left)
P
}
python_as "$good_uid" >"$MQKV_TEST_DIR/slow.out" <<'P' &
import os, signal, sys, time
from mqkv import *
name = f"{sys.argv[1]}.c{os.getpid()}.0"
queue = Queue(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o622, 2, 512)
signal.signal(signal.SIGTERM, lambda *_: (unlink_queue(name), sys.exit()))
queue.lock()
print(queue.links(), flush=True)
while queue.links():
    time.sleep(0.05)
print("removed", flush=True)
P
slow=$!
wait_until 30 test -s "$MQKV_TEST_DIR/slow.out"
left=$(left_of 110)
check_at_least 60 "$left" \
    "a user's processes are killed in their handshakes until he has no room for a queue"
sleep 2.1 # they must not look like ones that are being made
# It looks where the kernel lists the queues of its IPC namespace.
client_mounted() {
    # shellcheck disable=SC2016 # it is the inner shell that expands
    unshare --mount bash -c 'mount -t mqueue none /dev/mqueue 2>/dev/null
        exec setpriv --reuid="$1" --regid="$1" --clear-groups \
            "$2" -m "$3" --timeout 5000 "${@:4}"' \
        bash "$good_uid" "$MQKV_BUILD/clientk" "$server_queue" "$@"
}
check_status 0 "the next client of that user removes what they left" client_mounted get a
check_at_least 60 "$(left_of 110)" "and he has his room back"
sleep 2.1 # as above
check_status 0 "doctor removes them, too" client_mounted doctor
check_match 'removed [0-9]+ queues' "$output" "and says so"
check_equal 1 "$(cat "$MQKV_TEST_DIR/slow.out")" "the queue of one that lives is still there"
for pid in $(pgrep -P "$slow"; echo "$slow"); do kill "$pid" 2>/dev/null; done
wait "$slow" 2>/dev/null

# Descriptors
outcome=$(python_as "$daemon_uid" <<'P'
import os, sys
from mqkv import *
def open_files():
    return len(os.listdir(f"/proc/{session.welcome.server_pid}/fd"))
with Session(sys.argv[1], depth=2, message_bytes=512) as session:
    before = open_files()
    for size in range(1, 41):
        session.offer_segment(size * 4096)
    print(open_files() - before)
P
)
check_at_most 1 "$outcome" "40 segments of a session cost no descriptors but that of one"

# What HELLO cannot have
outcome=$(python_as "$hostile_uid" <<'P'
import struct, sys, time
from mqkv import *
for fields, version, count in (({"depth": 0}, 1, 1), ({"message_bytes": 64}, 1, 1), ({}, 9, 3000)):
    session = Session(sys.argv[1], connect=False, depth=2, message_bytes=512)
    session.open_server()
    session.create_queue()
    fields = {"depth": 2, "message_bytes": 512} | fields
    body = hello_body(session.queue_name, session.nonce, **fields)
    for number in range(count):
        if number == count - 1:
            time.sleep(1.1) # the time of the log's next line
        session.server.send(header(HELLO, version=version, request_id=7) + body, timeout=5)
        answer = session.queue.receive(5)
        if number == 0:
            kind, status = struct.unpack_from("<BH", answer[0], 5)
            print(KIND_NAMES[kind], STATUS_NAMES[status], answer[0][HEADER_BYTES:].decode())
    session.close()
P
)
check_match 'REFUSED BAD_REQUEST .*reply_depth is 0' "$outcome" "a depth of 0 is refused"
check_match 'REFUSED BAD_REQUEST .*have 64 bytes, less than 128' "$outcome" \
    "so are messages of 64 bytes"
check_match 'REFUSED UNSUPPORTED the client speaks version 9 .*this server .*version 1' "$outcome" \
    "another version is told both"
check_at_most 30 "$(grep -c refused "$server_log")" "3,000 refusals make a few lines in the log"
check_match 'more like this were not logged' "$(cat "$server_log")" "which tell how many there were"
stop_server
