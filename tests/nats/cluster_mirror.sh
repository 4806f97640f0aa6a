#!/usr/bin/env bash
# cluster_mirror: serverk --mirror: a copy in one NATS server, over kills of both sides;
# --mirror-lag; --restore-from
. "$(dirname "$0")/lib.sh"

store=$MQKV_TEST_DIR/store
copy_queue=${server_queue}c

# start_mirror [OPTION...]: a daemon with a store of its own, and a copy.
start_mirror() {
    launch_server "$*" "$server_program" -m "$server_queue" -f "$store" -d 3 --max-value 2M \
        --mirror "$(nats_urls)" --bucket "$bucket" "$@"
}

# number_of NAME: of the statistics of the mirror.
number_of() {
    client stats mirror --format json | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"
}

# The copy has everything.
is_level() {
    [ "$(number_of lag_changes)" = 0 ] && [ "$(number_of lag_ms)" = 0 ]
}

lags() {
    [ "$(number_of lag_ms)" -gt 500 ]
}

# entries_of QUEUE: all, sorted.
entries_of() {
    "$MQKV_BUILD/clientk" -m "$1" scan --format json | sed 's/"version":[0-9]*,*//' | sort
}

# read_copy: what serverk reads out of the copy, in the file "copied".
read_copy() {
    local copy_pid
    "$server_program" -m "$copy_queue" --engine nats --nats "$(nats_urls)" --bucket "$bucket" \
        </dev/null >>"$server_log" 2>&1 &
    copy_pid=$!
    wait_until 20 "$MQKV_BUILD/clientk" -m "$copy_queue" ping -c 1 >/dev/null 2>&1
    entries_of "$copy_queue" >"$MQKV_TEST_DIR/copied"
    kill "$copy_pid"
    wait "$copy_pid"
}

# check_same TEXT: what serverk reads out of the copy is what the store has.
check_same() {
    wait_until 30 is_level || not_ok "$1: the copy is level" "$(client stats mirror)"
    entries_of "$server_queue" >"$MQKV_TEST_DIR/ours"
    read_copy
    check_status 0 "$1" cmp "$MQKV_TEST_DIR/ours" "$MQKV_TEST_DIR/copied"
    check_status 0 "$1: not nothing" test -s "$MQKV_TEST_DIR/ours"
}

# put_some COUNT PREFIX: puts, adds, appends, deletes, expiries.
put_some() {
    local i
    for ((i = 0; i < $1; i++)); do
        echo "PUT $2.$i value$RANDOM"
        [ $((i % 7)) != 0 ] || echo "DEL $2.$((i / 2))"
        [ $((i % 5)) != 0 ] || echo "ADD count.$((i % 3)) 1"
    done | client batch -n 4 - >/dev/null 2>&1
    return 0
}

write_nats_configs 1
start_nats 0
mkdir "$store"
start_server_alone() {
    "$server_program" -m "$server_queue" -f "$store" -d 3 </dev/null >>"$server_log" 2>&1 &
    server_pid=$!
    wait_until "$start_timeout_s" server_answers_or_is_gone
}
start_server_alone
put_some 300 before
stop_server

# A copy of what there is, and of what comes -------------------------------------------------------

start_mirror
check_same "what was there before is copied"
put_some 300 after
printf 'a\0b' | client put "odd key *>. " - >/dev/null
client put empty "" >/dev/null
client put short x --ttl 30ms >/dev/null
client put long x --ttl 1h >/dev/null
is_absent() {
    client get "$1" >/dev/null
    [ $? = 1 ]
}
wait_until 20 is_absent short
check_same "changes follow, with their expiries"
check_equal 1 "$(number_of refills_total)" "without copying all again"
head -c 1100000 /dev/zero | client put large - >/dev/null
wait_until 30 is_level
check_equal 1 "$(number_of refused_total)" "a value that the cluster does not take is counted"
check_match "copy in bucket $bucket is kept: it is [0-9]+ writes and" \
    "$(client doctor 2>/dev/null)" "the doctor looks at the copy"
client del large >/dev/null
client compact >/dev/null
check_same "a compaction changes nothing"

# Kills --------------------------------------------------------------------------------------------

for round in 1 2 3; do
    put_some 400 "round$round" &
    writer=$!
    wait_until 20 client get "round$round.20" >/dev/null 2>&1
    kill_server
    wait "$writer"
    start_mirror
    put_some 20 "again$round"
    check_same "kill -9 of serverk while it is written to, round $round"
done
check_equal 0 "$(number_of refills_total)" "it goes on where it was"
put_some 50 cut
kill_server
cp -a "$store" "$store.cut" # its logs are read, as after a power failure
mv "$store" "$store.lost"
mv "$store.cut" "$store"
start_mirror
check_same "logs that were read"
check_equal 1 "$(number_of refills_total)" "everything is copied again: some may have been lost"
# The cluster is away: a record is damaged before the mirror has read it.
signal_nats KILL 0
client put steady 1 >/dev/null
wait_until 20 lags # the page that the mirror sends is made, without what follows
for i in {1..600}; do echo "PUT burst.$i $i"; done | client batch -n 4 - >/dev/null 2>&1
client put broken XXDAMAGEDXX >/dev/null
client put broken2 1 >/dev/null
damage() {
    local file at
    for file in "$store"/data.????; do
        at=$(grep -abo XXDAMAGEDXX "$file" | cut -d: -f1)
        [ -z "$at" ] || printf Y | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
    done
}
damage
client del broken >/dev/null
start_nats 0
check_same "a damaged record does not stop the copy"
check_match "changes of data file [0-9] cannot be read" "$(cat "$server_log")" "the log tells of it"
client put steady 2 >/dev/null
check_same "and what comes behind it is copied"
signal_nats KILL 0
put_some 50 away
wait_until 20 lags
check_match '^[1-9]' "$(number_of lag_changes)" "without the cluster it lags, and stats say so"
kill_server
start_mirror
client put alone ok >/dev/null
check_equal ok "$(client get alone)" "it starts without the cluster, and serves"
start_nats 0
check_same "the copy catches up when the cluster is back"
stop_server

# A bucket that is not what it was -----------------------------------------------------------------

ask_nats() { # SUBJECT JSON
    python3 "$library_dir/../nats/ask.py" "$(nats_urls)" "$1" "$2"
}
check_match '"success": *true' "$(ask_nats "\$JS.API.STREAM.DELETE.KV_${bucket}_1" '')" \
    "a stream is removed"
start_mirror
check_same "what was in a stream that is gone is copied again"
check_equal 1 "$(number_of refills_total)" "with everything"
stop_server
# set_mark TEXT: of all streams, as a mirror that copies everything does.
set_mark() {
    local shard config
    for shard in 0 1 2 3; do
        config=$(ask_nats "\$JS.API.STREAM.INFO.KV_${bucket}_$shard" '' | python3 -c '
import json, sys
config = json.load(sys.stdin)["config"]
config["metadata"]["mqkv-copy"] = sys.argv[1]
print(json.dumps(config))' "$1")
        ask_nats "\$JS.API.STREAM.UPDATE.KV_${bucket}_$shard" "$config" >/dev/null
    done
}
mark=$(ask_nats "\$JS.API.STREAM.INFO.KV_${bucket}_0" '' |
    sed -n 's/.*"mqkv-copy": *"\([^"]*\)".*/\1/p')
check_match '^complete [0-9a-f]{32}$' "$mark" "the streams say that the copy is complete"
set_mark "begun ${mark#* }"
check_status 4 "a copy that was not completed" "$server_program" -f "$MQKV_TEST_DIR/part" \
    --restore-from "$(nats_urls)" --bucket "$bucket"
check_match "the copy is not finished" "$errors" "is none to restore from"
check_status 0 "unless that is said" "$server_program" -f "$MQKV_TEST_DIR/part" -d 3 \
    --restore-from "$(nats_urls)" --bucket "$bucket" --restore-unfinished
set_mark "$mark"
rm "$store/mirror"
check_status 4 "a store that has forgotten its name" timeout 30 "$server_program" \
    -m "$server_queue" -f "$store" \
    --mirror "$(nats_urls)" --bucket "$bucket"
check_match "copy of another store" "$errors" "so the bucket is refused"

# A store from the copy ----------------------------------------------------------------------------

restored=$MQKV_TEST_DIR/restored
check_status 0 "--restore-from" "$server_program" -f "$restored" -d 3 \
    --restore-from "$(nats_urls)" --bucket "$bucket"
check_match "keys restored from bucket $bucket" "$output" "says what it did"
check_status 0 "kvcheck finds nothing" "$MQKV_BUILD/kvcheck" "$restored"
store=$restored
start_server_alone
entries_of "$server_queue" >"$MQKV_TEST_DIR/ours"
check_status 0 "the store has what the copy had" cmp "$MQKV_TEST_DIR/ours" "$MQKV_TEST_DIR/copied"
stop_server
check_status 4 "a directory with something in it" "$server_program" -f "$restored" \
    --restore-from "$(nats_urls)" --bucket "$bucket"
check_match "there is something in it" "$errors" "is refused"
check_status 4 "a directory where none can be made" "$server_program" -f /sys/restored \
    --restore-from "$(nats_urls)" --bucket "$bucket"
check_match "cannot be made: .*(not permitted|denied|Read-only)" "$errors" "with the reason"
check_status 4 "a bucket that is not there" "$server_program" -f "$restored.2" \
    --restore-from "$(nats_urls)" --bucket nowhere
check_match "has no stream" "$errors" "is none to restore from"
check_equal "" "$(find "$MQKV_TEST_DIR" -name "*.2*" -name "restored*")" "and leaves nothing behind"
printf '[store]\ndatafiles = 3\n[cluster]\nbucket = %s\n' "$bucket" >"$MQKV_TEST_DIR/restore.conf"
check_status 0 "clientk restore --from" client restore --from "$(nats_urls)" --to "$restored.3" \
    --config "$MQKV_TEST_DIR/restore.conf"
check_match "keys restored from bucket $bucket" "$output" "is serverk's doing"
store=$restored.3
start_server_alone
entries_of "$server_queue" >"$MQKV_TEST_DIR/ours"
check_status 0 "and has the same" cmp "$MQKV_TEST_DIR/ours" "$MQKV_TEST_DIR/copied"
stop_server
store=$restored

# The bound ----------------------------------------------------------------------------------------

bucket=other
signal_nats STOP 0
start_mirror --mirror-lag 300ms:fail
check_status 0 "the bound does not count before there is a copy" client put early 1
check_match '^[1-9]' "$(number_of lag_ms)" "which lags"
signal_nats CONT 0
wait_until 30 is_level
signal_nats STOP 0
client put first 1 >/dev/null
refuses() {
    ! client put more 1 >/dev/null 2>&1
}
wait_until 20 refuses
check_status 4 "too far behind, a write fails" client put more 1
check_match "further behind than --mirror-lag allows" "$errors" "with a sentence"
check_equal 1 "$(client get first)" "reads go on"
signal_nats CONT 0
wait_until 30 client put more 1 >/dev/null 2>&1
check_equal 1 "$(client get more)" "and writes, when the copy has come close"
stop_server
bucket=slowed
start_mirror --mirror-lag 100ms:slow
wait_until 30 is_level
signal_nats STOP 0
client put first 1 >/dev/null
wait_until 20 lags # 500 ms, five times the bound
begin_ms=$(date +%s%3N)
for i in {1..5}; do
    client put second "$i" >/dev/null
done
took_ms=$(($(date +%s%3N) - begin_ms))
check_equal yes "$([ "$took_ms" -ge 500 ] && echo yes || echo "$took_ms ms")" \
    "each write takes a tenth of a second at least, far above the bound"
check_equal 5 "$(client get second)" "and is executed"
signal_nats CONT 0
wait_until 30 is_level
check_status 0 "and the copy comes close again" client put third 3
stop_server

# Bytes that are lost ------------------------------------------------------------------------------

# The copy does not get zeros for a value that the disk has lost before the mirror has read it.
bucket=lost
store=$MQKV_TEST_DIR/lost
mkdir "$store"
start_mirror
client put first 1 >/dev/null
wait_until 30 is_level
signal_nats KILL 0
client put steady 1 >/dev/null
wait_until 20 lags # the page that the mirror sends is made
{ printf XXLOSTXX && head -c 65536 /dev/zero | tr '\0' v; } | client put gone - >/dev/null
for file in "$store"/data.????; do
    at=$(grep -abo XXLOSTXX "$file" | cut -d: -f1)
    [ -z "$at" ] || truncate -s $((at + 20000)) "$file"
done
start_nats 0
wait_until 60 grep -q "the file cannot be read at offset" "$server_log"
sleep 4 # it is tried again
read_copy
check_match steady "$(cat "$MQKV_TEST_DIR/copied")" "what came before lost bytes is copied"
check_equal 0 "$(grep -c gone "$MQKV_TEST_DIR/copied")" "no zeros are copied for them"
check_match '^[1-9]' "$(number_of lag_changes)" "and the copy is not called level"
kill_server

# What is refused ----------------------------------------------------------------------------------

store=$restored

refused() { # STATUS PATTERN TEXT OPTION...
    local status=$1 pattern=$2 text=$3
    shift 3
    check_status "$status" "$text" timeout 30 "$server_program" -m "$server_queue" -f "$store" "$@"
    check_match "$pattern" "$errors" "and says so"
}
refused 2 "needs --bucket" "a mirror without a bucket" --mirror "$(nats_urls)"
refused 2 "with --mirror only" "a bound without a mirror" --mirror-lag 3s
refused 2 "10ms to 30d" "a bound that is none" \
    --mirror "$(nats_urls)" --bucket b --mirror-lag 3s:now
refused 2 "needs --restore-from" "a copy that is not finished, for nothing" \
    --mirror "$(nats_urls)" --bucket b --restore-unfinished
refused 2 "exclude each other" "both at once" \
    --mirror "$(nats_urls)" --restore-from "$(nats_urls)" --bucket b
refused 2 "no meaning with --engine nats" "a copy of a cluster" \
    --engine nats --nats "$(nats_urls)" --bucket b --mirror "$(nats_urls)"
bucket=other2
start_server --shards 2
stop_server
refused 4 "no copy of a store" "a bucket with data of its own" \
    --mirror "$(nats_urls)" --bucket other2
signal_nats KILL 0
store=$MQKV_TEST_DIR/late
mkdir "$store"
start_mirror # of the bucket other2, too
wait_until 20 grep -q 'mirror: no NATS server answers' "$server_log"
start_nats 0
wait_until 30 grep -q 'mirror: .*no copy of a store' "$server_log"
check_equal 0 $? "where the cluster was away at the start, the log says so when it is back"
stop_server
signal_nats TERM 0
