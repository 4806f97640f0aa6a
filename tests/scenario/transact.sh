#!/usr/bin/env bash
# transact: several keys change together, or none: from the shell, in batches, under kills
. "$(dirname "$0")/lib.sh"

start_server -d 4

version_of() { # KEY
    client --format json get "$1" | sed 's/.*"version":\([0-9]*\).*/\1/'
}

# One shot
client put stock 7 >/dev/null
check_status 0 "a transaction is done" \
    client transact --if-absent order:1 -- add stock -1 --min 0 -- put order:1 Ada Lovelace \
    -- get stock
check_equal $'6\nOK\n7' "$output" "each step has its answer; reads see what was there before"
check_equal "Ada Lovelace" "$(client get order:1)" "values may have several words"
check_status 1 "a guard that does not hold: exit 1" \
    client transact --if-absent order:1 -- add stock -1 -- put order:2 x
check_match 'guard 1 does not hold, "order:1" exists; nothing changed' "$errors" "it is told which"
check_status 1 "then what stands behind --else is done" \
    client transact --if-absent order:1 -- put order:2 x --else get order:1 -- put refused 1
check_equal $'Ada Lovelace\nOK' "$output" "and answered"
check_equal 1 "$(client get refused)" "really"
check_status 1 "a bound that does not hold: exit 1" \
    client transact -- put order:3 x -- add stock -7 --min 0
check_match 'then 2, "stock": .*; nothing changed' "$errors" "the step is named"
check_status 1 "and nothing changed" client get order:3
version=$(version_of stock)
check_status 0 "a guard by version" client transact --if-version stock "$version" -- put stock 9
check_status 1 "holds once" client transact --if-version stock "$version" -- put stock 10
check_match "has not version $version" "$errors" "and says so"
check_status 0 "guards by value, presence and absence" client transact --if-value stock 9 \
    --if-present stock --if-absent nothing --if-version nothing 0 -- del stock
check_status 0 "with its own durability" client transact --sync always -- put stock 1
check_status 0 "-h explains it" client transact -h
check_status 2 "a key is written once" client transact -- put a 1 -- put a 2
check_status 2 "steps have no conditions" client transact -- put a 1 --if-absent
check_status 2 "nor durability" client transact -- put a 1 --sync always
check_status 2 "only commands for one key are steps" client transact -- scan
check_status 2 "not those that are two steps" client transact -- getset a 1
check_status 2 "a guard has its words" client transact --if-value stock -- put a 1
check_status 2 "and is written in full" client transact --if-abs stock -- put a 1
check_status 2 "something is to be done" client transact
check_status 2 "--else stands once" client transact -- put a 1 --else put a 2 --else put a 3
# shellcheck disable=SC2046 # words
check_status 2 "there is a limit of steps" client transact $(printf -- '-- put k%d v ' {1..129})
check_match "at most 128" "$errors" "which is told"
# shellcheck disable=SC2046 # words
check_status 0 "which they may reach" client transact $(printf -- '-- put k%d v ' {1..128})
check_equal '{"command":"put","key":"j","status":"ok"' \
    "$(client --format json transact -- put j 1 | head -1 | cut -d, -f1-3)" "JSON has the steps"
check_equal '{"command":"transact","status":"ok"}' \
    "$(client --format json transact -- put j 1 | tail -1)" "and the outcome"
printf 'from stdin' | client transact -- put piped - >/dev/null
check_equal "from stdin" "$(client get piped)" "a value may come from standard input"

# Reading together
check_status 1 "several keys at one moment" client get order:1 nothing refused --together
check_equal $'Ada Lovelace\nNOT FOUND\n1' "$output" "a line for each"
check_status 0 "or one after the other" client get order:1 refused
for i in 1 2; do head -c 600000 /dev/zero | client put "half:$i" -; done >/dev/null
check_status 4 "as much as an answer holds" client get half:1 half:2 --together
check_match "more than one answer holds" "$errors" "which is told"

# Blocks
cat >"$MQKV_TEST_DIR/block" <<'END'
put before 1
begin --if-present stock   # guards stand here
  put "a b" "x y"

  add sum 5
  get sum
  put dashes -- --min
commit
get "a b"
begin
put never 1
abort
begin --if-absent stock
put never 1
else
put instead 1
commit
begin
put never 1
add "a b" 1
commit
get dashes
END
client batch "$MQKV_TEST_DIR/block" >"$MQKV_TEST_DIR/out" 2>"$MQKV_TEST_DIR/err"
check_equal 1 "$?" "a batch of blocks tells the worst that happened"
cat >"$MQKV_TEST_DIR/expected" <<'END'
OK
OK
5
NOT FOUND
OK
x y
OK
ERROR version_mismatch: guard 1 does not hold, "stock" exists; the steps behind --else were done
ERROR not_a_number: then 2, "a b": the value is not a decimal integer; nothing changed
--min
END
check_equal "$(cat "$MQKV_TEST_DIR/expected")" "$(cat "$MQKV_TEST_DIR/out")" "each step is answered"
check_match "block:13: transact: guard 1" "$(cat "$MQKV_TEST_DIR/err")" \
    "a report names the line of begin"
check_match "block:18: transact: then 2" "$(cat "$MQKV_TEST_DIR/err")" "of each block"
check_status 1 "nothing else was done" client get never
sed -i 's/^add sum 5/incr sum 5/' "$MQKV_TEST_DIR/block"
client batch -n 4 "$MQKV_TEST_DIR/block" >"$MQKV_TEST_DIR/out" 2>/dev/null
check_status 1 "threads that share the lines do not tear a block" client get never
check_status 2 "a block that does not end does nothing" \
    client batch <(printf 'begin\nput never 1\n')
check_status 2 "nor one with a line that is wrong" \
    client batch <(printf 'begin\nput never 1\nput\ncommit\n')
check_status 2 "nor one in another" client batch <(printf 'begin\nput never 1\nbegin\ncommit\n')
check_status 2 "commit needs a begin" client batch <(echo commit)
check_status 1 "whatever stood there" client get never

# A bank: transfers by guarded and by bounded transactions, and everybody sees the sum
for account in 0 1 2 3; do client put "account:$account" 1000; done >/dev/null
accounts=(account:0 account:1 account:2 account:3)
transfers() { # SEED: for ever
    awk -v seed="$1" 'BEGIN { srand(seed)
        for (;;) {
            from = int(rand() * 4); to = (from + 1 + int(rand() * 3)) % 4; n = int(rand() * 9) + 1
            print "transact --if-present account:" to " -- add account:" from " -" n " --min 0" \
                " -- add account:" to " " n
        } }'
}
tellers=()
for seed in 1 2 3; do
    transfers "$seed" | exec_client batch -q - >/dev/null 2>&1 &
    tellers+=($!)
done
sums() { # COUNT: how many sums of COUNT reads differ from 4000
    local wrong=0 i
    for ((i = 0; i < $1; i++)); do
        [ "$(($(client get "${accounts[@]}" --together | paste -sd+)))" = 4000 ] ||
            wrong=$((wrong + 1))
    done
    echo "$wrong"
}
check_equal 0 "$(sums 40)" "the sum never changes while others transfer"
check_equal 0 "$(MQKV_DIRECT=off sums 20)" "nor for who asks the server"
check_match "account:[0-3]" "$(client hotkeys -t 1s)" "hotkeys sees the keys of transactions"
moved=$(version_of account:0)
kill -9 "${tellers[0]}" # in the middle of its stream
wait "${tellers[0]}" 2>/dev/null
check_equal 0 "$(sums 20)" "nor when a client is killed"
check_equal yes "$([ "$(version_of account:0)" -gt "$moved" ] && echo yes)" "others go on"
kill_server
for pid in "${tellers[@]:1}"; do
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
done
start_server -d 4
check_equal 0 "$(sums 3)" "nor when the server is"
check_equal 0 "$(MQKV_DIRECT=off sums 3)" "nor for who asks it"
check_match '"transact":[1-9]' "$(client --format json stats operations | tr -d ' ')" \
    "they are counted"
stop_server

# Quotas, and other ways to serve
printf '[quota q:]\nmax-keys = 2\n' >"$MQKV_TEST_DIR/conf"
start_server -d 4 -c "$MQKV_TEST_DIR/conf"
check_status 4 "a quota that some steps use up refuses all" \
    client transact -- put q:1 1 -- put other 1 -- put q:2 1 -- put q:3 1
check_match 'then [134], "q:.": above a quota' "$errors" "and names one of them"
check_equal 0 "$(client scan q: --count)" "and nothing has changed"
check_status 0 "what fits is done" client transact -- put q:1 1 -- put q:2 1
stop_server
start_server -d 4 --max-value 8M
for i in {1..9}; do head -c 8000000 /dev/zero | client put "large:$i" -; done >/dev/null
steps=$(printf -- '-- touch large:%d 1h ' {1..9})
# shellcheck disable=SC2086 # words
check_status 4 "what would write too much anew in one piece is refused" client transact $steps
check_match 'then 9, "large:9": ' "$errors" "with the step"
check_equal never "$(client ttl large:1)" "and nothing is done"
# shellcheck disable=SC2086 # words
check_status 0 "what is less is done" client --timeout 60000 transact ${steps%-- touch large:9*}
stop_server
if has_lab 'transact: other ways to serve'; then
    for model in thread process; do
        start_server -d 4 --dispatch "$model"
        check_status 0 "transactions with --dispatch $model" client transact -- put a 1 -- put b 1
        check_status 0 "and reads together" client get a b --together
        stop_server
    done
fi
