#!/usr/bin/env bash
# clientk_no_server: without a server clientk says so at once, names the queue and what to do, exits
# 3; while one stands still, a signal ends it.
. "$(dirname "$0")/lib.sh"
export MQKV_DIRECT=off # each read is a message

for command in 'get x' 'put x y' 'scan' 'ping' 'stats' 'sync' 'top -c 1' 'bench -c 1' 'dump -'; do
    # shellcheck disable=SC2086  # the command is several words
    check_status 3 "$command exits 3" client $command
    check_match "no server at queue $server_queue; start one: serverk -m $server_queue" "$errors" \
        "$command says how to start one"
done
printf 'GET x\n' >"$MQKV_TEST_DIR/batch"
check_status 3 'batch exits 3' client batch "$MQKV_TEST_DIR/batch"
check_status 3 'load exits 3' client load "$MQKV_TEST_DIR/batch" # no dump, so it is not judged
check_status 3 'a pipe of commands exits 3' client <"$MQKV_TEST_DIR/batch"

check_status 3 'doctor exits 3' client doctor
check_equal 'There is no server.' "$(tail -n 1 <<<"$output")" 'sums up'
check_match "there is no queue $server_queue in this IPC namespace" "$output" \
    'and says what is missing'
check_match 'ulimit -q' "$output" 'and how limits are changed'
check_match 'sessions of 2 x 4352 bytes cost 8896' "$output" 'and what the limits allow'

check_status 3 '--wait waits as long as --timeout' client --wait --timeout 200 get x
client --wait --timeout 30000 put x y >"$MQKV_TEST_DIR/waited" &
waiting=$!
start_server
wait "$waiting"
check_equal '0 OK' "$? $(cat "$MQKV_TEST_DIR/waited")" '--wait waits for a server to come'

# catches_signals PID: it is clientk and has a handler for SIGTERM. Before exec the process is a
# copy of this shell, which has one, too, and loses a signal that comes while it resets its traps.
catches_signals() {
    local caught
    [ "$(cat "/proc/$1/comm")" = clientk ] || return
    caught=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$1/status")
    ((0x$caught & 0x4000))
}

hold_still "$server_pid"
for command in 'get x' 'put x z' 'batch batch' 'ping' 'bench -t 1'; do
    # shellcheck disable=SC2086  # the command is several words
    (cd "$MQKV_TEST_DIR" && exec_client --timeout 1m $command) >"$MQKV_TEST_DIR/interrupted" 2>&1 &
    interrupted=$!
    wait_until 20 catches_signals "$interrupted"
    check_equal 0 $? "$command waits for a server that stands still"
    kill -TERM "$interrupted"
    wait "$interrupted"
    check_equal 143 $? "and SIGTERM ends it"
done
printf 'GET x\nPUT x y\nSCAN\n' >"$MQKV_TEST_DIR/silence"
kill -CONT "$server_pid"
wait_until 20 client ping >/dev/null
mkfifo "$MQKV_TEST_DIR/lines"
exec_client --timeout 300 <"$MQKV_TEST_DIR/lines" >"$MQKV_TEST_DIR/silent" 2>/dev/null &
silent=$!
exec 3>"$MQKV_TEST_DIR/lines"
echo 'GET nothing' >&3
wait_until 20 grep -q 'NOT FOUND' "$MQKV_TEST_DIR/silent"
hold_still "$server_pid"
while read -r line; do echo "$line" >&3; sleep 0.5; done <"$MQKV_TEST_DIR/silence"
exec 3>&-
wait "$silent"
check_equal 3 $? 'commands that get no answer exit 3'
check_equal 3 "$(grep -c '^ERROR [a-z]*: the server does not answer: ' "$MQKV_TEST_DIR/silent")" \
    'and each says that the server does not answer'
check_status 3 'doctor of a server that stands still exits 3' client --timeout 200 doctor
check_equal 'There is a server, but it does not answer.' "$(tail -n 1 <<<"$output")" \
    'and says that it does not answer'
"$library_dir/../leftovers" "$server_queue" >"$MQKV_TEST_DIR/left"
check_equal '' "$(grep -E '\.[crs][0-9]' "$MQKV_TEST_DIR/left")" \
    'no queue or segment of a client is left behind'
kill -CONT "$server_pid"

kill_server
check_status 3 'a server killed and not started again: 3' client --timeout 300 get x
check_status 3 'doctor sees the dead server' client doctor
check_match 'nobody serves it|there is no queue' "$output" 'and says so'
