#!/usr/bin/env bash
# clientk_bench: bench measures what it was asked to, in all formats, and finds what is wrong.
. "$(dirname "$0")/lib.sh"
export MQKV_DIRECT=off # each read is a message

start_server
cd "$MQKV_TEST_DIR" || exit 2

# column NAME: of the CSV in $output.
column() {
    printf '%s\n' "$output" | python3 -c '
import csv, sys
header, row = list(csv.reader(sys.stdin))
print(row[header.index(sys.argv[1])])' "$1"
}

check_status 0 'CSV' client --format csv bench -c 2000 -n 3 --preload --verify --keys 500
check_equal 2 "$(wc -l <<<"$output")" 'is a header and a row'
check_match 'ops,seconds,ops_per_s,mean_us,p50_us,p90_us,p99_us,p999_us,max_us,errors' \
    "$(head -n 1 <<<"$output")" 'with the promised columns'
check_equal 2000 "$(column ops)" '-c counts operations over all threads'
check_equal 0 "$(column errors)" 'no errors'
check_equal 0 "$(column wrong_values)" 'every value read is right'

check_status 0 'a seed' client --format csv bench -c 2000 --keys 500 --seed 5 --preload
misses=$(column not_found)
check_status 0 'the same seed again' client --format csv bench -c 2000 --keys 500 --seed 5 --preload
check_equal "$misses" "$(column not_found)" 'does the same, to the last miss'

check_status 0 \
    'bounded adds and scans of everything' client --format csv bench -c 3000 -n 3 --keys 20 \
    --mix add=2,scan=1 --add-most 10 --add-min 0 --scan-atomic --preload
check_equal 0 "$(column errors)" 'a sum out of bounds is no error'
check_equal 20 "$(client scan n | wc -l)" 'the preload put the numbers'
check_equal "" "$(client scan n | grep -E -- '-[0-9]+$')" 'and none fell below its bound'
check_status 2 'a bound that is no number' client bench --add-min low
check_match "'low' is not a whole number" "$errors" 'is named'

check_status 0 \
    'JSON' client --format json bench -t 0.3 --mix put=1,get=2,scan=1,add=1,getset=1 -L 1-300
printf '%s\n' "$output" | python3 -c '
import json, sys
report = json.load(sys.stdin)
assert report["ops"] == sum(kind["ops"] for kind in report["operations"].values()), report
assert set(report["operations"]) == {"put", "get", "scan", "add", "getset"}, report
assert report["errors"] == 0 and 0.2 < report["seconds"], report' 2>python.log
check_equal 0 $? 'adds up per operation'

keys_left() { client --format json stats files | grep -o '"keys":[0-9]*' | head -n 1; }
before=$(keys_left)
check_status 0 'a bench that cleans up' client --format csv bench -c 500 --keys 100 --preload \
    --mix put=2,get=2,add=1,append=1 --cleanup
check_equal "$before" "$(keys_left)" 'leaves no key of its own, and takes none of others'
check_status 0 'keys with a prefix' client bench -c 100 --keys 7 --mix get --preload --prefix mine/
check_equal 7 "$(client scan mine/ | wc -l)" 'begin with it'
check_status 0 'which --cleanup takes' client bench -c 1 --keys 7 --prefix mine/ --cleanup
check_equal '' "$(client scan mine/)" 'and deletes'
check_status 2 'a prefix that leaves no room' client bench --prefix 0123456789abcdef
check_match "the prefix '0123456789abcdef', a letter" "$errors" 'is named'

# In a store of others a bench leaves nothing, unless it is told where its keys are to be.
bench_keys() { client scan --keys | grep -cE '^(bench:)?[kna][0-9]+$'; }
client clear --yes >/dev/null
client put city Ankara >/dev/null
check_status 0 'a bench in a store of others' client --format csv bench -c 500 --keys 100 \
    --mix put=2,get=2,add=1,append=1
check_match "the store has other keys: .* begin with 'bench:' and are deleted" "$errors" 'says so'
check_equal 2 "$(wc -l <<<"$output")" 'on stderr only'
check_equal city "$(client scan --keys)" 'and leaves nothing'
client put n0000000000000000 counter >/dev/null
check_status 0 'one whose keys are too short for a prefix' client bench -c 100 --keys 10 \
    --key-size 4 --mix put
check_match '--key-size 4 is too short for a prefix' "$errors" 'says that they stay'
check_match '^k00[0-9]$' "$(client scan --keys)" 'and they do'
check_status 0 'one that only reads' client bench -c 10 --mix get
check_equal '' "$errors" 'has nothing to say'
check_status 0 'one that is told to keep them' client bench -c 100 --mix put --keys 50 --prefix ''
check_equal '' "$errors" 'keeps them'
check_equal yes "$([ "$(bench_keys)" -gt 20 ] && echo yes)" 'in the store'
client clear --yes >/dev/null
client put city Ankara >/dev/null
check_status 0 'one with --preload' client bench -c 10 --mix put --keys 50 --preload
check_equal 50 "$(bench_keys)" 'keeps its keys, too'
check_status 0 'the next run of it' client bench -c 200 --mix get=1,put=1 --keys 50
check_equal '' "$errors" 'goes on with them'
check_equal 50 "$(bench_keys)" 'and leaves them'
client clear --yes >/dev/null
check_status 0 'a bench of some keys in an empty store' client bench -c 3 --mix put
check_status 0 'and another' client bench -c 300 --mix put=1,get=1
check_equal '' "$errors" 'are not in a store of others'
check_equal yes "$([ "$(bench_keys)" -gt 20 ] && echo yes)" 'and keep their keys'
check_status 0 'values for what follows' client bench -c 1 --keys 100 --mix get --preload

check_status 0 'thinking' client --format csv bench -c 20 -n 2 --mix get --think fixed:20ms
check_equal 1 "$(awk "BEGIN { print ($(column ops_per_s) < 130) }")" 'bounds the throughput'
check_status 0 'one CPU' client bench -c 10 --cpus 0
check_status 2 'a pause that is none' client bench --think 5ms
check_match "--think: '5ms'.*fixed:TIME" "$errors" 'is explained'
check_status 2 'a pause in an open loop' client bench --think exp:1ms --rate 100
check_status 2 'a CPU that is not there' client bench -c 1 --cpus 1000
check_match 'CPUs are not there' "$errors" 'is told'

ignoring_children() {
    timeout -s KILL 60 python3 -c '
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])' "$@"
}
check_status 0 'processes, started by one that ignores its children' ignoring_children \
    "$MQKV_BUILD/clientk" -m "$server_queue" bench -c 100 -n 2 --processes 2
check_status 0 'processes' client --format csv bench -c 1001 -n 5 --processes 2
check_equal 1001 "$(column ops)" 'count together'
check_status 0 \
    'batches and a window' client --format csv bench -c 5003 --batch 16 --window 4 -n 2 --preload \
    --verify
check_equal 5003 "$(column ops)" 'lose nothing'
check_equal 0 "$(column wrong_values)" 'and read what was written'
check_status 0 'an open loop' client --format csv bench -t 1 --rate 500 -n 2
check_equal 500 "$(column ops)" 'keeps its rate'
for distribution in uniform zipfian latest sequential; do
    check_status 0 "$distribution" client bench -c 300 --dist $distribution
done

check_status 0 'a histogram' client bench -c 1000 --histogram histogram
check_match '1.000000000000 +1000$' "$(cat histogram)" 'ends with all of them'
check_match 'all +1000 ' "$output" 'and the table counts them'

# Values that another seed wrote are not what this one expects.
check_status 4 \
    'wrong values are found' client --format csv bench -c 500 --mix get --keys 100 --seed 99 \
    --verify
check_match '^[1-9]' "$(column wrong_values)" 'and counted'
check_status 4 \
    'values the server does not take are errors' client --format csv bench -c 10 --mix put -L 2M
check_equal 10 "$(column errors)" 'each of them'

check_status 2 'nonsense is refused' client bench --mix gte=1
check_match 'did you mean get' "$errors" 'kindly'
check_status 2 'too many keys for their size' client bench --keys 1000 --key-size 3
check_status 4 'a histogram that cannot be written' client bench -c 1 --histogram /nowhere/x
check_match 'cannot write /nowhere/x' "$errors" 'is named'
check_equal '' "$output" 'before the run'

# A server that is gone: an open loop does not wait for it once for each operation that is due.
exists_count() {
    client stats operations 2>/dev/null | awk '$1 == "exists" {n = $2} END {print n + 0}'
}
exists_before=$(exists_count) # the benches above have looked for keys of others
exec_client --timeout 200 bench -t 2 --rate 1000 --mix exists >abandoned 2>&1 &
bench=$!
open_loop_has_started() { [ "$(exists_count)" -ge $((exists_before + 10)) ]; }
wait_until 60 open_loop_has_started
kill_server
wait_until 20 eval "! kill -0 $bench 2>/dev/null"
check_equal 0 $? 'an open loop ends soon after its time when its server is gone'
wait "$bench"
check_equal 4 $? 'with errors'
check_match 'no_server' "$(cat abandoned)" 'that it names'
start_server

# Ctrl-C ends the run, and the report comes all the same.
"$MQKV_BUILD/clientk" -m "$server_queue" bench -t 600 >interrupted 2>&1 &
bench=$!
has_started() { client stats 2>/dev/null | grep -qE '^ +put +[1-9]'; }
wait_until 60 has_started
kill -INT "$bench"
wait "$bench"
check_equal 130 $? 'an interrupted bench ends by the signal'
check_match 'operations in' "$(cat interrupted)" 'after its report'
