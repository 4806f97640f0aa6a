#!/usr/bin/env bash
# bench_verdicts: medians, ratios, goals and the page of `make bench` come out of raw rows as by
# hand
. "$(dirname "$0")/lib.sh"

scenario=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$scenario/../.." && pwd)
results=$MQKV_TEST_DIR/results
table=$MQKV_TEST_DIR/table
page=$MQKV_TEST_DIR/page.md

mkdir -p "$results/peers"
cp -r "$scenario/bench_golden" "$results/peers/quick"
"$root/experiments/bench" --report-only --out "$results" --plots "$MQKV_TEST_DIR" --page \
    "$page" >"$table"

# line_with TEXT...: the first line of the table that holds all of them, blanks squeezed.
line_with() {
    local line
    line=$(cat "$table")
    for text; do
        line=$(grep -F -e "$text" <<<"$line")
    done
    head -n 1 <<<"$line" | tr -s ' '
}

# Medians of 400, 420, 900; 20, 42, 41 (a disturbed attempt at this one gave 900); 50, 40, 41; 500,
# 500, 400 thousand.
check_equal 'GET, 1 client 420,000 41,000 (x10.24) 41,000 (x10.24) 500,000 (x0.84)' \
    "$(line_with 'GET, 1 client')" 'a line shows medians and how many times better mqkv is'
check_equal 'GET, 1 client 10 × Redis × 10.24 met' "$(line_with 'GET, 1 client' '10 × Redis')" \
    'a goal that is reached is met'
check_equal 'GET, 1 client 0.85 of the raw echo, shared replies 0.84 NOT MET' \
    "$(line_with 'GET, 1 client' 'raw echo, shared replies ')" 'one that is just missed is not'
check_equal 'GET, 1 client p99 not above memcached × 1.50 NOT MET' \
    "$(line_with 'p99 not above memcached')" 'of a latency less is better'
check_equal 'memory beyond the page cache, bytes per key 1/4 of Redis 1/5.00 met' \
    "$(line_with '1/4 of Redis')" 'and of memory'
check_equal 'restart after kill -9 to the first answer, s not above Redis × 1.25 NOT MET' \
    "$(line_with 'restart after kill -9' 'not above')" 'and of time'
check_equal 'PUT while the index grows: p99.9, µs p99.9 within 5 × itself at rest × 4.90 met' \
    "$(line_with 'index grows' 'within')" '4.9 times is within 5 times'
check_equal 'PUT while compaction runs: p99.9, µs p99.9 within 5 × itself at rest × 5.10 NOT MET' \
    "$(line_with 'compaction runs' 'within')" '5.1 times is not'
check_equal 'CPU with idle clients connected, µs per second at most 500 12 met' \
    "$(line_with 'idle clients' 'at most')" 'a limit is a limit'
# Of rounds: 40, 50, 60, 90 thousand beside 10, 20, 30, 10; the fifth of Redis is missing.
check_equal 'GET, 1 client 55,000 15,000 (x3.25: 2.5–4.0)' "$(line_with 'GET, 1 client' '–')" \
    'paired works are compared round by round'
check_equal 'GET, 1 client 3 × Redis × 3.25 met' "$(line_with 'GET, 1 client' '3 × Redis')" \
    'and judged so'
check_equal 1 "$(grep -c 'runs of 2026-01-01, ' "$MQKV_TEST_DIR/peers-quick.svg")" \
    'the picture says when the runs were'
check_equal 'failed: get-50p mqkv: no queue left' "$(line_with 'failed: ')" 'a failed run is told'
check_equal 1 "$(grep -c '^| GET, 1 client | 420,000 | 41,000 (x10.24) |' "$page")" \
    'the page holds the same table'
check_equal 0 "$(grep -c -F '$' "$page")" 'and no field of the template is left'
check_match '^0 of 22 runs saw more than 5 %.* 1 more attempt was' "$(grep 'saw more' "$page")" \
    'the page counts what was repeated, and what stayed noisy'
check_equal 0 "$(grep -c 'machine was busy' "$page")" 'a quiet machine is not called busy'
check_match 'have fewer runs:.* At rest \(1\)' "$(grep 'fewer runs' "$page")" \
    'works that were measured less often than the others are told'
sed -i 's/0\.00,1\.00/0.00,50.00/' "$results/peers/quick/raw.csv"
"$root/experiments/bench" --report-only --out "$results" --plots "$MQKV_TEST_DIR" --page \
    "$page" >"$table"
check_equal 1 "$(grep -c 'machine was busy' "$page")" 'a busy one is, where the goals are counted'

# Figures that the pages quote are looked up, and a page that has another one is told of.
pages=$MQKV_TEST_DIR/pages
mkdir -p "$pages/docs" "$pages/experiments/results/peers/quick"
cp "$root/README.md" "$pages"
cp "$root/docs/PERFORMANCE.md" "$pages/docs"
cp "$root/experiments/results/OPENING.md" "$pages/experiments/results"
cp "$root/experiments/results/peers/quick/summary.csv" "$pages/experiments/results/peers/quick"
check_equal '' "$("$root/tests/lint/figures" "$pages")" 'the pages quote what was measured'
sed -i 's/| 1 | 215,000 |/| 1 | 251,000 |/' "$pages/README.md"
sed -i 's/second beside 7,800/second beside 9,800/; /^mix-5 ops/d' "$pages/docs/PERFORMANCE.md"
check_match "README.md:[0-9]+: mix-1 ops_per_s mqkv is 214,865, quoted as 251,000" \
    "$("$root/tests/lint/figures" "$pages")" 'a quoted figure that is another one is told'
check_match "README.md:[0-9]+: '64 KiB: 36,300 .*' is not in docs/PERFORMANCE.md" \
    "$("$root/tests/lint/figures" "$pages")" 'and what another page does not say'
check_match 'PERFORMANCE.md:[0-9]+: the table has 6 rows, and 5 sources' \
    "$("$root/tests/lint/figures" "$pages")" 'and a row that nobody looked up'

# ledger WHEN CASE...: a ledger of profile quick measures the cases, and another goes on behind it;
# no system is started: an attempt is disturbed if the Python expression WHEN over `attempt` and
# `system` says so. Prints the attempts made, those beyond the first, and what the second ledger
# added.
ledger() {
    rm -rf "$MQKV_TEST_DIR/ledger"
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/experiments python3 - "$MQKV_TEST_DIR/ledger" \
        "$@" <<'PYTHON' 2>/dev/null
import collections, pathlib, sys
from harness.results import Results
from judge import rows
from judge.cases import all_cases

folder, when, *names = sys.argv[1:]
cases = [case for case in all_cases() if case.name in names]
made = collections.Counter()

def run(case, system, repeat):
    made[case.name, system, repeat] += 1
    attempt = made[case.name, system, repeat]
    row = {"ops_per_s": 1, "steal_pct": 0, "foreign_cpu_pct": 50 if eval(when) else 0}
    return {name: row for name in names}

def go_on():
    ledger = rows.Ledger(cases, results, rows.PROFILES["quick"], None, 1, 5, {})
    first = cases[0]
    order = [(first, s, n) for n in ledger.repeats() for s in first.systems]
    ledger.measure(order, run, str)
    return sum(made.values())

results = Results(pathlib.Path(folder), "case")
results.begin({"started_utc": "now"})
total = go_on()
print(total, sum(count - 1 for count in made.values()), go_on() - total)
PYTHON
}
check_equal '25 0 0' "$(ledger 'False' get-1)" 'on a quiet machine each of 5 x 5 runs is made once'
check_equal '30 5 0' "$(ledger 'system == "redis" and attempt == 1' get-1)" \
    'a disturbed run is made again'
check_equal '31 6 0' "$(ledger 'True' get-1)" 'six noisy ones in a row are enough'
check_equal '37 12 0' "$(ledger 'attempt != 2 or system == "mqkv"' get-1)" \
    'half as many again are the most'
check_equal '26 6 0' "$(ledger 'True' engine-put-1 engine-get-1)" \
    'and a run of two rows is one run'
