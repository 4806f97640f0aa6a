#!/usr/bin/env bash
# serverk_nats_transact: transactions of serverk on a scripted NATS server, which loses answers,
# refuses batches and has others write in between; tags that put keys into one shard, which kresp
# knows from other refusals
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

if "$server_program" --engine nats --nats nats://127.0.0.1:1 --bucket b --check 2>&1 |
    grep -q 'built without NATS'; then
    skip "engine nats: this build has no libnats"
    exit 0
fi

# scripted [OPTION...]: starts a scripted server; its address in $url.
scripted() {
    rm -f "$MQKV_TEST_DIR/port"
    python3 "$library_dir/../nats/scripted_server.py" "$@" >"$MQKV_TEST_DIR/port" 2>&1 &
    wait_until 20 test -s "$MQKV_TEST_DIR/port" || not_ok "the scripted server starts"
    url=nats://127.0.0.1:$(head -n 1 "$MQKV_TEST_DIR/port")
}

start_server() {
    launch_server "$*" "$server_program" -m "$server_queue" --engine nats --nats "$url" \
        --bucket b "$@"
}

# All in one shard ---------------------------------------------------------------------------------

scripted --version 2.12.15
start_server --shards 1
client put stock 7 >/dev/null
check_status 0 "a transaction" client transact --if-present stock --if-absent order:1 \
    -- add stock -1 --min 0 -- put order:1 Ada -- get stock -- append log x
check_equal $'6\nOK\n7\n1' "$output" "has its answers"
check_equal $'6\nAda\nx' "$(client get stock order:1 log --together)" "and was done"
check_status 1 "a guard that does not hold" client transact --if-absent stock -- put order:2 x
check_match "guard 1 does not hold" "$errors" "is told"
check_status 1 "a bound" client transact -- put order:2 x -- add stock -9 --min 0
check_match 'then 2, "stock"' "$errors" "names its step"
check_status 1 "and nothing is done" client get order:2
check_status 1 "the other list" client transact --if-absent stock -- put a 1 --else del stock
check_match "behind --else were done" "$errors" "is done then"
check_status 1 "really" client get stock
version=$(client get log --format json | sed 's/.*"version":\([0-9]*\).*/\1/')
check_status 0 "a guard by version of a key that is not written" \
    client transact --if-version log "$version" -- put a 2
check_equal "$version" "$(client get log --format json | sed 's/.*"version":\([0-9]*\).*/\1/')" \
    "which keeps its version"
check_status 0 "nothing" client transact --if-version log "$version" -- get none
check_equal 0 "$(client scan =guard --count)" "the messages that guard are no keys"
check_status 4 "sync always is refused, if the servers do not say so" \
    client transact --sync always -- put a 1
check_match "nats-sync always" "$errors" "with a sentence"

# What may go wrong
for what in lost ignored nobody later partial closing; do
    check_status 0 "$what" client --timeout 20000 transact --if-absent "$what-a" \
        -- put "$what-a" 1 -- add "n-$what" 1 -- append "s-$what" x
    check_equal $'1\n1\nx' "$(client get "$what-a" "n-$what" "s-$what" --together)" "$what: once"
done
client put rival-a 5 >/dev/null
check_status 0 "a rival" client transact -- add rival-a 1 -- put b 2
check_equal 101 "$(client get rival-a)" "is not written over"
client put other 1 >/dev/null
client put rival-guard 5 >/dev/null
check_status 1 "a rival that writes a key of a guard" \
    client transact --if-value rival-guard 5 -- put done-rival 1
check_equal "NOT FOUND" "$(client get done-rival --together)" "nothing is done"
check_status 3 "silence" client --timeout 1500 transact -- put silent-a 1 -- put silent-b 2
check_match "may have been applied" "$errors" "leaves it open what became of it"
check_status 4 "no batches any more" client transact -- put odd-10174-a 1 -- put x 1
check_match "allow_atomic" "$errors" "is told"
check_status 4 "batches that are too large for the server" \
    client transact -- put odd-10199-a 1 -- put x 1
check_match "max_batch_size" "$errors" "is told"
check_status 3 "a server without batches" client transact -- put single-a 1 -- put single-b 1
check_match "makes no sense" "$errors" "is noticed"
check_match "does not know batches" "$(cat "$server_log")" "and logged"
check_equal 1 "$(client get other)" "the daemon goes on"
check_match '"transactions_total":[1-9]' "$(client stats engine --format json)" "they are counted"
stop_server

# Several shards -----------------------------------------------------------------------------------

scripted --version 2.12.12
server_queue=${MQKV_TEST_QUEUE}b server_log=$MQKV_TEST_DIR/shards.log
start_server --shards 16
check_status 4 "keys of several shards" client transact -- put a 1 -- put b 1 -- put c 1 -- put d 1
check_match "must lie in one shard .*{user:42}name" "$errors" "the way is told"
check_status 4 "and so is a read of them" client get a b c d --together
check_status 0 "keys with a tag" client transact -- put '{u}a' 1 -- put 'x{u}b' 2 -- put '{u}' 3
check_equal $'1\n2\n3' "$(client get '{u}a' 'x{u}b' '{u}' --together)" "lie in one"
check_status 4 "an empty tag is none" client transact -- put '{}a' 1 -- put '{}b' 1 \
    -- put '{}c' 1 -- put '{}d' 1
check_status 4 "a server that mixes up guards" client transact --if-present '{u}a' -- put '{u}z' 1
check_match "2.12.14" "$errors" "is told"
check_status 0 "guards of what is written are no matter" client transact --if-present '{u}a' \
    -- put '{u}a' 2
start_kresp --threads 1
check_match "^-CROSSSLOT .*{user:42}name.*nothing was executed" "$(ask 'mset a 1 b 1 c 1 d 1')" \
    "Redis' clients are told in Redis' words"
check_equal '*4 $-1 $-1 $-1 $-1' "$(ask 'mget a b c d' | tr '\n' ' ' | sed 's/ $//')" \
    "what can be done key by key is"
check_match "^-ERR kresp: .*2\.12\.14.*nothing was executed" \
    "$(ask 'watch {u}z' multi 'set {u}a 2' exec | tail -n 1)" "another refusal is told as it is"
stop_kresp
stop_server
start_server
check_equal $'2\n2\n3' "$(client get '{u}a' 'x{u}b' '{u}' --together)" "after a restart, too"
stop_server

# A bucket from before there were tags: each key lies where it lay
scripted --version 2.12.15 --shards 16
server_queue=${MQKV_TEST_QUEUE}c server_log=$MQKV_TEST_DIR/untagged.log
check_status 4 "a bucket is not made otherwise than it was to be" \
    "$server_program" -m "$server_queue" --engine nats --nats "$url" --bucket b --shards 16
start_server
for key in a b c d; do client put "{u}$key" "$key" >/dev/null; done
check_status 4 "tags do not count there" client get '{u}a' '{u}b' '{u}c' '{u}d' --together
check_match "made before tags" "$errors" "which is told"
for key in a b c d; do check_equal "$key" "$(client get "{u}$key")" "{u}$key is there"; done
stop_server
scripted --version 2.12.15 --shards "16 by moon"
check_status 4 "another rule is refused" \
    "$server_program" -m "$server_queue" --engine nats --nats "$url" --bucket b --shards 16
check_status 4 "also in a bucket that is there" \
    "$server_program" -m "$server_queue" --engine nats --nats "$url" --bucket b
