#!/usr/bin/env bash
# ranges: keys in their order by clientk: from the shell, in batches, of stores that get an order,
# of servers without one
. "$(dirname "$0")/lib.sh"

order_is_whole() {
    client --format json stats order | grep -q '"whole":true'
}

start_server -d 4
for key in user:3 user:1 user:2 user:10 user zebra apple; do
    client put $key "of $key" >/dev/null
done

# A server without order
check_status 4 "a range needs an order" client scan --from a
check_match 'start serverk with --ordered' "$errors" "and the refusal says so"
check_status 4 "so does a first key" client first
check_equal 7 "$(client count)" "count works all the same"
check_equal 4 "$(client count user:)" "by prefix, too"
check_status 4 "but not from a key on" client count --from user
check_match '"ordered":false' "$(client --format json stats order)" "the statistics tell"
check_status 0 "nor does del --prefix need it" client del --prefix zeb
check_equal "1 deleted" "$output" "as before"
stop_server

# The same store gets one
start_server -d 4 --ordered
wait_until 20 order_is_whole || not_ok "the order is built in the background"
check_equal $'apple\nuser\nuser:1\nuser:10\nuser:2\nuser:3' "$(client scan --keys --from a)" \
    "keys are in the order of their bytes"
check_equal $'user:3\nuser:2\nuser:10\nuser:1' "$(client scan --keys --reverse user:)" \
    "backward, of a prefix"
check_equal $'user:10 "of user:10"\nuser:2 "of user:2"' \
    "$(client scan --from user:10 --to user:3)" "from a key on, before another"
check_equal $'user:1\nuser:10' "$(client scan --keys --prefix user: --limit 2)" "up to a limit"
check_equal $'apple\nuser' \
    "$(client scan --keys --from a --limit 2 --format csv | tail -2 | cut -d, -f1)" "in CSV"
check_equal 'user:1 "of user:1"' "$(client first user:)" "the first of a prefix"
check_equal 'user:3' "$(client last --keys)" "the last of all"
check_equal 'user:10' "$(client next --keys user:1)" "the next one"
check_status 1 "within a prefix" client next user:10 --prefix user:10
check_equal 'user' "$(client previous --keys user:1)" "the one before"
check_equal 'user:2' "$(client previous --keys user:29)" "also of a key that is not there"
check_status 1 "nothing is before the first" client previous apple
check_status 1 "nor behind the last" client next user:3
check_equal 4 "$(client count --prefix user:)" "they are counted"
check_equal 3 "$(client count --from user: --to user:3)" "between two keys"
check_equal 4 "$(client scan --keys --atomic --prefix user: | wc -l)" "as of one moment"
check_status 2 "the prefix is given once" client scan --prefix a b
check_status 2 "all of one moment has no limit" client scan --atomic --reverse --limit 1
check_match '"key":"apple","value":"of apple"' "$(client --format json first)" "JSON has the entry"
printf '%s\n' 'first' 'next "user:1" --keys' 'count user:' 'last nothing' 'put "\0\xff" x' \
    'first --keys' >"$MQKV_TEST_DIR/batch"
check_equal $'apple "of apple"\nuser:10\n4\nNOT FOUND\nOK\n"\\0\\xff"' \
    "$(client batch "$MQKV_TEST_DIR/batch")" "batches have them, too"
check_match 'ordered: 7 keys' "$(client doctor)" "the doctor tells"
check_match '^mqkv_order_keys 7$' "$(client metrics)" "so do the metrics"
check_match '^mqkv_order_whole 1$' "$(client metrics)" "whole"

# Many keys: a thousand at a time
seq -f 'put n:%06.0f v' 1 5000 >"$MQKV_TEST_DIR/many"
client batch "$MQKV_TEST_DIR/many" >/dev/null
check_equal "$(seq -f 'n:%06.0f' 1 5000 | sha256sum)" \
    "$(client scan --keys --prefix n: | sha256sum)" "pages follow one another"
check_equal "$(seq -f 'n:%06.0f' 5000 -1 1 | sha256sum)" \
    "$(client scan --keys --prefix n: --reverse | sha256sum)" "backward"
check_equal 5000 "$(client count n:)" "all are counted"
check_status 4 "they are too many for one moment" client scan --atomic --prefix n:
first_ten=$(client scan --keys --prefix n: --limit 10)
last=${first_ten##*$'\n'}
check_equal 10 "$(client scan --keys --atomic --reverse --match "${last%?}?" | wc -l)" \
    "a pattern looks at what begins as it does only"
check_match 'too many entries' "$errors" "as it says"
check_equal "5000 deleted" "$(client del --prefix n:)" "and deleted"
check_equal 7 "$(client count)" "no others are"

# kill -9, and a start
kill_server
start_server -d 4 --ordered
check_equal 'user:3' "$(client last --keys)" "ranges wait for the order after a start"
check_equal "7 deleted" "$(client clear --yes)" "clear deletes all"
check_equal 0 "$(client count)" "of them"
stop_server
