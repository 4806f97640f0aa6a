#!/usr/bin/env bash
# serverk_messages: messages of every length and random ones neither stop the daemon nor disturb
# others, however requests reach the workers
. "$(dirname "$0")/lib.sh"

seed=${MQKV_TEST_SEED:-$RANDOM}
for options in "--lanes auto" "--lanes worker -w 3" "--lanes shared -w 3" "--sync always"; do
    # shellcheck disable=SC2086 # options are words
    start_server $options
    check_status 0 "$options: 20,000 hostile messages (seed $seed)" \
        "$MQKV_BUILD/tests/message_storm" "$server_queue" "$seed" 20000
    check_status 0 "$options: 5,000 mutated ones of a genuine session (seed $seed)" \
        "$MQKV_BUILD/tests/message_mutations" "$server_queue" "$server_pid" "$seed" 5000
    check_match '(\+0|-[0-9]+) descriptors' "$output" "$options: which leave no descriptor"
    check_status 0 "$options: the daemon still answers" client ping
    check_equal 1 "$(client --format json stats sessions | tr -d ' \n' | grep -oE '"live":[0-9]+' |
        tr -dc '0-9')" "$options: and has no session left but the one that asks"
    stop_server
    check_equal 0 $? "$options: and stops cleanly"
done
