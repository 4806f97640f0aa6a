#!/usr/bin/env bash
# transaction_histories: what clients see of several keys, by transactions, reads of one moment,
# single operations, batches, scans and reads in place, is explained by one order of all calls
# (strict serialisability), in several settings and through kill -9. MQKV_HISTORY_OPERATIONS (500)
# of each of six clients, MQKV_HISTORY_SEED.
# long: a long history for each of many settings
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/histories.sh"
has_lab 'transaction_histories' || exit 0

judge=$library_dir/../history/list_cycles.py
check_status 0 "histories that are wrong on purpose are rejected, others are not" \
    python3 -B "$library_dir/../history/test_list_cycles.py"
echo "# $output"

operations=${MQKV_HISTORY_OPERATIONS:-500}
seed=${MQKV_HISTORY_SEED:-$(date +%s)}
notes=$MQKV_TEST_DIR/notes
while read -r kills files options; do
    # shellcheck disable=SC2086  # words
    if ! record_history "$kills" "$MQKV_BUILD/tests/transaction_load" lists "$server_queue" \
        "$files" 6 5 "$operations" 1 "$seed" "$notes" -- -d "$files" -w 4 $options
    then
        not_ok "a history is recorded: -d $files $options" "$(cat "$MQKV_TEST_DIR/load")"
        continue
    fi
    check_status 0 "a history is strictly serialisable: -d $files $options, $kills kills" \
        python3 -B "$judge" "$notes"
    echo "# ${output#*, } (seed $seed)"
    if [ "$failed_checks" != 0 ]; then
        cp "$notes" "${TMPDIR:-/tmp}/rejected.$seed.json"
        break
    fi
    seed=$((seed + 1))
done <<'END'
0 8 --lanes shared
3 8 --lanes shared
2 1 --lanes shared
2 4 --lanes worker --locking file-mutex
1 4 --lanes shared --locking global-rwlock
2 4 --lanes shared --locking optimistic
1 8 --dispatch thread
1 8 --dispatch process
2 8 --cache 64k --io pread
1 3 --sync always
2 2 --sync interval:5 --sched cost
END
