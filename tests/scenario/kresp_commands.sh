#!/usr/bin/env bash
# kresp_commands: what Redis clients write is in the store, in both protocols, in pipelines and
# transactions; what cannot be is refused in words.
# shellcheck disable=SC2016 # a reply has its size behind a dollar
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

start_server --max-value 4k
start_kresp

check_equal "+OK $(client get a 2>/dev/null)" "$(ask 'set a hello') " "a value is stored"
check_equal hello "$(client get a)" "and clientk finds it"
client put b world >/dev/null
check_equal '$5 world
_' "$(ask 'hello 3' 'get b' 'get c' | tail -n 2)" \
    "what clientk stores is found, and nulls are those of RESP3"
check_equal '+OK
:6
$1 6
:1
$-1' "$(ask 'set n 5' 'incr n' 'get n' 'del n' 'get n')" "a pipeline is answered in its order"
check_equal '+OK
+OK
+QUEUED
+QUEUED
*2 :2 $1 2
:1' "$(ask 'set n 1' multi 'incr n' 'get n' exec 'del n')" "a transaction too"
ask 'set n 007' >/dev/null
check_equal '-ERR value is not an integer or out of range' "$(ask 'incr n')" \
    "INCR is as strict as Redis"
check_equal '$3 007' "$(ask 'get n')" "and leaves the value"

key=$(printf 'k%.0s' {1..70000})
check_equal '-ERR kresp: empty keys are not supported
$-1
:0' "$(ask 'set "" x' 'get ""' 'exists ""')" "the empty key is refused, and absent"
refusal='(kresp: keys of 0 or of more than 65535 bytes are not supported|string exceeds maximum)'
check_match "^-ERR $refusal" "$(ask "set ${key:0:65536} x" ping)" "so is a key that is too long"
value=$(printf 'v%.0s' {1..5000})
long=$(printf 'v%.0s' {1..70000})
check_equal '-ERR string exceeds maximum allowed size (proto-max-bulk-len)
-ERR string exceeds maximum allowed size (proto-max-bulk-len)
+OK
:2000
:4000
-ERR string exceeds maximum allowed size (proto-max-bulk-len)
:4000' "$(ask "set v $long" "set v $value" "set v ''" "append v ${value:0:2000}" \
    "append v ${value:0:2000}" "append v ${value:0:2000}" 'strlen v')" \
    "values beyond --max-value are refused, and the connection lives on"
check_equal '-ERR string exceeds maximum allowed size (proto-max-bulk-len)' \
    "$(ask 'setrange v 5000 x')" "so are those that SETRANGE would make"
check_equal "-ERR kresp: flushall is off; start kresp with --allow-flush" "$(ask flushall)" \
    "FLUSHALL is off"

for ((i = 0; i < 300; i++)); do
    keys+=" key:$i"
    pairs+=" key:$i $i"
done
check_equal "+OK" "$(ask "mset$pairs")" "many keys are set at once"
check_equal "*300 \$1 0 \$1 1 " "$(ask "mget$keys" | head -c 15)" "and read at once"
check_equal ":300
:300
:0" "$(ask "exists$keys" "del$keys" "exists$keys")" "and counted, and deleted"

# A write by somebody else between WATCH and EXEC, even while EXEC looks, is noticed.
check_equal '+OK
+OK
+OK
+QUEUED
*1 +OK' "$(ask 'set w 1' 'watch w' multi 'set w 2' exec)" \
    "EXEC with a watched key that is as it was writes"
python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer
one, other = Peer(sys.argv[1]), Peer(sys.argv[1])
lost = won = 0
for _ in range(200):
    one.call("watch", "w")
    value = int(one.call("get", "w").split(b"\r\n")[1])
    if _ % 3 == 0:
        other.call("incr", "w")
    one.call("multi")
    one.call("set", "w", value + 1)
    if one.call("exec") == b"*-1\r\n":
        lost += 1
    else:
        won += 1
print("ok" if lost == 67 else "not ok", "-",
      "EXEC fails exactly where the key was written meanwhile")
value = int(one.call("get", "w").split(b"\r\n")[1])
print("ok" if value == 2 + won + lost else "not ok", "-", "and no increment is lost")
one.call("watch", "w")
one.call("multi")
one.call("set", "other", 1)
reply = one.call("exec")
print("ok" if reply == b"*1\r\n+OK\r\n" else "not ok", "-",
      "EXEC may write anything else", reply)
END

# What clients send first, in one piece: redis-py 8, ioredis 6, node-redis 6, go-redis 9.
for first in 'hello 3|client setinfo LIB-NAME redis-py|client setinfo LIB-VER 8.1.0' \
    'hello 3|client SETINFO LIB-VER 6.0.0|client SETINFO LIB-NAME ioredis|info' \
    'HELLO 3 SETNAME me|SELECT 0|CLIENT SETINFO LIB-NAME node-redis|CLIENT SETINFO LIB-VER 6.3.1' \
    'hello 3 auth default x|client maint_notifications on moving-endpoint-type none|get a'; do
    IFS='|' read -ra words <<<"$first"
    replies=$(ask "${words[@]}" | cut -c 1-70)
    check_match '^%7 [^-]* proto :3' "$(head -n 1 <<<"$replies")" "HELLO 3 is answered: $first"
    check_equal "${#words[@]}" "$(wc -l <<<"$replies")" "and so is all that came with it"
done
check_equal "-ERR unknown subcommand 'maint_notifications'. Try CLIENT HELP." \
    "$(sed -n 2p <<<"$replies")" "maintenance notifications are refused, and that is all"
check_equal '$5 hello' "$(tail -n 1 <<<"$replies")" "what follows is answered"
check_match '^\*[0-9]+ \+What kresp has of it .*\+CLIENT SETINFO \+' "$(ask 'client help')" \
    "CLIENT HELP names what there is"
before=$(date +%s)
check_equal '+OK
+Background saving started' "$(ask save bgsave)" "SAVE and BGSAVE bring everything to disk"
check_status 0 "and LASTSAVE tells when" test "$(ask lastsave | tr -d :)" -ge "$before"

check_match '^-ERR unknown command .lpush., with args beginning with: .l. .x. $' \
    "$(ask 'lpush l x' | sed 's/$/ /')" \
    "what is not there is an unknown command"
ask 'lpush l x' >/dev/null
check_equal 1 "$(grep -c "'lpush'" "$kresp_log")" "which the log says once"
check_equal '-NOSCRIPT No matching script. Please use EVAL.' \
    "$(ask 'evalsha c3f8721cbb97f72bc19e972846bd7aaf91901658 1 lock token')" \
    "a script that was not loaded is not known"
check_status 0 "kresp ends" stop_kresp
start_kresp --allow-flush --pipeline 1
check_equal "+OK
:0" "$(ask flushall dbsize)" "--allow-flush deletes everything"
# One command of each client in a round: the source changes between the steps of a RENAME.
python3 - "$kresp_socket" "$redis_tests" <<'END'
import sys
sys.path.insert(0, sys.argv[2])
from replies import Peer, request
one, other = Peer(sys.argv[1]), Peer(sys.argv[1])
wrong = []
def race(command, expected, *others):
    other.call("set", "from", 1)
    one.send(request([command, b"from", b"to"]))
    other.send(b"".join(request(words) for words in others))
    reply = one.reply()
    for _ in others:
        other.reply()
    there = one.call("exists", "to")
    if reply != expected or there != b":1\r\n":
        wrong.append((command, reply, there))
    one.call("del", "from", "to")
writes = [[b"incr", b"from"]] * 30
for _ in range(20):
    race(b"renamenx", b":1\r\n", *writes)
    race(b"rename", b"+OK\r\n", *writes, [b"del", b"from"])
print("ok" if not wrong else "not ok", "-", "RENAME and RENAMENX race with writes of the source",
      wrong[:3])
END
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
