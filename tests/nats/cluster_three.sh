#!/usr/bin/env bash
# cluster_three: serverk with each key on three NATS servers, of which some are killed or stopped
. "$(dirname "$0")/lib.sh"

write_nats_configs 3
start_nats 0 1 2
start_timeout_s=60
nats_options=(--shards 3 --replicas 3 --nats-cluster checked)
start_server

# write_counted NAME COUNT: puts keys NAME.1 ... and adds to NAME.sum, in the background; pid in
# $writer. check_counted NAME TEXT then finds everything that was acknowledged.
write_counted() {
    local i
    for ((i = 1; i <= $2; i++)); do
        echo "PUT $1.$i v$i"
        echo "ADD $1.sum 1"
    done >"$MQKV_TEST_DIR/$1.lines"
    client --timeout 30000 batch -n 4 - <"$MQKV_TEST_DIR/$1.lines" \
        >"$MQKV_TEST_DIR/$1.answers" 2>"$MQKV_TEST_DIR/$1.failures" &
    writer=$!
}

check_counted() {
    local name=$1 text=$2
    wait "$writer"
    client --timeout 30000 scan "$name." >"$MQKV_TEST_DIR/$name.found"
    check_status 0 "$text" python3 - "$MQKV_TEST_DIR/$name" \
        "$(client --timeout 30000 get "$name.sum")" <<'END'
import sys
name, total = sys.argv[1], int(sys.argv[2] or 0)
with open(f"{name}.lines") as lines, open(f"{name}.answers") as answers:
    pairs = list(zip(lines.read().splitlines(), answers.read().splitlines(), strict=True))
with open(f"{name}.found") as file:
    found = dict(line.split(" ", 1) for line in file.read().splitlines())
puts = [line.split()[1:] for line, answer in pairs if line[0] == "P" and answer == "OK"]
adds = [line for line, answer in pairs if line[0] == "A" and not answer.startswith("ERROR")]
unsure = sum(answer.startswith("ERROR") for line, answer in pairs if line[0] == "A")
lost = [key for key, value in puts if found.get(key) != value]
print(f"{len(puts)} puts and {len(adds)} adds acknowledged, {unsure} adds failed, sum {total}")
if lost or not len(adds) <= total <= len(adds) + unsure or not puts:
    sys.exit(f"lost: {lost[:10]}")
END
    echo "# $output"
}

# Leader reads -------------------------------------------------------------------------------------

check_status 0 "put" client put name Ada
check_equal Ada "$(client get name)" "get"
head -c 1048064 /dev/urandom >"$MQKV_TEST_DIR/largest"
check_status 0 "put of the largest value" client put largest - <"$MQKV_TEST_DIR/largest"
client get largest >"$MQKV_TEST_DIR/back"
check_status 0 "and its get from the leader" cmp "$MQKV_TEST_DIR/largest" "$MQKV_TEST_DIR/back"
check_status 0 "linearizable" "$MQKV_BUILD/tests/history_load" "$server_queue" 6 40 3000 "$RANDOM"
echo "# $output"

# A hot counter ------------------------------------------------------------------------------------

client put hot 0 >/dev/null
output=$(client bench -n 50 -c 10000 --mix add=100 --keys 1 --prefix hot --format csv | tail -1)
sum=$(client scan hot | awk '{ sum += $2 } END { print sum }')
check_equal 10000 "$sum" "a counter that 50 clients add to loses nothing"
check_match '"folded_total":[1-9]' "$(client stats engine --format json)" \
    "adds that wait go in one message"

# Two daemons --------------------------------------------------------------------------------------

first_pid=$server_pid first_queue=$server_queue
server_queue=${server_queue}b server_log=$MQKV_TEST_DIR/second.log
start_server
check_equal Ada "$(client get name)" "a second daemon serves the same data"
for queue in "$first_queue" "$server_queue"; do
    for _ in $(seq 300); do echo "ADD both 1"; done |
        "$MQKV_BUILD/clientk" -m "$queue" --timeout 30000 batch -n 8 -q - &
    adders+=($!)
done
wait "${adders[@]}"
check_equal 600 "$(client get both)" "a counter that two daemons add to loses nothing"
stop_server
server_pid=$first_pid server_queue=$first_queue server_log=$MQKV_TEST_DIR/serverk.log

# Failures -----------------------------------------------------------------------------------------

write_counted k 4000
sleep 0.3
victim=$(leader_of KV_check_0)
signal_nats KILL "$victim"
check_counted k "kill -9 of a leader loses nothing that was acknowledged"
start_nats "$victim"

write_counted s 4000
sleep 0.3
victim=$(leader_of KV_check_1)
signal_nats STOP "$victim"
sleep 5
check_status 0 "while a leader is stopped, others take over" client --timeout 20000 put other 1
signal_nats CONT "$victim"
check_counted s "a leader that was stopped for a while loses nothing"

write_counted d 4000
sleep 0.3
kill_server
start_server
check_counted d "kill -9 of serverk loses nothing that was acknowledged"

write_counted t 4000
sleep 0.3
signal_nats KILL 0 1
sleep 1
check_status 3 "without a majority, a put is refused in time" client --timeout 1500 put q 1
start_nats 0 1
check_counted t "kill -9 of two of three loses nothing that was acknowledged"

write_counted a 4000
sleep 0.3
signal_nats KILL 0 1 2
start_nats 0 1 2
check_counted a "kill -9 of all three loses nothing that was acknowledged"

"$MQKV_BUILD/tests/history_load" "$server_queue" 6 400 20000 "$RANDOM" \
    >"$MQKV_TEST_DIR/judged" 2>&1 &
load=$!
sleep 1
victim=$(leader_of KV_check_2)
signal_nats KILL "$victim"
if wait "$load"; then
    ok "linearizable across the death of a leader"
else
    not_ok "linearizable across the death of a leader" "$(tail -n 20 "$MQKV_TEST_DIR/judged")"
fi
echo "# $(tail -n 1 "$MQKV_TEST_DIR/judged")"
start_nats "$victim"
stop_server
signal_nats TERM 0 1 2
