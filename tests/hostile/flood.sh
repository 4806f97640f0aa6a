#!/usr/bin/env bash
# flood: who fills the request queues, with garbage or with requests, leaves others their share.
# long: a flood for seconds, and quiet runs beside it
. "$(dirname "$0")/lib.sh"
# exclusive
need_root
if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "flood: sanitizers take from each another share"
    exit 0
fi

# 20 threads, asleep in mq_send.
garbage_flood() {
    attack_as "$hostile_uid" "$MQKV_BUILD/tests/mq_flood" "$server_queue" 20 "$garbage_priority"
}

# 20 threads of requests, in batches.
valid_flood() {
    attack_as "$hostile_uid" "$MQKV_BUILD/clientk" -m \
        "$server_queue" bench --mix get=1 -n 20 --batch 64 -t 60
}

# floods ORDER PRIORITY...: the good client keeps a quarter, with that order of requests and garbage
# of those priorities.
floods() {
    local order=$1
    shift
    start_server_as "$daemon_uid" --mode 0622 --sched "$order"
    for garbage_priority in "$@"; do
        keeps_a_quarter "$order: garbage of priority $garbage_priority" garbage_flood --mix get=1
    done
    keeps_a_quarter "$order: batches of 64" valid_flood --mix get=1
    stop_server
}

floods fifo 0 31 32767
floods priority 32767
floods cost 32767
