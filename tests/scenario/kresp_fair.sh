#!/usr/bin/env bash
# kresp_fair: what one client asks for does not keep others waiting: patterns that take long,
# pipelines of large values.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server --ordered
start_kresp --threads 1
python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
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
END
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
