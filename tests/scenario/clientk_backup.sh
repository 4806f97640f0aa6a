#!/usr/bin/env bash
# clientk_backup: a backup of a running store is what the store was at one moment, whatever is
# written, compacted, killed or full meanwhile.
# shellcheck disable=SC2030,SC2031 # the second server is one of a subshell
. "$(dirname "$0")/lib.sh"
cd "$MQKV_TEST_DIR" || exit 2

kvcheck() {
    "$MQKV_BUILD/kvcheck" "$@"
}

# entries QUEUE: what the server has, in an order of its own, with versions.
entries() {
    "$MQKV_BUILD/clientk" -m "$1" scan --format csv | sort
}

start_server -d 4
for i in 1 2 3 4 5 6 7 8; do echo "PUT step$i 0"; done | client batch -q -
for i in 1 2 3 4 5 6 7 8; do echo "PUT account$i 100"; done | client batch -q -
client put brief x --expires-at 4102444800000 >/dev/null
client put gone x >/dev/null
client del gone >/dev/null

# What it is.
check_status 0 'backup' client backup copy
check_match '^clientk: 4 data files backed up, .* are new$' "$errors" 'says what it did'
check_status 0 'kvcheck finds it sound' kvcheck copy
check_equal 700 "$(stat -c %a copy)" 'the directory is private'
check_equal 600 "$(stat -c %a copy/data.0000)" 'so are the files'
check_status 0 'once more, with nothing new' client backup copy
check_match ', of which 0 bytes are new$' "$errors" 'copies nothing'
check_status 0 'through the server' client backup --by-message messages
check_match '; [34] read through the server$' "$errors" 'reads no file'
check_equal '' "$(for file in copy/data.*; do cmp "$file" "messages/${file#*/}"; done)" \
    'the same bytes'
check_status 0 'to a stream' client backup - >stream.tar
mkdir unpacked && cp .output stream.tar && tar -xf stream.tar -C unpacked
check_equal '' "$(for file in copy/data.*; do cmp "$file" "unpacked/${file#*/}"; done)" \
    'which tar unpacks to the same'

# A server starts from it, and has all with versions and expiry.
entries "$server_queue" >before.csv
check_match '^brief,.*4102444800000' "$(grep ^brief, before.csv)" 'there is an expiry to compare'
(
    server_queue=${server_queue}b server_dir=copy server_log=second.log
    start_server >/dev/null
    entries "$server_queue" >restored.csv
    check_status 3 'a directory that a server uses is refused' \
        "$MQKV_BUILD/clientk" -m "$MQKV_TEST_QUEUE" backup copy >refused.txt
    printf '%s\n' "$errors" >>refused.txt
    client put other x >/dev/null
    stop_server
)
cmp before.csv restored.csv
check_equal 0 $? 'a server that starts from it has the same entries'
check_match 'uses the directory' "$(cat refused.txt)" 'a directory in use is refused'
check_status 2 'so is one that a server has written to since' client backup copy
check_match 'take another directory' "$errors" 'with what to do'
mkdir other && touch other/file
check_status 2 'a directory with other files is refused' client backup other
check_equal file "$(ls other)" 'and left alone'
check_status 4 'a path that cannot be made is refused' client backup nosuch/backup
rm -rf copy messages unpacked

# Under load: keys are written one after the other, so that at any one moment each has the value of
# the next, or one more. Overwriting makes compactions. Transactions move money between accounts.
python3 -u -c '
import itertools
for value in itertools.count(1):
    print("".join(f"PUT step{key} {value}\n" for key in range(1, 9)), end="")' 2>/dev/null |
    exec_client batch -q - 2>/dev/null &
steps_pid=$!
python3 -u -c '
import random
while True:
    giver, taker, third = random.sample(range(1, 9), 3)
    print(f"begin\nadd account{giver} -3\nadd account{taker} 1\nadd account{third} 2\ncommit")' \
    2>/dev/null | exec_client batch -q - >/dev/null 2>&1 &
bank_pid=$!
exec_client bench -n 1 -t 300 -L 400 --keys 500 --rate 15000 --mix put=90,del=10 >/dev/null 2>&1 &
bench_pid=$!

# in_step DIR: whether the steps in it are those of one moment, and no transfer is half done.
in_step() {
    kvcheck --dump "$1" 2>/dev/null | python3 -c '
import sys
steps, accounts = {}, {}
for line in sys.stdin:
    words = line.split()
    if words[2] == "live" and words[6].startswith("step"):
        steps[int(words[6][4:])] = int(words[7])
    if words[2] == "live" and words[6].startswith("account"):
        accounts[words[6]] = int(words[7])
if sum(accounts.values()) != 800:
    print(accounts)
values = [steps[key] for key in range(1, 9)]
if values != sorted(values, reverse=True) or values[0] - values[-1] > 1:
    print(values)'
}

compactions() {
    client --format json stats | python3 -c '
import json, sys
print(json.load(sys.stdin)["files"]["sum"]["compactions"])'
}

faults=''
for round in 1 2 3 4; do
    case $round in
    [13]) into=copy options='' ;;
    *) into=messages options=--by-message ;;
    esac
    # shellcheck disable=SC2086 # none or one
    client backup $options "$into" 2>>backup.err || faults+="backup $round failed "
    kvcheck "$into" >check.out 2>&1 || faults+="kvcheck $round: $(cat check.out)"
    step_fault=$(in_step "$into")
    [ -z "$step_fault" ] || faults+="round $round: $step_fault "
    sleep 0.3
done
check_equal '' "$faults" 'four backups under load are sound, and of one moment each'
has_compacted() { [ "$(compactions)" -gt 0 ]; }
wait_until 120 has_compacted
check_equal 0 $? 'files were compacted meanwhile'
check_status 0 'a backup after compactions' client backup copy
check_status 0 'is sound' kvcheck copy

# kill -9 of the client, at any moment: the directory stays a store, and the next backup completes.
faults=''
for delay in 0 0.01 0.02 0.03 0.05 0.08; do
    exec_client backup copy 2>/dev/null &
    killed=$!
    sleep "$delay"
    kill -9 "$killed" 2>/dev/null
    wait "$killed" 2>/dev/null
    kvcheck copy >check.out 2>&1 || faults+="after $delay s: $(cat check.out) "
    client restore copy --to whole 2>restore.err || faults+="restore: $(cat restore.err) "
    step_fault=$(in_step whole)
    [ -z "$step_fault" ] || grep -q 'not of one moment' restore.err ||
        faults+="after $delay s: $step_fault "
    rm -rf whole
done
check_equal '' "$faults" 'a backup that is killed leaves the earlier one'

check_status 0 'the next one completes' client backup copy
check_equal '' "$(in_step copy)" 'and is of one moment'
check_equal 'backup data.0000 data.0001 data.0002 data.0003 lock' "$(cd copy && echo *)" \
    'nothing else is left there'

kill "$steps_pid" "$bank_pid" "$bench_pid"
wait "$steps_pid" "$bank_pid" "$bench_pid" 2>/dev/null

# Ctrl-C, a full disk: the earlier backup is there, as it was.
client bench -n 2 -c 3000 -L 4000 --keys 3000 --preload --mix put=100 >/dev/null
cp -r copy earlier
(
    ulimit -f 1000 # KiB, of the 3 MiB or more that each data file has now
    check_status 4 'a file that cannot grow fails the backup' client backup copy
    check_match 'No space|too large' "$errors" 'and says so'
)
check_equal '' "$(diff -r copy earlier)" 'the earlier backup is as it was'
(
    ulimit -f 100
    check_status 4 'so it fails a first one' client backup fresh
)
check_equal no "$([ -e fresh ] && echo yes || echo no)" 'which leaves nothing'
check_status 0 'with room it goes on' client backup copy
entries "$server_queue" >before.csv
rm -rf earlier

# kill -9 of the daemon while a backup is under way.
mkfifo pipe
stuff_pipe pipe
exec_client backup - >pipe 2>killed.err &
backup_pid=$!
wait_until 30 test -e full
check_equal 0 $? 'a backup is under way'
kill_server
start_server
kill "$pipe_reader"
wait "$pipe_reader" 2>/dev/null
wait "$backup_pid"
check_equal 4 $? 'a backup whose reader has gone fails'
entries "$server_queue" | cmp - before.csv
check_equal 0 $? 'the server has all that it had'
check_status 0 'the next backup is complete' client backup copy
check_status 0 'and sound' kvcheck copy

check_status 2 'a terminal gets no backup' script -qec \
    "$MQKV_BUILD/clientk -m $server_queue backup -" /dev/null
check_status 2 'no directory is wrong usage' client backup
stop_server

# Where blocks can be shared: a backup that goes on from one with empty files, and fails.
if [ "$(id -u)" = 0 ] && truncate -s 400M image && mkfs.xfs -q image 2>/dev/null &&
    mkdir shared && mount -o loop image shared 2>/dev/null
then
    finish_shared() { # as finish, also where the script ends before its umount
        local status=$?
        umount -l "$MQKV_TEST_DIR/shared" 2>/dev/null
        (exit "$status")
        finish
    }
    trap finish_shared EXIT
    server_dir=$MQKV_TEST_DIR/shared/data
    start_server -d 4
    check_status 0 'a backup of an empty store' client backup shared/copy
    cp -r shared/copy earlier
    seq 1 400 | sed 's/.*/PUT key& value/' | client batch -q - 2>/dev/null
    printf x >>shared/copy/data.0003
    check_status 2 'the next one, which fails at its last file' client backup shared/copy
    truncate -s -1 shared/copy/data.0003
    check_equal '' "$(diff -r shared/copy earlier)" 'leaves the earlier one as it was'
    check_status 0 'another one completes' client backup shared/copy
    check_status 0 'and is sound' kvcheck shared/copy
    check_status 0 'a first backup' client backup shared/new
    check_match 'as shared blocks' "$errors" 'shares blocks with the store'
    stop_server
    umount shared
else
    skip 'shared blocks: need root, and XFS'
fi
