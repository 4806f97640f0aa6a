#!/usr/bin/env bash
# cluster_mirror_bank: who reads the copy of a mirror finds no transaction half done, while serverk,
# the NATS server or both are killed
# long: kills
. "$(dirname "$0")/lib.sh"

start_timeout_s=60
store=$MQKV_TEST_DIR/store
copy_queue=${server_queue}c
mapfile -t accounts < <(printf '{bank}a%d\n' {0..11})
total=12000

# start_mirror: a daemon with a store of several data files, and a copy in two shards.
start_mirror() {
    launch_server mirror "$server_program" -m "$server_queue" -f "$store" -d 4 \
        --mirror "$(nats_urls)" --bucket "$bucket" --shards 2
}

number_of() { # NAME: of the statistics of the mirror
    client stats mirror --format json | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"
}

is_level() {
    [ "$(number_of lag_changes)" = 0 ] && [ "$(number_of lag_ms)" = 0 ]
}

# begin_transfers NAME COUNT: clients that move money between accounts, two or three at once, in the
# background, and write other keys.
begin_transfers() {
    python3 - "$MQKV_TEST_DIR/$1" "$1" "$2" <<'END'
import random, sys
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for teller in range(2):
    with open(f"{path}.{teller}.lines", "w") as file:
        for i in range(count):
            giver, taker, third = random.sample(range(12), 3)
            print(f"begin\nadd {{bank}}a{giver} -3\nadd {{bank}}a{taker} 2\n"
                  f"add {{bank}}a{third} 1\n"
                  f"put {{bank}}t:{name}:{teller}:{i % 50} x\ncommit", file=file)
            print(f"put other:{name}:{random.randrange(300)} {i}", file=file)
            if i % 7 == 0:
                print(f"add {{bank}}other 1\ndel {{bank}}t:{name}:{teller}:{i % 50}", file=file)
END
    tellers=()
    local teller
    for teller in 0 1; do
        exec_client --timeout 30000 batch -n 3 "$MQKV_TEST_DIR/$1.$teller.lines" >/dev/null 2>&1 &
        tellers+=($!)
    done
}

# sum_copy: the sums that readers of the copy find, a line each, until there is no file "reading".
sum_copy() {
    local found
    while [ -e "$MQKV_TEST_DIR/reading" ]; do
        found=$("$MQKV_BUILD/clientk" -m "$copy_queue" --timeout 4000 get "${accounts[@]}" \
            --together 2>/dev/null) || { sleep 0.1; continue; }
        echo "$(($(paste -sd+ <<<"$found")))"
    done >>"$MQKV_TEST_DIR/sums"
}

start_reader() {
    touch "$MQKV_TEST_DIR/reading"
    : >"$MQKV_TEST_DIR/sums"
    sum_copy &
    readers=($!)
    sum_copy &
    readers+=($!)
}

# check_sums TEXT: of all that was read so far.
check_sums() {
    rm "$MQKV_TEST_DIR/reading"
    wait "${readers[@]}"
    check_equal "$total" "$(sort -u "$MQKV_TEST_DIR/sums")" "$1"
    echo "# $(wc -l <"$MQKV_TEST_DIR/sums") sums"
}

# check_same TEXT: the copy has what the store has.
check_same() {
    wait_until 120 is_level || not_ok "$1: the copy is level" "$(client stats mirror)"
    client get "${accounts[@]}" '{bank}other' --together >"$MQKV_TEST_DIR/ours"
    "$MQKV_BUILD/clientk" -m "$copy_queue" --timeout 30000 get "${accounts[@]}" '{bank}other' \
        --together >"$MQKV_TEST_DIR/copied"
    check_status 0 "$1" cmp "$MQKV_TEST_DIR/ours" "$MQKV_TEST_DIR/copied"
}

write_nats_configs 1
start_nats 0
mkdir "$store"
start_mirror
for account in "${accounts[@]}"; do echo "put $account 1000"; done | client batch -q -
client put '{bank}other' 0 >/dev/null
wait_until 30 is_level
"$server_program" -m "$copy_queue" --engine nats --nats "$(nats_urls)" --bucket "$bucket" \
    </dev/null >>"$server_log" 2>&1 &
copy_pid=$!
wait_until 20 "$MQKV_BUILD/clientk" -m "$copy_queue" ping -c 1 >/dev/null 2>&1

start_reader
begin_transfers quiet 4000
wait "${tellers[@]}"
check_same "the copy follows"
check_sums "and is never within a transfer"

start_reader
for round in 1 2 3 4 5; do
    begin_transfers "round$round" 4000
    sleep "0.$((RANDOM % 9 + 1))"
    kill_server
    start_mirror
    wait "${tellers[@]}"
done
check_same "kill -9 of serverk and its mirror: the copy follows"
check_sums "and goes back to no place within a transfer"
check_equal 0 "$(number_of refills_total)" "without copying everything"

start_reader
for round in 6 7 8; do
    begin_transfers "round$round" 4000
    sleep "0.$((RANDOM % 9 + 1))"
    signal_nats KILL 0
    [ $round != 8 ] || kill_server
    start_nats 0
    [ $round != 8 ] || start_mirror
    wait "${tellers[@]}"
done
check_same "kill -9 of the NATS server, and of both: the copy follows"
check_sums "and has no transfer half done"
client compact >/dev/null
begin_transfers last 500
wait "${tellers[@]}"
check_same "nor does a compaction stop it"
check_equal 0 "$(grep -c 'one by one' "$server_log")" "all of it in batches"
kill "$copy_pid"
wait "$copy_pid"
stop_server
signal_nats TERM 0
