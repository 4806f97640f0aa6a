#!/usr/bin/env bash
# bound: --max-bytes refuses or evicts, tells of it, and keeps it over kill -9 and a restart
. "$(dirname "$0")/lib.sh"

value=$(printf '%01000d' 7)
stat_of() { # SECTION MEMBER
    client stats "$1" --format json | grep -oE "\"$2\":[0-9]+" | head -1 | cut -d: -f2
}

# keys: how many the store has
keys() {
    client stats files --format json | grep -oE '"keys":[0-9]+' | tail -1 | cut -d: -f2
}

# puts FROM TO [OPTION...]: as a batch; how many were refused is in $refused
puts() {
    local from=$1 to=$2 i
    shift 2
    for ((i = from; i <= to; i++)); do echo "put key$i $value $*"; done |
        client batch - >"$MQKV_TEST_DIR/batch.out" 2>/dev/null
    refused=$(grep -c '^ERROR.*reached its limit' "$MQKV_TEST_DIR/batch.out")
}

check_status 2 "--evict alone is refused" "$server_program" --evict s3fifo -f "$MQKV_TEST_DIR"
check_match "add --max-bytes" "$errors" "and says what is missing"
check_status 2 "a bound that is too small is refused" "$server_program" --max-bytes 10k

start_server --max-bytes 1M
puts 1 1200
check_equal yes "$([ "$refused" -gt 150 ] && [ "$refused" -lt 300 ] && echo yes)" \
    "writes beyond --max-bytes are refused ($refused of 1200)"
check_status 4 "one alone tells why" client put key1200 "$value"
check_match "reached its limit.*--max-bytes" "$errors" "in a sentence"
check_status 0 "reads go on" client get key1
check_status 0 "an entry may be replaced by one of the same size" client put key1 "$value"
check_status 0 "and deleted" client del key1
check_status 0 "which makes room" client put key1200 "$value"
check_match '"refusals":[1-9]' "$(client stats bound --format json)" "the refusals are counted"
check_status 0 "the bound can be raised while it runs" client config set max-bytes 2M
check_status 0 "then there is room" client put another "$value"
client del another >/dev/null
check_status 0 "and be lowered" client config set max-bytes 1M
check_status 4 "but not be taken away" client config set max-bytes 0
kill_server
start_server --max-bytes 1M
check_status 4 "after kill -9 the bound holds as before" client put another "$value"
stop_server

start_server --max-bytes 512k --evict s3fifo
check_equal yes "$([ "$(stat_of bound live_bytes)" -le 524288 ] && echo yes)" \
    "a smaller bound holds from the start"
check_match '"direct":\{"mode":"off"' "$(client stats server --format json)" \
    "with s3fifo all reads come through the daemon"
puts 9040 9044
for round in 1 2 3 4 5 6; do
    for i in 1 2; do
        for key in 9040 9041 9042 9043; do echo "get key$key"; done
    done | client batch - >/dev/null 2>&1
    puts $((2000 + round * 150)) $((2149 + round * 150))
done
check_equal 0 "$refused" "no write is refused"
check_status 0 "what is read stays" client get key9040
check_status 1 "what is not goes" client get key9044
check_equal yes "$([ "$(stat_of bound live_bytes)" -le 524288 ] && echo yes)" "the bound holds"
check_match 'mqkv_evictions_total [1-9]' "$(client metrics)" "evictions are counted"
before=$(keys)
kill_server
start_server --max-bytes 512k --evict s3fifo --direct off
check_equal "$before" "$(keys)" "what was evicted does not come back after kill -9"
stop_server
start_server --max-bytes 512k --evict s3fifo --direct owner
check_equal "$before" "$(keys)" "nor after a restart"
check_match "does not count as read" "$(cat "$server_log")" "direct reads get a warning"
stop_server

start_server --max-bytes 512k --evict ttl
puts 5000 5600
check_equal yes "$([ "$refused" -gt 100 ] && echo yes)" "ttl evicts nothing that never expires"
for ((i = 2000; i < 3100; i++)); do echo "del key$i"; done | client batch -q - >/dev/null 2>&1
puts 6000 6900 --ttl 1h
check_equal 0 "$refused" "but what does"
check_equal 0 "$(grep -vc '^OK' "$MQKV_TEST_DIR/batch.out")" "all are written"
stop_server
