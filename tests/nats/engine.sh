# engine.sh: start_server for scenarios of the local engine that run on a cluster. lib.sh of
# tests/scenario reads it where MQKV_TEST_ENGINE is nats; MQKV_TEST_NATS has the URLs.
# shellcheck shell=bash
# shellcheck disable=SC2004,SC2034,SC2154 # the variables are those of tests/scenario/lib.sh

# Options that say how files are kept, with their values.
local_options=' -d --datafiles --sync --cache --direct --locking --io '

# Each directory of a scenario stands for a bucket.
start_server() {
    local kept_options=()
    server_logs[$server_log]=1
    unset "killed_queues[$server_queue]"
    while [ $# -gt 0 ]; do
        if [[ $local_options == *" $1 "* ]]; then
            shift 2
        else
            kept_options+=("$1")
            shift
        fi
    done
    "$server_program" -m "$server_queue" --engine nats --nats "$MQKV_TEST_NATS" \
        --bucket "s$(cksum <<<"$server_dir" | cut -d' ' -f1)" "${kept_options[@]}" \
        </dev/null >>"$server_log" 2>&1 &
    server_pid=$!
    if ! wait_until "$start_timeout_s" server_answers_or_is_gone || ! kill -0 \
        "$server_pid" 2>/dev/null
    then
        not_ok "serverk starts ${kept_options[*]}" "$(tail -n 30 "$server_log")"
        exit 1
    fi
}
