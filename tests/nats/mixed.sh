# mixed.sh: cluster_mixed_*.sh, which set nats_version and NATS_SERVER before: puts, deletes and
# short expiry, mixed, while servers are killed, on a busy machine. Nothing that was acknowledged may
# be lost, and the replicas are to be equal.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

between_s=${MQKV_NATS_BETWEEN:-4} # two kills
for ((i = 0; i < ${MQKV_NATS_BURNERS:-4}; i++)); do
    (while :; do :; done) & # ended by finish
done

write_nats_configs 3
start_nats 0 1 2
start_timeout_s=60
nats_options=(--shards 3 --replicas 3)
start_server

# mixed ROUNDS VICTIMS TEXT: with that many kills, each of the servers that the function VICTIMS
# prints.
mixed() {
    local rounds=$1 victims=$2 text=$3 i writer
    local -a killed
    python3 "$library_dir/../nats/mixed_load.py" write "$server_queue" "$MQKV_TEST_DIR/mixed" \
        >"$MQKV_TEST_DIR/written" 2>&1 &
    writer=$!
    sleep "$between_s"
    for ((i = 0; i < rounds; i++)); do
        read -ra killed < <("$victims" "$i")
        signal_nats KILL "${killed[@]}"
        sleep 1
        start_nats "${killed[@]}"
        sleep "$between_s"
    done
    kill "$writer"
    if wait "$writer"; then
        ok "$text: answers are right"
    else
        not_ok "$text: answers are right" "$(tail -n 12 "$MQKV_TEST_DIR/written")"
    fi
    check_status 0 "$text: nothing is lost, and the replicas are equal" \
        python3 "$library_dir/../nats/mixed_load.py" check "$server_queue" "$MQKV_TEST_DIR/mixed" \
        "$(nats_urls)" "$bucket" 3
    sed 's/^/# /' "$MQKV_TEST_DIR/written"
}

a_leader() {
    leader_of "KV_check_$(($1 % 3))"
}

two() {
    echo "$(($1 % 3)) $((($1 + 1) % 3))"
}

all() {
    echo 0 1 2
}

for words in ${MQKV_NATS_MIXED:-1:a_leader 1:two 1:all 3:a_leader 2:two 2:all}; do
    mixed "${words%%:*}" "${words##*:}" "kill -9 of ${words##*:}, ${words%%:*} times"
done
stop_server
signal_nats TERM 0 1 2
