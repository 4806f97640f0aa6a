#!/usr/bin/env bash
# serverk_schedule: --sched decides which of the waiting requests is served first, nothing starves,
# the queue in the daemon is bounded; --nice wants its privilege; priorities are checked
. "$(dirname "$0")/lib.sh"
has_lab 'serverk_schedule' || exit 0

order() { # WHAT
    "$MQKV_BUILD/tests/served_order" "$server_queue" "$1" 2>&1
}

# begin NAME [OPTION...]: a daemon with one worker and one data file, on a store of its own.
begin() {
    server_dir=$MQKV_TEST_DIR/$1
    shift
    start_server -d 1 -w 1 --sync none "$@"
}

# Order of what waits
begin fifo
check_equal llllhhhh "$(order priority)" "fifo: in the order of sending, whatever the priority"
check_equal bssss "$(order work)" "fifo: whatever the work"
check_match '"sched":"fifo"' "$(client --format json stats schedule)" "stats tells fifo"
stop_server
for lanes in auto shared; do
    begin "priority-$lanes" --sched priority --lanes $lanes
    check_equal hhhhllll "$(order priority)" "priority, --lanes $lanes: the higher first"
    stop_server
done
begin cost --sched cost
check_equal hhhhllll "$(order priority)" "cost: the higher first"
# The worker may lose the CPU for so long that the large one is due before the small ones are
# received.
for _ in 1 2 3 4 5; do
    served=$(order work)
    [ "$served" != ssssb ] || break
done
check_equal ssssb "$served" "cost: less work first"

# Nothing starves: a request of the lowest priority amid a flood of the highest.
exec_client --priority 31 bench -n 8 -t 60 --mix put=50,get=50 >"$MQKV_TEST_DIR/flood" 2>&1 &
flood=$!
flood_waits() {
    client --priority 31 --format json stats schedule | grep -qE '"waiting_max":([4-9]|[1-9][0-9])'
}
if wait_until 30 flood_waits; then
    ok "a flood waits in the schedule"
else
    not_ok "a flood waits in the schedule" "$(client --priority 31 stats schedule)"
fi
check_status 0 "the lowest priority is served amid it" client --timeout 50000 put low 1
check_status 0 "a scan of the lowest priority, too" client --timeout 50000 scan
if kill -0 $flood 2>/dev/null; then
    ok "while the flood goes on"
else
    not_ok "while the flood goes on" "$(cat "$MQKV_TEST_DIR/flood")"
fi
kill $flood
wait $flood 2>/dev/null
stats=$(client stats schedule)
check_match 'capacity +4096' "$stats" "stats tells the capacity"
check_match ' 24-31 +[1-9]' "$stats" "and the waits by priority"
stop_server

# A full schedule: what has no place waits in the kernel's queues, and all is answered.
begin full --sched cost --sched-queue 2
check_match '^[lh]{8}$' "$(order priority)" "with room for two, all eight are answered"
sleep 1 # the daemon gives the queues of the eight back a moment after their BYE
check_status 0 "so are 20 clients" client bench -n 20 -c 20000 --window 4 --verify --preload
check_match '"full":[1-9]' "$(client --format json stats schedule)" \
    "stats counts how often it was full"
stats=$(client --format json stats schedule)
check_match '"waiting_max":[23],' "$stats" "never more than two and one a worker wait"
stop_server

# Stopping answers what waits in the schedule.
begin stopped --sched cost
exec_client bench -n 8 -t 60 --mix put=50,get=50 >"$MQKV_TEST_DIR/stopped.out" 2>&1 &
bench=$!
wait_until 30 flood_waits
stop_server
check_equal 0 $? "SIGTERM with messages in the schedule: exit status 0"
kill -9 $bench 2>/dev/null
wait $bench 2>/dev/null

# Priorities that are none, options that go with nothing
check_status 2 "--priority 32 is refused" client --priority 32 get name
check_match "priority.*32" "$errors" "naming option and value"
check_status 2 "--priority high is refused" client --priority high get name
begin priority --sched priority
check_equal "OK
0
OK
7
ERROR usage: a priority is a number from 0 to 31; higher is served first
1" "$(printf 'put a 1\npriority\npriority 7\npriority\npriority 32\nget a\n' |
    client batch - 2>/dev/null)" \
    "priority lines of a batch set and show it"
stop_server

# A session that somebody holds for ever keeps its descriptors.
for dispatch in event thread process; do
    begin "left-$dispatch" --sched cost --dispatch "$dispatch"
    client ping >/dev/null # what is opened once is open now
    descriptors() {
        find "/proc/$server_pid/fd" -mindepth 1 | wc -l
    }
    as_many_as_before() {
        [ "$(descriptors)" -le "$before" ]
    }
    before=$(descriptors)
    for i in 1 2 3 4 5; do
        client put "key$i" value >/dev/null
        client --direct off get "key$i" >/dev/null # by a child, where there are such
    done
    check_status 0 "--sched cost --dispatch $dispatch: sessions that ended leave no descriptor" \
        wait_until 10 as_many_as_before
    stop_server
done

# --nice: where it may be lowered again, threads get the nice value of their requests.
mkdir "$MQKV_TEST_DIR/nice"
if "$server_program" --check --sched priority --nice -f "$MQKV_TEST_DIR/nice" \
    >"$MQKV_TEST_DIR/.nice" 2>&1; then
    begin nice --sched priority --nice
    nice_values() {
        cut -d' ' -f19 /proc/"$server_pid"/task/*/stat | sort -n | tail -n 1
    }
    check_status 0 "a request of priority 0" client put a 1
    check_equal 19 "$(nice_values)" "its worker has the nice value 19"
    # The BYE of the client before, of priority 0, may be worked on after the next request.
    daemons_own_nice() {
        client --priority 31 put a 2 >/dev/null && [ "$(nice_values)" = "$(nice)" ]
    }
    check_status 0 "after one of priority 31 that of the daemon again" \
        wait_until 10 daemons_own_nice
    stop_server
else
    check_match "ulimit -e" "$(cat "$MQKV_TEST_DIR/.nice")" \
        "--nice without its privilege says what would help"
fi
