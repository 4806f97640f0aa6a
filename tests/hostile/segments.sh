#!/usr/bin/env bash
# segments: what a client does with its segment makes nobody wait: a lease, fallocate, an
# overlapping window
. "$(dirname "$0")/lib.sh"
need_root

# QUEUE MODE: prints status and sentence of the answer to SEGMENT, and stays until killed.
python_attack segment <<'END'
import fcntl, os, signal, sys, threading, time
import mqkv

queue, mode = sys.argv[1:3]
session = mqkv.Session(queue, timeout=60)
size = 1 << 30 if mode == "fallocate" else 1 << 20
os.umask(0)
memory = mqkv.SharedMemory(session.segment_name(), size, 0o666, truncate_to=size)
if mode == "lease":
    path = "/dev/shm" + memory.name
    os.close(memory.fd)
    leased = os.open(path, os.O_RDONLY)
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    fcntl.fcntl(leased, 1024, fcntl.F_RDLCK)  # F_SETLEASE
elif mode == "fallocate":
    def work():
        while True:
            os.posix_fallocate(memory.fd, 0, size)
            os.ftruncate(memory.fd, 0)
            os.ftruncate(memory.fd, size)
    for _ in range(16):
        threading.Thread(target=work, daemon=True).start()
began = time.monotonic()
reply = session.send_segment(memory.name, size)
print(f"{mode}: {reply.name} after {time.monotonic() - began:.1f} s: {reply.sentence}", flush=True)
memory.unlink()
if mode == "overlap" and reply.status == 0:
    memory = mqkv.mmap.mmap(memory.fd, size)
    text = bytes(range(256)) * 256
    memory[0:len(text)] = text
    ping = mqkv.operation(mqkv.PING, segment_offset=0, value_bytes=len(text))
    session.receive_for(session.post([ping], window=(8, len(text) + 64)))
    print("overlap:", "right" if memory[8:8 + len(text)] == text else "wrong", flush=True)
    sys.exit()
time.sleep(60)
END

answered() { # MODE
    grep -q "^$1: " "$MQKV_TEST_DIR/attack.log"
}

put_large() {
    client --timeout 10000 put large - <"$common_dir/large"
}

# offer UID MODE STATUS TEXT: the offer is answered with that status, and the good client served
# meanwhile.
offer() {
    : >"$MQKV_TEST_DIR/attack.log"
    attack_as "$1" "$python" "$attack" "$server_queue" "$2"
    wait_until 20 answered "$2" || true
    check_match "^$2: $3 after [0-4]\\." "$(cat "$MQKV_TEST_DIR/attack.log")" "$4"
    check_status 0 "$4: the good client is served" client --timeout 5000 put key value
    check_status 0 "$4: the good client is served a large value" \
        put_large
    end_attacks
}

head -c 900000 /dev/urandom >"$common_dir/large"
chmod 644 "$common_dir/large"
start_server_as "$daemon_uid" --mode 0622 -w 1
check_status 0 "a large value of another user goes in parts" \
    put_large
client get large >"$common_dir/back"
check_status 0 "and comes back" cmp "$common_dir/large" "$common_dir/back"

offer "$hostile_uid" plain DENIED "a segment of another user is refused"
offer "$hostile_uid" lease DENIED "one with a lease too"
offer "$hostile_uid" fallocate DENIED "one that its owner fills too"
offer "$daemon_uid" lease DENIED "a lease on a segment of the daemon's own user is refused"
: >"$MQKV_TEST_DIR/attack.log"
attack_as "$daemon_uid" "$python" "$attack" "$server_queue" overlap
wait_until 20 grep -q "^overlap: [rw]" "$MQKV_TEST_DIR/attack.log" || true
check_match "^overlap: right" "$(cat "$MQKV_TEST_DIR/attack.log")" \
    "a window over the value of a PING gets it as it was"
end_attacks
stop_server
check_equal 0 $? "the daemon stops cleanly"
