#!/usr/bin/env bash
# intruder: who gets into another user's lane in the moment that it is open stops nobody, and is
# reported.
. "$(dirname "$0")/lib.sh"
need_root

start_server_as "$daemon_uid" --mode 0622
# The name of a lane cannot be guessed, but found while the lane is there.
attack_as "$good_uid" "$MQKV_BUILD/clientk" -m "$server_queue" bench --mix get=1 --rate 20 -t 60
attack_as "$hostile_uid" "$MQKV_BUILD/tests/mq_intruder" "$server_queue" 20
errors=0
# Short runs: the lane is open to others when each begins.
for ((i = 0; i < 6; i++)); do
    good_bench --mix get=1
    errors=$((errors + good_errors))
    opened=$(grep -c opened "$MQKV_TEST_DIR/attack.log")
    echo "# $good_ops_per_s/s, longest $good_max_us us; lanes opened: $opened"
    [ "$good_ops_per_s" -ge 10 ] || errors=$((errors + 1))
done
end_attacks
check_equal 0 "$errors" "no operation of the good client fails"
if grep -q opened "$MQKV_TEST_DIR/attack.log"; then
    check_match "somebody else sends to the lane of uid $good_uid" "$(cat "$server_log")" \
        "the log says what happens"
else
    skip "the intruder came too late each time"
fi
check_status 0 "the good client is served afterwards" client ping
