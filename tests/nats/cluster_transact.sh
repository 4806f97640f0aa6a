#!/usr/bin/env bash
# cluster_transact: transactions within a shard, on one server and on three, which are killed
# long: elections
. "$(dirname "$0")/lib.sh"

start_timeout_s=60
mapfile -t accounts < <(printf '{bank}a%d\n' 0 1 2 3 4 5)
total=6000

# begin_transfers NAME COUNT: clients that move money between accounts, in the background; each
# transfer has an entry of its own, which says what it has moved.
begin_transfers() {
    python3 - "$MQKV_TEST_DIR/$1" "$1" "$2" <<'END'
import random, sys
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for teller in range(3):
    with open(f"{path}.{teller}.lines", "w") as file:
        for i in range(count):
            giver, taker = random.sample(range(6), 2)
            amount = random.randint(1, 9)
            print(f"begin --if-value {{bank}}open yes --if-absent {{bank}}t:{name}:{teller}:{i}\n"
                  f"add {{bank}}a{giver} -{amount} --min 0\nadd {{bank}}a{taker} {amount}\n"
                  f"put {{bank}}t:{name}:{teller}:{i} {giver} {taker} {amount}\ncommit", file=file)
END
    tellers=()
    local teller
    for teller in 0 1 2; do
        exec_client --timeout 30000 batch -n 3 "$MQKV_TEST_DIR/$1.$teller.lines" \
            >"$MQKV_TEST_DIR/$1.$teller.answers" 2>"$MQKV_TEST_DIR/$1.$teller.failures" &
        tellers+=($!)
    done
}

# wrong_sums COUNT: how many of so many reads of all accounts together had another sum.
wrong_sums() {
    local wrong=0 read=0 i found
    for ((i = 0; i < $1; i++)); do
        found=$(client --timeout 30000 get "${accounts[@]}" --together 2>/dev/null) || continue
        read=$((read + 1))
        [ "$(($(paste -sd+ <<<"$found")))" = $total ] || wrong=$((wrong + 1))
    done
    echo "$wrong wrong of $read" >&2
    [ "$read" -gt 0 ] && echo "$wrong"
}

# check_bank NAME TEXT: when the clients are done. What each was told holds, all that the entries of
# transfers say was moved, and nothing else.
check_bank() {
    wait "${tellers[@]}"
    client --timeout 30000 scan '{bank}' >"$MQKV_TEST_DIR/$1.found"
    check_status 0 "$2" python3 - "$MQKV_TEST_DIR/$1" "$1" <<'END'
import shlex, sys
path, name = sys.argv[1:]
with open(f"{path}.found") as file:
    found = dict(shlex.split(line) for line in file.read().splitlines())
balances = [1000] * 6
for key, value in found.items():
    if key.startswith("{bank}t:"):
        giver, taker, amount = map(int, value.split())
        balances[giver] -= amount
        balances[taker] += amount
told = {"done": 0, "failed": 0, "unknown": 0}
for teller in range(3):
    with open(f"{path}.{teller}.answers") as file:
        answers = file.read().splitlines()
    i = at = 0
    while at < len(answers):
        is_there = f"{{bank}}t:{name}:{teller}:{i}" in found
        if not answers[at].startswith("ERROR"):
            if not is_there:
                sys.exit(f"transfer {teller}:{i} was acknowledged, and is not there")
            at, told["done"] = at + 3, told["done"] + 1
        elif any(word in answers[at] for word in ("unknown", "timeout")):
            at, told["unknown"] = at + 1, told["unknown"] + 1
        else:
            if is_there:
                sys.exit(f"transfer {teller}:{i} is there: {answers[at]}")
            at, told["failed"] = at + 1, told["failed"] + 1
        i += 1
have = [int(found[f"{{bank}}a{i}"]) for i in range(6)]
print(told, have)
if have != balances:
    sys.exit(f"the entries of the transfers make {balances}")
if not told["done"]:
    sys.exit("nothing was done")
END
    echo "# $output"
}

open_bank() {
    client put '{bank}open' yes
    for account in "${accounts[@]}"; do client put "$account" 1000; done
}

for servers in 1 3; do
    nats_pids=() nats_ports=() route_ports=()
    rm -rf "$MQKV_TEST_DIR"/n[0-9]*
    write_nats_configs "$servers"
    # shellcheck disable=SC2046 # numbers
    start_nats $(seq 0 $((servers - 1)))
    nats_options=(--shards 3 --replicas "$servers")
    start_server
    open_bank >/dev/null
    what="on $servers: "

    begin_transfers quiet 150
    check_equal 0 "$(wrong_sums 30)" "${what}the sum never changes while others transfer"
    check_bank quiet "${what}what each client was told is so"

    begin_transfers daemon 600
    sleep 0.3
    kill_server
    start_server
    check_equal 0 "$(wrong_sums 5)" "${what}nor when serverk is killed"
    check_bank daemon "${what}and what was told is so"

    begin_transfers all 600
    sleep 0.3
    # shellcheck disable=SC2046
    signal_nats KILL $(seq 0 $((servers - 1)))
    # shellcheck disable=SC2046
    start_nats $(seq 0 $((servers - 1)))
    check_equal 0 "$(wrong_sums 5)" "${what}nor when all servers are"
    check_bank all "${what}and what was told is so"

    if [ "$servers" = 3 ]; then
        begin_transfers leader 1500
        sleep 0.3
        for i in 0 1 2; do
            victim=$(leader_of "KV_check_$i")
            signal_nats KILL "$victim"
            check_equal 0 "$(wrong_sums 3)" "${what}nor when the leader of shard $i is"
            start_nats "$victim"
        done
        check_bank leader "${what}and what was told is so"
    fi
    stop_server
    # shellcheck disable=SC2046
    signal_nats TERM $(seq 0 $((servers - 1)))
done
