#!/usr/bin/env bash
# long_messages: a message of thousands of operations keeps the others waiting for no longer than is
# stated
. "$(dirname "$0")/lib.sh"
need_root

# QUEUE MODE: what the message asks for by MODE; prints what became of it.
python_attack long <<'END'
import collections, sys, time
import mqkv

queue, mode = sys.argv[1:3]
session = mqkv.Session(queue, timeout=60)
operations = {
    "scans": [mqkv.scan(b"nothing begins so", 0, 4096)] * 4096,
    "atomic": [mqkv.scan(b"nothing begins so", 0, 4096, mqkv.ATOMIC)] * 4096,
    "syncs": [mqkv.sync()] * 4096,
    "stats": [mqkv.stats()] * 4096,
    "appends": [mqkv.append(b"long", b"y")] * 4096,
}[mode]
if mode == "appends":
    assert session.put(b"long", b"x" * 1000000).status == 0
while True:
    began = time.monotonic()
    reply = session.request(operations, again=False)
    counts = collections.Counter(result.name for result in reply.results)
    took = f"{mode}: {time.monotonic() - began:.2f} s,"
    print(took, reply.name, *sorted(counts.items()), flush=True)
    if mode == "appends":
        time.sleep(60)
END

store_bytes() {
    du -sb "$server_dir" | cut -f1
}

# One worker: nobody else can take over.
start_server_as "$daemon_uid" --mode 0622 -w 1 --sync none
seq 150000 | sed 's/.*/put key& value/' >"$common_dir/keys"
check_status 0 "a store is filled" client --timeout 60000 batch "$common_dir/keys"

for mode in scans atomic syncs stats; do
    : >"$MQKV_TEST_DIR/attack.log"
    attack_as "$hostile_uid" "$python" "$attack" "$server_queue" "$mode"
    attack_as "$hostile_uid" "$python" "$attack" "$server_queue" "$mode"
    sleep 0.7
    for i in 1 2 3; do
        check_status 0 "messages of 4,096 $mode: the good client is served ($i)" \
            client --timeout 6000 put "good$i" value
    done
    end_attacks
    check_status 0 "and when their sender is gone" client --timeout 6000 get good1
done

before=$(store_bytes)
: >"$MQKV_TEST_DIR/attack.log"
attack_as "$hostile_uid" "$python" "$attack" "$server_queue" appends
wait_until 20 grep -q '^appends' "$MQKV_TEST_DIR/attack.log" || true
check_match "^appends: .*'OK', ([1-9]|[1-9][0-9])\).*'OVERLOADED', 40[0-9][0-9]\)" \
    "$(cat "$MQKV_TEST_DIR/attack.log")" \
        "of 4,096 appends to a value of 1 MB some are executed, the rest is left over"
check_status 0 "the good client is served" client --timeout 6000 put good value
end_attacks
grown=$((($(store_bytes) - before) / 1000000))
check_at_most 200 "$grown" "the store has grown by MB in the message's bounds"
stop_server
check_equal 0 $? "the daemon stops cleanly"
