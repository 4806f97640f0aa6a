#!/usr/bin/env bash
# clientk_migrate: migrate brings all of a store to another one, follows what clients change,
# deletes what they delete, and tells where both differ.
. "$(dirname "$0")/lib.sh"

from=$server_queue
to=${server_queue}b
cd "$MQKV_TEST_DIR" || exit 2

source_client() {
    "$MQKV_BUILD/clientk" -m "$from" "$@"
}
target_client() {
    "$MQKV_BUILD/clientk" -m "$to" "$@"
}
# what_has CLIENT: every entry with its expiry, sorted.
what_has() {
    "$1" dump - 2>/dev/null | grep '^PUT' | sort
}
check_same() {
    what_has source_client >"$MQKV_TEST_DIR/of_source"
    what_has target_client >"$MQKV_TEST_DIR/of_target"
    check_status 0 "$1" cmp "$MQKV_TEST_DIR/of_source" "$MQKV_TEST_DIR/of_target"
    check_status 0 "$1, not nothing" test -s "$MQKV_TEST_DIR/of_source"
}
version_of() { # CLIENT KEY
    "$1" get "$2" --format json | sed 's/.*"version":\([0-9]*\).*/\1/'
}

start_server -d 3
source_pid=$server_pid
seq 1 3000 | sed 's/.*/PUT key& "value &"/' | client batch -q -
client put expiring soon --ttl 1h
client put $'odd \x01\xff\n' "" >/dev/null
client put key7 "written again" >/dev/null
head -c 300000 /dev/urandom >some_bytes
client put large - <some_bytes >/dev/null

check_status 2 'without --to' client migrate
check_match 'to NAME' "$errors" 'says what is missing'
check_status 2 'to itself' client migrate --to "$from"
check_match 'is the source itself' "$errors" 'says so'
check_status 3 'to nobody' client migrate --to "$to"
check_match "no server at queue $to" "$errors" 'names the queue'

server_queue=$to
server_dir=$MQKV_TEST_DIR/target
server_log=$MQKV_TEST_DIR/target.log
start_server -d 2 --max-value 200K
check_status 3 'from nobody' "$MQKV_BUILD/clientk" -m "${from}z" migrate --to "$to"

# Refusals -----------------------------------------------------------------------------------------

check_status 4 'a value too large for the target' source_client migrate --to "$to"
check_match 'large: not moved: ' "$errors" 'is named'
check_match '3002 written' "$errors" 'and the others are moved'
check_match ', 1 not moved' "$errors" 'and it is counted'
restart_server -d 2 --max-bytes 1M --evict s3fifo
check_status 4 'one too large for a target that evicts' source_client migrate --to "$to" --resume
check_match 'large: not moved: the store has reached its limit' "$errors" 'is named, too'
check_match ', 1 not moved' "$errors" 'and counted'
check_equal '' "$(grep stopped <<<"$errors")" 'and no reason to stop'
restart_server -d 2 --max-value 200K
check_status 2 'a target with entries' source_client migrate --to "$to"
check_match 'has entries: --resume' "$errors" 'needs an option'
check_status 2 'two options' source_client migrate --to "$to" --resume --force
restart_server -d 2
check_status 0 'resumed with room for it' source_client migrate --to "$to" --resume
check_match ', 1 written and 0 deleted' "$errors" 'writes what was missing'
check_match 'verified' "$errors" 'and compares'
check_same 'both are the same, expiry too'
check_equal "$(version_of source_client key99)" "$(version_of target_client key99)" \
    'an entry has the version that it had'
target_client get large >back
check_status 0 'a large value is the same' cmp some_bytes back

# Changes ------------------------------------------------------------------------------------------

source_client put key1 other >/dev/null
source_client del key2 >/dev/null
target_client put mine 1 >/dev/null
target_client put key3 "changed here" >/dev/null
check_status 0 'with --force' source_client migrate --to "$to" --force
check_match '2 written and 0 deleted' "$errors" 'what differs is replaced'
check_equal 1 "$(target_client get mine)" 'what only the target has stays'
check_equal 'value 3' "$(target_client get key3)" 'the source is right'
check_status 0 'with --resume' source_client migrate --to "$to" --resume
check_match '0 written and 2 deleted' "$errors" 'what the source does not have is deleted'
check_same 'then both are the same'

# While clients run --------------------------------------------------------------------------------

write_on() {
    local round
    for round in $(seq 40); do
        {
            seq 1 50 | sed "s/.*/PUT live& round$round/"
            echo "PUT once$round 1"
            echo "ADD counter 1"
            [ "$round" -lt 10 ] || echo "DEL once$((round - 5))"
        } | source_client batch -q -
    done
}
target_client clear --yes >/dev/null
write_on &
writer=$!
check_status 0 'until the writers are quiet' source_client migrate --to "$to" --until-quiet
wait "$writer"
check_status 0 'and what has come since' source_client migrate --to "$to" --resume
check_same 'both are the same'
check_equal 40 "$(target_client get counter)" 'a counter has its last number'

# Others at the target -----------------------------------------------------------------------------

# A client that uses the target already: its writes stay, and are told of.
exec_migrate() {
    exec "$MQKV_BUILD/clientk" -m "$from" migrate --to "$to" --until-quiet 2>reports
}
target_client clear --yes >/dev/null
touch writing
while [ -e writing ]; do
    source_client put busy "$SECONDS$RANDOM" >/dev/null
done &
writer=$!
exec_migrate &
migration=$!
all_there() { [ "$(target_client scan --count)" -ge 3000 ]; }
wait_until 60 all_there
target_client put key5 "of a client that has moved" >/dev/null
target_client put new "of it, too" >/dev/null
source_client put key5 "of one that has not" >/dev/null
source_client put key6 "moved, too" >/dev/null
moved_too() { [ "$(target_client get key6)" = "moved, too" ]; }
wait_until 60 moved_too
rm writing
wait "$writer"
wait "$migration"
check_equal 1 $? 'writes of others at the target: exit 1'
check_match 'key5: differs: others have written' "$(cat reports)" 'the key is named'
check_match 'new: differs: only the target' "$(cat reports)" 'and one that only the target has'
check_equal 'of a client that has moved' "$(target_client get key5)" 'and its value stays'

# Ends ---------------------------------------------------------------------------------------------

target_client clear --yes >/dev/null
seq 1 40000 | sed 's/.*/PUT many& "value &"/' | source_client batch -q -
exec_migrate &
migration=$!
some_there() { [ "$(target_client scan --count)" -gt 100 ]; }
wait_until 60 some_there
kill -INT "$migration"
wait "$migration"
check_equal 130 $? 'Ctrl-C ends it'
check_match "stopped: interrupted" "$(cat reports)" 'with a word'
check_match "to go on: clientk -m $from migrate --to $to --resume" "$(cat reports)" \
    'and how to go on'
check_status 0 'which does' source_client migrate --to "$to" --resume
check_same 'nothing is missing'

target_client clear --yes >/dev/null
exec_migrate &
migration=$!
wait_until 60 some_there
kill_server
wait "$migration"
check_equal 3 $? 'a target that dies: exit 3'
start_server
check_status 0 'it is resumed' source_client migrate --to "$to" --resume
check_same 'nothing is missing then either'

stop_server
server_pid=$source_pid
server_queue=$from
stop_server
