#!/usr/bin/env bash
# parts: messages in parts that are announced and never sent, or not sent on, take nothing from
# others for long
. "$(dirname "$0")/lib.sh"
need_root

# QUEUE BYTES: sessions that announce 60 MB each, send so much of it, and stay.
python_attack parts <<'END'
import sys, time
import mqkv

sessions, taken = [], 0
whole = b"x" * int(sys.argv[2])
for number in range(12):
    session = mqkv.Session(sys.argv[1], timeout=20, depth=2, message_bytes=512)
    sessions.append(session)
    request_id = session.new_id()
    most = session.welcome.bulk_bytes - 60
    for offset in range(0, len(whole), most):
        session.send_part(60000000, offset, whole[offset:offset + most], request_id)
        answer = session.receive_for(request_id)
        if answer.header.status:
            break
    else:
        taken += 1
print("taken:", taken, flush=True)
time.sleep(60)
END

start_server_as "$daemon_uid" --mode 0622 --max-value 64M --sync none
head -c 20000000 /dev/urandom >"$common_dir/large"
chmod 644 "$common_dir/large"
: >"$MQKV_TEST_DIR/attack.log"
attack_as "$hostile_uid" "$python" "$attack" "$server_queue" 100
wait_until 20 grep -q '^taken' "$MQKV_TEST_DIR/attack.log" || true
check_match '^taken: 12' "$(cat "$MQKV_TEST_DIR/attack.log")" "12 messages of 60 MB are announced"
check_match '"large_message_bytes": *[0-9]{1,7},' "$(client --format json stats server)" \
    "which takes next to no memory"
large_value() {
    client --timeout 20000 put large - <"$common_dir/large" && client --timeout 20000 get large \
        >"$common_dir/back"
}
check_status 0 "a value of 20 MB of another user goes in parts" large_value
check_status 0 "and comes back" cmp "$common_dir/large" "$common_dir/back"
end_attacks
stop_server
check_equal 0 $? "the daemon stops cleanly"
