#!/usr/bin/env bash
# kresp_transactions: EXEC is one transaction: isolated, and all or nothing, for clients of kresp
# and for everybody else, over kill -9 of the daemon; MSET, RENAME and others of several keys, too.
# shellcheck disable=SC2016 # a reply has its size behind a dollar
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server -d 4
start_kresp --threads 2

# What a command sees, and what is left of one that fails
check_equal '+OK
+OK
+QUEUED
+QUEUED
+QUEUED
+QUEUED
+QUEUED
+QUEUED
*6 +OK $1 7 -ERR value is not an integer or out of range :8 :1 $-1
$1 8' "$(ask 'set text x' multi 'set n 7' 'get n' 'incr text' 'incr n' 'del text' 'get text' \
    exec 'get n')" "each command sees what those before it did; one that fails is alone"
check_equal '+OK
-ERR unknown command '"'nothing'"', with args beginning with:
-EXECABORT Transaction discarded because of previous errors.
$1 8' "$(ask multi nothing exec 'get n')" "a command that is none aborts all"
check_match "^\+OK -ERR kresp: 'keys' cannot be part of a transaction.* -EXECABORT " \
    "$(ask multi 'keys *' exec | tr '\n' ' ')" "one about the whole store, too"
check_equal '+OK
+QUEUED
+QUEUED
+QUEUED
+QUEUED
*4 +OK :1 :-1 $1 3
:-1' "$(ask multi 'set e 3 ex 100' 'persist e' 'ttl e' 'getex e' exec 'ttl e')" \
    "expiry is as the last command left it"
check_match '^\+OK \+OK .*\*2 :2 :2 :(100|99) $' \
    "$(ask 'set kept 1 ex 100' multi 'incr kept' 'append kept ""' exec 'ttl kept' |
        sed 's/^:1$/:2/' | tr '\n' ' ' | sed 's/:2 :1 /:2 :2 /')" "and kept where Redis keeps it"
check_equal '+OK
+OK
+QUEUED
+QUEUED
*2 :1 $1 a
$-1' "$(ask 'mset from a to b' multi 'renamenx from else' 'get else' exec 'get from')" \
    "commands of several steps work"
many=$(printf ' m%d v' {1..129})
check_match '^\+OK.*-ERR kresp: a transaction has at most 128 keys.*nothing was executed $' \
    "$(ask multi "mset$many" exec | tr '\n' ' ')" "there is a limit of keys"
check_equal ':0' "$(ask 'exists m1')" "beyond which nothing is done"
check_equal '+OK
:129' "$(ask "mset$many" "exists$(printf ' m%d' {1..129})")" "MSET alone takes more, in pieces"

# Valkey's conditions
check_equal '+OK
+OK
+QUEUED
*1 :2
+OK
+QUEUED
*-1
+OK
+QUEUED
*1 $1 2
+OK
+QUEUED
*-1
$1 2' "$(ask 'set ver 1' multi 'incr ver' 'exec ifeq ver 1' multi 'incr ver' 'exec IFEQ ver 1' \
    multi 'get ver' 'exec ifne ver 1 nx absent xx ver ifne absent 1' multi 'set ver x' \
    'exec xx ver nx ver' 'get ver')" "EXEC does nothing if a condition does not hold"
check_equal '+OK
+QUEUED
-EXECABORT Transaction discarded because of: invalid check condition syntax
+OK
+QUEUED
-EXECABORT Transaction discarded because of: invalid check condition syntax
-ERR EXEC without MULTI
$1 2' "$(ask multi 'incr ver' 'exec ifeq ver' multi 'incr ver' 'exec ver' 'exec xx ver' \
    'get ver')" "one that is none discards the transaction"
many=$(printf ' nx m%d' {1..129})
check_match '^\+OK \+QUEUED -ERR kresp: a transaction has at most 128 keys' \
    "$(ask multi 'incr ver' "exec$many" | tr '\n' ' ')" "conditions count as keys"

# Conflicts
check_equal '+OK
+OK
+OK
+QUEUED
*-1
$-1' "$(ask 'watch a1 a2 a3' 'set a2 x' multi 'set other 1' exec 'get other')" \
    "EXEC is null if any watched key was written"
check_equal '+OK
+OK
+OK
+OK
+QUEUED
*1 +OK' "$(ask 'watch a1 a2 a3' 'set a2 x' unwatch multi 'set other 1' exec)" "but for UNWATCH"

cat >"$MQKV_TEST_DIR/bank.py" <<'END'
import random, subprocess, sys, threading
sys.path.insert(0, sys.argv[2])
from replies import Peer
path, client = sys.argv[1], sys.argv[3:]
accounts = ["account:%d" % i for i in range(8)]
TOTAL = 8 * 1000
ended = threading.Event()
wrong, done = [], []

def numbers(reply):
    return [int(part) for part in reply.split(b"\r\n")[2::2]]

def transfer(seed, watches):
    peer, draw = Peer(path), random.Random(seed)
    while len(done) < 480:
        one, other = draw.sample(accounts, 2)
        amount = draw.randrange(1, 20)
        if watches:
            peer.call("watch", one, other)
            have = numbers(peer.call("mget", one, other))
        peer.call("multi")
        if watches:
            peer.call("set", one, have[0] - amount)
            peer.call("set", other, have[1] + amount)
        else:
            peer.call("decrby", one, amount)
            peer.call("incrby", other, amount)
        reply = peer.call("exec")
        if reply.startswith(b"*2"):
            done.append(watches)
        elif not watches or reply != b"*-1\r\n":
            wrong.append(reply)
            break

def check(values):
    if len(values) != len(accounts) or sum(values) != TOTAL:
        wrong.append(values)

def read_mget():
    peer = Peer(path)
    while not ended.is_set():
        check(numbers(peer.call("mget", *accounts)))

def read_exec():
    peer = Peer(path)
    while not ended.is_set():
        peer.call("multi")
        for account in accounts:
            peer.call("get", account)
        check(numbers(peer.call("exec")))

def read_directly():
    while not ended.is_set():
        told = subprocess.run(client + ["get"] + accounts + ["--together"], capture_output=True)
        check([int(line) for line in told.stdout.split()])

first = Peer(path)
first.call("mset", *(word for account in accounts for word in (account, 1000)))
readers = [threading.Thread(target=reader) for reader in (read_mget, read_exec, read_directly)]
tellers = [threading.Thread(target=transfer, args=(seed, seed % 2 == 0)) for seed in range(4)]
for thread in readers + tellers:
    thread.start()
for thread in tellers:
    thread.join()
ended.set()
for thread in readers:
    thread.join()
check(numbers(first.call("mget", *accounts)))
print("not ok" if wrong else "ok", "- readers of every kind see the sum of a bank", wrong[:3])
print("ok" if True in done and False in done else "not ok", "- with WATCH and without")
END
python3 "$MQKV_TEST_DIR/bank.py" "$kresp_socket" "$redis_tests" \
    "$MQKV_BUILD/clientk" -m "$server_queue"

# kill -9 of the daemon: a transaction of 100 SETs is there, or not. The writer counts up, and ends
# at an error.
cat >"$MQKV_TEST_DIR/writer.py" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer, request
peer = Peer(sys.argv[1])
for number in range(1, 1000000):
    peer.send(request([b"multi"]) + b"".join(
        request([b"set", b"part:%d" % i, b"%d" % number]) for i in range(100)) +
        request([b"exec"]))
    replies = [peer.reply() for _ in range(102)]
    if not replies[-1].startswith(b"*100"):
        break
    print(number, flush=True)
END
has_written() { # COUNT
    [ "$(wc -l <"$MQKV_TEST_DIR/written")" -gt "$1" ]
}
torn=0 lost=0
for round in 1 2 3 4 5 6; do
    : >"$MQKV_TEST_DIR/written"
    python3 "$MQKV_TEST_DIR/writer.py" "$kresp_socket" "$redis_tests" \
        >"$MQKV_TEST_DIR/written" 2>/dev/null &
    writer=$!
    wait_until 30 has_written $((round * 3))
    kill_server
    start_server -d 4
    # It may have found the next daemon, too.
    kill "$writer" 2>/dev/null
    wait "$writer" 2>/dev/null
    values=$(ask "mget$(printf ' part:%d' {0..99})" | tr ' ' '\n' | grep -v '[$*]' | sort -u)
    [ "$(wc -l <<<"$values")" = 1 ] || torn=$((torn + 1))
    [ "$values" -ge "$(tail -n 1 "$MQKV_TEST_DIR/written")" ] || lost=$((lost + 1))
done
check_equal "0 0" "$torn $lost" "kill -9 leaves no transaction half done, and none lost"

if python3 -c 'import redis' 2>/dev/null; then
    python3 - "$kresp_socket" >"$MQKV_TEST_DIR/redis_py" 2>&1 <<'END'
import sys, redis
r = redis.Redis(unix_socket_path=sys.argv[1], decode_responses=True)
r.set("p", 8)
with r.pipeline(transaction=True) as pipe:
    told = pipe.set("q", 1).incr("p").execute()
def double(pipe):
    value = int(pipe.get("p"))
    pipe.multi()
    pipe.set("q", value * 2)
r.transaction(double, "p", "q")
with r.lock("a lock", timeout=10):
    held = r.exists("a lock") == 1
print(told, r.get("q"), held, r.exists("a lock"))
END
    check_equal "[True, 9] 18 True 0" "$(cat "$MQKV_TEST_DIR/redis_py")" \
        "redis-py's pipelines, transactions and locks work"
else
    skip "redis-py's transactions: it is not installed"
fi

check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
