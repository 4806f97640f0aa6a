#!/usr/bin/env bash
# clientk_clear: del --prefix and clear delete what they name and nothing else, and ask first
. "$(dirname "$0")/lib.sh"

start_server
keys() {
    client scan --count
}
fill() {
    for ((i = 0; i < 700; i++)); do echo "put user:$i v"; done | client batch -q - 2>/dev/null
    for ((i = 0; i < 40; i++)); do echo "put other:$i v"; done | client batch -q - 2>/dev/null
    client put user v >/dev/null
    printf 'binary' | client -e put '\0\xff:1' - >/dev/null
}

fill
check_equal 742 "$(keys)" "there are keys"
check_status 0 "del --prefix" client del --prefix user:
check_equal "700 deleted" "$output" "tells how many keys it deleted"
check_equal 42 "$(keys)" "and leaves the others"
check_status 0 "a prefix without keys" client del --prefix nobody
check_equal "0 deleted" "$output" "is no mistake"
check_status 2 "an empty prefix is" client del --prefix ''
check_status 2 "and a key beside the prefix" client del user --prefix us
check_status 2 "and neither" client del
check_equal 42 "$(keys)" "and deletes nothing"
check_status 2 "clear wants --yes where it cannot ask" client clear
check_match "add --yes" "$errors" "and says so"
check_status 0 "clear with a binary prefix" client -e clear --yes '\0\xff'
check_equal "1 deleted" "$output" "deletes that"
check_equal '{"command":"clear","status":"ok","value":40}' \
    "$(client --format json clear -y other | sed 's/"number"/"value"/')" "in JSON, too"
fill
check_equal "742 deleted" "$(client clear --yes)" "clear deletes everything"
check_equal 0 "$(keys)" "of the store"
fill
timeout 60 python3 - "$MQKV_BUILD/clientk" "$server_queue" "$server_pid" <<'END'
import os, pty, signal, sys, time
server = int(sys.argv[3])

def stop():
    """Other threads go on until the one that gets the signal has a CPU."""
    os.kill(server, signal.SIGSTOP)
    tasks = [f"/proc/{server}/task/{task}/stat" for task in os.listdir(f"/proc/{server}/task")]
    while not all(open(task).read().rsplit(") ", 1)[1][0] == "T" for task in tasks):
        time.sleep(0.01)

for answer, status in ((b"no\n", 2), (b"yes\n", 0)):
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], [sys.argv[1], "-m", sys.argv[2], "clear", "user:1"])
    seen = b""
    while b"Type yes:" not in seen:
        seen += os.read(terminal, 1000)
    if status == 0:  # it takes long
        stop()
    os.write(terminal, answer)
    try:
        while more := os.read(terminal, 1000):
            seen += more
            if b" entries deleted, " in seen:
                os.kill(server, signal.SIGCONT)
    except OSError:
        pass
    os.kill(server, signal.SIGCONT)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print("ok" if ended == status else "not ok", "- at a terminal", answer[:-1].decode(),
          "is obeyed")
    print("ok" if (b" entries deleted, " in seen) == (status == 0) else "not ok",
          "- and how far it is, is shown")
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], [sys.argv[1], "-m", sys.argv[2]])
seen = b""
for word, line in ((b"> ", b"clear user:1\n"), (b"Type yes:", b"n\n"), (b"deleted", b"quit\n")):
    while word not in seen:
        seen += os.read(terminal, 1000)
    os.write(terminal, line)
os.waitpid(pid, 0)
print("ok" if b"ERROR" not in seen else "not ok", "- no is no error at the prompt")
END
check_equal 631 "$(keys)" "after yes the keys are gone"
printf 'del --prefix other:\nput x y\nclear --yes user\n' |
    client batch - >"$MQKV_TEST_DIR/out" 2>&1
check_equal "40 deleted
OK
590 deleted" "$(head -3 "$MQKV_TEST_DIR/out")" "in a batch they work as lines"
stop_server
check_status 3 "without a server" client clear --yes

# What was deleted gives its space back on command.
start_server
big=$(printf '%04000d' 1)
for ((i = 0; i < 300; i++)); do echo "put big:$i $big"; done | client batch -q - 2>/dev/null
client clear --yes big >/dev/null
check_status 0 "compact" client compact --no-wait
check_match "^[1-4] data files will be compacted$" "$output" "who does not wait is told what comes"
for ((i = 0; i < 300; i++)); do echo "put big:$i $big"; done | client batch -q - 2>/dev/null
client clear --yes big >/dev/null
check_status 0 "compact" client compact
check_match "[1-4] data files compacted, .* given back" "$output" "tells what it gave back"
dead=$(client stats files --format json | grep -oE '"dead_bytes":[0-9]+' | tail -1)
check_equal 0 "${dead#*:}" "nothing is dead any more"
check_status 0 "once more" client compact
check_equal "0 data files compacted, 0 B given back" "$output" "there is nothing to do"
stop_server

# A server goes on compacting when the session ends of who asked for it; one that is killed and
# started again has forgotten it.
server_dir=$MQKV_TEST_DIR/huge
start_server -d 1
head -c 1000000 /dev/zero | tr '\0' v >"$MQKV_TEST_DIR/megabyte"
for ((i = 0; i < 150; i++)); do
    client put "huge:$i" - <"$MQKV_TEST_DIR/megabyte" >/dev/null
done
client del huge:0 >/dev/null
exec_client compact >"$MQKV_TEST_DIR/compacted" 2>&1 &
compact_pid=$!
wait_until 20 test -e "$server_dir/data.0000.new"
session=$(client --format raw sessions | awk -F '\t' -v pid=$compact_pid '$3 == pid { print $1 }')
client kill "$session" >/dev/null 2>&1 || skip "a session that is ended: the compaction was done"
wait "$compact_pid"
check_equal 0 $? "compact waits on in another session"
check_match "^1 data file compacted" "$(cat "$MQKV_TEST_DIR/compacted")" "until it is done"
client del huge:1 >/dev/null
exec_client compact >/dev/null 2>"$MQKV_TEST_DIR/forgotten" &
compact_pid=$!
wait_until 20 test -e "$server_dir/data.0000.new"
kill_server
start_server -d 1
wait_until 20 eval "! kill -0 $compact_pid 2>/dev/null"
check_equal 0 $? "compact does not wait for a server that has forgotten it"
kill "$compact_pid" 2>/dev/null
wait "$compact_pid"
compact_status=$?
if [ "$compact_status" = 0 ]; then
    skip "a compaction that is cut off: it was done before the server was killed"
else
    check_equal 3 "$compact_status" "but exits 3"
    # The last: its time was over while the next server had not made the queue yet.
    check_match "started again|has ended|no server runs" "$(cat "$MQKV_TEST_DIR/forgotten")" \
        "and says why"
fi
stop_server
