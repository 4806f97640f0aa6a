#!/usr/bin/env bash
# kresp_compare: kresp's replies are those of redis-server, byte by byte, in both protocols.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

command -v redis-server >/dev/null || {
    skip "the comparison with redis-server: it is not installed"
    exit 0
}
redis_version=$(redis-server --version | grep -oE 'v=[0-9]+\.[0-9]+' | cut -c 3-)
[ "$redis_version" = 7.0 ] || {
    skip "the comparison with redis-server: the table is that of 7.0, not of $redis_version"
    exit 0
}

redis_answers() {
    python3 "$redis_tests/ask" "$MQKV_TEST_DIR/redis.sock" ping 2>/dev/null | grep -q PONG
}

start_server
start_kresp --allow-flush
# On a busy machine Redis notes its own commands as slow, SAVE above all; kresp has no such log.
redis-server --port 0 --unixsocket "$MQKV_TEST_DIR/redis.sock" --save '' --appendonly no \
    --slowlog-log-slower-than -1 --dir "$MQKV_TEST_DIR" >"$MQKV_TEST_DIR/redis.log" 2>&1 &
redis_pid=$!
wait_until "$start_timeout_s" redis_answers || {
    not_ok "redis-server starts" "$(tail "$MQKV_TEST_DIR/redis.log")"
    exit 1
}
"$redis_tests/compare" "$kresp_socket" "$MQKV_TEST_DIR/redis.sock" "$redis_tests/commands.txt" ||
    failed_checks=1
check_equal "$("$redis_tests/touched" "$MQKV_TEST_DIR/redis.sock")" \
    "$("$redis_tests/touched" "$kresp_socket")" "commands write the keys that they change"
kill "$redis_pid"
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
