#!/usr/bin/env bash
# cluster_scenarios: scenarios of the local engine hold on a cluster, too
. "$(dirname "$0")/lib.sh"

# run_scenario NAME PATTERN: its checks become ours; those that the pattern names are left out.
run_scenario() {
    local top=$MQKV_TEST_DIR line shards=4
    case $1 in kresp_* | clientk_prompt) shards=1 ;; esac # the keys of their transactions differ
    mkdir "$top/$1"
    MQKV_TEST_SHARDS=$shards MQKV_TEST_ENGINE=nats MQKV_TEST_NATS=$(nats_urls) \
        MQKV_TEST_DIR=$top/$1 MQKV_TEST_QUEUE=$MQKV_TEST_QUEUE.$1 timeout 200 \
        "$library_dir/$1.sh" </dev/null >"$top/$1.out" 2>&1
    cp "$top/$1.out" "$top/$1.copy"
    while read -r line; do
        case $line in
        "ok - "*) ok "$1: ${line#ok - }" ;;
        "not ok - "*)
            if [ -n "$2" ] && [[ $line =~ $2 ]]; then
                skip "$1: ${line#not ok - }: not promised of a cluster"
            else
                not_ok "$1: ${line#not ok - }" "$(grep -A 10 -F -- "$line" "$top/$1.out")"
            fi
            ;;
        esac
    done <"$top/$1.copy"
    grep -q '^ok - ' "$top/$1.out" || not_ok "$1 runs" "$(tail "$top/$1.out")"
}

write_nats_configs 1
start_nats 0
while read -r name rest; do
    [ -z "$name" ] || [ "${name:0:1}" = '#' ] || run_scenario "$name" "${rest%: *}"
done <"$(dirname "$0")/scenarios"
signal_nats TERM 0
