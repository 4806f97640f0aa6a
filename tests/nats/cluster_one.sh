#!/usr/bin/env bash
# cluster_one: serverk with the data in one NATS server: operations, limits, restarts
. "$(dirname "$0")/lib.sh"

write_nats_configs 1
start_nats 0
start_server --shards 3

# Operations ---------------------------------------------------------------------------------------

check_status 0 "put" client put name Ada
check_equal Ada "$(client get name)" "get"
check_status 1 "an absent key" client get none
check_status 1 "put --if-absent of one that is there" client put --if-absent name Bob
check_status 0 "put --if-absent" client put --if-absent new 1
check_status 0 "delete" client del new
check_status 1 "a deleted key" client get new
check_status 0 "put --if-absent after a delete" client put --if-absent new 2
version=$(client get name --format json | sed 's/.*"version":\([0-9]*\).*/\1/')
check_status 0 "put --if-version" client put --if-version "$version" name Eve
check_status 1 "put --if-version of one that has changed" client put --if-version "$version" name X
check_status 1 "del --if-version of one that has changed" client del --if-version "$version" name
check_equal 5 "$(client add n 5)" "add"
check_equal 3 "$(client add n -2)" "add of a negative number"
check_status 1 "add beyond a bound" client add --max 10 n 100
check_equal 3 "$(client get n)" "which changes nothing"
client append s abc >/dev/null
check_equal 6 "$(client append s def)" "append"
check_equal abcdef "$(client get s)" "and what came of it"
check_status 0 "put with an expiry" client put --ttl 1500ms short life
sleep 1.6
check_status 1 "an expired key is gone to the millisecond" client get short
check_status 0 "and absent" client put --if-absent short again
check_status 0 "touch" client touch short 60s
check_match '"expiry_ms":[1-9]' "$(client get short --format json)" "is the expiry"
check_status 4 "an atomic scan is refused" client scan --atomic
check_match "no atomic scan" "$errors" "with a sentence"
check_status 4 "sync is refused" client sync
check_match "nats-sync always" "$errors" "with a sentence"

# Limits -------------------------------------------------------------------------------------------

python3 - "$MQKV_TEST_DIR" <<'END'
import random, sys
def write(name, data):
    with open(f"{sys.argv[1]}/{name}", "wb") as file:
        file.write(data)
random.seed(1)
write("largest", random.randbytes(1048576 - 512))
write("larger", bytes(1048576 - 511))
write("empty", b"")
END
for name in largest empty; do
    check_status 0 "put of the $name value" client put "$name" - <"$MQKV_TEST_DIR/$name"
    client get "$name" >"$MQKV_TEST_DIR/back"
    check_status 0 "and its get" cmp "$MQKV_TEST_DIR/$name" "$MQKV_TEST_DIR/back"
done
check_status 2 "a value that is too large" client put larger - <"$MQKV_TEST_DIR/larger"
with_key() { # BYTE COUNT COMMAND [VALUE]: of a key of so many of that byte
    local key
    key=$(printf "$1%.0s" $(seq "$2"))
    client "$3" "$key" "${@:4}" 2>&1 | tail -c 200
    return "${PIPESTATUS[0]}"
}
check_status 0 "the longest key" with_key k 3800 put 1
check_status 0 "and its get" with_key k 3800 get
check_status 2 "a longer one is refused" with_key k 3801 put 1
check_match "counts three times" "$output" "with a sentence"
check_status 0 "the longest key of dots" with_key . 1266 put 1
check_status 2 "a longer one is refused" with_key . 1267 put 1
# shellcheck disable=SC2016 # the dollar is one of the bytes
for odd in ' ' '.' '..' '*' '>' 'a b' '$JS.API.INFO' 'ü=E4' "$(printf '\x01\xff\n')"; do
    client put "$odd" "odd $odd" >/dev/null
    check_equal "odd $odd" "$(client get "$odd")" "a key of odd bytes: $(printf %q "$odd")"
done

# Scans --------------------------------------------------------------------------------------------

for i in $(seq 500); do
    echo "PUT scan.$i value$i"
done | client batch -n 4 - >/dev/null
check_equal 500 "$(client scan scan. --keys | wc -l)" "a scan finds every key"
check_equal 500 "$(client scan scan. --keys | sort -u | wc -l)" "and each once"
check_equal value77 "$(client scan scan.77 | cut -d' ' -f2)" "with its value"

# Counters, batches, histories ---------------------------------------------------------------------

for i in $(seq 8); do
    (for _ in $(seq 100); do echo "ADD hot 1"; done | client batch - >/dev/null) &
    adders[i]=$!
done
wait "${adders[@]}"
check_equal 800 "$(client get hot)" "a counter that eight clients add to loses nothing"
check_status 0 "linearizable" "$MQKV_BUILD/tests/history_load" "$server_queue" 6 40 3000 "$RANDOM"
echo "# $output"
check_match '"name":"nats"' "$(client stats engine --format json)" "stats tells the engine"

# Restarts -----------------------------------------------------------------------------------------

stop_server
check_equal 0 $? "it stops"
start_server
check_equal Eve "$(client get name)" "the data are there after a restart"
kill_server
start_server
check_equal 800 "$(client get hot)" "and after kill -9"
signal_nats KILL 0
check_status 3 "without a server, no answer in time" client --timeout 700 get name
start_nats 0
wait_until 20 client_works
check_equal Eve "$(client get name)" "the data are there after kill -9 of the server"
stop_server

# What is refused ----------------------------------------------------------------------------------

refused() { # STATUS PATTERN TEXT OPTION...
    local status=$1 pattern=$2 text=$3
    shift 3
    check_status "$status" "$text" "$server_program" -m "$server_queue" --engine nats "$@"
    check_match "$pattern" "$errors" "and says so"
}

refused 4 "has 3 shards, not 5" "another number of shards" \
    --nats "$(nats_urls)" --bucket "$bucket" --shards 5
refused 4 "replicas" "another number of replicas" \
    --nats "$(nats_urls)" --bucket "$bucket" --replicas 3
refused 4 "no NATS server answers" "no server there" --nats nats://127.0.0.1:1 --bucket "$bucket"
refused 4 "named ''" "another cluster" \
    --nats "$(nats_urls)" --bucket "$bucket" --nats-cluster other
refused 4 "up to 1048064" "a value size that the servers do not take" \
    --nats "$(nats_urls)" --bucket "$bucket" --max-value 2M
refused 2 "needs --nats" "no servers named" --bucket "$bucket"
refused 2 "no meaning with --engine nats" "an option of the other engine" \
    --nats "$(nats_urls)" --bucket "$bucket" --cache 1M
check_status 0 "--check of a bucket" "$server_program" -m "$server_queue" --engine nats \
    --nats "$(nats_urls)" --bucket "$bucket" --check
check_match "bucket check \(3 shards" "$output" "tells what it is"
check_status 0 "--check of none" "$server_program" -m "$server_queue" --engine nats \
    --nats "$(nats_urls)" --bucket none --check
check_match "none yet" "$output" "tells that it would be created"
signal_nats TERM 0
