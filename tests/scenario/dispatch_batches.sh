#!/usr/bin/env bash
# dispatch_batches: with --dispatch process a large batch of gets sees one moment, also where its
# reply comes in pieces
. "$(dirname "$0")/lib.sh"
has_lab 'dispatch_batches' || exit 0

modules=$(realpath "$(dirname "$0")/../independent")

# moments.py QUEUE MODULES: a writer puts 0, 1, 2 ... into ten keys in turn; a batch that sees one
# moment finds ten numbers that follow one another, and the same ones over and over. Prints how many
# batches did, and did not.
cat >"$MQKV_TEST_DIR/moments.py" <<'END'
import os, sys
sys.path.insert(0, sys.argv[2])
import mqkv

queue = sys.argv[1]
if os.fork() == 0:
    with mqkv.Session(queue) as session:
        for i in range(1 << 30):
            session.put(b"k%d" % (i % 10), b"%d" % i)
            if os.getppid() == 1:
                os._exit(0)
writer_pid = None
good = bad = refused = 0
with mqkv.Session(queue) as session:
    while any(session.get(b"k%d" % i).status for i in range(10)):
        pass
    for turn in range(150):
        size = (30, 200, 400, 500)[turn % 4]
        reply = session.request([mqkv.get(b"k%d" % (i % 10)) for i in range(size)])
        if reply.status or any(result.status for result in reply.results):
            refused += 1
            continue
        numbers = [int(result.value) for result in reply.results]
        first = sorted(numbers[:10])
        one = first == list(range(first[0], first[0] + 10)) and all(
            numbers[i] == numbers[i % 10] for i in range(size))
        good, bad = good + one, bad + (not one)
print(f"good {good} bad {bad} refused {refused}", flush=True)
END

start_server --dispatch process
check_status 0 "batches of 30 to 500 while another client writes" \
    timeout 60 python3 "$MQKV_TEST_DIR/moments.py" "$server_queue" "$modules"
check_equal "good 150 bad 0 refused 0" "$output" "each sees one moment"
taken_back=$(client --format json stats server | grep -oE '"taken_back": *[0-9]+' |
    grep -oE '[0-9]+$')
check_equal 0 "$taken_back" "the daemon had to answer none itself"
stop_server
check_equal 0 $? "the daemon stops cleanly"
