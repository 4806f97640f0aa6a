#!/usr/bin/env bash
# atomic_scans: an atomic scan of one data file is one moment of it while others write, with one
# worker awake or several, and whoever executes it
. "$(dirname "$0")/lib.sh"
has_lab 'atomic_scans' || exit 0

for options in "--lanes auto" "--lanes shared -w 4" "--lanes worker -w 4" \
    "--lanes shared -w 4 --locking optimistic" "--sched cost -w 4" "--dispatch process"
do
    server_dir=$MQKV_TEST_DIR/data${options//[^a-z]/}
    # shellcheck disable=SC2086 # options are words
    start_server -d 1 $options
    check_status 0 "$options: each atomic scan is one moment" \
        "$MQKV_BUILD/tests/atomic_scans" "$server_queue" 400
    echo "# $output"
    check_match '[1-9][0-9]* of them in the middle' "$output" \
        "$options: and some met a round half done"
    stop_server
done
