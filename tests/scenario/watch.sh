#!/usr/bin/env bash
# watch: who watches sees each change, over compactions, restarts and kills, or is told that it
# missed some
. "$(dirname "$0")/lib.sh"

changes=$MQKV_TEST_DIR/changes

# Waits until the file has so many lines.
has_lines() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}

# The same, but for those of put_until_seen.
has_others() {
    [ "$(grep -vc "^put n 0" "$1")" -ge "$2" ]
}

# Writes until the file has a line: from then on the watcher is there.
put_until_seen() {
    client put n 0 >/dev/null && has_lines "$1" 1
}

start_server -d 3 --keep-changes 1h
: >"$changes"
exec_client watch --limit 1 --positions --keys >"$changes" 2>"$MQKV_TEST_DIR/err" &
watcher=$!
wait_until 20 put_until_seen "$changes"
wait "$watcher"
check_match "put n" "$(cat "$changes")" "a change is printed"
position=$(sed -n 's/^position //p' "$changes")
check_match '^w1\.' "$position" "with the position behind it"
: >"$changes"
exec_client watch --since "$position" >"$changes" 2>"$MQKV_TEST_DIR/err" &
watcher=$!
client put name Ada >/dev/null
client put "two words" "a b" >/dev/null
client add count 4 >/dev/null
client add count 5 >/dev/null
client del name >/dev/null
client put soon x --ttl 50ms >/dev/null
wait_until 20 has_others "$changes" 7
kill -INT "$watcher"
wait "$watcher"
check_equal 130 $? "Ctrl-C ends it"
# on_one_line [TEXT]: of the input
on_one_line() {
    tr '\n' ' ' | sed 's/ $//'
}
all='delete name expire soon put "two words" "a b" put count 4 put count 9 put name Ada put soon x'
check_equal "$all" "$(grep -v "^put n 0" "$changes" | sort | on_one_line)" \
    "and has seen every change once"
check_equal "put count 4 put count 9" "$(grep count "$changes" | on_one_line)" \
    "those of a key in their order"
last=$(grep -o 'w1\.[A-Za-z0-9_-]*' "$MQKV_TEST_DIR/err")
check_match '^w1\.' "$last" "it says where to go on"

client put p/1 1 >/dev/null
client put q/1 1 >/dev/null
client put p/2 2 >/dev/null
check_equal "put p/1 put p/2" \
    "$(client watch p/ --since "$last" --keys --limit 2 2>/dev/null | sort | on_one_line)" \
    "a prefix, from a position on"
printf '%s\n' "$last" >"$MQKV_TEST_DIR/position"
as_json='"change":"put","key":".*","value":".*","version":[0-9]*,"expiry_ms":0}'
client watch --since "@$MQKV_TEST_DIR/position" --limit 3 --format json >"$changes" 2>/dev/null
check_equal 3 "$(grep -c "$as_json" "$changes")" "as JSON, the position from a file"

: >"$changes"
exec_client watch --since "$last" >"$changes" 2>"$MQKV_TEST_DIR/err" &
watcher=$!
wait_until 20 has_lines "$changes" 3
kill_server
start_server -d 3 --keep-changes 1h
client put after-kill 1 >/dev/null
wait_until 20 has_lines "$changes" 4
check_match "put after-kill 1" "$(cat "$changes")" "it goes on after kill -9 of the daemon"
restart_server -d 3 --keep-changes 1h
client put after-stop 1 >/dev/null
wait_until 20 has_lines "$changes" 5
check_match "put after-stop 1" "$(cat "$changes")" "and after a restart"
kill -INT "$watcher"
wait "$watcher"
check_match 'to go on from here: --since w1\.' "$(cat "$MQKV_TEST_DIR/err")" \
    "it prints where to go on at the end"

here=$(grep -o 'w1\.[A-Za-z0-9_-]*' "$MQKV_TEST_DIR/err")
for i in {1..12}; do
    client put "c/$i" "$i" >/dev/null
done
client compact >/dev/null
: >"$changes"
for _ in {1..6}; do
    client watch c/ --since "$here" --keys --limit 2 >>"$changes" 2>"$MQKV_TEST_DIR/err"
    here=$(grep -o 'w1\.[A-Za-z0-9_-]*' "$MQKV_TEST_DIR/err")
done
check_equal 12 "$(grep -c '^put c/' "$changes")" \
    "the position behind each change of a log that a compaction has replaced is good"
check_equal 0 "$(grep -c missed "$changes")" "and none is missed"

for i in {1..100}; do
    echo "PUT full/$i $i"
done | client batch -q - 2>/dev/null
client watch full/ --since "$here" --limit 100 >/dev/full 2>"$MQKV_TEST_DIR/err"
check_equal 4 $? "what cannot be written ends it"
here=$(grep -o 'w1\.[A-Za-z0-9_-]*' "$MQKV_TEST_DIR/err")
check_equal 100 "$(timeout 20 "$MQKV_BUILD/clientk" -m "$server_queue" watch full/ \
    --since "$here" --limit 100 --keys 2>/dev/null | sort -u | wc -l)" \
    "and the position that it then tells is before all of that"

# Transactions
client watch t/ --since "$here" --limit 1 >/dev/null 2>"$MQKV_TEST_DIR/err" &
watcher=$!
client put t/alone 1 >/dev/null
wait "$watcher"
here=$(grep -o 'w1\.[A-Za-z0-9_-]*' "$MQKV_TEST_DIR/err")
# shellcheck disable=SC2046 # words
client transact $(printf -- '-- put t/%d v ' {1..60}) >/dev/null
client watch t/ --since "$here" --limit 60 --transactions >"$changes" 2>/dev/null
check_equal 60 "$(grep -c '^put t/' "$changes")" "each change of a transaction comes once"
check_equal 57 "$(grep -c '^together with the next$' "$changes")" \
    "those in one of the three data files behind each other"
check_equal "3 part of transaction with 3 parts" \
    "$(sed -n 's/^\(part of transaction\) [0-9]*/\1/p' "$changes" | uniq -c | sed 's/^ *//')" \
    "and it is told that they belong together"
check_equal 1 "$(grep '^part' "$changes" | sort -u | wc -l)" "by a number"
check_equal 60 "$(client watch t/ --since "$here" --limit 60 2>/dev/null | grep -c .)" \
    "who does not ask is told nothing new"
client watch t/ --since "$here" --limit 60 --transactions --format json >"$changes" 2>/dev/null
number='"transaction":[1-9][0-9]*,"parts":3'
check_equal "57 3" "$(grep -c "$number,\"goes_on\":true}" "$changes") $(
    grep -c "$number,\"goes_on\":false}" "$changes")" "as JSON"
client transact -- put t/alone w >/dev/null
check_match '"value":"w",.*"transaction":0,"parts":0,"goes_on":false}' "$(
    client watch t/alone --since "$here" --limit 1 --transactions --format json 2>/dev/null)" \
    "one change is none of a transaction"

check_status 2 "a position that is none" client watch --since nonsense
check_status 2 "a file that is not there" client watch --since @/nonexistent

: >"$changes"
exec_client watch --since "w1.$(printf 'A%.0s' {1..80})" >"$changes" 2>"$MQKV_TEST_DIR/err" &
watcher=$!
wait_until 20 has_lines "$changes" 1
check_equal missed "$(head -n 1 "$changes")" "of positions of another store the changes are missed"
kill -INT "$watcher"
wait "$watcher" || true
