#!/usr/bin/env bash
# kresp_limits: clients, requests, pipelines and buffers have limits, which hurt nobody but who
# reaches them.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server
start_kresp --clients 5
check_equal 'ok
-ERR max number of clients reached
ok' "$(python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys, time
sys.path.insert(0, sys.argv[2])
from replies import Peer
peers = [Peer(sys.argv[1]) for _ in range(5)]
print("ok" if all(peer.call("ping") == b"+PONG\r\n" for peer in peers) else "not ok")
print(Peer(sys.argv[1]).rest().decode().strip())
peers.pop().close()
for _ in range(200):
    try:
        if Peer(sys.argv[1]).call("ping") == b"+PONG\r\n":
            break
    except OSError:
        pass  # refused before it was asked
    time.sleep(0.05)
print("ok" if all(peer.call("ping") == b"+PONG\r\n" for peer in peers) else "not ok")
END
)" "--clients limits the connections, those that are there go on"
check_status 0 "kresp ends" stop_kresp

start_kresp
python3 "$redis_tests/slow_reader.py" "$kresp_socket" "$kresp_pid" || failed_checks=1
python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer, request
peer = Peer(sys.argv[1], 60)
value = b"v" * 1000
peer.call("set", "v", value)
one = b"$1000\r\n" + value + b"\r\n"
for words, count, reply in (
    ([b"get", b"v"], 40000, one),
    ([b"mget"] + [b"v"] * 200, 300, b"*200\r\n" + one * 200),
):
    answered = 0
    try:
        peer.send(request(words) * count)
        while answered < count and peer.reply() == reply:
            answered += 1
    except OSError as error:
        print("#", error)
    print("ok" if answered == count else "not ok", "-", words[0].decode(),
          "a client that sends all before it reads is answered", answered)
END
check_status 0 "kresp ends" stop_kresp

start_kresp --request 200k --pipeline 3 --threads 2
value=$(printf 'v%.0s' {1..60000})
check_equal '-ERR string exceeds maximum allowed size (proto-max-bulk-len)
+OK
+PONG' "$(ask "mset a $value b $value c $value d $value" "mset a $value b $value" ping)" \
    "--request limits a request, and the connection lives on"
check_equal '+OK
+QUEUED
+QUEUED
+QUEUED
-ERR kresp: the transaction is too large
+QUEUED
+QUEUED
-EXECABORT Transaction discarded because of previous errors.
+PONG' \
    "$(ask multi "set a $value" "set b $value" "set c $value" "set d $value" "set e $value" \
        "set f x" exec ping)" \
    "and a transaction, of which nothing is kept then"
for ((i = 1; i <= 100; i++)); do
    commands+=("incr n")
    numbers+=":$i"$'\n'
done
check_equal "$numbers" "$(ask "${commands[@]}")"$'\n' "--pipeline changes no reply"
check_status 0 "kresp ends" stop_kresp

start_kresp --buffers 1M
check_match '^-ERR kresp: no memory for the request is left' \
    "$(python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer, request
peers = [Peer(sys.argv[1]) for _ in range(3)]
replies = []
for peer in peers:
    try:
        pairs = [b"k%d" % (i // 2) if i % 2 == 0 else b"v" * 50000 for i in range(40)]
        peer.send(request([b"mset"] + pairs)[:-1])
    except OSError:
        pass
    peer.socket.settimeout(3)
    try:
        replies.append(peer.reply())
    except OSError as error:
        pass
print(b"".join(replies).decode())
END
)" "--buffers limits what all clients have sent together"
check_equal "+PONG" "$(ask ping)" "and others are served"
check_status 0 "kresp ends" stop_kresp

start_kresp --buffers 4M
check_equal 10 "$(python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer
peers = [Peer(sys.argv[1]) for _ in range(10)]
print(sum(peer.call("set", "large", b"v" * 900000) == b"+OK\r\n" for peer in peers))
END
)" "what was answered takes no room any more"
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
