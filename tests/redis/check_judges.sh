#!/usr/bin/env bash
# check_judges: what others have written to judge servers and clients of Redis passes on kresp, but
# for what judge_skips names: RESP_COMPATIBILITY, a source tree of resp-compatibility (by
# tair-opensource), of whose items those are run that use only commands which kresp has; REDIS_PY, a
# source tree of redis-py, of whose tests those about encoding, locks and pipelines. What is not
# given is skipped.
. "$(dirname "$0")/../scenario/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

judges=$MQKV_BUILD/redis-judges
python=$judges/python/bin/python
mkdir -p "$judges"

# Once; true if it is there.
install_judges() {
    [ -e "$judges/installed" ] && return
    { python3 -m venv "$judges/python" &&
        "$judges/python/bin/pip" install -q redis pyyaml pytest pytest-asyncio numpy xxhash; } \
        >"$judges/log" 2>&1 </dev/null && : >"$judges/installed" && return
    skip "other judges: what they need cannot be installed ($(tail -n 1 "$judges/log"))"
    return 1
}

# skipped JUDGE: the names that judge_skips has of it, one a line.
skipped() {
    sed -n "s/^$1: //p" "$redis_tests/judge_skips"
}

check_resp_compatibility() {
    local failures
    redis-cli -p "$port" command list >"$MQKV_TEST_DIR/commands"
    skipped resp-compatibility >"$MQKV_TEST_DIR/skips"
    python3 "$redis_tests/items" "$RESP_COMPATIBILITY/cts.json" "$MQKV_TEST_DIR/commands" \
        "$MQKV_TEST_DIR/skips" >"$MQKV_TEST_DIR/items.json"
    (cd "$RESP_COMPATIBILITY" &&
        timeout 100 "$python" resp_compatibility.py --host 127.0.0.1 --port "$port" --testfile \
            "$MQKV_TEST_DIR/items.json" --specific-version 7.2.0 --show-failed) \
        >"$MQKV_TEST_DIR/resp.log" 2>&1
    failures=$(grep '^FailedTest' "$MQKV_TEST_DIR/resp.log")
    if grep -q '^Summary' "$MQKV_TEST_DIR/resp.log" && [ -z "$failures" ]; then
        ok "resp-compatibility: $(grep -c ' passed$' "$MQKV_TEST_DIR/resp.log") items pass"
    else
        not_ok "resp-compatibility" "${failures:-$(tail -n 20 "$MQKV_TEST_DIR/resp.log")}"
    fi
}

# check_redis_py UNIT
check_redis_py() {
    local log=$MQKV_TEST_DIR/redis_py_$1.log deselected=()
    mapfile -t deselected < <(skipped redis-py | sed "s/^/--deselect=/")
    (cd "$REDIS_PY" &&
        timeout 200 "$python" -m pytest -q -p no:cacheprovider "tests/test_$1.py" --redis-url \
            "redis://127.0.0.1:$port/0" -k 'not cluster' "${deselected[@]}") >"$log" 2>&1
    check_match '^[0-9]+ passed' "$(tail -n 1 "$log")" "redis-py's own tests, $1" ||
        tail -n 40 "$log"
}

if [ ! -e "${RESP_COMPATIBILITY:-}/cts.json" ] && [ ! -d "${REDIS_PY:-}/tests" ]; then
    skip "other judges: they need RESP_COMPATIBILITY=<source tree> or REDIS_PY=<source tree>"
    exit 0
fi
install_judges || exit 0
start_server
port=$((20000 + RANDOM % 20000))
start_kresp --allow-flush --port $port
[ -e "${RESP_COMPATIBILITY:-}/cts.json" ] && check_resp_compatibility
if [ -d "${REDIS_PY:-}/tests" ]; then
    for unit in encoding lock pipeline; do
        check_redis_py $unit
    done
fi
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
