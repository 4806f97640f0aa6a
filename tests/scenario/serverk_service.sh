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

# mark WORD: the socket is empty, and what comes from now on is written behind the word.
mark() {
    python3 -c '
import socket, sys
socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(sys.argv[2].encode(), sys.argv[1])' \
        "$socket" "$1"
    wait_until 20 grep -q "^$1$" "$told"
}

# fed_between WORD WORD: how often the watchdog was told between the two marks.
fed_between() {
    sed -n "/^$1$/,/^$2$/p" "$told" | grep -c WATCHDOG
}

listen
export NOTIFY_SOCKET=$socket WATCHDOG_USEC=200000
start_server
unset NOTIFY_SOCKET WATCHDOG_USEC
wait_until 20 grep -q READY "$told"
check_equal "READY=1" "$(grep -v EXTEND_TIMEOUT "$told" | head -1)" \
    "the manager is told when the daemon is ready"
wait_until 20 grep -q WATCHDOG=1 "$told"
check_match "WATCHDOG=1" "$(cat "$told")" "the watchdog is told, in the sandbox too"
hold_still "$server_pid"
mark stopped
sleep 0.5
mark goes-on
check_equal 0 "$(fed_between stopped goes-on)" "not by a daemon that is stopped"
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

# hold.py PID FILE [NAME]: ptrace(2) holds all threads but the main one, or those of that name,
# until the file, which tells that it does, is removed.
cat >"$MQKV_TEST_DIR/hold.py" <<'END'
import ctypes, os, sys, time
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
def is_wanted(thread):
    name = open(f"/proc/{sys.argv[1]}/task/{thread}/comm").read().strip()
    return thread != sys.argv[1] and sys.argv[3:] in ([], [name])
threads = [int(t) for t in os.listdir(f"/proc/{sys.argv[1]}/task") if is_wanted(t)]
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

# A reload that takes long
wait_until 20 sh -c "grep -q '^serverk/reload' /proc/$server_pid/task/*/comm"
python3 "$MQKV_TEST_DIR/hold.py" "$server_pid" "$held" serverk/reload \
    2>"$MQKV_TEST_DIR/hold.log" &
holder=$!
if wait_until 20 test -e "$held"; then
    kill -HUP "$server_pid"
    before=$(grep -c WATCHDOG "$told")
    check_status 0 "beside a reload that takes long the watchdog is told" \
        wait_until 20 sh -c "[ \"\$(grep -c WATCHDOG '$told')\" -gt $((before + 8)) ]"
    check_equal 0 "$(grep -c RELOADING "$told")" "while that is not over"
    rm "$held"
    wait "$holder"
    check_status 0 "then it comes to its end" \
        wait_until 20 sh -c "grep -A9 RELOADING '$told' | grep -q READY"
else
    skip "a reload that takes long: $(cat "$MQKV_TEST_DIR/hold.log")"
fi

# Workers that hang, and not the main thread
python3 "$MQKV_TEST_DIR/hold.py" "$server_pid" "$held" 2>"$MQKV_TEST_DIR/hold.log" &
holder=$!
if wait_until 20 test -e "$held"; then
    (exec_client --timeout 60000 put name Ada >/dev/null) &
    writer=$!
    check_status 0 "workers that hang are noticed" \
        wait_until 20 grep -q 'ERROR all workers hang' "$server_log"
    mark hang
    sleep 0.5
    mark release
    check_equal 0 "$(fed_between hang release)" "and the watchdog is told no more"
    before=$(grep -c WATCHDOG "$told")
    rm "$held"
    wait "$holder"
    check_status 0 "when they go on, the request is done" wait "$writer"
    check_status 0 "and the watchdog is told again" \
        wait_until 20 sh -c "[ \"\$(grep -c WATCHDOG '$told')\" -gt $before ]"
else
    skip "workers that hang: $(cat "$MQKV_TEST_DIR/hold.log")"
fi

# A stop beside a reload that takes long
stops() {
    grep -c 'signal 15 .*: stopping' "$server_log"
}
another_stop_is_told() {
    [ "$(stops)" -gt "$before" ]
}
python3 "$MQKV_TEST_DIR/hold.py" "$server_pid" "$held" serverk/reload \
    2>"$MQKV_TEST_DIR/hold.log" &
holder=$!
if wait_until 20 test -e "$held"; then
    before=$(stops)
    reloads=$(grep -c RELOADING "$told")
    kill -HUP "$server_pid"
    kill "$server_pid"
    check_status 0 "a stop beside a reload that takes long is in the log at once" \
        wait_until 20 another_stop_is_told
    before=$(grep -c WATCHDOG "$told")
    check_status 0 "the watchdog is told until that is over" \
        wait_until 20 sh -c "[ \"\$(grep -c WATCHDOG '$told')\" -gt $((before + 3)) ]"
    rm "$held"
    wait "$holder"
    wait_until 20 server_is_gone || kill -9 "$server_pid"
    wait "$server_pid"
    check_equal 0 $? "then the daemon stops"
    check_status 0 "as the manager is told" wait_until 20 grep -q STOPPING "$told"
    check_equal $((reloads + 1)) "$(grep -c RELOADING "$told")" "behind the reload"
    server_pid=
else
    skip "a stop beside a reload that takes long: $(cat "$MQKV_TEST_DIR/hold.log")"
    stop_server
fi
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

# The stores of the units: whoever moves one away, as serverk(1), Backups, has it, moves no other
stores=$(cat "$library_dir"/../../packaging/serverk*.service |
    sed -nE 's/^ExecStart=.* -f ([^ ]+).*/\1/p')
check_equal 2 "$(grep -c . <<<"$stores")" "each unit names its store"
check_equal "" "$(for one in $stores; do grep "^$one/" <<<"$stores"; done)" "none in another one"
