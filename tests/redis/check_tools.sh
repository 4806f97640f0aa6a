#!/usr/bin/env bash
# check_tools: redis-cli in all its modes, redis-benchmark and redis_exporter work on kresp.
# shellcheck disable=SC2016 # a reply has its size behind a dollar
. "$(dirname "$0")/../scenario/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

command -v redis-cli >/dev/null || {
    skip "redis-cli and redis-benchmark: not installed"
    exit 0
}
start_server
start_kresp --allow-flush

cli() {
    redis-cli -s "$kresp_socket" "$@"
}

check_equal "OK" "$(cli set a 1)" "a command"
check_equal "1" "$(cli -3 get a)" "and one in RESP3"
check_equal "OK
2
4
OK
QUEUED
QUEUED
OK
x" "$(printf 'set a 2\nget a\nincrby a 2\nmulti\nset a x\nget a\nexec\n' | cli)" \
    "commands from the input"
if command -v script >/dev/null; then
    # The terminal stays until what it has shown is read: at the end of its input redis-cli leaves.
    terminal=$({
        printf 'help set\nget a\nping\n'
        sleep 2
        printf 'quit\n'
    } | TERM=dumb HOME=$MQKV_TEST_DIR timeout 30 \
        script -qec "redis-cli -s '$kresp_socket'" /dev/null | tr -d '\r')
    check_match 'Set the string value of a key' "$terminal" "on a terminal it has its own help"
    check_match '"x"' "$terminal" "and quotes a string"
    check_match 'PONG' "$terminal" "and goes on"
else
    skip "redis-cli on a terminal: script is not installed"
fi
for ((i = 0; i < 5000; i++)); do
    printf 'SET pipe:%d %d\r\n' "$i" "$i"
done >"$MQKV_TEST_DIR/pipe"
check_match "errors: 0, replies: 5000" "$(cli --pipe <"$MQKV_TEST_DIR/pipe" 2>&1)" "--pipe"
check_equal 5001 "$(cli dbsize)" "which stored all"
check_equal 5000 "$(cli --scan --pattern 'pipe:*' | sort -u | wc -l)" "--scan finds each key"
check_equal 5000 "$(cli --scan --pattern 'pipe:*' | wc -l)" "once"
check_match "Biggest string found" "$(cli --bigkeys 2>&1)" "--bigkeys"
check_match "Biggest string found" "$(cli --memkeys 2>&1)" "--memkeys"
check_match "^keys" "$(timeout 5 stdbuf -oL redis-cli -s "$kresp_socket" --stat 2>&1 |
    tr -d '-' | grep -m 1 keys | sed 's/^ *//')" "--stat"
check_match "min: [0-9]+, max: [0-9]+" \
    "$(timeout 3 redis-cli -s "$kresp_socket" --latency --raw 2>&1 |
        sed -E 's/^([0-9]+) ([0-9]+) .*/min: \1, max: \2/')" "--latency"
check_equal "OK" "$(cli flushall)" "FLUSHALL"
check_equal "0" "$(cli dbsize)" "which deletes all"
for options in "" "-3" "-P 16" "-c 200 -P 4" "-r 1000 -d 1000"; do
    # shellcheck disable=SC2086 # several words
    check_status 0 "redis-benchmark $options" \
        redis-benchmark -s "$kresp_socket" -t ping,set,get,incr,mset -n 5000 -q $options
done
if command -v prometheus-redis-exporter >/dev/null; then
    metrics=127.0.0.1:$((20000 + RANDOM % 20000))
    prometheus-redis-exporter -redis.addr "unix://$kresp_socket" -web.listen-address $metrics \
        >"$MQKV_TEST_DIR/exporter.log" 2>&1 &
    exporter_pid=$!
    scraped() {
        python3 - >"$MQKV_TEST_DIR/metrics" 2>/dev/null <<END
import urllib.request
print(urllib.request.urlopen("http://$metrics/metrics").read().decode())
END
    }
    metric() {
        grep "^$1" "$MQKV_TEST_DIR/metrics"
    }
    wait_until 20 scraped
    check_match "^redis_up 1$" "$(metric redis_up)" "redis_exporter scrapes it"
    check_match "^redis_exporter_last_scrape_error\{err=\"\"\} 0$" \
        "$(metric redis_exporter_last_scrape_error)" "without an error"
    check_match "^redis_connected_clients 1$" "$(metric redis_connected_clients)" "and counts"
    kill $exporter_pid
    wait $exporter_pid 2>/dev/null
else
    skip "redis_exporter: not installed"
fi
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
