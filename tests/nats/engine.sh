# engine.sh: start_server for scenarios of the local engine that run on a cluster. lib.sh of
# tests/scenario reads it where MQKV_TEST_ENGINE is nats; MQKV_TEST_NATS has the URLs.
# shellcheck shell=bash
# shellcheck disable=SC2004,SC2034,SC2154 # the variables are those of tests/scenario/lib.sh

# Options that say how files are kept, with their values.
local_options=' -d --datafiles --sync --cache --direct --locking --io '

# Each directory of a scenario stands for a bucket.
start_server() {
    local kept_options=()
    while [ $# -gt 0 ]; do
        if [[ $local_options == *" $1 "* ]]; then
            shift 2
        else
            kept_options+=("$1")
            shift
        fi
    done
    launch_server "${kept_options[*]}" "$server_program" -m "$server_queue" --engine nats \
        --nats "$MQKV_TEST_NATS" --bucket "s$(cksum <<<"$server_dir" | cut -d' ' -f1)" \
        --shards "${MQKV_TEST_SHARDS:-4}" \
        "${kept_options[@]}"
}
