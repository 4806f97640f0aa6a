#!/usr/bin/env bash
# serverk_service: a daemon under a service manager: what it is told, the watchdog, and the units
. "$(dirname "$0")/lib.sh"

told=$MQKV_TEST_DIR/told
socket=$MQKV_TEST_DIR/notify

# What arrives at the manager's socket, a line each; ends with the test's directory.
listen() {
    python3 - "$socket" "$told" <<'END' &
import os, socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
manager.settimeout(1)
with open(sys.argv[2], "w") as told:
    while os.path.exists(sys.argv[1]):
        try:
            print(manager.recv(4096).decode().replace("\n", " "), file=told, flush=True)
        except TimeoutError:
            pass
END
    listener=$!
    wait_until 20 test -S "$socket"
}

listen
export NOTIFY_SOCKET=$socket WATCHDOG_USEC=200000
start_server
unset NOTIFY_SOCKET WATCHDOG_USEC
wait_until 20 grep -q READY "$told"
check_equal "READY=1" "$(head -1 "$told")" "the manager is told when the daemon is ready"
wait_until 20 grep -q WATCHDOG=1 "$told"
check_match "WATCHDOG=1" "$(cat "$told")" "the watchdog is told, in the sandbox too"
kill -STOP "$server_pid"
sleep 0.5
before=$(grep -c WATCHDOG "$told")
sleep 0.5
check_equal "$before" "$(grep -c WATCHDOG "$told")" "not by a daemon that is stopped"
kill -CONT "$server_pid"
kill -HUP "$server_pid"
wait_until 20 grep -q RELOADING "$told"
wait_until 20 sh -c "grep -A9 RELOADING '$told' | grep -q READY"
check_match "RELOADING=1 MONOTONIC_USEC=[0-9]+" "$(cat "$told")" "a reload is told with its time"
stop_server
check_match "STOPPING=1" "$(tail -2 "$told")" "so is a stop"
rm "$socket"
wait "$listener"

# The Redis bridge does the same.
. "$(dirname "$0")/../support/kresp.sh"
: >"$told"
listen
start_server
export NOTIFY_SOCKET=$socket WATCHDOG_USEC=200000
# shellcheck disable=SC2119 # no option
start_kresp
unset NOTIFY_SOCKET WATCHDOG_USEC
wait_until 20 grep -q READY "$told"
check_equal "READY=1" "$(head -1 "$told")" "kresp tells when it is ready"
wait_until 20 sh -c "[ \$(grep -c WATCHDOG '$told') -ge 8 ]"
fed=$(grep -c WATCHDOG "$told")
check_equal yes "$([ "$fed" -ge 8 ] && echo yes)" \
    "and feeds the watchdog while it has nothing to do"
kill "$kresp_pid"
wait "$kresp_pid"
wait_until 20 grep -q STOPPING "$told"
check_match "STOPPING=1" "$(tail -2 "$told")" "and tells when it stops"
stop_server
rm "$socket"
wait "$listener"

# Workers that hang: their threads are held by ptrace(2), the main thread is not.
cat >"$MQKV_TEST_DIR/hold.py" <<'END'
import ctypes, os, sys, time
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
threads = [int(t) for t in os.listdir(f"/proc/{sys.argv[1]}/task") if t != sys.argv[1]]
for thread in threads:
    if ptrace(SEIZE, thread, None, None) != 0 or ptrace(INTERRUPT, thread, None, None) != 0:
        sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")
    os.waitpid(thread, 0x40000000)  # __WALL
open(sys.argv[2], "w").close()
while os.path.exists(sys.argv[2]):
    time.sleep(0.05)
for thread in threads:
    ptrace(DETACH, thread, None, None)
END
rm -f "$told"
listen
export NOTIFY_SOCKET=$socket WATCHDOG_USEC=200000
start_server --core-dumps
unset NOTIFY_SOCKET WATCHDOG_USEC
held=$MQKV_TEST_DIR/held
python3 "$MQKV_TEST_DIR/hold.py" "$server_pid" "$held" 2>"$MQKV_TEST_DIR/hold.log" &
holder=$!
if wait_until 20 test -e "$held"; then
    (exec_client --timeout 60000 put name Ada >/dev/null) &
    writer=$!
    check_status 0 "workers that hang are noticed" \
        wait_until 20 grep -q 'ERROR all workers hang' "$server_log"
    sleep 0.3
    before=$(grep -c WATCHDOG "$told")
    sleep 0.5
    check_equal "$before" "$(grep -c WATCHDOG "$told")" "and the watchdog is told no more"
    rm "$held"
    wait "$holder"
    check_status 0 "when they go on, the request is done" wait "$writer"
    check_status 0 "and the watchdog is told again" \
        wait_until 20 sh -c "[ \"\$(grep -c WATCHDOG '$told')\" -gt $before ]"
else
    skip "workers that hang: $(cat "$MQKV_TEST_DIR/hold.log")"
fi
stop_server
rm "$socket"
wait "$listener"

# A manager that is not there, or no socket at all
NOTIFY_SOCKET=$MQKV_TEST_DIR/nobody start_server
check_match "WARN cannot tell NOTIFY_SOCKET .*nobody" "$(cat "$server_log")" \
    "a manager that is gone is warned of"
stop_server
NOTIFY_SOCKET=nonsense start_server
check_match "'nonsense' is not the name of a socket" "$(cat "$server_log")" "so is a wrong name"
stop_server

# The units
if command -v systemd-analyze >/dev/null; then
    for unit in serverk.service serverk@.service kresp.service; do
        sed -e "s|@BINDIR@|$MQKV_BUILD|; s|@SYSCONFDIR@|/etc|; /^Documentation/d" \
            "$library_dir/../../packaging/$unit" >"$MQKV_TEST_DIR/${unit/@/@x}"
        check_status 0 "$unit is right" systemd-analyze verify "$MQKV_TEST_DIR/${unit/@/@x}"
        check_equal "" "$errors" "without a warning"
        check_status 0 "and its exposure is below 2.0" systemd-analyze security --offline=true \
            --threshold=20 "$MQKV_TEST_DIR/${unit/@/@x}"
    done
else
    skip "the units: systemd-analyze is not installed"
fi
