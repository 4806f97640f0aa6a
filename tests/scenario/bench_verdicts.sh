#!/usr/bin/env bash
# bench_verdicts: medians, ratios, goals and the page of `make bench` come out of raw rows as by hand
. "$(dirname "$0")/lib.sh"

scenario=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$scenario/../.." && pwd)
results=$MQKV_TEST_DIR/results
table=$MQKV_TEST_DIR/table
page=$MQKV_TEST_DIR/page.md

mkdir -p "$results/peers"
cp -r "$scenario/bench_golden" "$results/peers/quick"
"$root/experiments/bench" --report-only --out "$results" --plots "$MQKV_TEST_DIR" --page "$page" >"$table"

# line_with TEXT...: the first line of the table that holds all of them, blanks squeezed.
line_with() {
    local line
    line=$(cat "$table")
    for text; do
        line=$(grep -F -e "$text" <<<"$line")
    done
    head -n 1 <<<"$line" | tr -s ' '
}

# Medians of 400, 420, 900; 20, 42, 41; 50, 40, 41; 500, 500, 400 thousand.
check_equal 'GET, 1 client 420,000 41,000 (x10.24) 41,000 (x10.24) 500,000 (x0.84)' \
    "$(line_with 'GET, 1 client')" 'a line shows medians and how many times better mqkv is'
check_equal 'GET, 1 client 10 × Redis × 10.24 met' "$(line_with 'GET, 1 client' '10 × Redis')" \
    'a goal that is reached is met'
check_equal 'GET, 1 client 0.85 of the raw echo 0.84 NOT MET' \
    "$(line_with 'GET, 1 client' 'raw echo ')" 'one that is just missed is not'
check_equal 'GET, 1 client p99 not above memcached × 1.50 NOT MET' \
    "$(line_with 'p99 not above memcached')" 'of a latency less is better'
check_equal 'memory beyond the page cache, bytes a key 1/4 of Redis 1/5.00 met' \
    "$(line_with '1/4 of Redis')" 'and of memory'
check_equal 'restart after kill -9 to the first answer, s not above Redis × 1.25 NOT MET' \
    "$(line_with 'restart after kill -9' 'not above')" 'and of time'
check_equal 'PUT while the index grows: p99.9, µs p99.9 within 5 × itself at rest × 4.90 met' \
    "$(line_with 'index grows' 'within')" '4.9 times is within 5 times'
check_equal 'PUT while compaction runs: p99.9, µs p99.9 within 5 × itself at rest × 5.10 NOT MET' \
    "$(line_with 'compaction runs' 'within')" '5.1 times is not'
check_equal 'CPU with idle clients connected, µs a second at most 500 12 met' \
    "$(line_with 'idle clients' 'at most')" 'a limit is a limit'
check_equal 'failed: get-50p mqkv: no queue left' "$(line_with 'failed: ')" 'a failed run is told'
check_equal 1 "$(grep -c '^| GET, 1 client | 420,000 | 41,000 (x10.24) |' "$page")" \
    'the page holds the same table'
check_equal 0 "$(grep -c -F '$' "$page")" 'and no field of the template is left'
