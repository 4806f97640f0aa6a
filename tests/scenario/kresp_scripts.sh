#!/usr/bin/env bash
# kresp_scripts: Lua scripts are one transaction each, in whatever thread and beside whatever else;
# what they may not do, and take too long for, ends with an error.
# shellcheck disable=SC2016 # replies have dollars
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server
start_kresp --threads 2
if ask 'eval "return 1" 0' | grep -q 'built without Lua'; then
    skip "scripts: kresp was built without Lua"
    exit 0
fi
check_equal '$2 42
*2 $1 a $1 b
:1
-NOSCRIPT No matching script. Please use EVAL.
$40 e0e1f9fabfc9d4800c877a703b823ac0578ff8db
:1
*2 :1 :0
+OK
-NOSCRIPT No matching script. Please use EVAL.' "$(ask \
    'eval "redis.call('"'set'"', KEYS[1], ARGV[1]) return redis.call('"'get'"', KEYS[1])" 1 k 42' \
    'eval "return {KEYS[1], ARGV[1]}" 1 a b' 'eval "return 1" 0' \
    'evalsha 0000000000000000000000000000000000000000 0' 'script load "return 1"' \
    'evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0' \
    'script exists e0e1f9fabfc9d4800c877a703b823ac0578ff8db x' 'script flush' \
    'evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0')" "EVAL, EVALSHA and SCRIPT work"
check_equal '+OK
+QUEUED
+QUEUED
+QUEUED
*3 :1 :2 $1 2
$1 2' "$(ask multi 'incr n' 'eval "return redis.call('"'incr'"', KEYS[1])" 1 n' 'get n' exec \
    'get n')" "a script in EXEC sees what stands before it"
check_equal '+OK
+OK
+QUEUED
+QUEUED
*2 :3 :3
$3 abc' "$(ask 'set text ab' multi 'append text c' \
    'eval "return redis.call('"'incr'"', KEYS[1])" 1 n' exec 'get text')" \
    "and leaves it in place, whatever it has to read"
library='"#!lua name=once\nredis.register_function('"'once'"', function() return 5 end)"'
check_equal '+OK
+QUEUED
+QUEUED
+QUEUED
+QUEUED
*4 $4 once $3 abc :5 +OK
-ERR Function not found' "$(ask multi "function load $library" 'get text' 'fcall once 0' \
    'function delete once' exec 'fcall once 0')" \
    "a library is loaded in EXEC once, whatever has to be read"
check_match '^\+OK
\+OK
\+QUEUED
\+QUEUED
\*-1
-ERR Function not found$' "$(ask 'watch watched' multi "function load $library" 'get text' \
    'exec XX watched' 'fcall once 0')" "and not at all if nothing was executed"
check_match '^-ERR user_script:1: boo script: .*user_script:1\.
\$1 5$' "$(ask 'eval "redis.call('"'set','k2','5'"') error('"'boo'"')" 0' 'get k2')" \
    "as in Redis, what a script wrote before it failed stays"

# What a script may not do.
check_match '^-ERR Unknown Redis command called from script: kresp has no .lpush.' \
    "$(ask 'eval "return redis.call('"'lpush','l','x'"')" 0')" \
    "a command that is not there is told"
check_equal 1 "$(grep -c "the command 'lpush'" "$kresp_log")" "and logged"
check_match '^-ERR kresp: a script cannot call commands about the whole store' \
    "$(ask 'eval "return redis.call('"'keys','*'"')" 0')" "nor are those about the whole store"
check_match '^-BUSY kresp: the script takes (more CPU time|longer) than it may.*nothing was executed
\$-1$' "$(ask 'eval "redis.call('"'set','slow','x'"') while true do end" 0' 'get slow')" \
    "a script that takes too long is ended, and nothing was executed"
check_match '^-ERR kresp: the script takes more memory.*nothing was executed
\$-1$' "$(ask \
    'eval "redis.call('"'set','big','x'"') local s = '"'x'"' while true do s = s .. s end" 0' \
    'get big')" "as is one that takes too much memory"
check_match '^-ERR kresp: a transaction has at most 128 keys.*nothing was executed
:0$' "$(ask 'eval "for i = 1, 129 do redis.call('"'set','many'..i,'x'"') end" 0' \
    'exists many1')" "and one of too many keys"
check_equal '$-1' "$(ask 'eval "local t = {} for i = 1, 60 do t[i] = '"'k'"'..i end '\
'return redis.call('"'mget'"', unpack(t))[60]" 0')" "but sixty are read"
head -c 900000 /dev/zero | tr '\0' x >"$MQKV_TEST_DIR/large"
"$MQKV_BUILD/clientk" -m "$server_queue" put large1 - <"$MQKV_TEST_DIR/large" >/dev/null
"$MQKV_BUILD/clientk" -m "$server_queue" put large2 - <"$MQKV_TEST_DIR/large" >/dev/null
check_equal '*2 :900000 :900000' "$(ask 'eval "return {redis.call('"'strlen'"', KEYS[1]), '\
'redis.call('"'strlen'"', KEYS[2])}" 2 large1 large2')" \
    "keys that it names are read in advance if they fit into a message"
check_equal '-ERR Write commands are not allowed from read-only scripts. script: '\
'2aff5cbd9dc5bbe08dcd3d49cb9fbb2e0b7a3c8f, on @user_script:1.' \
    "$(ask 'eval_ro "return redis.call('"'set','a','b'"')" 0' |
        sed -E 's/script: [0-9a-f]{40}/script: 2aff5cbd9dc5bbe08dcd3d49cb9fbb2e0b7a3c8f/')" \
    "EVAL_RO writes nothing"

cat >"$MQKV_TEST_DIR/scripts.py" <<'END_OF_PYTHON'
import random, sys, threading, time
sys.path.insert(0, sys.argv[2])
from replies import Peer
path = sys.argv[1]
accounts = ["account:%d" % i for i in range(8)]
TOTAL = 8 * 1000
COUNT = """local v = redis.call('get', KEYS[1])
redis.call('set', KEYS[1], (tonumber(v) or 0) + 1) return v"""
PAY = """local have = tonumber(redis.call('get', KEYS[1]))
if have < tonumber(ARGV[1]) then return 0 end
redis.call('set', KEYS[1], have - ARGV[1])
redis.call('incrby', KEYS[2], ARGV[1]) return 1"""
# Keys that it does not name, read one after the other.
SUM = """local sum = 0
for i = 0, 7 do sum = sum + redis.call('get', 'account:' .. i) end return sum"""
ended, wrong = threading.Event(), []

def count(seed):
    peer = Peer(path)
    for i in range(150):
        reply = peer.call("eval", COUNT, 1, "counter")
        if not reply.startswith(b"$"):
            wrong.append(reply)

def pay(seed):
    peer, draw = Peer(path), random.Random(seed)
    for i in range(120):
        one, other = draw.sample(accounts, 2)
        reply = peer.call("eval", PAY, 2, one, other, draw.randrange(1, 20))
        if reply not in (b":0\r\n", b":1\r\n"):
            wrong.append(reply)

def read():
    peer = Peer(path)
    while not ended.is_set():
        reply = peer.call("eval", SUM, 0)
        if reply != b":%d\r\n" % TOTAL:
            wrong.append(reply)

first = Peer(path)
first.call("mset", *(word for account in accounts for word in (account, 1000)))
readers = [threading.Thread(target=read) for i in range(2)]
writers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)
           for work in (count, pay)]
for thread in readers + writers:
    thread.start()
for thread in writers:
    thread.join()
ended.set()
for thread in readers:
    thread.join()
print("ok" if not wrong else "not ok", "- scripts of several threads see one moment", wrong[:3])
reply = first.call("get", "counter")
print("ok" if reply == b"$3\r\n600\r\n" else "not ok", "- and lose no write", reply)

def kill():
    while not ended.is_set():
        peer = Peer(path)
        reply = peer.call("script", "kill")
        peer.close()
        if reply == b"+OK\r\n":
            return
        time.sleep(0.001)

# A reply may fill its buffer: what reads it must not look further.
wrong = []
for power in range(10, 19):
    size = (1 << power) - 5
    size -= len(str(size))
    first.call("set", "filling", b"x" * size)
    reply = first.call("eval", "return #redis.call('get',KEYS[1])", 1, "filling")
    if reply != b":%d\r\n" % size:
        wrong.append((size, reply))
print("ok" if not wrong else "not ok", "- a script reads replies that fill their buffer", wrong[:3])

# What a script in MULTI names stays in place while its commands come and go.
words = ["x" * 20 + str(i) for i in range(6000)]
first.call("multi")
first.call("eval", "redis.call('set','a','1') redis.call('set','b',string.rep('y',100000)) "
           "return redis.call('get',KEYS[6000])", 6000, *words)
reply = first.call("exec")
print("ok" if reply == b"*1\r\n$-1\r\n" else "not ok",
      "- a script of many keys in MULTI", reply)

ended.clear()
killer = threading.Thread(target=kill)
killer.start()
# A kill may wait in the thread that the script has: the next one finds the other.
for i in range(20):
    reply = first.call("eval", "while true do end", 0)
    if b"SCRIPT KILL" in reply:
        break
ended.set()
killer.join()
print("ok" if b"Script killed by user with SCRIPT KILL" in reply else "not ok",
      "- SCRIPT KILL ends a script", reply)
END_OF_PYTHON
python3 "$MQKV_TEST_DIR/scripts.py" "$kresp_socket" "$redis_tests"
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
