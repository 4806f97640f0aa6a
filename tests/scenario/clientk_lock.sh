#!/usr/bin/env bash
# clientk_lock: clientk lock runs a program under a lock that Python has, too; watch one a change.
. "$(dirname "$0")/lib.sh"

start_server
cd "$MQKV_TEST_DIR" || exit 2
entry=cache:ksbuild

# The program, and what becomes of it
check_status 0 "a program runs" client lock build -- echo printed
check_equal printed "$output" "and prints"
check_status 1 "its lock is given back" client exists "$entry"
check_status 7 "its exit status is that of the lock" client lock build -- sh -c 'exit 7'
check_status 143 "so is its signal" client lock build -- sh -c 'kill $$'
check_status 127 "one that is not there" client lock build -- ./no-such-program
check_match 'no-such-program: No such file' "$errors" "is named"
check_status 126 "one that is none" client lock build -- "$MQKV_TEST_DIR"
check_status 1 "has given the lock back as well" client exists "$entry"
check_status 2 "a program is needed" client lock build
check_status 2 "and a name" client lock '' -- true
check_match '^s[0-9a-f]{16}$' "$("$MQKV_BUILD/clientk" -m "$server_queue" lock build -- \
    "$MQKV_BUILD/clientk" -m "$server_queue" get "$entry")" "the entry is as Python has it"

# Others
mkfifo goes_on
exec_client lock build --lease 300ms -- cat goes_on &
holder=$!
wait_until 20 client exists "$entry"
first=$(client --format json get "$entry")
check_status 1 "who does not wait goes without" client lock build -n -- echo wrong
check_match 'another has the lock' "$errors" "and is told"
check_equal "" "$output" "and runs nothing"
check_status 1 "nor does who waits a moment" client lock build --wait-for 50ms -- echo wrong
check_status 0 "another name is another lock" client lock other -n -- true
check_status 0 "another prefix, too" client lock build -n --prefix '' -- true
is_renewed() {
    [[ $(client --format json get "$entry") != "$first" ]]
}
wait_until 20 is_renewed
check_status 1 "the lease is renewed while the program runs" client lock build -n -- true
exec_client lock build -- echo mine >waited &
waiting=$!
true >goes_on
wait "$holder"
check_equal 0 $? "the holder ends"
wait "$waiting"
check_equal mine "$(<waited)" "and who waited has it"

# kill -9 of the holder, a restart, a lock that is lost
mkfifo orphan
exec_client lock build --lease 200ms -- cat orphan &
holder=$!
wait_until 20 client exists "$entry"
kill -9 "$holder"
wait "$holder" 2>/dev/null
check_status 0 "who was killed holds it no longer than its lease" client lock build -- true
true >orphan
mkfifo restarted
exec_client lock build -- cat restarted &
holder=$!
wait_until 20 client exists "$entry"
kill_server
start_server
true >restarted
wait "$holder"
check_equal 0 $? "a restart of the daemon is survived"
exec_client lock build --lease 300ms -- sleep 1000 2>lost &
holder=$!
wait_until 20 client exists "$entry"
client put "$entry" another >/dev/null
wait "$holder"
check_equal 4 $? "a lock that was lost"
check_match 'the lock was lost' "$(<lost)" "is told, and the program ends"
check_equal another "$(client get "$entry")" "and the other one keeps it"
client del "$entry" >/dev/null
exec_client lock build -- sleep 1000 &
holder=$!
wait_until 20 client exists "$entry"
kill "$holder"
wait "$holder"
check_equal 143 $? "SIGTERM is for the program, too"
check_status 1 "and the lock is given back" client exists "$entry"

# A program for each change
cat >note <<'END'
#!/bin/sh
echo "$MQKV_CHANGE $MQKV_KEY" >>noted
END
chmod +x note
exec_client watch 'user:' -- ./note 2>watched &
watcher=$!
has_begun() {
    client put user:probe x >/dev/null
    [[ -s noted ]]
}
wait_until 20 has_begun
client put 'user: a b' x >/dev/null
client put other x >/dev/null
client del 'user: a b' >/dev/null
wait_until 20 grep -q '^delete ' noted
check_equal $'put user: a b\ndelete user: a b' "$(grep -v probe noted)" \
    "changes and keys are in the environment, in their order"
kill -INT "$watcher"
wait "$watcher"
check_equal 130 $? "a signal ends the watch"
check_match 'to go on from here: --since' "$(<watched)" "and it says how to go on"
exec_client watch nul --limit 1 -- ./note 2>nul.errors &
watcher=$!
nul_was_told() {
    client -e put 'nul\x00' x >/dev/null
    ! kill -0 "$watcher" 2>/dev/null
}
wait_until 20 nul_was_told
wait "$watcher"
check_equal 4 $? "a key with a NUL byte"
check_match 'no environment can hold this key' "$(<nul.errors)" "is told"
exec_client watch failing --limit 1 -- sh -c 'exit 3' 2>/dev/null &
watcher=$!
has_failed() {
    client put failing x >/dev/null
    ! kill -0 "$watcher" 2>/dev/null
}
wait_until 20 has_failed
wait "$watcher"
check_equal 3 $? "a program that failed gives the exit status"
exec_client watch absent --limit 1 -- ./no-such-program 2>/dev/null &
watcher=$!
was_absent() {
    client put absent x >/dev/null
    ! kill -0 "$watcher" 2>/dev/null
}
wait_until 20 was_absent
wait "$watcher"
check_equal 127 $? "a program that is not there ends the watch"

# Python's Lock of the same name
if python=$(command -v python3) && [[ -d $MQKV_BUILD/python ]]; then
    check_status 0 "Python's lock excludes" env PYTHONPATH="$MQKV_BUILD/python" \
        LD_LIBRARY_PATH="$MQKV_BUILD" "$python" - "$server_queue" "$MQKV_BUILD/clientk" <<'END'
import subprocess
import sys
import mqkv
queue, clientk = sys.argv[1:]
lock = mqkv.Lock(mqkv.Cache(client=mqkv.Client(queue)), "build")
with lock:
    run = subprocess.run([clientk, "-m", queue, "lock", "build", "-n", "--", "echo", "wrong"],
                         capture_output=True)
    assert run.returncode == 1 and run.stdout == b"", run
child = subprocess.Popen([clientk, "-m", queue, "lock", "build", "--", "sh", "-c", "echo; cat"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
assert lock.locked()
assert not lock._take()
child.communicate()
with lock:
    pass
END
else
    skip "Python's lock excludes" "no Python package was built"
fi
