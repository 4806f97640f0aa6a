#!/usr/bin/env bash
# kresp_fair: what one client asks for does not keep others waiting: patterns that take long,
# transactions without end, what needs an answer of a server that does not answer.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server --ordered
start_kresp --threads 1
python3 - "$kresp_socket" "$redis_tests" "$server_pid" <<'END'
import os, select, signal, sys
sys.path.insert(0, sys.argv[2])
from replies import Peer, request

def check(right, text, got=""):
    print("ok" if right else "not ok", "-", text, "" if right else got)

one, other = Peer(sys.argv[1], 300), Peer(sys.argv[1], 20)
for i in range(4):
    one.call("set", b"%d" % i + b"a" * 60000, "x")
gives_up = b"-ERR kresp: the pattern takes too many steps"
for name, pattern in (("a large set", b"*[" + b"b" * 300000),
                      ("a long stretch behind a star", b"*" + b"a" * 30000 + b"b"),
                      ("in a range of the order", b"0*" + b"a" * 30000 + b"b")):
    one.send(request([b"scan", b"0", b"match", pattern, b"count", b"10"]))
    check(other.call("ping") == b"+PONG\r\n", f"{name}: nobody waits for it")
    reply = one.reply()
    check(reply.startswith(gives_up), f"{name}: SCAN gives up", reply[:80])
    reply = one.call("keys", pattern)
    check(reply.startswith(gives_up), f"{name}: so does KEYS", reply[:80])
reply = one.call("config", "get", b"[" + b"b" * 300000)
check(reply.startswith(b"-ERR kresp: these patterns are too long"), "and CONFIG GET", reply[:80])
for pattern in (b"*a", b"?a*a", b"[0-9]*[a-z]", b"*" + b"a" * 10 + b"*"):
    reply = one.call("scan", 0, "match", pattern, "count", 100)
    check(reply.count(b"$60001\r\n") == 4, "ordinary patterns match", (pattern, reply[:80]))

# Who needs the server, while it does not answer, waits alone.
def is_answered(peer):
    return bool(select.select([peer.socket], [], [], 0)[0])

for command in (["config", "set", "notify-keyspace-events", "KEA"], ["subscribe", "channel"]):
    waiting, gone = Peer(sys.argv[1], 300), Peer(sys.argv[1], 300)
    other.call("ping"), waiting.call("ping"), gone.call("ping")
    os.kill(int(sys.argv[3]), signal.SIGSTOP)
    try:
        gone.send(request([word.encode() for word in command]))
        waiting.send(request([word.encode() for word in command]))
        replies = [other.call("ping") for _ in range(3)]
        alone = not is_answered(waiting)
        gone.close()
        replies.append(other.call("ping"))
    finally:
        os.kill(int(sys.argv[3]), signal.SIGCONT)
    check(alone and replies == [b"+PONG\r\n"] * 4, f"{command[0]} keeps nobody waiting",
          (alone, replies))
    reply = waiting.reply()
    check(reply[:1] in b"+*>", f"{command[0]} is answered in the end", reply)
    waiting.close()

# A transaction has an end: that of scripts.
subscriber = Peer(sys.argv[1], 300)
for i in range(6):
    subscriber.call("psubscribe", b"[" + b"\x01" * 4000 + b"]%d*" % i)
count = 200000
one.call("multi")
one.send(request([b"publish", b"x", b"y"]) * count)
queued = sum(one.reply() == b"+QUEUED\r\n" for _ in range(count))
check(queued == count, "a long transaction is queued", queued)
reply = one.call("exec")
is_ended = b" than it may; nothing" in reply # more CPU time, or longer beside a load
check(reply.startswith(b"-BUSY kresp: the transaction takes ") and is_ended,
      "and is ended", reply[:80])
reply = one.call("ping")
check(reply == b"+PONG\r\n", "its client goes on", reply)
subscriber.close()
END
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
