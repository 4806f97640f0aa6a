#!/usr/bin/env bash
# clientk_queue: a shell puts jobs into a queue, takes and settles them, and sees what they become
. "$(dirname "$0")/lib.sh"

receipt_of() { # LINE: the first word
    echo "${1%% *}"
}

has_session() { # PID
    client sessions | grep -qw "$1"
}

start_server
check_status 1 "there is no job at first" client queue take mail
check_equal "" "$output" "and nothing is printed"
check_status 0 "a job is put" client queue put mail to Ada
check_match '^[0-9a-f]{16}$' "$output" "and its id printed"
client queue put mail --priority 9 urgent >/dev/null
printf 'a\0b\n' | client queue put mail - >/dev/null
check_equal "ready 3 leased 0 later 0 dead 0 " "$(client queue length mail | tr '\n' ' ')" \
    "three wait"
check_match '^[0-9a-f]{16} 0/5 urgent$' "$(client queue peek mail -c 1)" "peek shows the next one"

check_status 0 "the urgent one comes first" client queue take mail
check_match '^9\.0\.[0-9a-f]{16} urgent$' "$output" "with its receipt"
urgent=$(receipt_of "$output")
check_status 0 "it is acknowledged" client queue ack mail "$urgent"
check_status 1 "once" client queue ack mail "$urgent"
check_status 2 "by a receipt" client queue ack mail nonsense

check_status 0 "the next" client queue take mail
ada=$(receipt_of "$output")
check_match ' "?to Ada"?$' "$output" "is the first that was put"
check_status 0 "its bytes come out as they went in" \
    bash -c "'$MQKV_BUILD/clientk' -m '$server_queue' queue take mail --format raw \\
        2>'$MQKV_TEST_DIR/receipt' | cmp - <(printf 'a\\0b\\n')"
check_status 0 "it fails" \
    client queue fail mail "$(<"$MQKV_TEST_DIR/receipt")" --reason "no luck" --delay 1h
check_match '"state":"later".*"reason":"no luck"' "$(client --format json queue list mail later)" \
    "and waits"
check_status 0 "a lease ends" client queue extend mail "$ada" --lease 1ms
check_status 0 "and gives the job to who waits" client queue take mail --wait
check_match '"?to Ada"?$' "$output" "the same job"
check_status 1 "so that it is not the first one's any more" client queue ack mail "$ada"
check_status 1 "who waits for a while gets nothing" client queue take mail --wait-for 50ms
check_match '^leased .* later ' "$(client queue list mail | tr '\n' ' ')" \
    "a list without a state has all"
check_equal 2 "$(client queue list mail --format json | grep -c '"state"')" "as has json"
again=$(client --format json queue list mail leased | sed 's/.*"id":"\([^"]*\)".*/\1/')
check_match '^[0-9a-f]{16}$' "$again" "the leased one is listed"

client queue put hopeless --attempts 1 x >/dev/null
check_status 0 "a job of one attempt" client queue take hopeless
check_status 0 "fails" client queue fail hopeless "$(receipt_of "$output")" --reason "bad luck"
check_equal dead "$output" "and is dead"
check_match ' 1/1 x failed: bad luck$' "$(client queue dead hopeless)" "as the dead letters show"
check_status 0 "it is revived" client queue dead hopeless --revive
check_status 0 "and taken again" client queue take hopeless
check_status 0 "released" client queue release hopeless "$(receipt_of "$output")"
check_status 0 "taken once more" client queue take hopeless
taken=$output
check_status 0 "kept longer" client queue extend hopeless "$(receipt_of "$output")" --lease 1h
check_status 0 "and buried" client queue fail hopeless "$(receipt_of "$taken")" --bury
check_equal "1 dropped" "$(client queue dead hopeless --drop)" "and dropped"

check_status 2 "a word that it does not know" client queue peel mail
check_status 2 "a name that is none" client queue take a:b
check_status 2 "too few words" client queue ack mail
for queue in zoo "a b"; do client queue put "$queue" job >/dev/null; done
client queue put slow job --delay 1h >/dev/null
client put queue:none:other x >/dev/null
client -e put 'queue:zo\x00o:tails' x >/dev/null
check_status 0 "queues are listed without a name" client queue list
check_equal $'"a b" ready 1 leased 0 later 0 dead 0
slow ready 0 leased 0 later 1 dead 0
zoo ready 1 leased 0 later 0 dead 0' "$(grep -E '^("a b"|slow|zoo|none) ' <<<"$output")" \
    "in the order of their names, with their lengths"
check_equal $'queue,ready,leased,later,dead\na b,1,0,0,0' \
    "$(client --format csv queue list | grep -E '^(queue|a b),')" "in CSV"
check_match '^.?."queue":"zoo","ready":1' "$(client --format json queue list | grep zoo)" "in JSON"
check_status 2 "--drop needs a name" client queue list --drop
exec_client queue take awaited --wait >"$MQKV_TEST_DIR/awaited" &
waiting=$!
client queue put awaited now >/dev/null
wait "$waiting"
check_match ' now$' "$(<"$MQKV_TEST_DIR/awaited")" "who waits gets what is put"
for how in stop kill; do
    exec_client queue take awaited --wait-for 1m >"$MQKV_TEST_DIR/awaited" 2>&1 &
    waiting=$!
    wait_until 20 has_session "$waiting"
    "${how}_server"
    sleep 0.3
    start_server
    client queue put awaited "after a $how" >/dev/null
    wait "$waiting"
    check_match " \"?after a $how\"?$" "$(<"$MQKV_TEST_DIR/awaited")" \
        "who waits goes on when the daemon was started again: $how"
    client queue ack awaited "$(receipt_of "$(<"$MQKV_TEST_DIR/awaited")")" >/dev/null
done
exec_client queue take awaited --wait-for 1h >/dev/null 2>&1 &
waiting=$!
wait_until 20 grep -q awaited "/proc/$waiting/cmdline"
kill -INT "$waiting"
wait "$waiting"
check_equal 130 $? "a signal ends the wait"
