#!/usr/bin/env bash
# experiments_example: the study in examples/ that users copy runs, and tells what it promises
. "$(dirname "$0")/lib.sh"

root=$(cd "$(dirname "$0")/../.." && pwd)

if command -v cc >/dev/null; then
    check_status 0 "a student's starting points build, and pass their tests" \
        make -s -C "$root/examples/student" check OUT="$MQKV_TEST_DIR/student"
    check_match 'yours: two readers of a file exclude each other' "$output" \
        'which tell what they do'
    check_match 'yours: score x1.00 of first come' "$output" 'as a place to begin'
fi

out=$MQKV_TEST_DIR/results/study/smoke

if ! command -v gnuplot >/dev/null || ! command -v rsvg-convert >/dev/null; then
    skip 'no gnuplot or rsvg-convert: a study ends with its picture'
    exit 0
fi
check_status 0 'the example runs' "$root/experiments/run" --build "$MQKV_BUILD" \
    --out "$MQKV_TEST_DIR/results" --plots "$MQKV_TEST_DIR" --store "$MQKV_TEST_DIR" \
    --queue "$MQKV_TEST_QUEUE" --noise-limit 100 --profile smoke "$root/examples/study"
check_equal 7 "$(wc -l <"$out/raw.csv")" 'a row for each of its points'
check_match ',puts,syncs,attempt,noisy$' "$(head -n 1 "$out/raw.csv")" 'with what was collected'
check_match 'puts_per_sync_ratio_high$' "$(head -n 1 "$out/summary.csv")" 'and computed'
judged="^- Throughput: 'none > always by 100 %'.*with 1 client|^All runs were disturbed"
check_match "$judged" \
    "$(cat "$out/REPORT.md")" 'its claims are judged'
picture=$(cat "$MQKV_TEST_DIR/study-smoke.svg")
for text in 'What does a safe write cost' '10 clients' \
    'throughput, ratio to sync = left to the kernel'
do
    check_match ">$text" "$picture" "the picture says: $text"
done
check_equal '' "$("$root/tests/leftovers" "$MQKV_TEST_QUEUE")" 'no queue is left'
