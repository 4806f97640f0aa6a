#!/usr/bin/env bash
# kresp_scan: SCAN and KEYS of a pattern with a prefix follow the order of keys where the server has
# one, and walk the store where it has none.
# shellcheck disable=SC2016,SC2119 # a reply has its size behind a dollar; kresp has no options here
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

order_is_whole() {
    client --format json stats order | grep -q '"whole":true'
}

# scan_all ARGUMENT...: the keys that SCAN gives from 0 until the end, each in a line; each page
# over a connection of its own.
scan_all() {
    local cursor=0 page
    pages=0
    while :; do
        page=$(ask "scan $cursor $*" | tr ' ' '\n')
        ((++pages))
        [[ $page == '*2'* ]] || { echo "$page"; return 1; }
        cursor=$(sed -n 3p <<<"$page")
        sed -n '4,$p' <<<"$page" | grep -v '^[*$]'
        [ "$cursor" != 0 ] || break
    done
    echo "$pages" >"$MQKV_TEST_DIR/pages"
}

start_server -d 4
seq -f 'put user:%04.0f v' 1 300 >"$MQKV_TEST_DIR/batch"
seq -f 'put other:%04.0f v' 1 3000 >>"$MQKV_TEST_DIR/batch"
printf '%s\n' 'put user v' 'put usER v' 'put uses v' >>"$MQKV_TEST_DIR/batch"
client batch "$MQKV_TEST_DIR/batch" >/dev/null
start_kresp
wanted=$(seq -f 'user:%04.0f' 1 300)

# Without an order
check_equal "$wanted" "$(scan_all match 'user:*' count 100 | sort)" "without order a scan finds all"
check_equal 300 "$(ask 'keys user:*' | tr ' ' '\n' | grep -c ^user:)" "so does KEYS"
old=$(ask 'scan 0 match user:* count 10' | tr ' ' '\n' | sed -n 3p)
stop_kresp
stop_server

# With one
start_server -d 4 --ordered
wait_until 20 order_is_whole || not_ok "the order is built in the background"
start_kresp
check_equal "$wanted" "$(scan_all match 'user:*' count 100)" "with one they come in order"
check_equal 4 "$(cat "$MQKV_TEST_DIR/pages")" "and no page is of other keys"
check_equal "$wanted" "$(scan_all match 'user:*' count 45)" "fewer at a time, too"
check_equal "$(seq -f 'user:%04.0f' 7 10 300)" "$(scan_all match 'user:*7' count 25)" \
    "the rest of the pattern is looked at"
check_equal "$wanted" "$(ask 'keys user:*' | tr ' ' '\n' | grep ^user:)" "KEYS is in order"
check_equal '*2 $1 0 *0' "$(ask 'scan 0 match nobody:*')" "where nothing is, one page ends it"
check_equal '*2 $1 0 *0' "$(ask 'scan 0 match user:* type list')" "as for a type that is none here"
check_equal 3303 "$(scan_all count 500 | sort -u | wc -l)" "all keys are scanned as before"
check_match '^\*2 ' "$(ask "scan $old match user:*")" "a cursor from before goes on"

# Cursors that are lost
cursor=$(ask 'scan 0 match user:* count 10' | tr ' ' '\n' | sed -n 3p)
check_equal user:0011 "$(ask "scan $cursor match user:* count 10" | tr ' ' '\n' | sed -n 6p)" \
    "a page begins behind the one before"
check_equal user:0011 "$(ask "scan $cursor match user:* count 10" | tr ' ' '\n' | sed -n 6p)" \
    "also when it is asked for again"
client del user:0010 >/dev/null
check_equal user:0011 "$(ask "scan $cursor match user:* count 10" | tr ' ' '\n' | sed -n 6p)" \
    "and when the key before it is gone"
kill_server
start_server -d 4 --ordered
wait_until 20 order_is_whole || not_ok "the order is built again"
check_equal user:0011 "$(ask "scan $cursor match user:* count 10" | tr ' ' '\n' | sed -n 6p)" \
    "and when serverk has been killed"
stop_kresp
start_kresp
check_match '^-ERR invalid cursor: kresp keeps' "$(ask "scan $cursor match user:*")" \
    "kresp that was started again says that it does not know the cursor"
stop_kresp
stop_server
