#!/usr/bin/env bash
# check_suite: Redis' own tests about strings, counters, expiry, keys, SCAN, transactions, scripts,
# channels and the protocol pass on kresp, but for those that suite_skips names. REDIS_SOURCE is a
# source tree of Redis 7.0, which https://download.redis.io/releases/redis-7.0.15.tar.gz has and
# which need not be built; without it, or without Tcl, they are skipped.
. "$(dirname "$0")/../scenario/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

if [ ! -x "${REDIS_SOURCE:-}/runtest" ] || ! command -v tclsh8.6 >/dev/null ||
    ! command -v redis-cli >/dev/null; then
    skip "Redis' own tests: REDIS_SOURCE=<tree of Redis 7.0>, tclsh8.6 or redis-cli is missing"
    exit 0
fi
# The tests look for the programs, and for a place for their files, in their own tree: a copy has
# both.
suite=$MQKV_TEST_DIR/suite
mkdir -p "$suite/src"
cp -r "$REDIS_SOURCE/tests" "$REDIS_SOURCE/runtest" "$suite/"
cp "$REDIS_SOURCE/src/help.h" "$suite/src/" 2>/dev/null
for program in redis-cli redis-server redis-benchmark; do
    ln -sf "$(command -v $program)" "$suite/src/$program"
done
mkdir -p "$suite/tests/tmp"
grep -v '^#' "$redis_tests/suite_skips" >"$suite/skips"

# How many tests of each must pass at least: a run that ends early is no pass.
declare -A least_tests=(
    [type/string]=40 [type/incr]=15 [expire]=40 [keyspace]=30 [scan]=5 [protocol]=12 [multi]=20
    [scripting]=130 [pubsub]=17
)

start_server --max-value 8M
port=$((20000 + RANDOM % 20000))
start_kresp --allow-flush --port $port
for unit in type/string type/incr expire keyspace scan protocol multi scripting pubsub; do
    log=$MQKV_TEST_DIR/${unit//\//-}.log
    (cd "$suite" && timeout 500 ./runtest --host 127.0.0.1 --port $port --single "unit/$unit" \
        --singledb --durable --ignore-encoding --ignore-digest --clients 1 --skipfile skips \
        --tags "-needs:debug -needs:repl -needs:config-maxmemory -needs:save -needs:reset") \
        >"$log" 2>&1
    sed -i 's/\x1b\[[0-9;]*m//g' "$log"
    passed=$(grep -c '^\[ok\]' "$log")
    failures=$(grep -E '^\[(err|exception)\]' "$log")
    if [ "$passed" -ge "${least_tests[$unit]}" ] && [ -z "$failures" ]; then
        ok "unit/$unit: $passed tests of Redis pass"
    else
        not_ok "unit/$unit: $passed tests of Redis pass, of ${least_tests[$unit]} or more" \
            "${failures:-$(tail -n 20 "$log")}"
    fi
done
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
