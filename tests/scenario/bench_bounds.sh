#!/usr/bin/env bash
# bench_bounds: the page of `make bench` says what bounds a missed goal, and where the time goes
. "$(dirname "$0")/lib.sh"

scenario=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$scenario/../.." && pwd)
results=$MQKV_TEST_DIR/results
page=$MQKV_TEST_DIR/page.md
mkdir -p "$results/peers"
cp -r "$scenario/bench_golden" "$results/peers/quick"

# measured ROW...: raw.csv is these rows: CASE SYSTEM OPS_PER_S P99_US SERVER_US CLIENT_US SWITCHES.
measured() {
    printf '%s\n' "$@" | python3 -c '
import csv, sys
path = sys.argv[1]
columns = next(csv.reader(open(path, encoding="utf-8")))
with open(path, "w", newline="", encoding="utf-8") as file:
    writer = csv.DictWriter(file, columns, restval="")
    writer.writeheader()
    for line in sys.stdin:
        case, system, rate, p99, server, client, switches = line.split()
        writer.writerow(dict(
            case=case, system=system, repeat=1, attempt=1, noisy=0, seed=1, started_utc="2026",
            ops_per_s=rate, megabytes_per_s=rate, p99_us=p99, server_cpu_us_per_op=server,
            client_cpu_us_per_op=client, server_switches_per_op=switches, client_switches_per_op=0,
            steal_pct=0, foreign_cpu_pct=0))
' "$results/peers/quick/raw.csv"
    "$root/experiments/bench" --report-only --out "$results" --plots "$MQKV_TEST_DIR" --page \
        "$page" \
        >"$MQKV_TEST_DIR/table"
}

# goal TEXT...: the page's line of the goal that holds all of them.
goal() {
    local line
    line=$(grep '^| .* met' "$page")
    for text; do
        line=$(grep -F -e "$text" <<<"$line")
    done
    printf '%s\n' "$line"
}

# Two CPUs. 3 x Redis is 300,000, of which the echo makes 200,000; 3 x memcached is 150,000.
measured 'get-5 mqkv 100000 9 8 11 1' 'get-5 redis 100000 9 5 5 1' 'get-5 memcached 50000 9 5 5 1' \
    'get-5 echo-shared 200000 9 4 6 1'
check_match "not met.*the kernel's queues" "$(goal 'GET, 5 clients' '3 × Redis')" \
    'what the echo cannot do either is bounded by the queues'
check_match "not met.*mqkv's own work" "$(goal 'GET, 5 clients' '3 × memcached')" \
    'what it could do is not'
check_match "not met.*mqkv's own work" "$(goal 'GET, 5 clients' '0.85 of')" \
    'nor is the ceiling itself'
check_match 'What limits the others: the kernel.s queues \(1\), mqkv.s own work \(2\)' \
    "$(grep 'goals are met' "$page")" 'the page begins with how many are which'
check_match \
    '^- GET, 5 clients \(3 × Redis: 300,000 operations/s\): .* reaches 200,000 operations/s' \
    "$(grep 'GET, 5 clients (3 × Redis' "$page")" 'a sentence gives both figures'
check_match \
    'CPU time per operation .*: \+4 µs in the server, \+5 µs in the client; the CPUs are full' \
    "$(grep 'GET, 5 clients (0.85' "$page")" 'or what is spent beyond the echo, and on which side'
row='^| GET, 5 clients | 8 + 11 | 4 + 6 | +4, +5 | 5 + 5 | 5 + 5 | 1.9 | 1 | 1 |'
check_equal 1 "$(grep -c "$row" "$page")" \
    'the table of costs has them all'

# 3 x memcached is 180,000, more than 0.85 of 200,000.
measured 'get-5 mqkv 100000 9 8 11 1' 'get-5 redis 20000 9 5 5 1' 'get-5 memcached 60000 9 5 5 1' \
    'get-5 echo-shared 200000 9 4 6 1'
check_match "not met.*the kernel's queues" "$(goal 'GET, 5 clients' '3 × memcached')" \
    'what asks for more than 0.85 of the echo is bounded by the queues'

measured 'get-1 mqkv 100000 90 8 8 5' 'get-1 redis 1000 70 5 5 1' 'get-1 memcached 1000 20 5 5 1' \
    'get-1 echo-shared 200000 50 4 4 1'
check_match "not met.*mqkv's own work" "$(goal 'p99 not above Redis')" 'of a latency less is better'
check_match "not met.*the kernel's queues" "$(goal 'p99 not above memcached')" \
    'on both sides of the rule'
check_match '5 context switches against 1; 1.6 of 2 CPUs are in use' \
    "$(grep 'GET, 1 client (0.85' "$page")" 'many switches and idle CPUs are told'

measured 'always-50 mqkv 10000 9 50 50 1' 'always-50 redis 10000 9 5 5 1'
check_match 'not met.*waiting for the disk' "$(goal 'each on disk' '2 × Redis')" \
    'durable writes on idle CPUs wait for the disk'
measured 'always-50 mqkv 10000 9 100 98 1' 'always-50 redis 10000 9 5 5 1'
check_match "not met.*mqkv's own work" "$(goal 'each on disk' '2 × Redis')" \
    'on full ones they do not'

measured 'engine-get-1 mqkv 100 9 1 1 1' 'engine-get-1 lmdb 100 9 1 1 1'
check_match \
    '^- engine alone: random GET, 1 thread \(2 × LMDB: 200 operations/s\): .*own work.*LMDB' \
    "$(grep '^- engine alone' "$page")" 'works without messages have words of their own'
check_match "no figure" "$(goal 'random GET, 1 thread' '2 × RocksDB')" \
    'what was not measured is not explained'

measured 'get-5 mqkv 900000 9 1 1 1' 'get-5 redis 100000 9 5 5 1' 'get-5 memcached 50000 9 5 5 1' \
    'get-5 echo-shared 200000 9 4 6 1'
check_equal 0 "$(grep -c 'What limits the others' "$page")" \
    'where all goals are met there is nothing to say'
