#!/usr/bin/env bash
# cursors: the cursors of scans give nothing of the hashes away; and who knows the hashes
# nevertheless gets one place crowded, and is refused by name there, while all other keys are
# written
. "$(dirname "$0")/lib.sh"
need_root

# cursors QUEUE: the cursors of all pages of a scan of ten keys each, in order. crowd QUEUE FILE:
# writes the keys in FILE until the server refuses one; then what others get.
python_attack client <<'END'
import sys
import mqkv

mode, queue = sys.argv[1:3]
session = mqkv.Session(queue, timeout=60)
if mode == "cursors":
    cursor = 0
    while True:
        cursor = session.one(mqkv.scan(b"", cursor, 10)).next_cursor
        if cursor == 0:
            break
        print(cursor)
else:
    keys = [bytes.fromhex(line) for line in open(sys.argv[3])]
    answers = [session.put(key, b"value") for key in keys]
    refused = [key for key, answer in zip(keys, answers) if answer.status]
    written = [key for key, answer in zip(keys, answers) if not answer.status]
    print("refused", len(refused), *sorted({answer.name for answer in answers if answer.status}))
    print("lost", sum(session.get(key).value != b"value" for key in written))
    others = [session.put(b"other%d" % number, b"value") for number in range(5000)]
    print("others", sum(answer.status != 0 for answer in others))
    print("overwrites", sum(session.put(key, b"again").status != 0 for key in written))
    session.delete(written[0])
    print("after", session.put(refused[0], b"value").name)
END

keys_in() { # NUMBER: a store of its own, with the same keys in the same order
    server_dir=$common_dir/store$1
    start_server_as "$daemon_uid" --mode 0622 -d 1 --sync none
    check_status 0 "a store is filled" client --timeout 60000 batch "$common_dir/keys"
    as_uid "$hostile_uid" "$python" "$attack" cursors "$server_queue" >"$common_dir/cursors$1"
}

seq 4000 | sed 's/.*/put key& value/' >"$common_dir/keys"
keys_in 1
as_uid "$hostile_uid" "$python" "$attack" cursors "$server_queue" >"$common_dir/again"
check_status 0 "a cursor means the same all the time" cmp "$common_dir/cursors1" "$common_dir/again"
stop_server
keys_in 2
stop_server
check_equal "$(wc -l <"$common_dir/cursors1")" "$(sort -u "$common_dir/cursors1" | wc -l)" \
    "each place has a cursor of its own"
check_equal 0 "$(sort "$common_dir"/cursors[12] | uniq -d | wc -l)" \
    "two stores of the same keys have none in common"
# A scan goes on in the order of the hashes: cursors in ascending order, or mostly, would tell them.
rises=$(awk 'NR > 1 && $1 > last { rises++ } { last = $1 } END { print rises + 0 }' \
    <(sed 's/^/00000000000000000000/; s/.*\(.\{20\}\)$/x\1/' "$common_dir/cursors1"))
check_at_least 150 "$rises" "of 399 steps from cursor to cursor about half go up"
check_at_most 250 "$rises" "and no more"

# The hash key, as only the daemon's user can read it: to find 600 keys whose hashes begin with the
# same 20 bits.
server_dir=$common_dir/store1
hash_key=$(od -An -v -tx1 -j 2048 -N 16 "$server_dir/data.0000" | tr -d ' \n')
"$MQKV_BUILD/tests/crowd_keys" "$hash_key" 20 600 >"$common_dir/crowd"
start_server_as "$daemon_uid" --mode 0622 -d 1 --sync none
as_uid "$hostile_uid" "$python" "$attack" crowd "$server_queue" "$common_dir/crowd" \
    >"$MQKV_TEST_DIR/crowd.out"
sed 's/^/# /' "$MQKV_TEST_DIR/crowd.out"
check_match 'refused [1-9][0-9]* CROWDED$' "$(cat "$MQKV_TEST_DIR/crowd.out")" \
    "keys of a crowded place are refused by name"
check_match 'lost 0' "$(cat "$MQKV_TEST_DIR/crowd.out")" "those before them are there"
check_match 'others 0' "$(cat "$MQKV_TEST_DIR/crowd.out")" "5,000 other keys are written"
check_match 'overwrites 0' "$(cat "$MQKV_TEST_DIR/crowd.out")" \
    "keys of the crowd that are there are written again"
check_match 'after OK' "$(cat "$MQKV_TEST_DIR/crowd.out")" \
    "and when one of them is deleted, another is written"
check_status 0 "a good client is served" client put good value
if [ "${MQKV_VARIANT:-release}" = release ]; then # a sanitizer has memory of its own
    rss_kb=$(awk '/^VmRSS/ { print $2 }' "/proc/$server_pid/status")
    check_at_most 100000 "$rss_kb" "the daemon's memory stays small (KiB)"
fi
stop_server
check_equal 0 $? "the daemon stops cleanly"
