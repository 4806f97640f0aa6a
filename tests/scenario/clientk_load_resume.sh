#!/usr/bin/env bash
# clientk_load_resume: a load that gets no answer stops, says where, and goes on from there when
# told to.
. "$(dirname "$0")/lib.sh"

start_server
cd "$MQKV_TEST_DIR" || exit 2
seq 1 6000 | sed 's/.*/PUT key& "value &"/' | client batch -q -
client dump whole 2>/dev/null
stop_server

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
hold_still "$server_pid"
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

# Ctrl-C before the line that --from names: that is still the one to go on from.
mkfifo pipe3
exec_client load --from 5000 - <pipe3 2>reports &
load=$!
exec 3>pipe3
head -n 10 whole >&3
has_session() {
    client --format raw sessions | awk -F '\t' -v pid="$load" '$3 == pid' | grep -q .
}
wait_until 20 has_session
kill -INT "$load"
wait "$load"
check_equal 130 $? 'Ctrl-C ends a load'
exec 3>&-
check_match 'stopped: interrupted; .* load --from 5000 -$' "$(cat reports)" \
    'which goes on from where it was to begin'

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

# Nor is a store at its bound.
server_dir=$MQKV_TEST_DIR/bounded
start_server --max-bytes 1M
seq 1 3000 | sed "s/.*/PUT key& $(head -c 1000 /dev/zero | tr '\0' v)/" >beyond
check_status 4 'a store at its bound: exit 4' client load beyond
check_match 'beyond: stopped: the store has reached its limit .* load --from [0-9]+ beyond$' \
    "$errors" 'stops there'
check_equal 2 "$(wc -l <<<"$errors")" 'in two lines'
line=$(sed -n 's/.* load --from \([0-9]*\) beyond$/\1/p' <<<"$errors")
client config set max-bytes 16M >/dev/null
check_status 0 'with room it goes on' client load --from "$line" beyond
check_equal 3000 "$(client scan --count)" 'and all is there'
stop_server

# An entry that is too large for a store that evicts fails alone; so do many that are not in a row.
server_dir=$MQKV_TEST_DIR/evicting
start_server --max-bytes 64k --evict s3fifo
large=$(head -c 9000 /dev/zero | tr '\0' v)
{
    seq 1 150 | sed "s/.*/PUT small& v\nPUT large& $large/"
    echo 'PUT last v'
} >mixed
check_status 4 'entries too large for the store: exit 4' client load mixed
check_match '^clientk: 151 entries loaded, 150 failed$' "$errors" 'the others are loaded'
check_match '^clientk: load: mixed:2: the store has reached its limit' "$errors" 'each is named'
check_equal 151 "$(wc -l <<<"$errors")" 'once'
check_equal 151 "$(client scan --count)" 'what is behind them is there'
grep large mixed >too_large
check_status 4 'so many in a row: exit 4' client load too_large
check_match 'too_large: stopped: the store has reached its limit .* load --from 1 too_large$' \
    "$errors" 'end it, with the first of them to go on from'
check_equal 2 "$(wc -l <<<"$errors")" 'in two lines'
stop_server

# A quota is one of some keys.
server_dir=$MQKV_TEST_DIR/quota
printf '[quota a:]\nmax-keys = 10\n' >quota.conf
start_server -d 1 -c quota.conf
seq 1 200 | sed 's/.*/PUT a:& v\nPUT b:& v/' >both
check_status 4 'a quota that is reached: exit 4' client load both
check_match '^clientk: 210 entries loaded, 190 failed$' "$errors" 'is for its keys alone'
check_equal 200 "$(client scan --count b:)" 'the others are there'
stop_server
