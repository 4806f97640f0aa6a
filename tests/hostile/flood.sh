#!/usr/bin/env bash
# flood: who fills the request queues, with garbage or with requests, leaves others their share.
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
    attack_as "$hostile_uid" "$MQKV_BUILD/clientk" -m "$server_queue" bench --mix get=1 -n 20 --batch 64 -t 60
}

start_server_as "$daemon_uid" --mode 0622
for garbage_priority in 0 31 32767; do
    keeps_a_quarter "garbage of priority $garbage_priority" garbage_flood --mix get=1
done
keeps_a_quarter "batches of 64" valid_flood --mix get=1
