#!/usr/bin/env bash
# serverk_nats: serverk with the engine nats against a scripted server: what goes right, what a
# server may do wrong, and who is refused (make check-nats has real servers)
# long: waits for what a cluster takes its time for
. "$(dirname "$0")/lib.sh"

if "$server_program" --engine nats --nats nats://127.0.0.1:1 --bucket b --check 2>&1 |
    grep -q 'built without NATS'; then
    skip "engine nats: this build has no libnats"
    exit 0
fi

# scripted [OPTION...]: starts a scripted server; its address in $url.
scripted() {
    rm -f "$MQKV_TEST_DIR/port"
    python3 "$library_dir/../nats/scripted_server.py" "$@" >"$MQKV_TEST_DIR/port" 2>&1 &
    wait_until 20 test -s "$MQKV_TEST_DIR/port" || not_ok "the scripted server starts"
    url=nats://127.0.0.1:$(cat "$MQKV_TEST_DIR/port")
}

# start_server as in lib.sh, with the bucket instead of a directory.
start_server() {
    launch_server "$*" "$server_program" -m "$server_queue" --engine nats --nats "$url" \
        --bucket b "$@"
}

is_under_way() { # [NUMBER]: more requests to the cluster than that, or than none
    local calls
    calls=$(client stats engine --format json | sed 's/.*"calls_under_way":\([0-9]*\).*/\1/')
    [ "${calls:-0}" -gt "${1:-0}" ]
}

version_of() { # KEY
    client get "$1" --format json | sed 's/.*"version":\([0-9]*\).*/\1/'
}

# operations TEXT: the same with reads as the leader answers them, and as any replica.
operations() {
    check_status 0 "put $1" client put name Ada
    check_equal Ada "$(client get name)" "get $1"
    check_status 1 "an absent key $1" client get none
    check_status 1 "put --if-absent $1" client put --if-absent name Bob
    check_equal Ada "$(client getset name Eve)" "getset $1"
    check_equal 5 "$(client add n 5)" "add $1"
    check_equal 3 "$(client append s abc)" "append $1"
    check_status 0 "touch $1" client touch s 60s
    check_match '"expiry_ms":[1-9]' "$(client get s --format json)" "an expiry $1"
    version=$(version_of s)
    check_status 0 "del $1" client del s
    check_status 1 "a deleted key $1" client get s
    ((version += 1024)) # of the tombstone: the next message of the stream
    check_status 1 "put if it has the version of a delete $1" client put --if-version $version s 1
    check_status 1 "del if it has the version of a delete $1" client del --if-version $version s
    check_status 0 "put after a delete $1" client put --if-absent s 1
    client put short life
    version=$(version_of short)
    check_status 0 "put if it has its version $1" client put \
        --if-version "$version" --ttl 3s short v
    version=$(version_of short)
    sleep 3.1
    check_status 1 "put if it has the version of what expired $1" \
        client put --if-version "$version" short v
    check_status 1 "del if it has the version of what expired $1" \
        client del --if-version "$version" short
    for i in $(seq 150); do echo "PUT scan.$i $i"; done | client batch -q - 2>/dev/null
    check_equal 150 "$(client scan scan. --keys | sort -u | wc -l)" "scan $1"
    check_equal "1" "$(client get scan.1)" "a batch $1"
    for key in n s name; do client del $key >/dev/null; done
}

# A stop -------------------------------------------------------------------------------------------

# Operations of one request that wait for each other have the patience of one, if the deadline is
# late, too; so have requests whose operations wait for those of others, and those that may have a
# short reply. All else is tested while this daemon has half a minute for its end.
scripted
server_queue=${MQKV_TEST_QUEUE}s server_log=$MQKV_TEST_DIR/stopping.log
start_server --shards 2 -w 1 --lanes worker
for i in {1..24}; do echo "PUT silent-batch-$i v"; done >"$MQKV_TEST_DIR/lines"
# How each ends is kept in a file: the shell forgets the status of a process as soon as another one
# gets its pid, and there are half a minute and thousands of processes in between.
{
    client --timeout 100000 batch -q "$MQKV_TEST_DIR/lines" >"$MQKV_TEST_DIR/given_up" 2>&1
    echo $? >"$MQKV_TEST_DIR/batch_status"
} &
wait_until 20 is_under_way || not_ok "a batch is under way"
python3 - "$server_queue" "$library_dir/../independent" >"$MQKV_TEST_DIR/posted" <<'END' &
import sys, time
sys.path.insert(0, sys.argv[2])
import mqkv
MAY_STOP = 1
sessions = [mqkv.Session(sys.argv[1], depth=2, message_bytes=512) for _ in range(4)]
for session in sessions[:3]:
    session.post([mqkv.put(b"silent-%d" % number, b"v") for number in range(32)])
sessions[0].post([mqkv.put(b"silent-same", b"v")] * 4)
sessions[1].post([mqkv.put(b"silent-late", b"v")] * 4, deadline_ms=mqkv.now_ms() + 3600000)
short = sessions[3].post([mqkv.put(b"silent-short-%d" % number, b"v") for number in range(32)],
                         flags=MAY_STOP)
print("posted", flush=True)
reply = sessions[3].await_reply(short, timeout=100)
print(len(reply.results), reply.statuses[-1], flush=True)
time.sleep(600)
END
poster=$!
wait_until 20 test -s "$MQKV_TEST_DIR/posted" || not_ok "requests are posted"
wait_until 20 is_under_way 16 || not_ok "and under way" # the batch alone has 16 at most
kill "$server_pid"
stopping=$server_pid stopping_log=$server_log
{
    wait_until 50 server_is_gone
    echo $? >"$MQKV_TEST_DIR/watch_status"
} &

# So is what takes a sweeper several rounds.
scripted --purged
purged_events=$MQKV_TEST_DIR/purged
mv "$MQKV_TEST_DIR/port" "$purged_events"
server_queue=${MQKV_TEST_QUEUE}p server_log=$MQKV_TEST_DIR/purged.log
start_server --shards 2 -w 1 --lanes worker
sweeping=$server_pid
server_queue=$MQKV_TEST_QUEUE server_log=$MQKV_TEST_DIR/serverk.log

# What goes right, and what wrong ------------------------------------------------------------------

scripted
url=nats://somebody:secret@${url#*//} # which the log does not tell
start_server --shards 2
operations "(one replica)"

check_status 0 "a lost acknowledgement: the write is repeated" client put lost-1 v
check_equal v "$(client get lost-1)" "and there"
check_equal 1 "$(client add lost-2 1)" "a lost acknowledgement of an add"
check_equal 1 "$(client get lost-2)" "which is applied once"
check_equal 1 "$(client add closing-1 1)" "a connection that is closed"
check_equal 1 "$(client get closing-1)" "loses nothing, and applies nothing twice"
check_status 0 "no responders for a moment" client put nobody-1 v
check_equal 101 "$(client add rival-1 1)" "a rival that writes first: add"
check_status 1 "a rival that writes first: put --if-absent" client put --if-absent rival-2 v
for who in stream server account; do
    check_status 4 "a full $who" client put "full-$who-1" v
    check_match "no room" "$errors" "is one without room"
done
for words in "maximum bytes exceeded" "insufficient resources" "resource limits exceeded"; do
    check_match "a write was refused: $words" "$(cat "$server_log")" "the log says why: $words"
done
for i in {1..200}; do echo "PUT full-stream-$i v"; done | client batch -q - >/dev/null 2>&1
check_status 0 "refusals do not fill the log" \
    test "$(grep -c 'a write was refused' "$server_log")" -lt 10
for i in {1..100}; do
    echo "PUT odd-10052-$i v"
    echo "PUT odd-10060-$i v"
done >"$MQKV_TEST_DIR/odd"
check_status 4 "refusals that serverk does not know" client batch -q "$MQKV_TEST_DIR/odd"
for code in 10052 10060; do
    check_match "odd writes are not taken .JetStream error $code" "$(cat "$server_log")" \
        "are in the log, each with its number: $code"
done
check_status 0 "and do not fill it by turns" \
    test "$(grep -c 'odd writes are not taken' "$server_log")" -lt 10
check_equal 1 "$(client add lostfull-1 1)" "refused after a lost acknowledgement: it was applied"
check_equal 1 "$(client get lostfull-1)" "and there"
check_status 0 "a refusal for now: the write is repeated" client put later-1 v
check_status 3 "an answer that makes no sense: nobody knows" client put garbage-1 v
check_status 4 "and one to a get" client get garbage-1
check_status 3 "no answer to a put" client --timeout 600 put silent-1 v
check_status 3 "no answer to a get" client --timeout 600 get silent-1
head -c 2000 /dev/zero >"$MQKV_TEST_DIR/large"
client put shrunk-1 v
check_status 2 "a value that the servers take no longer" client put large - <"$MQKV_TEST_DIR/large"
check_match "would have more than" "$errors" "is too large, not unanswered"
client put regrown-1 v
check_status 0 "and take again" client put large - <"$MQKV_TEST_DIR/large"
check_status 0 "others are served meanwhile" client put other v
client --timeout 2900 put ignored-1 first 2>/dev/null & # its turn is over when the next is late
first=$!
wait_until 2 is_under_way
check_status 3 "no answer in time while another waits" client --timeout 300 put ignored-1 late
wait "$first"
check_status 1 "what waited beyond its deadline is not done" client get ignored-1
check_status 2 "a key that is too long" client put "$(printf 'ü%.0s' $(seq 700))" v
check_match "too long" "$errors" "with a sentence"
for what in "scan --atomic" sync "put --sync always k v"; do
    # shellcheck disable=SC2086
    check_status 4 "$what is refused" client $what
    check_match "engine nats" "$errors" "with a sentence"
done
for i in $(seq 20); do (client add hot 1 >/dev/null) & adders[i]=$!; done
wait "${adders[@]}"
check_equal 20 "$(client get hot)" "a counter that twenty clients add to loses nothing"
check_match '"name":"nats"' "$(client stats engine --format json)" "stats tells the engine"
check_match 'mqkv_engine_calls_total [1-9]' "$(client metrics)" "so do the metrics"
stop_server
check_equal 0 $? "it stops"
check_equal 0 "$(grep -c secret "$server_log")" "passwords are not in the log"
echo secret >"$MQKV_TEST_DIR/password"
start_server --nats-sync always --shards 2 --nats-user somebody \
    --nats-password-file "$MQKV_TEST_DIR/password"
check_status 0 "with --nats-sync always, a synced put" client put --sync always k v
check_status 0 "and a sync" client sync
check_equal 1 "$(client --timeout 20000 add banned-1 1)" "a connection that the library gives up"
check_equal 1 "$(client get banned-1)" "is replaced by another, which goes on with what was sent"
check_match "closed .Authorization Violation.*connect anew" "$(cat "$server_log")" "with a log line"
stop_server

scripted
start_server --shards 2 --replicas 3
operations "(three replicas)"
stop_server
start_server --shards 2 --replicas 3 --reads any
operations "(any replica)"
stop_server

# Scans --------------------------------------------------------------------------------------------

# scans HOW COUNT: with a server that answers them like that.
scans() {
    scripted --scans "$1"
    start_server --shards 2
    for i in $(seq "$2"); do echo "PUT scan.$i $i"; done | client batch -q - 2>/dev/null
}

scans slow 160
client put rare 1
check_equal rare "$(client --timeout 1000 scan ra --keys)" \
    "a rare prefix is found, though the scan takes longer than a page may"
stop_server
scans empty 10
check_status 3 "batches without entries, though there are more" client --timeout 600 scan
calls=$(client stats engine --format json | sed 's/.*"calls_total":\([0-9]*\).*/\1/')
check_status 0 "are asked for now and then" test "$calls" -lt 100
stop_server

scripted
start_server --shards 2 --replicas 3
for i in $(seq 160); do echo "PUT scan.$i $i"; done | client batch -q - 2>/dev/null
for i in $(seq 2 2 160); do echo "PUT scan.$i again"; done | client batch -q - 2>/dev/null
check_equal "160 160" "$(client scan scan. | tee "$MQKV_TEST_DIR/entries" | sort -u | wc -l) $(
    client scan --keys | wc -l)" "a scan of what the leader has shows each entry once"
check_equal 80 "$(grep -c again "$MQKV_TEST_DIR/entries")" "as it was written last"
check_equal 72 "$(client scan --keys scan.1 | sort -u | wc -l)" "with a prefix, too"
stop_server

scans gaps 160
client scan --keys >"$MQKV_TEST_DIR/keys"
check_equal 160 "$(wc -l <"$MQKV_TEST_DIR/keys")" "messages of batches that are lost"
check_equal 160 "$(sort -u "$MQKV_TEST_DIR/keys" | wc -l)" "are asked for again"
stop_server

# What is removed ----------------------------------------------------------------------------------

told() { # COUNT LINE FILE: a scripted server has told that so often
    [ "$(grep -cx "$2" "$3")" -ge "$1" ]
}

scripted --endless
events=$MQKV_TEST_DIR/events
mv "$MQKV_TEST_DIR/port" "$events"
start_server --shards 1
for i in $(seq 300); do echo "PUT many.$i $i"; done | client batch -q - 2>/dev/null
wait_until 40 told 3 "page KV_b_0" "$events" || not_ok "a sweep of many pages is under way"
client put raised-1 v
is_read_from_leader() {
    [ "$(client get raised-1 2>/dev/null)" = v ]
}
check_status 0 "while a sweep lasts, a stream that has more replicas now is read from its leader" \
    wait_until 30 is_read_from_leader
stop_server

swept() { # COUNT: so many messages were removed
    [ "$(client stats engine --format json | sed 's/.*"swept_total":\([0-9]*\).*/\1/')" = "$1" ]
}

scripted
start_server --shards 2
client put --ttl 300ms short v
client put --ttl 300ms reborn-1 v
client put --ttl 60s long v
client put aged-1 v
client put keep v
client put gone v
for key in aged-1 gone; do client del $key; done >/dev/null
check_status 0 "what has expired and old tombstones are removed, once" wait_until 40 swept 2
check_match '"keys":5,' "$(client stats engine --format json)" "and nothing else"
others=$(client scan | grep -v reborn | sort -r | paste -sd ' ')
check_equal "again long v keep v" "$(client get reborn-1) $others" \
    "nor what was written meanwhile"
check_status 0 "what was removed is absent to the server" client put --if-absent aged-1 new
stop_server

wait_until 60 told 4 sweeper "$purged_events" || not_ok "a sweeper says so several times"
check_status 1 "a stream whose last messages are removed is not swept again and again" \
    told 3 "consumer KV_b_1" "$purged_events"
server_pid=$sweeping
stop_server

# Who is refused -----------------------------------------------------------------------------------

refused() { # STATUS PATTERN TEXT OPTION...
    local status=$1 pattern=$2 text=$3
    shift 3
    check_status "$status" "$text" "$server_program" -m "$server_queue" --engine nats "$@"
    check_match "$pattern" "$errors" "and says so"
}

refused 4 "has 2 shards, not 3" "another number of shards" --nats "$url" --bucket b --shards 3
refused 2 "no meaning with --engine nats" "a directory" --nats "$url" --bucket b -f .
refused 2 "needs --nats" "no bucket" --nats "$url"
refused 2 "bucket" "a bucket of a bad name" --nats "$url" --bucket a.b
refused 2 "dispatch" "a process per request" --nats "$url" --bucket b --dispatch process
refused 4 "max_payload" "values that are too large" --nats "$url" --bucket b --max-value 2M
check_status 2 "options of a cluster without it" "$server_program" --bucket b
check_match "with --engine nats, --mirror and --restore-from only" "$errors" "are refused"
scripted --level 0
refused 4 "too old.*level 0" "an old server" --nats "$url" --bucket b
scripted --forgets
refused 4 "does not know allow_atomic" "one that forgets settings" --nats "$url" --bucket b
scripted --version 2.12.1
refused 4 "2.12.1, which locks up" "one that locks up" --nats "$url" --bucket b

# The end of that stop -----------------------------------------------------------------------------

wait_until 60 test -s "$MQKV_TEST_DIR/watch_status"
stopped=$(cat "$MQKV_TEST_DIR/watch_status")
check_equal 0 "$stopped" \
    "requests that the cluster does not answer hold up a stop for half a minute"
[ "$stopped" = 0 ] || kill -9 "$stopping"
reply_came() {
    [ "$(wc -l <"$MQKV_TEST_DIR/posted")" = 2 ]
}
wait_until 10 reply_came
check_equal "32 NO_SERVER" "$(sed -n 2p "$MQKV_TEST_DIR/posted")" \
    "what was not begun is given up with the rest, where a short reply would do, too"
wait_until 10 test -s "$MQKV_TEST_DIR/batch_status"
check_equal 3 "$(cat "$MQKV_TEST_DIR/batch_status")" "so a client does not send it again"
check_match ' 24 failed$' "$(cat "$MQKV_TEST_DIR/given_up")" "and all of a batch gets its outcome"
kill "$poster"
wait "$poster" 2>/dev/null
check_match "INFO serverk stopped" "$(tail -n 1 "$stopping_log")" "it is one without failure"
