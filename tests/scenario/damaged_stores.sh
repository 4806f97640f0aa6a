#!/usr/bin/env bash
# damaged_stores: whatever becomes of a store's files, kvcheck, salvage, serverk --check and the
# engine come to an end, with one of their exit statuses. (make hostile does this ten thousand
# times.)
. "$(dirname "$0")/lib.sh"

stores=${DAMAGED_STORES:-40}
seed=${DAMAGE_SEED:-1}
damage_store=$MQKV_BUILD/tests/damage_store

start_server -d 3
for key in {1..60}; do echo \
    "PUT k$key $(printf '%*s' $((key * key * 4)) '' | tr ' ' x)"; done | client batch -q - \
    >/dev/null
stop_server
base=$MQKV_TEST_DIR/base
cp -r "$server_dir" "$base"
start_server
for key in {1..30}; do echo "DEL k$((2 * key))"; done | client batch -q - >/dev/null
kill_server
cp -r "$server_dir" "$base.killed"

failed=0
look() { # PROGRAM ALLOWED-STATUSES COMMAND...
    local status=0
    timeout 60 "${@:3}" >"$MQKV_TEST_DIR/looked" 2>&1 || status=$?
    [[ " $2 " == *" $status "* ]] && return
    echo "seed $((seed + i)) ($told): $1: exit status $status"
    tail -5 "$MQKV_TEST_DIR/looked"
    failed=$((failed + 1))
}

for ((i = 0; i < stores; i++)); do
    store=$MQKV_TEST_DIR/damaged
    rm -rf "$store" "$MQKV_TEST_DIR/saved"
    if ((i % 2)); then cp -r "$base" "$store"; else cp -r "$base.killed" "$store"; fi
    told=$("$damage_store" "$store" $((seed + i)))
    look kvcheck "0 1 4" "$MQKV_BUILD/kvcheck" "$store"
    look salvage "0 1 4" "$MQKV_BUILD/kvcheck" --salvage "$MQKV_TEST_DIR/saved" "$store"
    look check "0 1 4" "$MQKV_BUILD/serverk" --check -m "$MQKV_TEST_QUEUE" -f "$store"
    look engine "0 1" "$damage_store" --open "$store"
    [ ! -e "$MQKV_TEST_DIR/saved/data.0000" ] ||
        look "what was salvaged" "0" "$MQKV_BUILD/kvcheck" "$MQKV_TEST_DIR/saved"
done
check_equal 0 "$failed" \
    "every program ends, with a status of its own, on each of $stores damaged stores"
