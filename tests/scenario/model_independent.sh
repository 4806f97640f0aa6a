#!/usr/bin/env bash
# model_independent: the store is what a model of it says, for random operations of the independent
# client, through kill -9 and stops, in several settings. MQKV_MODEL_SECONDS (2) for each setting,
# MQKV_MODEL_SEED.
# long: seconds for each of many settings
. "$(dirname "$0")/lib.sh"
has_lab 'model_independent' || exit 0

past_cache=
has_direct_reads && past_cache="--io direct -w 4 -d 2 --lanes shared"
seconds=${MQKV_MODEL_SECONDS:-2}
seed=${MQKV_MODEL_SEED:-$(date +%s)}
setting=0
while read -ra options; do
    [ ${#options[@]} -gt 0 ] || continue
    server_logs[$MQKV_TEST_DIR/$setting.log]=1
    python3 -B "$library_dir/../independent/test_model.py" "$MQKV_BUILD/serverk" "$server_queue" \
        "$MQKV_TEST_DIR/$setting" "$MQKV_TEST_DIR/$setting.log" "$seconds" $((seed + setting)) -- \
            "${options[@]}" \
        </dev/null || failed_checks=$((failed_checks + 1))
    setting=$((setting + 1))
done <<END
--lanes auto
--lanes shared -w 4 --sync always --ordered
--lanes worker -w 4 -d 1 --sync none
--dispatch thread --locking optimistic --ordered
--dispatch process --locking global-mutex --ordered
--dispatch event --io pread --ordered
--sched cost -w 4 --cache 64k
--lanes shared -w 4 --io pread --cache 1M --locking optimistic
--locking file-mutex --verify every -d 16 --ordered
$past_cache
END
