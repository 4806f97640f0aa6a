#!/usr/bin/env bash
# serverk_reload: a SIGHUP that comes during a reload is followed, also with a SIGTERM behind it
. "$(dirname "$0")/lib.sh"

# hold_reload.py PID FILE: sends SIGHUP; ptrace(2) holds the thread that reloads at the first system
# call that is not its waiting, until the file, which tells that it does, is removed.
cat >"$MQKV_TEST_DIR/hold_reload.py" <<'END'
import ctypes, os, signal, struct, sys, time
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
SEIZE, INTERRUPT, GO_TO_CALL, CALL_INFO, DETACH = 0x4206, 0x4207, 24, 0x420e, 17
TELL_CALLS = ctypes.c_void_p(1)  # PTRACE_O_TRACESYSGOOD: there is an info of each
IS_ENTRY = 1  # its first byte
NUMBER_AT = 24
pid, held = int(sys.argv[1]), sys.argv[2]

def trace(request, thread, size=None, data=None):
    if ptrace(request, thread, ctypes.c_void_p(size), data) < 0:
        sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")

def wait_for(thread):
    os.waitpid(thread, 0x40000000)  # __WALL

def next_call(thread):
    """The number of the next system call, at which the thread is held."""
    info = ctypes.create_string_buffer(256)
    while info.raw[0] != IS_ENTRY:
        trace(GO_TO_CALL, thread)
        wait_for(thread)
        trace(CALL_INFO, thread, len(info), info)
    return struct.unpack_from("<Q", info.raw, NUMBER_AT)[0]

def name_of(thread):
    return open(f"/proc/{pid}/task/{thread}/comm").read().strip()

thread = next(int(t) for t in os.listdir(f"/proc/{pid}/task") if name_of(t) == "serverk/reload")
trace(SEIZE, thread, None, TELL_CALLS)
trace(INTERRUPT, thread)
wait_for(thread)
waiting = next_call(thread)
os.kill(pid, signal.SIGHUP)
while next_call(thread) == waiting:
    pass
open(held, "w").close()
while os.path.exists(held):
    time.sleep(0.05)
trace(DETACH, thread)
END

reloads() {
    grep -c 'SIGHUP: there is no configuration file to read again' "$server_log"
}
start_server --core-dumps # it may be traced
held=$MQKV_TEST_DIR/held
wait_until 20 sh -c "grep -q '^serverk/reload' /proc/$server_pid/task/*/comm"
python3 "$MQKV_TEST_DIR/hold_reload.py" "$server_pid" "$held" 2>"$MQKV_TEST_DIR/hold.log" &
holder=$!
if wait_until 20 test -e "$held"; then
    check_equal 0 "$(reloads)" "a reload that is held is not over"
    kill -HUP "$server_pid"
    kill "$server_pid"
    check_status 0 "a stop beside it is told" \
        wait_until 20 grep -q 'signal 15 .*: stopping' "$server_log"
    sleep 0.2 # it then tells the reloader
    rm "$held"
    wait "$holder"
    wait_until 20 server_is_gone || kill -9 "$server_pid"
    wait "$server_pid"
    check_equal 0 $? "then the daemon stops"
    server_pid=
    check_equal 2 "$(reloads)" "behind that reload and the one that was asked for meanwhile"
else
    skip "a reload that is held: $(tail -n 1 "$MQKV_TEST_DIR/hold.log")"
    stop_server
fi
