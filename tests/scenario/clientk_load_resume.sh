#!/usr/bin/env bash
# clientk_load_resume: a load that gets no answer stops, says where, and goes on from there when
# told to.
. "$(dirname "$0")/lib.sh"

start_server
cd "$MQKV_TEST_DIR" || exit 2
seq 1 6000 | sed 's/.*/PUT key& "value &"/' | client batch -q -
client dump whole 2>/dev/null
stop_server

# stands_still PID: every thread of it is stopped, which kill does not wait for.
stands_still() {
    ! grep -h '^State:' "/proc/$1"/task/*/status | grep -qv 'T (stopped)'
}

server_dir=$MQKV_TEST_DIR/data2
start_server
mkfifo "dump's pipe"
exec_client --timeout 500 load - <"dump's pipe" 2>reports &
load=$!
exec 3>"dump's pipe"
head -n 3000 whole >&3
some_are_loaded() { [ "$(client scan --count)" -gt 500 ]; }
wait_until 20 some_are_loaded
check_equal 0 $? 'a load has begun'
kill -STOP "$server_pid"
wait_until 20 stands_still "$server_pid"
# The load may stop reading at any time.
(trap '' PIPE && tail -n +3001 whole >&3 2>/dev/null)
exec 3>&-
wait "$load"
check_equal 3 $? 'no answer: exit 3'
reports=$(cat reports)
check_match 'stdin: stopped: the server did not answer in time' "$reports" \
    'says that it stopped, and why'
check_equal '' "$(grep -E 'trailer|cut off' reports)" 'says nothing against the dump'
check_equal 2 "$(wc -l <reports)" 'in two lines'
line=$(sed -n 's/.* load --from \([0-9]*\) -$/\1/p' reports)
check_match '^[0-9]+$' "$line" 'names the line to go on from'
loaded=$(sed -n 's/^clientk: \([0-9]*\) entries loaded.*/\1/p' reports)
check_equal yes "$([ "${loaded:-0}" -gt 500 ] && [ "$loaded" -lt 6000 ] && echo yes)" \
    'and how many were loaded'
kill -CONT "$server_pid"
wait_until 20 client ping >/dev/null
head -n $((line - 1)) whole | grep '^PUT' | cut -d'"' -f2 | sort >before
client scan --keys | sort >there
check_equal '' "$(comm -23 before there)" 'all before that line is there'

check_status 0 'load --from goes on' client load --from "$line" whole
check_match "^clientk: $((6002 - line)) entries loaded, 0 failed$" "$errors" 'with the rest'
client dump again 2>/dev/null
check_equal "$(grep '^PUT' whole | sort | md5sum)" "$(grep '^PUT' again | sort | md5sum)" \
    'nothing is missing'
check_status 0 'a stream, too' client load --from 5990 - <whole
check_match '^clientk: 12 entries loaded' "$errors" 'skips what comes before'
check_status 2 'a line behind the end is refused' client load --from 7000 whole
check_match 'the file has only 6002 lines' "$errors" 'and says so'
grep -v '"key77"' whole >damaged
check_status 4 'a damaged dump is refused with --from, too' client load --from 5990 damaged
check_match 'nothing was loaded' "$errors" 'as a whole'
check_status 0 'a pipe with a name is loaded' client load <(cat whole)
check_match '^clientk: 6000 entries loaded' "$errors" 'not only judged'

# A server that ends meanwhile; the file's name is quoted for the shell.
cp whole "a 'b' dump"
mkfifo pipe2
exec_client --timeout 300 load - <pipe2 2>reports &
load=$!
exec 3>pipe2
head -n 3000 whole >&3
kill_server
(trap '' PIPE && tail -n +3001 whole >&3 2>/dev/null)
exec 3>&-
wait "$load"
check_equal 3 $? 'a server that ended: exit 3'
check_match 'stopped: the server (has ended|gave no answer)' "$(cat reports)" 'says so'

# A full disk is no reason to report every line that is left.
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=1m none small 2>/dev/null; then
    server_dir=$MQKV_TEST_DIR/small
    start_server -d 1
    seq 1 3000 | sed "s/.*/PUT key& $(head -c 1000 /dev/zero | tr '\0' v)/" >big
    check_status 4 'a full disk: exit 4' client load big
    check_match 'big: stopped: no space left for the data; .* load --from [0-9]+ big$' "$errors" \
        'stops there'
    check_equal 2 "$(wc -l <<<"$errors")" 'in two lines'
    stop_server
    umount small
else
    skip 'load on a full disk: mounts need root'
fi
