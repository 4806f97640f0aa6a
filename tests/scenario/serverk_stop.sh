#!/usr/bin/env bash
# serverk_stop: SIGTERM finishes what was received and leaves a checkpoint; --daemon and --pidfile;
# a restart is a pause for clients, also after kill -9; --idle-exit
. "$(dirname "$0")/lib.sh"

file_facts() {
    client --format json stats files | tr ',' '\n' | grep -c "$1"
}

# Clean stop
start_server -d 2 --sync always
check_status 0 "a value is stored" client put name Ada
check_equal 2 "$(file_facts '"from_checkpoint": *false')" "a new store has no checkpoint"
kill -HUP "$server_pid"
check_status 0 "SIGHUP changes nothing" client ping
stop_server
check_equal 0 $? "SIGTERM: exit status 0"
check_equal "" "$("$library_dir/../leftovers" "$server_queue")" "no queue is left"
start_server
check_equal 2 "$(file_facts '"from_checkpoint": *true')" "the index is loaded from the checkpoint"
check_equal Ada "$(client get name)" "and the value is there"

# Stop under load: what was in the queues is answered, so no client reports a failure.
exec_client --timeout 30000 bench -n 4 -t 4 --mix put=50,get=50 >"$MQKV_TEST_DIR/bench.out" 2>&1 &
bench=$!
has_put() { client stats 2>/dev/null | grep -qE '^ +put +[1-9]'; }
wait_until 60 has_put
kill -INT "$server_pid"
kill -INT "$server_pid" # as timeout(1) does
wait "$server_pid"
check_equal 0 $? "SIGINT, twice, under load: exit status 0"
check_match "serverk stopped" "$(cat "$server_log")" "the log says that it stopped"
start_server
bench_status=0
wait "$bench" || bench_status=$?
check_equal 0 "$bench_status" "with the next daemon the load ends, and no request has failed"
[ "$bench_status" = 0 ] || cat "$MQKV_TEST_DIR/bench.out"

# kill -9 and restart while a client waits, in the middle of its session
mkfifo "$MQKV_TEST_DIR/commands"
client --timeout 30000 <"$MQKV_TEST_DIR/commands" >"$MQKV_TEST_DIR/waiting.out" 2>&1 &
waiting=$!
exec {commands}>"$MQKV_TEST_DIR/commands"
echo PUT before 1 >&"$commands"
answered() {
    [ "$(grep -c OK "$MQKV_TEST_DIR/waiting.out")" = "$1" ]
}
wait_until 60 answered 1
kill_server
echo PUT waited yes >&"$commands"
sleep 0.5
start_server {commands}>&- # it must not hold the pipe open
wait_until 60 answered 2
exec {commands}>&-
wait "$waiting"
check_equal "OK OK" "$(paste -sd ' ' "$MQKV_TEST_DIR/waiting.out")" \
    "a client that waits is served by the next daemon"
check_equal yes "$(client get waited)" "and its write is there"
check_equal 1 "$(grep -cE "removed [0-9]+ queues? of $server_queue, left" "$server_log")" \
    "one line of the log tells of the queues that the killed daemon left"
stop_server

# In the background
pidfile=$MQKV_TEST_DIR/serverk.pid
check_status 0 "--daemon returns when it is ready" timeout 20 "$server_program" -m "$server_queue" \
    -f "$server_dir" --daemon --pidfile "$pidfile"
server_pid=$(cat "$pidfile")
check_status 0 "and serves at once" client ping
check_equal "$server_pid" "$(ps -o sid= -p "$server_pid" | tr -d ' ')" "in a session of its own"
check_status 4 "--daemon hands on a failure" timeout 20 "$server_program" -m "$server_queue" \
    -f "$MQKV_TEST_DIR/nowhere" --daemon --pidfile "$MQKV_TEST_DIR/other.pid"
check_match "serverk: .*$MQKV_TEST_DIR/nowhere|serverk: .*$server_queue" "$errors" "with its error"
check_equal no "$([ -e "$MQKV_TEST_DIR/other.pid" ] && echo yes || echo no)" \
    "and leaves no pid file"
mkdir "$MQKV_TEST_DIR/second"
check_status 4 "the pid file of a daemon that lives is refused" timeout 20 "$server_program" \
    -m "$server_queue.second" -f "$MQKV_TEST_DIR/second" --pidfile "$pidfile"
check_match "pid file $pidfile .*process $server_pid," "$errors" "with its number"
check_equal "$server_pid" "$(cat "$pidfile")" "and stays as it is"
kill "$server_pid"
wait_until 60 server_is_gone
check_equal no "$([ -e "$pidfile" ] && echo yes || echo no)" "the pid file goes with the daemon"
server_pid=
mkfifo "$MQKV_TEST_DIR/pipe"
check_status 4 "a pid file that is a FIFO is refused" timeout -k 1 20 "$server_program" -m \
    "$server_queue" \
    -f "$server_dir" --pidfile "$MQKV_TEST_DIR/pipe"
check_match "pid file $MQKV_TEST_DIR/pipe .*not a regular file" "$errors" "with its name"
check_equal yes "$([ -p "$MQKV_TEST_DIR/pipe" ] && echo yes || echo no)" "and not removed"
echo 1 >"$pidfile"
start_server --pidfile "$pidfile"
check_equal "$server_pid" "$(cat "$pidfile")" "one that a dead daemon left is written anew"
kill_server
start_server --pidfile "$pidfile"
check_equal "$server_pid" "$(cat "$pidfile")" "also after kill -9"
mv "$pidfile" "$pidfile.moved"
echo other >"$pidfile"
stop_server
check_equal other "$(cat "$pidfile")" "a file that has its name by now is left alone"

# Nobody is connected
stop_server
start_server --idle-exit 400ms
mkfifo "$MQKV_TEST_DIR/idle"
client <"$MQKV_TEST_DIR/idle" >/dev/null 2>&1 &
idle=$!
exec {commands}>"$MQKV_TEST_DIR/idle"
echo PING >&"$commands"
sleep 1
check_status 0 "with --idle-exit a daemon serves on while a client is connected that asks nothing" \
    kill -0 "$server_pid"
exec {commands}>&-
wait "$idle"
wait_until 30 server_is_gone
wait "$server_pid"
check_equal 0 $? "and stops when nobody is, with exit status 0"
check_match "nobody was connected for --idle-exit 400ms: stopping" "$(cat "$server_log")" \
    "which the log tells"
check_equal "" "$("$library_dir/../leftovers" "$server_queue")" "and leaves no queue"

# Who comes at the moment at which it ends is served, or gets no answer, and nothing was done
unknown=0
for ((round = 0; round < 5; round++)); do
    start_server --idle-exit 1s >/dev/null
    kill -STOP "$server_pid"
    client --timeout 2s put "comer$round" here >"$MQKV_TEST_DIR/comer" 2>&1 &
    comer=$!
    sleep 1.2 # its HELLO waits, and the time is over
    kill -CONT "$server_pid"
    wait "$comer" || grep -q "no server at queue" "$MQKV_TEST_DIR/comer" || {
        unknown=$((unknown + 1))
        sed 's/^/    # /' "$MQKV_TEST_DIR/comer"
    }
    wait_until 30 server_is_gone
    wait "$server_pid"
done
check_equal 0 $unknown "who comes while a daemon ends for want of users knows that nothing was done"
