#!/usr/bin/env bash
# kresp_own: what kresp has and Redis 7.0 has not (comparisons in SET and DELEX, DIGEST, MSETEX,
# WAITAOF), limits of its own, and what clients are told where the store refuses a write.
# shellcheck disable=SC2016 # a reply has its size behind a dollar
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server
start_kresp

check_equal '+OK
+OK
$-1
$1 2
+OK
$1 3' "$(ask 'set a 1' 'set a 2 ifeq 1' 'set a 3 ifeq 1' 'get a' 'set a 3 IFNE 1' 'get a')" \
    "SET IFEQ and IFNE write if the value is, or is not, the one that is named"
check_equal '$-1
:0
+OK
$1 1' "$(ask 'set b 1 ifeq 1' 'exists b' 'set b 1 ifne x' 'get b')" \
    "an absent key is equal to nothing"
check_equal '$1 1
$1 2
$1 2
$-1
:1' "$(ask 'set b 2 ifeq 1 get' 'set b 3 get ifeq 1' 'get b' 'set c 3 ifne 1 get' 'exists c')" \
    "with GET they tell what was there, written or not"
check_match '^\+OK \+OK :(1000|9[0-9][0-9]) $' \
    "$(ask 'set b 3 ifeq 2 ex 1000' 'set b 4 keepttl ifeq 3' 'ttl b' | tr '\n' ' ')" \
    "an expiry goes with them"
error='-ERR syntax error'
check_equal "$error
$error
$error
$error
$error
\$1 3" "$(ask 'set a 1 nx ifeq 3' 'set a 1 ifeq 3 nx' 'set a 1 ifne 1 xx' 'set a 1 ifeq 3 ifne 1' \
    'set a 1 ifeq' 'get a')" "one condition is enough"
python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys, threading
sys.path.insert(0, sys.argv[2])
from replies import Peer

def count():
    peer = Peer(sys.argv[1])
    for _ in range(50):
        while True:
            value = peer.call("get", "counter").split(b"\r\n")[1]
            if peer.call("set", "counter", int(value) + 1, "ifeq", value) == b"+OK\r\n":
                break

one = Peer(sys.argv[1])
one.call("set", "counter", 0)
threads = [threading.Thread(target=count) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
reply = one.call("get", "counter")
print("ok" if reply == b"$3\r\n200\r\n" else "not ok", "-",
      "what comes between the comparison and the write is noticed", reply)
END

check_equal ":0
:0
:1
:0
:1
:1
:0
$error
$error" "$(ask 'delex a ifeq 1' 'delex a IFNE 3' 'delex a ifeq 3' 'delex a ifeq 3' \
    'delex b ifne x' 'delex c' 'delex c' 'delex c ifeq' 'delex c ifxx 1')" "DELEX compares, too"
# The digests are those that Redis' page and Dragonfly's give for these values.
check_equal '+OK
$16 b6acb9d84a38ff74
$16 9ec9f7918d7dfc40
$16 2d06800538d394c2
$-1' "$(ask 'mset text "Hello world" t test empty ""' 'digest text' 'digest t' 'digest empty' \
    'digest none')" "DIGEST is the XXH3 of a value"
check_equal '$-1
+OK
+OK
$4 test
$-1
+OK' "$(ask 'set text 1 ifdeq 9ec9f7918d7dfc40' 'set text test ifdeq B6ACB9D84A38FF74' \
    'set t 1 ifdne b6acb9d84a38ff74' 'set text 2 ifdeq 9ec9f7918d7dfc40 get' \
    'set none 1 ifdeq 9ec9f7918d7dfc40' 'set none 1 ifdne 9ec9f7918d7dfc40')" "SET compares digests"
no_digest='-ERR kresp: a digest (IFDEQ) has 16 hexadecimal digits'
check_equal "$no_digest
$no_digest
$error
:0
:1
:0" "$(ask 'set t 1 ifdeq 9ec9f7918d7dfc4' 'delex t ifdeq 9ec9f7918d7dfc4x' \
    'set t 1 ifdeq 9ec9f7918d7dfc40 nx' 'delex t ifdeq 9ec9f7918d7dfc40' \
    'delex t ifdne 9ec9f7918d7dfc40' 'delex t ifdne 9ec9f7918d7dfc40')" "and so does DELEX"
check_match '^:1 \*2 \$1 1 \$1 2 :(100|99) :(100|99) :1 :-1 $' "$(
    ask 'msetex 2 m 1 r 2 ex 100' 'mget m r' 'ttl m' 'ttl r' 'msetex 1 m 3' 'ttl m' |
        tr '\n' ' '
)" \
    "MSETEX sets an expiry of all, or none"
check_equal ':0
:1
:0
:1
:1
:0
:1
*4 $1 5 $-1 $1 8 $1 9' "$(ask 'msetex 2 r 4 o 4 nx' 'msetex 2 o 5 p 6 nx' \
    'msetex 2 o 7 none:2 7 xx' \
    'msetex 2 p 8 r 9 keepttl xx' 'msetex 1 q 1 nx' 'msetex 1 q 1 NX' 'del q' \
    'mget o none:2 p r')" \
    "NX and XX decide about all of them"
for ((i = 1; i <= 200; i++)); do
    few_pairs+=$( ((i <= 65)) && echo " x:$i $i")
    all_pairs+=" x:$i $i"
    all_names+=" x:$i"
done
too_many='-ERR kresp: MSETEX with NX or XX is one transaction, which has at most 64 keys here'
check_equal "$too_many, and what one message holds
:0
:1
:200
-ERR invalid numkeys value
-ERR invalid numkeys value
-ERR invalid numkeys value
-ERR syntax error
-ERR syntax error" "$(ask "msetex 65$few_pairs nx" 'exists x:1' "msetex 200$all_pairs px 100000" \
    "exists$all_names" 'msetex 0 a 1' 'msetex x a 1' 'msetex 2 a 1 b' 'msetex 1 a 1 nx xx' \
    'msetex 1 a 1 b 2')" "without them it takes any number of keys"
check_match '^\+OK \+QUEUED \*1 :0 $' "$(
    ask multi 'msetex 2 x:1 1 absent 2 xx ex 10' exec | tr '\n' ' ')" "a transaction decides, too"
script='return redis.call("msetex",2,KEYS[1],1,KEYS[2],2,"nx")'
check_equal ':1' "$(ask "eval '$script' 2 y z")" \
    "and so does a script"
check_equal "+OK
*2 :1 :0
:0
-ERR timeout is negative
-ERR timeout is not an integer or out of range
-ERR value is not an integer or out of range
-ERR wrong number of arguments for 'waitaof' command" "$(ask 'set a 1' 'waitaof 1 0 0' 'wait 0 0' \
    'waitaof 1 0 -1' 'waitaof 1 0 x' 'waitaof x 0 0' 'waitaof 1 0')" \
    "WAITAOF tells of one copy on disk, and of no replica"
check_equal '+OK
*0
-ERR Unknown option or number of arguments for CONFIG SET - '"'no-such'"'
+OK' "$(ask 'config set maxmemory 0' 'function list' 'config set no-such 1' 'function flush')" \
    "CONFIG SET confirms what is so; there are no functions at first"
check_equal '-ERR kresp: there are no COMMAND DOCS
*0' "$(ask 'command docs' 'command docs get')" \
    "nor texts about commands: where all are asked for redis-cli is told to use its own"
check_match "^-ERR CONFIG SET failed .*can't set immutable config" \
    "$(ask 'config set maxmemory 100mb')" "and changes nothing"

# Its limits.
for ((i = 1; i <= 128; i++)); do
    keys+=" many:$i"
    pairs+=" many:$i $i"
done
check_equal ":1
:0
-ERR kresp: MSETNX takes at most 128 keys
:128
:0" "$(ask "msetnx$pairs" "msetnx$pairs" "msetnx$pairs more 1" "exists$keys" 'exists more')" \
    "MSETNX takes 128 keys, and not one more"
check_equal '+OK
-ERR kresp: WATCH takes at most 1024 keys
+OK
+OK
+PONG' "$(
    python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer
peer = Peer(sys.argv[1])
most = ["key:%d" % i for i in range(1024)]
for words in (["watch"] + most, ["watch", "more"], ["unwatch"], ["watch", "more"], ["ping"]):
    print(peer.call(*words).decode().strip())
END
)" "WATCH takes 1,024 of a connection"
check_equal '-ERR Protocol error: invalid multibulk length' "$(
    python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer
peer = Peer(sys.argv[1])
peer.send(b"*1048577\r\n")
print(peer.rest().decode().strip())
END
)" "a request of more than 1,048,576 arguments ends the connection"

# EXEC after WATCH.
check_match 'mqkv_multi:transaction' "$(ask info)" "INFO tells what EXEC is"
python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer
one, other = Peer(sys.argv[1]), Peer(sys.argv[1])
far = "99999999999"
# Before, the write of EXEC, its reply, what GET tells then.
cases = (
    (b"5", ["setex", "k", "100", "6"], b"+OK\r\n", b"6"),
    (b"5", ["psetex", "k", "100000", "6"], b"+OK\r\n", b"6"),
    (b"5", ["getset", "k", "6"], b"$1\r\n5\r\n", b"6"),
    (b"5", ["getdel", "k"], b"$1\r\n5\r\n", None),
    (None, ["getdel", "k"], b"$-1\r\n", None),
    (b"5", ["append", "k", "6"], b":2\r\n", b"56"),
    (None, ["append", "k", "6"], b":1\r\n", b"6"),
    (b"5", ["incr", "k"], b":6\r\n", b"6"),
    (None, ["decrby", "k", "3"], b":-3\r\n", b"-3"),
    (b"x", ["incr", "k"], b"-ERR value is not an integer or out of range\r\n", b"x"),
    (b"9223372036854775807", ["incr", "k"], b"-ERR increment or decrement would overflow\r\n",
     b"9223372036854775807"),
    (b"5", ["expire", "k", "100"], b":1\r\n", b"5"),
    (b"5", ["expire", "k", "100", "xx"], b":0\r\n", b"5"),
    (b"5", ["expireat", "k", "1"], b":1\r\n", None),
    (None, ["pexpireat", "k", far], b":0\r\n", None),
)
wrong = []
for before, write, expected, after in cases:
    for meddle in (None, ["set", "k", "meddled"], ["del", "k"]):
        one.call("del", "k")
        if before is not None:
            one.call("set", "k", before)
        one.call("watch", "k")
        one.call("multi")
        one.call(*write)
        one.call("ping")
        if meddle:
            other.call(*meddle)
        reply = one.call("exec")
        changed = meddle and not (before is None and meddle[0] == "del")
        value = one.call("get", "k")
        left = (b"meddled" if meddle[0] == "set" else None) if changed else after
        stored = b"$-1\r\n" if left is None else b"$%d\r\n%s\r\n" % (len(left), left)
        wanted = b"*-1\r\n" if changed else b"*2\r\n" + expected + b"+PONG\r\n"
        if (reply, value) != (wanted, stored):
            wrong.append((before, write, meddle, reply, value))
one.call("del", "k")
print("not ok" if wrong else "ok", "- a watched key may be written by many commands", wrong)

# Between the comparison and the write others must not come.
def count(peer, times):
    for _ in range(times):
        while True:
            peer.call("watch", "n")
            peer.call("get", "n")
            peer.call("multi")
            peer.call("incr", "n")
            peer.call("append", "n", "")
            if peer.call("exec") != b"*-1\r\n":
                break
import threading
threads = [threading.Thread(target=count, args=(Peer(sys.argv[1]), 50)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
reply = one.call("get", "n")
print("ok" if reply == b"$3\r\n200\r\n" else "not ok", "- and each is counted once", reply)
END
check_status 0 "kresp ends" stop_kresp
check_status 2 "--loose-watch is refused" "$kresp_program" --loose-watch
check_match 'loose-watch is gone: EXEC is one transaction' "$errors" "and why is told"
start_kresp --threads 1
check_equal '+OK
+OK
+QUEUED
+QUEUED
*2 +OK :1' "$(ask 'watch a b' multi 'set c 5' 'incr d' exec)" \
    "and EXEC writes anything if they are as they were"
python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer
one, other = Peer(sys.argv[1]), Peer(sys.argv[1])
one.call("watch", "a", "b")
other.call("incr", "a")
one.call("multi")
one.call("set", "c", "lost")
reply = one.call("exec")
print("ok" if reply == b"*-1\r\n" else "not ok", "-", "if they are not, it writes nothing", reply)
reply = one.call("get", "c")
print("ok" if reply == b"$1\r\n5\r\n" else "not ok", "-", "of it all", reply)
END
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server

# A store that refuses writes, and reads on.
server_dir=$MQKV_TEST_DIR/bounded
start_server -d 1 --max-bytes 64k --evict none
start_kresp
value=$(printf 'v%.0s' {1..40000})
full='-OOM kresp: the store has reached its limit (serverk --max-bytes)'
check_equal "+OK
$full
$full
$full
:40000
:0
:1
+OK" "$(ask "set a $value" "set b $value" "mset b $value" "append a $value" 'strlen a' 'exists b' \
    'del a' "set b $value")" "at --max-bytes writes are refused in words, the rest goes on"
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server

server_dir=$MQKV_TEST_DIR/quota
printf '[quota few:]\nmax-keys = 1\n' >"$MQKV_TEST_DIR/quota.conf"
start_server -c "$MQKV_TEST_DIR/quota.conf"
start_kresp
check_equal '+OK
-OOM kresp: a quota of serverk is used up
+OK
$1 2
+OK' "$(ask 'set few:1 1' 'set few:2 1' 'set few:1 2' 'get few:1' 'set other 1')" \
    "the quota of a prefix holds for Redis clients, too"
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server

# A disk without room, here a bound on the size of files.
server_dir=$MQKV_TEST_DIR/small
size_limit=$(ulimit -S -f)
ulimit -S -f 400
start_server -d 1
ulimit -S -f "$size_limit"
start_kresp
value=$(printf 'v%.0s' {1..100000})
for key in 1 2 3 4 5 6; do
    reply=$(ask "set $key $value")
done
check_equal '-OOM kresp: the store has no space left' "$reply" "a full disk is told of"
check_equal ':100000' "$(ask 'strlen 1')" "and what is there is read"
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
