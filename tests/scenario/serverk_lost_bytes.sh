#!/usr/bin/env bash
# serverk_lost_bytes: a segment or a data file that is truncated under the daemon costs its client
# or its file, not all
. "$(dirname "$0")/lib.sh"
has_lab 'serverk_lost_bytes' || exit 0

modules=$(realpath "$(dirname "$0")/../independent")

# truncate.py QUEUE ROUNDS: sessions that truncate their segment while the daemon works with it.
cat >"$MQKV_TEST_DIR/truncate.py" <<'END'
import collections, os, sys, threading, time
sys.path.insert(0, sys.argv[3])
import mqkv

outcomes = collections.Counter()
size = 8 << 20
for i in range(int(sys.argv[2])):
    with mqkv.Session(sys.argv[1], timeout=10) as session:
        reply = session.offer_segment(size)
        assert reply.status == 0, reply
        session.segment[0:size] = b"v" * size
        put = mqkv.operation(mqkv.PUT, b"mine", segment_offset=0, value_bytes=900000)
        ping = mqkv.operation(mqkv.PING, segment_offset=0, value_bytes=900000)
        assert session.one(put).status == 0
        if i % 3 == 0:
            os.ftruncate(session.segment.fd, 4096)
        else:
            threading.Timer(0.0004 * (i % 17), os.ftruncate, (session.segment.fd, 4096)).start()
        try:
            for _ in range(100):
                operations = [put, ping] if i % 2 else [mqkv.get(b"mine")] * 4
                request = session.post(operations, window=(1 << 20, 7 << 20))
                message = session.receive_for(request, 10)
                outcomes[mqkv.STATUS_NAMES[message.header.status]] += 1
                if message.header.status:
                    break
        except mqkv.Failure as failure:
            outcomes[type(failure).__name__] += 1
print(*sorted(outcomes.items()))
END

client_is_served() { # TEXT
    check_status 0 "$1: others are served" client --timeout 10000 put good value
}

for options in "" "--dispatch process" "--io pread"; do
    # shellcheck disable=SC2086  # words
    start_server $options
    check_status 0 "segments are truncated at work ($options)" \
        python3 "$MQKV_TEST_DIR/truncate.py" "$server_queue" 40 "$modules"
    # Where the daemon sees it before it touches the segment, it does without: the value goes in
    # parts.
    check_match "\('IO', [1-9][0-9]*\)" "$output" "a request that meets it fails"
    client_is_served "$options"
    ended="ended: it has shortened its shared-memory segment"
    check_match "WARN session [0-9]+ of process [0-9]+, uid $(id -u), $ended" \
        "$(cat "$server_log")" "the log names the client"
    check_match '"segment": *[1-9]' "$(client --format json stats sessions)" \
        "and the sessions are counted"
    stop_server
    check_equal 0 $? "the daemon stops cleanly"
    rm -rf "$server_dir"
done

# A data file: the others go on.
start_server -d 4
for i in $(seq 2000); do echo "put key$i value$i"; done >"$MQKV_TEST_DIR/keys"
check_status 0 "a store is filled" client batch "$MQKV_TEST_DIR/keys"
for i in $(seq 2000); do echo "get key$i"; done >"$MQKV_TEST_DIR/gets"
truncate -s 4096 "$server_dir/data.0001"
client batch "$MQKV_TEST_DIR/gets" >"$MQKV_TEST_DIR/answers" 2>/dev/null
paste -d' ' <(seq 2000 | sed 's/^/value/') <(head -n 2000 "$MQKV_TEST_DIR/answers") \
    >"$MQKV_TEST_DIR/pairs"
wrong=$(awk '$2 !~ /^ERROR/ && $1 != $2' "$MQKV_TEST_DIR/pairs" | head -3)
check_equal "" "$wrong" "what is answered is right"
lost=$(grep -c ' ERROR' "$MQKV_TEST_DIR/pairs")
check_equal yes "$([ "$lost" -gt 300 ] && [ "$lost" -lt 700 ] && echo yes)" \
    "the keys of one of four files fail ($lost of 2000)"
unreadable="cannot be read at offset 4096: a disk error, or the file was truncated"
check_match "ERROR .*/data.0001: the file $unreadable" \
    "$(cat "$server_log")" "the log names file and offset"
check_match '"read_only": *true' "$(client --format json stats files)" \
    "stats tells that the file takes no more writes"
client batch "$MQKV_TEST_DIR/keys" >"$MQKV_TEST_DIR/answers" 2>/dev/null
refused=$(grep -c 'ERROR' "$MQKV_TEST_DIR/answers")
check_equal yes "$([ "$refused" -gt 300 ] && [ "$refused" -lt 700 ] && echo yes)" \
    "its writes are refused, those of others go on ($refused of 2000)"
stop_server
check_equal 4 $? "the daemon stops, and says that not all is well"

# Who watches: a large value is not read again by the daemon that wrote it, and is gone all the
# same.
rm -rf "$server_dir"
start_server -d 1 --keep-changes 1h
exec_client watch --limit 1 --positions --keys >"$MQKV_TEST_DIR/seen" 2>/dev/null &
watcher=$!
put_until_seen() {
    client put first 1 >/dev/null && [ -s "$MQKV_TEST_DIR/seen" ]
}
wait_until 20 put_until_seen
wait "$watcher"
position=$(sed -n 's/^position //p' "$MQKV_TEST_DIR/seen")
check_match '^w1\.' "$position" "a watcher has a position"
head -c 65536 /dev/zero | tr '\0' v | client put large - >/dev/null
truncate -s 20000 "$server_dir/data.0000"
timeout 5 "$MQKV_BUILD/clientk" -m "$server_queue" watch --since "$position" \
    >"$MQKV_TEST_DIR/seen" 2>"$MQKV_TEST_DIR/err"
check_equal 0 "$(grep -c large "$MQKV_TEST_DIR/seen")" "what is lost is not told as a change"
check_match "/data.0000: the file cannot be read at offset" "$(cat "$server_log")" "but in the log"
stop_server
check_equal 4 $? "and at the end of the daemon"
