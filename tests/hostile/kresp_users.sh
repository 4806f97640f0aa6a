#!/usr/bin/env bash
# kresp_users: a user who takes all connections and buffers of kresp that there are leaves some to
# others; one whose scripts take long has not the thread for all its connections in turn, nor for
# the whole of one script or transaction.
. "$(dirname "$0")/lib.sh"
need_root
. "$(dirname "$0")/../support/kresp.sh"

start_server_as "$daemon_uid" --mode 0622
kresp_socket=$common_dir/data/kresp.sock
chmod 711 "$common_dir/data"
kresp_program=$common_dir/kresp-as-$daemon_uid
printf '#!/bin/sh\nexec setpriv --reuid=%s --regid=%s --clear-groups "%s" "$@"\n' \
    "$daemon_uid" "$daemon_uid" "$MQKV_BUILD/kresp" >"$kresp_program"
chmod 755 "$kresp_program"

# users_ask PYTHON: with connect(uid), the connection of that user, and the uids good and hostile.
users_ask() {
    python3 - "$kresp_socket" "$redis_tests" "$good_uid" "$hostile_uid" <<END ||
import os, select, sys, time
sys.path.insert(0, sys.argv[2])
from replies import Peer, request
good, hostile = int(sys.argv[3]), int(sys.argv[4])
def connect(uid):
    os.seteuid(uid)
    try:
        return Peer(sys.argv[1], 60)
    finally:
        os.seteuid(0)
def check(right, text, got=""):
    print("ok" if right else "not ok", "-", text, "" if right else got)
$1
END
        not_ok "clients of several users are told what they can have"
}

start_kresp --mode 0666 --clients 16 --threads 1
users_ask '
held = [connect(hostile) for _ in range(16)]
replies = []
for peer in held:
    try:
        replies.append(peer.call("ping"))
    except OSError:
        replies.append(b"")
served = replies.count(b"+PONG\r\n")
check(served == 12, "a user has three quarters of all connections", replies)
peer = connect(good)
reply = peer.call("ping")
check(reply == b"+PONG\r\n", "another one is let in", reply)
'
check_status 0 "kresp ends" stop_kresp

start_kresp --mode 0666 --buffers 16M --threads 1
users_ask '
value = b"v" * 900000
held = []
for size, times in ((900000, 24), (300000, 16), (100000, 16), (30000, 16), (10000, 16)):
    for _ in range(times):
        held.append(connect(hostile))
        try:
            held[-1].send(request([b"mset", b"k", value[:size], b"k", value[:size]])[:-1])
        except OSError:
            pass  # closed: there is no memory for it
peer = connect(good)
for i in range(20):
    reply = peer.call("set", b"good:%d" % i, value)
    check(reply == b"+OK\r\n", "another user has room for a large value", reply)
'
check_match 'its request is larger than the memory for buffers that is left to its user' \
    "$(cat "$kresp_log")" "the log says who had none"
check_status 0 "kresp ends" stop_kresp

start_kresp --mode 0666 --threads 1
# shellcheck disable=SC2016
users_ask '
script = (b"local t = os.clock() while os.clock() - t < 0.03 do end "
          b"return redis.call(\"INCR\", KEYS[1])")
held = [connect(hostile) for _ in range(20)]
peer = connect(good)
peer.call("get", "ran")
for one in held:
    one.send(request([b"eval", script, b"1", b"ran"]) * 3)
seen, jumps, asked = 0, [], 0
while seen < 60:
    reply = peer.call("get", "ran")
    ran = 0 if reply.startswith(b"$-1") else int(reply.split(b"\r\n")[1])
    jumps.append(ran - seen)
    seen = ran
    asked += 1
check(max(jumps) <= 8, "of the scripts of 20 connections few run between two answers to others",
      sorted(jumps)[-5:])
check(asked >= 60, "who gets answers all the while", asked)

def is_answered(peer):
    return bool(select.select([peer.socket], [], [], 0)[0])

def answers_during(one, words):
    """How many answers others get while one waits for that of a command: who is there, and comes.
    They are silent until it has begun, so that its user need not rest before."""
    time.sleep(1.2)
    one.send(request(words))
    time.sleep(0.2)
    fresh, count = connect(good), 0
    while not is_answered(one):
        fresh.call("ping"), peer.call("incr", "during")
        count += not is_answered(one)
    return count

one, subscriber = connect(hostile), connect(hostile)
for i in range(6):
    subscriber.call("psubscribe", b"[" + b"\x01" * 4000 + b"]%d*" % i)
one.call("multi")
one.send(request([b"publish", b"x", b"y"]) * 200000)
queued = sum(one.reply() == b"+QUEUED\r\n" for _ in range(200000))
check(queued == 200000, "a long transaction is queued", queued)
late = b" than it may; nothing was executed" # more CPU time, or longer beside a load
endless = b"while true do end"
for name, words in (
    ("a transaction", [b"exec"]),
    ("a script", [b"eval", endless, b"0"]),
    ("a script that catches errors", [b"eval", b"pcall(function() %s end)" % endless, b"0"]),
    ("a sort", [b"eval", b"table.sort({1, 2, 3}, function() %s end)" % endless, b"0"]),
):
    answers = answers_during(one, words)
    reply = one.reply()
    check(reply.startswith(b"-BUSY ") and late in reply, f"{name} without end is ended", reply[:80])
    check(answers >= 20, "and others get answers meanwhile", answers)

# Those libraries are loaded one by one, what is left of them in the next turn of their user: while
# a script of another one waits in the middle. Each has an interpreter of its own.
library = (b"#!lua name=slow\nlocal t = os.clock() while os.clock() - t < 0.0015 do end "
           b"redis.register_function(\"slow\", function() return 1 end)")
one.send(request([b"function", b"load", b"replace", library]) * 400)
slow = b"local t = os.clock() while os.clock() - t < 0.012 do end return ARGV[1]"
replies = [peer.call("eval", slow, 0, i) for i in range(1000, 1120)]
check([reply.split(b"\r\n")[1] for reply in replies] == [b"%d" % i for i in range(1000, 1120)],
      "scripts answer while another user loads libraries", replies)
replies = [one.reply() for _ in range(400)]
check([reply.split(b"\r\n")[1] for reply in replies] == [b"slow"] * 400, "and these are loaded",
      set(replies))

# What others have written meanwhile counts: it begins anew.
peer.call("set", "shared", "10")
one.send(request([b"eval", b"local n = redis.call(\"GET\", KEYS[1]) local t = os.clock() "
                  b"while os.clock() - t < 0.1 do end return redis.call(\"SET\", KEYS[1], n + 1)",
                  b"1", b"shared"]))
written = 0
while not is_answered(one) and written < 3:
    peer.call("incr", "shared")
    written += 1
reply = one.reply()
total = peer.call("get", "shared")
check(reply == b"+OK\r\n" and total.endswith(b"\n%d\r\n" % (11 + written)),
      "a script is still one step", (reply, total, written))
'
check_status 0 "kresp ends" stop_kresp

start_kresp --clients 16 --threads 1
check_equal 16 "$(users_ask "
held = [connect($daemon_uid) for _ in range(16)]
print(sum(peer.call('ping') == b'+PONG\r\n' for peer in held))
")" "where nobody else may connect, its user has all"
check_status 0 "kresp ends" stop_kresp
stop_server
