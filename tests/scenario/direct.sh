#!/usr/bin/env bash
# direct: programs of the daemon's user read without messages, see what was written, and go by
# message where they cannot
. "$(dirname "$0")/lib.sh"

clientk=$MQKV_BUILD/clientk

way() { # [OPTION...]: how doctor says that reads go
    client "$@" doctor | grep -oE 'reads (go by message|need no message \([a-z]*\))'
}

column() { # NAME: of the CSV in $output
    printf '%s\n' "$output" | python3 -c '
import csv, sys
header, row = list(csv.reader(sys.stdin))
print(row[header.index(sys.argv[1])])' "$1"
}

stats() {
    client --format json stats server | tr -d '\n'
}

reads_directly() { # PID: has it mapped the index?
    grep -q 'mqkv\.store' "/proc/$1/maps"
}

reads_right() { # TEXT OPTION...: a bench finds every value right, and reads without messages
    local text=$1
    shift
    check_status 0 "$text" client --format csv bench --verify "$@"
    check_equal 0 "$(column errors)" "$text: no errors"
    check_equal 0 "$(column wrong_values)" "$text: every value is right"
    if [ "$(column direct_reads)" -gt 0 ]; then
        ok "$text: without messages"
    else
        not_ok "$text: by message"
    fi
}

# Which way
start_server --sync none
client put name Ada >/dev/null
check_equal 'reads need no message (map)' "$(way)" 'the default is to map'
check_equal 'reads need no message (pread)' "$(way --direct pread)" 'pread is told'
check_equal 'reads go by message' "$(way --direct off)" 'off is told'
check_equal 'reads go by message' "$(MQKV_DIRECT=off way)" 'the environment says it, too'
check_equal 'reads need no message (map)' "$(MQKV_DIRECT=off way --direct auto)" \
    'and an option stands above it'
MQKV_DIRECT=wrong check_status 2 'a word that it does not know' client get name
check_match 'auto, off, map or pread' "$errors" 'is named'

for way in off map pread; do
    check_equal Ada "$(client --direct $way get name)" "get ($way)"
    check_status 1 "an absent key ($way)" client --direct $way get nobody
    check_equal Ada "$(client --direct $way scan --format csv | grep -o Ada)" "scan ($way)"
    check_status 0 "exists ($way)" client --direct $way exists name
done
client put brief x --ttl 300ms >/dev/null
wait_until 20 eval '! client --direct map exists brief >/dev/null 2>&1'
check_status 1 'an expired entry is absent' client --direct map get brief

# Beside writers, with files that are replaced
reads_right 'beside writers' --preload -n 4 --keys 2000 --mix get=3,put=1,scan=1 -L 1-3000 -t 3
reads_right 'in batches' --preload -n 2 --keys 2000 --mix get=1 --batch 16 -L 1-3000 -c 20000
reads_right 'in several processes' --preload -n 6 --processes 6 --keys 500 --mix get=9,put=1 \
    -c 60000
MQKV_DIRECT=pread reads_right 'with calls' --preload -n 2 --keys 500 --mix get=9,put=1 -c 20000

reads_right 'two hundred processes' --preload -n 200 --processes 200 --keys 2000 --mix get=1 \
    -c 40000

# A reader that was stopped for longer than a replaced file is kept
"$clientk" -m "$server_queue" bench --verify --preload --keys 200 --mix get=1 -L 1000 -t 4 \
    >"$MQKV_TEST_DIR/stopped" &
reader=$!
sleep 1
hold_still "$reader"
client bench --keys 200 --mix put=1 -L 1000 -c 60000 >/dev/null
sleep 0.5
kill -CONT $reader
wait $reader
check_equal 0 $? 'a reader that was stopped while files were replaced goes on'
check_match ' 0 errors, 0 wrong values' "$(cat "$MQKV_TEST_DIR/stopped")" 'and reads nothing wrong'

# Killed readers leave nothing that matters
for _ in 1 2 3; do
    "$clientk" -m "$server_queue" bench --keys 200 --mix get=1 -t 30 >/dev/null 2>&1 &
    reader=$!
    wait_until 20 reads_directly $reader
    kill -KILL $reader
    wait $reader 2>/dev/null
done
check_status 0 'after killed readers writes go on' client put name Bob
check_equal Bob "$(client get name)" 'and are read'

# What a reader has mapped, it cannot write to
"$clientk" -m "$server_queue" bench --keys 200 --mix get=1 -t 3 >/dev/null &
reader=$!
wait_until 20 reads_directly $reader
maps=$(grep -hE 'mqkv\.store|/data\.[0-9]{4}' /proc/$reader/maps)
check_equal '' "$(grep -v ' r--s ' <<<"$maps")" 'all that is mapped is read-only'
check_match 'mqkv.store' "$maps" 'the index is among it'
for fd in /proc/"$reader"/fd/*; do
    [[ $(readlink "$fd") == *mqkv.store* ]] || continue
    flags=$(awk '/flags/ { print $2 }' "/proc/$reader/fdinfo/${fd##*/}")
    check_equal 0 $((0$flags & 3)) 'so is its descriptor'
done
wait $reader

# The daemon goes, and comes back
client bench --verify --preload --keys 500 --mix get=9,put=1 -t 4 >"$MQKV_TEST_DIR/restarted" &
reader=$!
for _ in 1 2; do
    sleep 1
    kill_server
    start_server --sync none
done
wait $reader
check_match ' 0 wrong values' "$(cat "$MQKV_TEST_DIR/restarted")" \
    'a reader over kill -9 reads nothing wrong'
kill_server
check_status 3 'without a daemon a read waits for it' client --timeout 300 get name
start_server --sync none
check_equal Bob "$(client get name)" 'and finds everything after its return'

# A client that has read once, and executes the lines that `ask` sends
mkfifo "$MQKV_TEST_DIR/lines"
begin_talk() { # [OPTION...]
    : >"$MQKV_TEST_DIR/answers"
    exec_client "$@" batch - <"$MQKV_TEST_DIR/lines" >"$MQKV_TEST_DIR/answers" 2>/dev/null &
    talker=$!
    exec {lines}>"$MQKV_TEST_DIR/lines"
    check_equal Bob "$(ask 'GET name')" "a client reads${*:+ ($*)}"
}
end_talk() {
    exec {lines}>&-
    wait "$talker"
}
has_answers() { # COUNT
    [ "$(wc -l <"$MQKV_TEST_DIR/answers")" -ge "$1" ]
}
ask() { # LINE: its answer, of one line
    local before
    before=$(wc -l <"$MQKV_TEST_DIR/answers")
    echo "$1" >&"$lines"
    wait_until 20 has_answers $((before + 1)) && tail -n 1 "$MQKV_TEST_DIR/answers"
}

# No reader waits for a daemon that stands still
begin_talk
hold_still "$server_pid"
check_status 3 'who asks a daemon that stands still waits' \
    client --direct off --timeout 300 get name
check_equal Bob "$(ask 'GET name')" 'who reads without it does not'
check_equal 'NOT FOUND' "$(ask 'GET nobody')" 'nor for what it has not read before'
kill -CONT "$server_pid"
end_talk
check_equal Bob "$(client --direct off get name)" 'and the daemon goes on'

# One that was killed is read on for as long as the client says; one that ended is not
begin_talk --direct-stale 1m
kill_server
sleep 0.1 # by now the client sees it
check_equal Bob "$(ask 'GET name')" '--direct-stale: a read goes on after kill -9'
end_talk
start_server --sync none
begin_talk --timeout 300
kill_server
sleep 0.1
check_match '^ERROR ' "$(ask 'GET name')" 'without it no read does'
end_talk
start_server --sync none
begin_talk --direct-stale 1m --timeout 300
stop_server
check_match '^ERROR ' "$(ask 'GET name')" '--direct-stale: nor after a stop'
end_talk

# A reader verifies a large record once, or at each read
read_damaged() { # --verify's value; `told`: what who has read the value says once it is damaged
    local data_file=$MQKV_TEST_DIR/verify.$1/data.0000
    server_dir=${data_file%/*}
    start_server --sync none -d 1 --verify "$1"
    client put name Bob >/dev/null
    { printf 'PUT large ' && head -c 100000 /dev/zero | tr '\0' y; } | client batch -q - 2>/dev/null
    begin_talk
    ask 'GET large' >/dev/null
    printf X | dd of="$data_file" bs=1 conv=notrunc status=none \
        seek="$(grep -abo -m 1 yyyyyyyy "$data_file" | head -n 1 | cut -d : -f 1)"
    told=$(ask 'GET large' | cut -c -9)
    end_talk
    stop_server
}
read_damaged first
check_equal Xyyyyyyyy "$told" '--verify first: what was verified is not verified again'
read_damaged every
check_match '^ERROR' "$told" '--verify every: it is'

# Files and descriptors
for files in 1 4096; do
    server_dir=$MQKV_TEST_DIR/files$files
    start_server -d $files --sync none
    reads_right "$files data files" --preload --keys 20000 --mix get=1 -c 40000
    MQKV_DIRECT=pread reads_right "$files data files, with calls" --keys 20000 --mix get=1 -c 20000
    stop_server
done

# Where it is not allowed
server_dir=$MQKV_TEST_DIR/off
start_server --direct off
check_equal 'reads go by message' "$(way)" 'serverk --direct off: by message'
check_match 'the server does not offer it' "$(client doctor)" 'and doctor says why'
check_match '"direct":\{"mode":"off","reason":"switched off \(--direct off\)"' "$(stats)" \
    'and stats'
client put name Ada >/dev/null
check_equal Ada "$(client --direct map get name)" 'who insists gets it by message'
if has_lab '--dispatch process'; then
    restart_server --dispatch process
    check_match '"direct":\{"mode":"off","reason":"--dispatch process' "$(stats)" \
        'stats name the option that switches it off'
fi
restart_server --evict s3fifo --max-bytes 1M
check_match '"direct":\{"mode":"off","reason":"--evict s3fifo' "$(stats)" 'each of them'
restart_server
check_match '"direct":\{"mode":"owner","name":"' "$(stats)" 'and give no reason where it is on'
stop_server

# The name of the index is removed
server_dir=$MQKV_TEST_DIR/removed
start_server
client put name Ada >/dev/null
index=/dev/shm$(stats | grep -oE '/mqkv.store[^"]*')
rm "$index"
check_status 0 'that the name of the index was removed is logged' wait_until 30 \
    grep -q 'mqkv.store.*was removed from there' "$server_log"
check_status 0 'and that it was made anew' wait_until 30 \
    grep -q 'the index is in shared memory .*mqkv.store.* again' "$server_log"
check_equal 'reads need no message (map)' "$(way)" 'which is found'
client put name Bob >/dev/null
check_equal Bob "$(client get name)" 'and is the one that is written to'
# Again, while its name is somebody else's
mkfifo "$server_dir/fifo" && mv -T "$server_dir/fifo" "$index"
check_status 0 'that its name is taken is logged' wait_until 30 \
    grep -q 'mqkv.store.*: File exists' "$server_log"
check_match '"reason":"its name in /dev/shm was removed' "$(stats)" 'stats say that it is gone'
check_equal Bob "$(client get name)" 'reads go by message then'
check_match 'reads go by message: ' "$(client doctor)" 'and doctor says so'
rm "$index"
check_status 0 'it is made once the name is free' wait_until 30 test -f "$index"
check_equal 'reads need no message (map)' "$(way)" 'which is found, too'
check_equal 2 "$(grep -c 'was removed from there' "$server_log")" 'each loss is logged once'
client put name Eve >/dev/null
kill_server
start_server
check_match '"taken_over_files":[1-9]' "$(stats)" 'and which the next daemon finds'
check_equal Eve "$(client get name)" 'with what was written'
stop_server

# Something else has its name
server_dir=$MQKV_TEST_DIR/squatted
mkdir -p "$server_dir"
read -r device inode < <(stat -c '%d %i' "$server_dir")
squatted=$(printf '/dev/shm/mqkv.store.%x.%x' "$device" "$inode")
mkfifo "$squatted"
start_server
client put name Ada >/dev/null
check_match 'mqkv.store[^"]*\.[0-9a-f]*\.[0-9a-f]*\.[0-9a-f]{4,}"' "$(stats)" \
    'an index whose name is taken gets another one'
check_equal 'reads need no message (map)' "$(way)" 'which clients are told'
kill_server
start_server
check_match '"taken_over_files":[1-9]' "$(stats)" 'and the next daemon finds'
stop_server
check_equal "$squatted" "$(ls "$squatted"*)" 'nothing is left of it'
rm "$squatted"

# What a killed daemon left of a store that is gone
server_dir=$MQKV_TEST_DIR/gone
start_server
kill_server
read -r device inode < <(stat -c '%d %i' "$server_dir")
left=$(printf '/dev/shm/mqkv.store.%x.%x' "$device" "$inode")
check_status 0 'a killed daemon leaves its index' test -e "$left"
client doctor >/dev/null
check_status 0 'doctor leaves it to the next one' test -e "$left"
rm -r "$server_dir"
client doctor --fix >/dev/null
check_status 0 'doctor --fix removes nothing' test -e "$left"
client doctor >/dev/null
check_status 1 'doctor removes it once the store is gone' test -e "$left"
