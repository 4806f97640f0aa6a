#!/usr/bin/env bash
# experiments_example: the study in examples/ that users copy runs, and tells what it promises; the
# lab of docs/COURSE.md runs as written
. "$(dirname "$0")/lib.sh"
has_lab 'experiments_example' || exit 0

root=$(cd "$(dirname "$0")/../.." && pwd)

if command -v cc >/dev/null; then
    check_status 0 "a student's starting points build, and pass their tests" \
        make -s -C "$root/examples/student" check OUT="$MQKV_TEST_DIR/student"
    check_match 'yours: two readers of a file exclude each other' "$output" \
        'which tell what they do'
    check_match 'yours: score x1.00 of first come' "$output" 'as a place to begin'
fi

# lab_lines: the commands of the lab, shorter, in the test's folder and on its queue.
lab_lines() {
    local past_cache=
    has_direct_reads || past_cache='s/--io direct/--io pread/'
    sed -n '/^## Lab/,/^## Project/p' "$root/docs/COURSE.md" |
        sed -n -E 's/^ {7}((mkdir|serverk|clientk) .*)/\1/p' |
        sed -e "s|/tmp/lab|$MQKV_TEST_DIR/lab|" -e "s|-m /lab |-m $MQKV_TEST_QUEUE |" \
            -e 's/ -t 3$/ -t 0.1/' -e "$past_cache"
}

# run_lab_line WORD...: one of them; a daemon takes the place of the one before.
run_lab_line() {
    local program=$1
    shift
    case $program in
    mkdir) check_status 0 'the lab has a new folder' mkdir "$@" ;;
    serverk)
        [ -z "$server_pid" ] || stop_server
        launch_server "$*" "$server_program" "$@"
        daemons=$((daemons + 1))
        ;;
    clientk)
        check_status 0 "the lab's line runs: ${*:3}" "$MQKV_BUILD/clientk" "$@"
        [[ $* != *--preload* ]] || check_match '; 0 not found, 0 errors' "$output" \
            'and finds the keys that it wrote'
        ;;
    esac
}

daemons=0
while read -ra words <&3; do
    run_lab_line "${words[@]}"
done 3< <(lab_lines)
check_equal 5 "$daemons" 'the lab starts daemons of five kinds'
stop_server

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
judged='^- Throughput: that .* is at least 100 % more than .* with 1 client'
judged+='|^Nearly all runs were disturbed'
check_match "$judged" \
    "$(cat "$out/REPORT.md")" 'its claims are judged'
picture=$(cat "$MQKV_TEST_DIR/study-smoke.svg")
for text in 'What does a safe write cost' '10 clients' \
    'throughput, ratio to sync = left to the kernel'
do
    check_match ">$text" "$picture" "the picture says: $text"
done
check_equal '' "$("$root/tests/leftovers" "$MQKV_TEST_QUEUE")" 'no queue is left'
