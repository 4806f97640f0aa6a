#!/usr/bin/env bash
# clientk_restore: a backup comes back with versions and expiry, into a running store or an empty
# directory; what is damaged, cut off or in the way is told.
. "$(dirname "$0")/lib.sh"
has_lab 'clientk_restore' || exit 0
cd "$MQKV_TEST_DIR" || exit 2

entries() {
    client scan --format csv | sort
}

# fresh OPTION...: a server with an empty store in place of the one that runs.
fresh() {
    stop_server
    rm -rf "$server_dir"
    start_server "$@"
}

start_server -d 3
seq 1 3000 | sed 's/.*/PUT key& "value \\x00 &"/' >puts
client batch -q puts 2>/dev/null
seq 1 3 900 | sed 's/.*/PUT key& again/' | client batch -q - 2>/dev/null
seq 1000 1100 | sed 's/.*/DEL key&/' | client batch -q - 2>/dev/null
client put brief x --expires-at 4102444800000 >/dev/null
client put passing x --ttl 1ms >/dev/null
head -c 300000 /dev/urandom >big.value
client put big - <big.value >/dev/null
client backup copy 2>/dev/null
client backup - 2>/dev/null >copy.tar
entries >had.csv
client scan | sort >had.txt

# Into an empty running store, of another number of data files: everything, and all of it the same.
fresh -d 5
check_status 0 'restore' client restore copy
check_match '^clientk: 2901 entries restored, (1 have expired, )?0 failed$' "$errors" 'counts'
entries | cmp - had.csv
check_equal 0 $? 'keys, values, versions and expiry are back'
client get big | cmp - big.value
check_equal 0 $? 'a large value too'
check_status 0 'once more' client restore copy
check_match 'with a new version' "$errors" 'replaces what is there, which gets new versions'
check_status 0 '--if-absent' client restore --if-absent copy
check_match '0 entries restored, 2901 left as they are' "$errors" 'leaves it'
client del key1 >/dev/null
client put mine x >/dev/null
check_status 0 'what is lost comes back' client restore --if-absent copy
check_match '^clientk: 1 entries restored .*, 2900 left' "$errors" 'alone'
check_equal again "$(client get key1)" 'with its value'
check_equal x "$(client get mine)" 'other keys stay'

# Over values that have changed since, and cut off: the command that it then names brings all back.
seq 1 3000 | sed 's/.*/PUT key& changed/' | client batch -q - 2>/dev/null
restart_server -d 5 -w 1 --sync none --service-time fixed:3ms
some_are_back() {
    seq 2 3 150 | sed 's/^/GET key/' | client batch - 2>/dev/null | grep -q value
}
exec_client restore copy 2>cut.err &
restore_pid=$!
wait_until 20 some_are_back
check_equal 0 $? 'a restore is under way'
kill_server
wait "$restore_pid"
check_equal 3 $? 'it ends when the server does'
check_match 'To go on: the same command again; with --if-absent only if' "$(cat cut.err)" \
    'and says how to go on'
start_server -d 5
check_status 0 'the same command again' client restore copy
check_equal '' "$(client scan | sort | comm -13 - had.txt)" 'leaves no value that was changed'

# From a stream.
fresh
check_status 0 'restore -' client restore - <copy.tar
entries | cmp - had.csv
check_equal 0 $? 'brings back the same'
fresh
{
    head -c -1024 copy.tar
    sleep 0.5
    tail -c 1024 copy.tar
} | client restore - 2>/dev/null
check_equal '0 0' "${PIPESTATUS[*]}" 'a writer that is late with its end finds a reader'
fresh
check_status 0 'restore of an archive' client restore copy.tar
entries | cmp - had.csv
check_equal 0 $? 'does, too'
size=$(stat -c %s copy.tar)
head -c $((size - 2048)) copy.tar >cut.tar
check_status 4 'an archive that was cut off is told' client restore --if-absent cut.tar
check_match 'cut off|not whole' "$errors" 'so'
check_status 4 'what is no archive, too' client restore big.value
check_match 'no backup' "$errors" 'so'

# Damage.
cp -r copy bad
printf 'X' | dd of=bad/data.0001 bs=1 seek=9000 conv=notrunc status=none
check_status 4 'a damaged record is told' client restore --if-absent bad
check_match 'data.0001 is damaged at offset [0-9]+; kvcheck --salvage' "$errors" 'with its place'
truncate -s -8 bad/data.0000
check_status 4 'a short file, too' client restore --if-absent bad
mkdir none
check_status 2 'a directory without a backup is wrong usage' client restore none
check_status 2 'so is what is not there' client restore nosuch
check_status 2 'so are both kinds of target' client restore copy --to x --if-absent

stop_server

# Into a directory, without a server.
check_status 0 '--to' client restore copy --to store
check_match 'serverk -f store' "$errors" 'says what to do then'
check_status 0 'makes a sound store' "$MQKV_BUILD/kvcheck" store
check_status 0 '--to from an archive' client restore copy.tar --to other
check_equal '' "$(diff -r store other)" 'makes the same'
check_status 2 'a directory that is not empty is refused' client restore copy --to store
check_status 4 'a cut archive makes no store' client restore cut.tar --to third
check_equal no "$([ -e third ] && echo yes || echo no)" 'and leaves nothing'
(
    ulimit -f 100
    check_status 4 'nor does a file that cannot grow' client restore copy --to third
)
check_equal no "$([ -e third ] && echo yes || echo no)" 'which leaves nothing'
server_dir=store
start_server
entries | cmp - had.csv
check_equal 0 $? 'a server starts from it with the same entries'
stop_server
check_status 3 'without a server there is nothing to restore to' client restore copy

# A server that takes no values so large; a full disk.
server_dir=$MQKV_TEST_DIR/small
start_server --max-value 1000
check_status 4 'a value that is too large for the server fails' client restore copy
check_match '1 entry failed: .*' "$errors" 'alone'
check_match '2900 entries restored' "$errors" 'the others do not'
stop_server
server_dir=$MQKV_TEST_DIR/bounded
start_server --max-bytes 64k
check_status 4 'a store at its bound' client restore copy
check_match 'reached its limit .*; the rest was not sent. To go on: the same command' "$errors" \
    'ends it, with the way to go on'

# Entries that are too large for a store that evicts fail alone.
server_dir=$MQKV_TEST_DIR/mixed
fresh
large=$(head -c 9000 /dev/zero | tr '\0' v)
seq 1 30 | sed "s/.*/PUT small& v\nPUT large& $large/" | client batch -q - 2>/dev/null
client backup mixed.copy 2>/dev/null
fresh --max-bytes 64k --evict s3fifo
check_status 4 'entries too large for the store' client restore mixed.copy
check_match '30 entries failed: the store has reached its limit[^;]*; delete something$' \
    "$errors" 'fail'
check_match '^clientk: 30 entries restored.*, 30 failed$' "$errors" 'alone'
check_equal 30 "$(client scan --count small)" 'and the others are there'

# A writer that keeps the pipe open, and sends no end.
fresh
mkfifo endless
exec_client restore - <endless 2>endless.err &
restore_pid=$!
exec 4>endless
head -c -1024 copy.tar >&4
wait_until 20 eval "! kill -0 $restore_pid 2>/dev/null"
check_equal 0 $? 'a writer that sends no end does not keep restore'
exec 4>&-
wait "$restore_pid"
check_equal 0 $? 'which has brought back everything'
check_match '^clientk: 2901 entries restored, (1 have expired, )?0 failed$' "$(cat endless.err)" \
    'and says so'

# From a cluster (tests/nats/cluster_mirror has one): what is asked for is checked first.
check_status 2 'neither backup nor cluster' client restore
check_match 'which backup' "$errors" 'is asked for'
check_status 2 'both' client restore copy --from nats://127.0.0.1:1 --to fourth
check_match 'not both' "$errors" 'are too many'
check_status 2 'a cluster into a running store' client restore --from nats://127.0.0.1:1 --bucket b
check_match 'needs --to DIR' "$errors" 'is refused'
check_status 2 'a bucket of nothing' client restore copy --bucket b
check_match 'with --from only' "$errors" 'is refused, too'
check_status 2 'a cluster without a bucket' client restore --from nats://127.0.0.1:1 --to fourth
check_match '^serverk: .*needs --bucket' "$errors" 'is what serverk refuses'
cp "$MQKV_BUILD/clientk" alone
check_status 4 'a clientk without serverk' ./alone restore --from nats://127.0.0.1:1 --to fourth
check_match 'needs the program serverk' "$errors" 'says so'
