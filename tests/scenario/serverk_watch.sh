#!/usr/bin/env bash
# serverk_watch: slow requests, the audit log, sessions and their end, big and hot keys
. "$(dirname "$0")/lib.sh"

audit=$MQKV_TEST_DIR/audit.log
start_server -d 3 --audit "$audit"
for i in {1..40}; do echo "put small$i $i"; done | client batch -q - 2>/dev/null
client put huge "$(printf '%90000s' '')" >/dev/null

# Sessions. A batch that waits for its next line keeps one open.
mkfifo "$MQKV_TEST_DIR/lines"
exec_client --direct off batch - <"$MQKV_TEST_DIR/lines" >"$MQKV_TEST_DIR/answers" 2>&1 &
batch=$!
exec 7>"$MQKV_TEST_DIR/lines"
echo "put a 1" >&7
wait_until 20 grep -q OK "$MQKV_TEST_DIR/answers"
session_of() {
    client --format raw sessions | awk -F '\t' -v pid="$1" '$3 == pid { print $1 }'
}
session=$(session_of "$batch")
check_match '^[1-9][0-9]*$' "$session" "sessions lists a client by its process"
check_match "^ *$session +$(id -u) +$batch .* clientk$" "$(client sessions)" "with user and program"
check_match "\"session\":$session,.*\"program\":\"clientk\"" \
    "$(client --format json sessions)" "also as JSON"
check_status 0 "kill ends it" client kill "$session"
check_equal "" "$(session_of "$batch")" "at once"
check_match '^  killed +1$' "$(client stats sessions)" "which is counted"
echo "get a" >&7
wait_until 20 grep -q '^1$' "$MQKV_TEST_DIR/answers"
check_equal 0 $? "its client reads on in another session"
exec 7>&-
wait "$batch"
check_status 1 "a session that is not there" client kill "$session"
check_match "there is no session $session" "$errors" "is named"
check_status 2 "a name is no session" client kill me

# Started without standard descriptors, a program gives their numbers to nothing else.
exec_client --direct off watch no-key-begins-so <&- >&- 2>&- &
closed=$!
has_session() { [ -n "$(session_of "$closed")" ]; }
wait_until 20 has_session
check_equal "/dev/null /dev/null /dev/null" \
    "$(readlink "/proc/$closed"/fd/{0,1,2} | tr '\n' ' ' | sed 's/ $//')" \
    "closed standard descriptors are filled"
kill "$closed"
wait "$closed"

# The audit log
check_equal "" "$(python3 - "$audit" "$session" <<'END_OF_PYTHON'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
mine = [event for event in events if event.get("session") == int(sys.argv[2])]
if [event["event"] for event in mine] != ["opened", "ended"] or mine[1]["reason"] != "killed":
    print("session", mine)
if not mine[0]["program"].endswith("clientk") or not mine[0]["time"].endswith("Z"):
    print("program", mine)
kill = [event for event in events if event["event"] == "command" and event["command"] == "kill"]
if (kill[0]["argument"] != sys.argv[2] or kill[0]["status"] != "ok" or
        kill[1]["status"] != "not_found"):
    print("kill", kill)
END_OF_PYTHON
)" "the audit log has who came, who was ended, and the owner's commands"
mv "$audit" "$audit.1"
kill -USR1 "$server_pid"
wait_until 20 test -e "$audit"
client ping >/dev/null
check_match '"event":"opened"' "$(cat "$audit")" "SIGUSR1 opens it anew"

check_match "100ms" "$(client config get slow)" "requests are slow from 100ms on, by default"

# Keys
check_match '^90000 +[0-9]+ +huge' "$(client bigkeys --sample 0 --limit 1)" "bigkeys finds big keys"
check_match ' keys looked at$' "$(client bigkeys --sample 10)" "in a sample, which it tells"
check_match '^42 of 42 keys looked at$' "$(client bigkeys --sample 50)" "of a small store all, once"
for sample in 30 50; do
    check_equal '' "$(client --format raw bigkeys --sample "$sample" --limit 60 | sort | uniq -d)" \
        "and lists each key once (a sample of $sample)"
done
client -e put '\xff' x >/dev/null
check_match '"key_base64":"/w=="' "$(client --format json bigkeys --limit 60)" \
    "in JSON bytes that are no text are base64"
client -e del '\xff' >/dev/null
for i in {1..400}; do echo "get small7"; done >"$MQKV_TEST_DIR/gets"
touch "$MQKV_TEST_DIR/go_on"
(while [ -e "$MQKV_TEST_DIR/go_on" ]; do
    client --direct off batch -q "$MQKV_TEST_DIR/gets" >/dev/null 2>&1
done) &
load=$!
check_match '^0\.[5-9][0-9]+ +[0-9]+ +[0-9]+ +small7$|^1\.0000 .* small7$' \
    "$(client hotkeys -t 1s --limit 1)" "hotkeys finds the hot one"
rm "$MQKV_TEST_DIR/go_on"
wait "$load"
check_status 2 "not for hours" client hotkeys -t 2h
stop_server

# Slow requests, of a daemon that is made slow
if has_lab "slow requests"; then
    start_server --slow 1 --sync none --service-time fixed:3ms
    for i in {1..40}; do client put "slow$i" 1 >/dev/null; done
    check_match '^20[0-9-]+T[0-9:.]+Z +[1-9][0-9]+\.[0-9]+ .* put +1 .* slow40$' \
        "$(client slow | sed -n 2p)" "slow requests are listed, the last one first"
    check_match '"operation":"put",.*"key":"slow40"' "$(client --format json slow)" "also as JSON"
    check_match 'WARN slow: put "slow1" took [0-9.]+ ms' "$(cat "$server_log")" "and logged"
    check_equal True "$([ "$(grep -c 'WARN slow:' "$server_log")" -lt 40 ] && echo True)" \
        "not each of them"
    check_status 0 "slow --clear" client slow --clear
    client config set slow 0 >/dev/null
    client slow --clear >/dev/null
    client put a 1 >/dev/null
    check_equal 1 "$(client slow | wc -l)" "forgets them, and none is slow any more"
    stop_server
fi

check_status 4 "an audit log that cannot be opened is a failure to start" \
    "$server_program" -m "$server_queue" -f "$server_dir" --audit "$MQKV_TEST_DIR/no/audit"
check_match "cannot write the audit log .*no/audit" "$errors" "that is named"
