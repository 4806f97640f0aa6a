#!/usr/bin/env bash
# rings: what a client does with its ring for replies costs nobody else anything: it scribbles,
# shortens, never reads, or offers what is not its own
# long: two seconds for each of many attacks
. "$(dirname "$0")/lib.sh"
need_root

# QUEUE MODE SECONDS [SESSIONS]: attacks, and prints at the end how many sessions it had, with those
# of the programs before it.
python_attack ring <<'END'
import ctypes, fcntl, os, random, signal, sys, threading, time
import mqkv
from mqkv_queues import Ring

queue, mode, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
end = time.monotonic() + seconds
chance = random.Random(7)
PUNCH_HOLE = 3  # and keep the size
libc = ctypes.CDLL(None)
AGAIN = ("scribble", "bell", "shorten", "punch")  # the memory is in use: begin as a new program


def lease(session):
    """Only who has the object open for reading, and nobody for writing, gets a lease."""
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    reader = os.open("/dev/shm" + session.queue.name, os.O_RDONLY)
    session.queue.words = None
    session.queue.object.memory.close()
    os.close(session.queue.fd)
    fcntl.fcntl(reader, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return reader


def hello_with_lease():
    """A server that waits for the lease to end sleeps 45 seconds."""
    session = mqkv.Session(queue, connect=False, shared=True)
    session.open_server()
    session.create_queue()
    try:
        reader = lease(session)
        session.send_hello()
        time.sleep(0.05)
        os.close(reader)
    finally:
        session.unlink_queue()
        session.server.close()


def begin():
    session = mqkv.Session(queue, connect=False, shared=True, timeout=0.3)
    session.open_server()
    session.create_queue()
    try:
        session.send_hello()
        session.await_welcome()
        session.open_lanes()
    finally:
        session.unlink_queue()
    return session


def spoil(session):
    ring = session.queue
    size = ring.object.size
    while time.monotonic() < end and session.queue is not None:
        if mode == "scribble":
            for _ in range(1000):
                word = chance.choice((0, 1, 7, chance.randrange(2**32)))
                ring.words[chance.randrange(32)] = word
        elif mode == "bell":
            for _ in range(1000):
                ring.words[0] = 1
        elif mode == "shorten":
            os.ftruncate(ring.fd, 0)
            os.ftruncate(ring.fd, size)
        elif mode == "punch":
            libc.fallocate(ring.fd, PUNCH_HOLE, ctypes.c_long(0), ctypes.c_long(size))
        else:
            return


sessions = int(sys.argv[4]) if len(sys.argv) > 4 else 0
while time.monotonic() < end:
    session = None
    try:
        if mode == "lease":
            hello_with_lease()
            sessions += 1
            continue
        session = begin()
        sessions += 1
        worker = threading.Thread(target=spoil, args=(session,), daemon=True)
        worker.start()
        for _ in range(200):
            session.send_raw(session.whole([mqkv.ping(b"x" * 100)]), "lane", timeout=0.1)
            if mode == "bell":
                session.queue.receive(0)
            elif mode == "scribble":
                time.sleep(0.001)
    except (mqkv.Timeout, mqkv.ServerGone, mqkv.Refused, OSError, ValueError):
        pass
    left = end - time.monotonic()
    if session is not None and mode in AGAIN and left > 0.2:
        os.execv(sys.executable, [sys.executable, *sys.argv[:3], str(left), str(sessions)])
    if session is not None and mode not in AGAIN:
        session.close()
print(f"{mode}: {sessions} sessions", flush=True)
END

over() { # MODE
    grep -q "^$1: " "$MQKV_TEST_DIR/attack.log"
}

# spoiled UID MODE TEXT: users other than the daemon's get no session with a ring.
spoiled() {
    local sessions='[1-9]'
    [ "$1" = "$daemon_uid" ] || sessions=0
    : >"$MQKV_TEST_DIR/attack.log"
    attack_as "$1" "$python" "$attack" "$server_queue" "$2" 2
    check_status 0 "$3: a client of another user is served" client --timeout 5000 put key value
    check_status 0 "$3: a client of the daemon's user is served" \
        client_as "$daemon_uid" --timeout 5000 --replies shared get key
    wait_until 20 over "$2" || true
    check_match "^$2: $sessions" "$(cat "$MQKV_TEST_DIR/attack.log")" \
        "$3: the attack ran to its end"
    end_attacks
    check_status 0 "$3: both are served afterwards" \
        client_as "$daemon_uid" --timeout 5000 --replies shared get key
}

start_server_as "$daemon_uid" --mode 0622
spoiled "$daemon_uid" scribble "random words in the ring"
spoiled "$daemon_uid" shorten "a ring that shrinks and grows"
spoiled "$daemon_uid" punch "a ring with holes"
spoiled "$daemon_uid" deaf "nobody reads"
spoiled "$daemon_uid" bell "a bell that never stops"
spoiled "$daemon_uid" lease "a lease on the object"
spoiled "$hostile_uid" scribble "a ring of another user"
check_match '"replies":"queue"' "$(client --format json stats sessions | tr -d ' \n')" \
    "clients of other users have queues"
stop_server
check_equal 0 $? "the daemon stops cleanly"
