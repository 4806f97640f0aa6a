#!/usr/bin/env bash
# serverk_removed_names: a daemon whose queues are removed, as by RemoveIPC of logind at its user's
# last logout, makes them anew: who is connected goes on, others find it, and the next daemon, too
. "$(dirname "$0")/lib.sh"

# remove_queues PATTERN: what logind does: the names go, whoever has the queues open.
remove_queues() {
    python3 - "$server_queue" "$1" <<'P'
import ctypes, re, sys
libc = ctypes.CDLL(None, use_errno=True)
base, pattern = sys.argv[1:]
names = [base, base + ".lock", base + ".read"]
names += [f"{base}.{kind}{j}" for kind in "lb" for j in range(64)]
names += [f"{base}.g{j}" for j in range(4096)]
gone = [n for n in names if re.fullmatch(re.escape(base) + pattern, n)
        and libc.mq_unlink(n.encode()) == 0]
sys.exit(0 if gone else "no queue had such a name")
P
}

are_there_again() { # TIMES
    [ "$(grep -c 'the message queues are there again' "$server_log")" = "$1" ]
}

stays_is() { # VALUE
    [ "$(client --timeout 30000 get stays)" = "$1" ]
}

rounds=0
# round TEXT OPTION...: a daemon with the options loses all of its queues, twice.
round() {
    local text=$1 time
    shift
    server_log=$MQKV_TEST_DIR/log.$((rounds += 1))
    start_server "$@"
    client put name Ada >/dev/null
    # One that stays: a line each time it is told to.
    mkfifo "$MQKV_TEST_DIR/lines"
    client batch - <"$MQKV_TEST_DIR/lines" >"$MQKV_TEST_DIR/answers" 2>&1 &
    local batch=$!
    exec 7>"$MQKV_TEST_DIR/lines"
    echo 'PUT stays 0' >&7
    wait_until 30 grep -q OK "$MQKV_TEST_DIR/answers"
    for time in 1 2; do
        hold_still "$server_pid" # so that it sees one loss, however long that takes
        check_status 0 "$text: its queues are removed" remove_queues '.*'
        kill -CONT "$server_pid"
        check_status 0 'and made anew' wait_until 60 are_there_again "$time"
        check_status 0 'who comes finds it' client --timeout 30000 put "new$time" yes
        echo "PUT stays $time" >&7
        check_status 0 'who was there goes on' wait_until 30 stays_is "$time"
    done
    exec 7>&-
    wait $batch
    check_status 0 'and has lost no answer' test "$(grep -c '^OK$' "$MQKV_TEST_DIR/answers")" = 3
    check_equal '2' "$(grep -c 'were removed: they are made anew' "$server_log")" \
        'each loss is logged once'
    check_match 'in use by|is served by' \
        "$("$server_program" -f "$server_dir" -m "$server_queue" 2>&1)" 'its claim is there, too'
    kill -0 "$server_pid" || not_ok 'it lives'
    stop_server
    rm -f "$MQKV_TEST_DIR/lines" "$MQKV_TEST_DIR/answers"
    check_status 1 'and removes them when it stops' remove_queues '.*'
}

round 'a daemon' -d 2
round 'with a lane for others' -d 2 --mode 0622 --read-group "$(id -g)"
for lanes in shared worker; do
    round "--lanes $lanes" -d 2 -w 3 --lanes $lanes
done
round '-w 20 --lanes worker' -d 2 -w 20 --lanes worker
if has_lab '--dispatch'; then
    for model in event thread process; do
        round "--dispatch $model" -d 2 --dispatch $model
    done
fi

# Who is at work meanwhile notices a pause
server_log=$MQKV_TEST_DIR/log.at_work
start_server -d 2
exec_client --timeout 60000 bench -n 4 --direct off --mix put=50,get=50 --verify -t 6 \
    >"$MQKV_TEST_DIR/bench" 2>&1 &
bench_pid=$!
for time in 1 2 3; do
    sleep 1
    hold_still "$server_pid"
    remove_queues '.*'
    kill -CONT "$server_pid"
    wait_until 60 are_there_again "$time"
done
wait "$bench_pid"
check_equal 0 $? 'four threads are at work while the queues are removed three times'
check_match ', 0 errors, 0 wrong values' "$(cat "$MQKV_TEST_DIR/bench")" 'and none of it is lost'
stop_server

# Only some; and one whose name somebody has taken meanwhile
start_server -d 2
large=$(head -c 3000 /dev/zero | tr '\0' x)
for some in '\.lock' '\.b0' '\.l[1-3]' ''; do
    before=$(grep -c 'the message queues are there again' "$server_log")
    check_status 0 "NAME$some is removed" remove_queues "$some"
    check_status 0 'and made anew' wait_until 60 are_there_again $((before + 1))
    check_status 0 'it serves' client --timeout 30000 put "some$some" "$large"
done
stop_server
