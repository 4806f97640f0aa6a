#!/usr/bin/env bash
# kresp_stop: SIGTERM answers what was received; without the daemon clients are told so, and served
# again when it is back; clients that leave in the middle of something leave nothing behind.
# shellcheck disable=SC2016 # a reply has its size behind a dollar
. "$(dirname "$0")/lib.sh"
has_lab 'kresp_stop' || exit 0
. "$(dirname "$0")/../support/kresp.sh"

start_server
start_kresp
python3 - "$kresp_socket" "$redis_tests" "$kresp_pid" <<'END' || failed_checks=1
import os, signal, sys
sys.path.insert(0, sys.argv[2])
from replies import Peer, request
peers = [Peer(sys.argv[1]) for _ in range(10)]
idle, partial = Peer(sys.argv[1]), Peer(sys.argv[1])
partial.send(b"*2\r\n$3\r\nGET\r\n$100\r\nabc")
os.kill(int(sys.argv[3]), signal.SIGSTOP)
for peer in peers:
    peer.send(request([b"incr", b"n"]) * 200)
os.kill(int(sys.argv[3]), signal.SIGTERM)
os.kill(int(sys.argv[3]), signal.SIGCONT)
replies = b"".join(peer.rest() for peer in peers)
numbers = sorted(int(line[1:]) for line in replies.split(b"\r\n")[:-1])
print("ok" if numbers == list(range(1, 2001)) else "not ok", "- SIGTERM answers what was received")
closed = idle.rest() == b"" and partial.rest() == b""
print("ok" if closed else "not ok", "- and closes all connections")
END
wait_until "$stop_timeout_s" kresp_is_gone
status=0
wait "$kresp_pid" || status=$?
check_equal 0 "$status" "kresp has ended as it should"
check_equal 2000 "$(client get n)" "what was answered is in the store"

# A store that takes its time: two seconds for all of them.
stop_server
start_server -w 1 --sync none --service-time fixed:10ms
start_kresp --pipeline 20
python3 - "$kresp_socket" "$redis_tests" "$kresp_pid" <<'END' || failed_checks=1
import os, signal, sys, time
sys.path.insert(0, sys.argv[2])
from replies import Peer, request
peer = Peer(sys.argv[1])
peer.send(request([b"incr", b"slow"]) * 200)
time.sleep(0.1)
os.kill(int(sys.argv[3]), signal.SIGTERM)
numbers = [int(line[1:]) for line in peer.rest().split(b"\r\n")[:-1]]
right = numbers == list(range(1, 201))
print("ok" if right else "not ok", "- a slow store answers everything, too:", numbers[-1:])
END
wait_until "$stop_timeout_s" kresp_is_gone
wait "$kresp_pid"

# The last round takes longer than what clients are given to read its replies.
stop_server
start_server -w 1 --sync none --service-time fixed:40ms
start_kresp --pipeline 30
python3 - "$kresp_socket" "$redis_tests" "$kresp_pid" <<'END' || failed_checks=1
import os, signal, sys, time
sys.path.insert(0, sys.argv[2])
from replies import Peer, request
peer = Peer(sys.argv[1])
large = b"v" * 250000
peer.call("set", "large", large)
peer.send(request([b"incr", b"last"]) * 55 + request([b"get", b"large"]) * 4)
time.sleep(0.1)
os.kill(int(sys.argv[3]), signal.SIGTERM)
numbers = [peer.reply() for _ in range(55)]
time.sleep(0.3)
whole = all(peer.reply() == b"$250000\r\n" + large + b"\r\n" for _ in range(4))
print("ok" if whole and numbers[-1] == b":55\r\n" else "not ok",
      "- replies are there to be read after a long round")
END
wait_until "$stop_timeout_s" kresp_is_gone
wait "$kresp_pid"
stop_server

start_server
start_kresp --timeout 300ms
check_equal "+OK" "$(ask 'set a before')" "a value is stored"
kill_server
check_match '^-(LOADING|ERR kresp: outcome unknown)' "$(ask 'set a during')" \
    "without the daemon a write is refused"
check_match '^-(LOADING|ERR kresp: outcome unknown)' "$(ask 'get a')" "and a read"
check_equal "+PONG" "$(ask ping)" "but clients are served"
check_match 'loading:1' "$(ask info)" "and INFO tells"
start_server
check_equal '$6 before' "$(wait_until 20 bash -c \
    "python3 '$redis_tests/ask' '$kresp_socket' 'get a' | grep '^\\$'")" \
    "when the daemon is back, all is as before"
check_status 0 "kresp ends" stop_kresp

start_kresp
server_stop_log=$server_log
(
    sleep 1
    "$server_program" -m "$server_queue" -f "$server_dir" </dev/null >>"$server_stop_log" 2>&1 &
    echo $! >"$MQKV_TEST_DIR/second.pid"
    wait
) &
kill_server
check_equal '$6 before' "$(ask 'get a')" "a restart of the daemon is a pause for a read"
server_pid=$(cat "$MQKV_TEST_DIR/second.pid")
unset "killed_queues[$server_queue]"
python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer, request
for round in range(300):
    peer = Peer(sys.argv[1])
    peer.send(request([b"set", b"x", b"y"]) * (round % 50))
    peer.send(b"*3\r\n$3\r\nset\r\n$1\r\nx\r\n$10"[: round % 30])
    peer.close()
END
connections_are_closed() {
    [ "$(ask info | grep -oE 'connected_clients:[0-9]+')" = connected_clients:1 ]
}
check_status 0 "clients that leave are forgotten" wait_until 20 connections_are_closed
check_equal '$1 y' "$(ask 'get x')" "what they sent before is executed"
check_status 0 "kresp ends" stop_kresp
kill "$server_pid"
wait
