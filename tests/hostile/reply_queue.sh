#!/usr/bin/env bash
# reply_queue: who opens another client's reply queue in its handshake and fills it later delays
# that client by less than its timeout, and makes no operation of it vanish
. "$(dirname "$0")/lib.sh"
need_root

# QUEUE PID GO: opens the first reply queue of process PID when it comes, says so, and when the file
# GO is there keeps it full.
python_attack fill <<'END'
import os, sys, threading, time
import mqkv

name, pid, go = sys.argv[1], int(sys.argv[2]), sys.argv[3]
while True:
    try:
        queue = mqkv.Queue(mqkv.reply_queue_name(name, pid, 0))
        break
    except OSError:
        time.sleep(0.0001)
print("opened", flush=True)

def fill():
    while True:
        queue.send(b"garbage", 0, None)

while not os.path.exists(go):
    time.sleep(0.01)
for _ in range(4):
    threading.Thread(target=fill).start()
END

timeout_s=20
writes=20
pipe=$MQKV_TEST_DIR/pipe
go=$common_dir/go
answers=$MQKV_TEST_DIR/answers
mkfifo "$pipe"

answered() { # COUNT: so many operations have their answers
    [ "$(grep -c . "$answers")" -ge "$1" ]
}

# put_one NUMBER: and how long its answer takes, into longest_s.
put_one() {
    local began=$SECONDS
    echo "put key$1 $1" >&3
    [ "$1" != "$in_flight" ] || fill_behind_it
    wait_until $((2 * timeout_s)) answered $(($1 + 1)) || return
    [ $((SECONDS - began)) -le "$longest_s" ] || longest_s=$((SECONDS - began))
}

# The queue is full when the request is executed.
fill_behind_it() {
    sleep 0.2
    touch "$go"
    sleep 0.3
    kill -CONT "$server_pid"
}

# filled TEXT IN_FLIGHT: the queue is filled before the first write (IN_FLIGHT 0), or while that one
# is in flight.
filled() {
    local text=$1 in_flight=$2 i longest_s=0 unknown=0 lost=0 client_pid
    start_server_as "$daemon_uid" --mode 0622
    client put before 1 >"$MQKV_TEST_DIR/.put"
    rm -f "$go"
    : >"$MQKV_TEST_DIR/attack.log"
    hold_still "$server_pid" # as long as that the handshake lasts
    exec_as_uid "$good_uid" "$MQKV_BUILD/clientk" -m "$server_queue" \
        --timeout $((timeout_s * 1000)) batch - <"$pipe" >"$answers" 2>"$MQKV_TEST_DIR/batch.log" &
    client_pid=$!
    exec 3>"$pipe"
    echo get before >&3
    attack_as "$hostile_uid" "$python" "$attack" "$server_queue" "$client_pid" "$go" 3>&-
    check_status 0 "$text: the attacker opens the reply queue in the handshake" \
        wait_until 10 grep -q opened "$MQKV_TEST_DIR/attack.log"
    kill -CONT "$server_pid"
    wait_until 10 answered 1
    if [ "$in_flight" = 0 ]; then
        fill_behind_it
    else
        hold_still "$server_pid"
    fi
    for ((i = 1; i <= writes; i++)); do
        put_one $i
    done
    exec 3>&-
    wait "$client_pid"
    end_attacks
    check_at_most $((timeout_s / 2)) "$longest_s" \
        "$text: no write waits for its timeout, nor for half of it (s)"
    check_equal $((writes + 1)) "$(grep -c . "$answers")" "$text: each operation has its answer"
    for ((i = 1; i <= writes; i++)); do
        case $(sed -n "$((i + 1))p" "$answers") in
        OK*) [ "$(client get "key$i")" = "$i" ] || lost=$((lost + 1)) ;;
        *) unknown=$((unknown + 1)) ;;
        esac
    done
    check_equal 0 "$lost" "$text: what was acknowledged is there"
    check_at_most "$in_flight" "$unknown" \
        "$text: the outcome of the write in flight may be unknown, of no other one"
    sed 's/^/# /' "$MQKV_TEST_DIR/batch.log"
    stop_server
    rm -r "$server_dir"
}

filled "filled between two requests" 0
filled "filled while a request is in flight" 1
