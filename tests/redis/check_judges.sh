#!/usr/bin/env bash
# check_judges: what others have written to judge servers and clients of Redis passes on kresp, but
# for what judge_skips names: redis-py's own tests about encoding, locks and pipelines, which pip
# fetches unless REDIS_PY is a source tree of it; RESP_COMPATIBILITY, a source tree of
# https://github.com/tair-opensource/resp-compatibility, of whose items those are run that use only
# commands which kresp has. What is not there is skipped.
. "$(dirname "$0")/../scenario/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

judges=$MQKV_BUILD/redis-judges
python=$judges/python/bin/python
redis_py_version=8.1.0 # the one whose tests judge_skips knows
# How many must pass at least: a command that is gone takes its items along, and a run that collects
# no test is no pass.
least_items=77
declare -A least_tests=([encoding]=8 [lock]=25 [pipeline]=23)

install_judges() {
    python3 -m venv "$judges/python" &&
        "$judges/python/bin/pip" install -q "redis==$redis_py_version" pyyaml pytest \
            pytest-asyncio numpy xxhash
}

# Its wheel has no tests. What builds it may be wheels: of sources that takes many minutes.
install_redis_py_tests() {
    "$judges/python/bin/pip" download -q --no-deps --no-binary redis -d "$judges" \
        "redis==$redis_py_version" && mkdir -p "$judges/redis-py" &&
        tar -xf "$judges/redis-$redis_py_version.tar.gz" -C "$judges/redis-py" \
            --strip-components=1
}

# skipped JUDGE: the names that judge_skips has of it, one a line.
skipped() {
    sed -n "s/^$1: //p" "$redis_tests/judge_skips"
}

check_resp_compatibility() {
    local failures passed log=$MQKV_TEST_DIR/resp.log
    redis-cli -p "$port" command list >"$MQKV_TEST_DIR/commands"
    skipped resp-compatibility >"$MQKV_TEST_DIR/skips"
    python3 "$redis_tests/items" "$RESP_COMPATIBILITY/cts.json" "$MQKV_TEST_DIR/commands" \
        "$MQKV_TEST_DIR/skips" >"$MQKV_TEST_DIR/items.json"
    (cd "$RESP_COMPATIBILITY" &&
        timeout 100 "$python" resp_compatibility.py --host 127.0.0.1 --port "$port" --testfile \
            "$MQKV_TEST_DIR/items.json" --specific-version 7.2.0 --show-failed) >"$log" 2>&1
    failures=$(grep '^FailedTest' "$log")
    passed=$(grep -c ' passed$' "$log")
    if grep -q '^Summary' "$log" && [ -z "$failures" ] && [ "$passed" -ge "$least_items" ]; then
        ok "resp-compatibility: $passed items pass"
    else
        not_ok "resp-compatibility: $passed items pass, of $least_items or more" \
            "${failures:-$(tail -n 20 "$log")}"
    fi
}

# check_redis_py UNIT
check_redis_py() {
    local log=$MQKV_TEST_DIR/redis_py_$1.log deselected=() passed
    mapfile -t deselected < <(skipped redis-py | sed "s/^/--deselect=/")
    (cd "$REDIS_PY" &&
        timeout 200 "$python" -m pytest -q -p no:cacheprovider "tests/test_$1.py" --redis-url \
            "redis://127.0.0.1:$port/0" -m 'not onlycluster' "${deselected[@]}") >"$log" 2>&1
    passed=$(sed -nE '$s/^([0-9]+) passed.*/\1/p' "$log") # empty if one failed
    if [ "${passed:-0}" -ge "${least_tests[$1]}" ]; then
        ok "redis-py's own tests, $1: $passed pass"
    else
        not_ok "redis-py's own tests, $1: ${least_tests[$1]} or more pass" "$(tail -n 40 "$log")"
    fi
}

install_once "$judges" other-judges install_judges || exit 0
if [ -z "${REDIS_PY:-}" ] && install_once "$judges" redis-py-tests install_redis_py_tests; then
    REDIS_PY=$judges/redis-py
fi
start_server
port=$((20000 + RANDOM % 20000))
start_kresp --allow-flush --port $port
if [ -e "${RESP_COMPATIBILITY:-}/cts.json" ] && command -v redis-cli >/dev/null; then
    check_resp_compatibility
else
    skip "resp-compatibility: it needs RESP_COMPATIBILITY=<source tree> and redis-cli"
fi
if [ -d "${REDIS_PY:-}/tests" ]; then
    for unit in encoding lock pipeline; do
        check_redis_py $unit
    done
else
    skip "redis-py's own tests: no REDIS_PY=<source tree>, and none could be fetched"
fi
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
