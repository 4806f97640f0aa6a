#!/usr/bin/env bash
# cluster_kresp: transactions of Redis' clients, through kresp, on keys in one shard and in several
# shellcheck disable=SC2016,SC2119 # dollars are of the protocol; kresp is started without options
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

write_nats_configs 1
start_nats 0
start_server --shards 7
start_kresp

answers() { # COMMAND...: the replies in one line
    ask "$@" | paste -sd' '
}

# Keys that share a tag
check_equal '+OK +QUEUED +QUEUED +QUEUED *3 +OK :1 $1 1' \
    "$(answers multi 'set {u}a 1' 'incr {u}n' 'get {u}a' exec)" \
    "EXEC of keys with one tag is a transaction"
check_equal '+OK *2 $1 1 $1 2' "$(answers 'mset {u}a 1 {u}b 2' 'mget {u}a {u}b')" "so is MSET"
check_equal '+OK $-1 $1 1' "$(answers 'rename {u}a {u}c' 'get {u}a' 'get {u}c')" "and RENAME"
check_equal ':0 :1' "$(answers 'msetnx {u}b 3 {u}d 3' 'msetnx {u}e 3 {u}f 3')" "and MSETNX"
check_equal '+OK +OK +QUEUED *1 +OK' "$(answers 'watch {u}b' multi 'set {u}a 5' exec)" \
    "WATCH of a key that stays"
check_equal '+OK +OK +OK +QUEUED *-1' \
    "$(answers 'watch {u}b' 'set {u}b 9' multi 'set {u}a 6' exec)" "and of one that is changed"
check_equal '$1 5' "$(answers 'get {u}a')" "then nothing is done"
swap='eval "local a, b = redis.call(\"get\", KEYS[1]), redis.call(\"get\", KEYS[2]) '
swap+='redis.call(\"set\", KEYS[1], b) redis.call(\"set\", KEYS[2], a) return a" 2'
check_equal '$1 5 $1 9' "$(answers "$swap {u}a {u}b" 'get {u}a')" "a script is one"

# Keys of several shards
for command in 'mset a 1 b 2 c 3 d 4 e 5' 'msetnx a 1 b 2 c 3 d 4 e 5'; do
    check_match "^-CROSSSLOT .*{user:42}name.*nothing was executed" "$(ask "$command")" \
        "refused: $command"
done
check_match "^\+OK \+QUEUED \+QUEUED \+QUEUED \+QUEUED -CROSSSLOT " \
    "$(answers multi 'set a 1' 'set b 1' 'set c 1' 'set d 1' exec)" "and EXEC"
check_equal '*5 $-1 $-1 $-1 $-1 $-1' "$(answers 'mget a b c d e')" \
    "nothing of them was done, and MGET reads any keys"
check_equal ':0' "$(ask 'del a b c d e')" "DEL takes any keys, one by one"
check_match "^-CROSSSLOT " "$(ask 'set a 1' 'rename a b' 'rename a c' 'rename a d' | tail -n 1)" \
    "RENAME between shards"
check_match "CROSSSLOT " "$(answers 'set b 1' 'set c 1' "$swap a b" "$swap a c")" "and a script"
stop_kresp

# A read of all accounts is never torn, and WATCH loses no update
start_kresp
check_status 0 "increments under WATCH are all there" python3 - "$kresp_socket" <<'END'
import socket, sys, threading
class Redis:
    def __init__(self):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(sys.argv[1])
        self.file = self.socket.makefile("rb")
    def reply(self):
        line = self.file.readline()[:-2].decode()
        if line[0] == "$":
            return None if line == "$-1" else self.file.read(int(line[1:]) + 2)[:-2].decode()
        if line[0] == "*":
            return None if line == "*-1" else [self.reply() for _ in range(int(line[1:]))]
        if line[0] == "-":
            raise RuntimeError(line)
        return line[1:]
    def __call__(self, *words):
        self.socket.sendall(b"*%d\r\n" % len(words) +
                            b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
        return self.reply()
def run(number):
    redis = Redis()
    for _ in range(20):
        while True:
            redis("WATCH", "{w}a", "{w}b")
            a, b = redis("MGET", "{w}a", "{w}b")
            redis("MULTI")
            redis("SET", "{w}a", str(int(a or 0) + 1))
            redis("SET", "{w}b", str(int(b or 0) - 1))
            if redis("EXEC") is not None:
                break
threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
found = Redis()("MGET", "{w}a", "{w}b")
if found != ["80", "-80"]:
    sys.exit(f"found {found}")
END
stop_kresp
stop_server
signal_nats TERM 0
