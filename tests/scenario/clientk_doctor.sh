#!/usr/bin/env bash
# clientk_doctor: doctor names what stands in the way - the budget of queues, the disk, a data file
# - and exits 1.
. "$(dirname "$0")/lib.sh"

start_server -d 2
check_status 0 'doctor finds all well' client doctor
check_equal 'All well.' "$(tail -n 1 <<<"$output")" 'and says so'
check_match "served by process $server_pid \(serverk\) of uid $(id -u)" "$output" \
    'and who serves: pid, program and user'
check_match '2 files: no failed sync or compaction' "$output" 'and how the data files are'
check_match "$server_dir has [0-9.]+ [KMGT]iB free" "$output" 'and the disk'
# What a client that has just ended had is given back a moment later: the least of some looks
# counts.
used=
for _ in 1 2 3 4 5 6; do
    now=$(client doctor | sed -n 's/^ *[a-zA-Z]* *in use \([0-9]*\), left [0-9]*.*/\1/p')
    [ -n "$used" ] && [ "${now:-0}" -ge "$used" ] || used=${now:-0}
    sleep 0.2
done
check_equal yes "$([ "${used:-0}" -ge 255000 ] && echo yes)" \
    "what is used of the user's queue bytes is counted ($used)"

# The same daemon, and no room for a session beside it.
limited() (
    ulimit -S -q "$1"
    shift
    "$@"
)
check_status 0 'with replies through shared memory that is room enough' \
    limited $((used + 500)) client --timeout 2000 put x 1
check_status 0 'for doctor, too' limited $((used + 500)) client --timeout 2000 doctor
check_match "low +in use [0-9]+, left [0-9]+: not enough for a reply queue" "$output" \
    'which says so'
export MQKV_REPLIES=queue
check_status 1 \
    'doctor with the budget used up exits 1' limited $((used + 500)) client --timeout 2000 doctor
check_match "BAD +in use [0-9]+, left [0-9]+: not enough for a session" "$output" 'and names it'
check_match 'ulimit -q [0-9]+|msgqueue=[0-9]+' "$output" 'and how to raise it'
check_match '^See BAD above.$' "$(tail -n 1 <<<"$output")" 'and does not say that all is well'
check_status 4 'a command is refused there' limited $((used + 500)) client --timeout 2000 get x
check_match "Raise it: .*(ulimit -q [0-9]{7}|LimitMSGQUEUE=[0-9]{7})" "$errors" \
    'and told a limit that is enough'
check_status 0 \
    'room for one session is enough' limited $((used + 20000)) client --timeout 2000 doctor
"$library_dir/../leftovers" "$server_queue" >"$MQKV_TEST_DIR/left"
check_equal '' "$(grep -E '\.[crs][0-9]' "$MQKV_TEST_DIR/left")" 'nothing of doctor is left behind'
stop_server
unset MQKV_REPLIES

# The configuration, and commands for what is wrong
config="$MQKV_TEST_DIR/it's.conf"
echo '[log]' >"$config"
start_server -d 2 -c "$config"
check_status 0 'doctor with a configuration file' client doctor
check_match "ok +$config has no mistake" "$output" 'says that it has no mistake'
# What kill -9 in a handshake leaves, of the pid of nobody.
sleep 0 &
dead=$!
wait "$dead"
left=/dev/shm$server_queue.s$dead.1
touch "$left"
sleep 2.1 # what is younger than a second may be a handshake of another PID namespace
check_status 0 'with --fix there' client doctor --fix
check_equal '' "$(grep -v '^#\|^mount ' <<<"$output")" 'are no commands'
check_status 0 'and nothing of dead processes is removed' test -e "$left"
check_status 0 'with --clean, too' client doctor --fix --clean
check_equal '' "$(grep -v '^#\|^mount ' <<<"$output")" 'there are no commands either'
check_status 1 'and it is removed' test -e "$left"
echo 'nonsense = 1' >>"$config"
chmod o+w "$server_dir"
check_status 1 'with a mistake in it, and a directory that anybody may change, it exits 1' \
    client doctor
check_match "BAD +.*$config:2: unknown key 'nonsense'" "$output" 'and names the line'
chmod o+w "$config"
check_status 1 'with a file that anybody may change, too' client doctor
check_match "BAD +anybody may change $config .*: not checked" "$output" \
    'whose words it does not follow'
check_equal '' "$(grep nonsense <<<"$output")" 'nor repeat'
check_match "BAD +anybody may remove the files of $server_dir" "$output" 'and the directory'
check_status 1 'with --fix, too' client doctor --fix
sh <<<"$output" >/dev/null 2>&1
check_equal '0 0' "$(($(stat -c '0%a' "$config") & 2)) $(($(stat -c '0%a' "$server_dir") & 2))" \
    'and a shell that executes it mends what a command can mend'
sed -i '/nonsense/d' "$config"
check_status 0 'without the mistake all is well' client doctor
stop_server
check_status 3 'without a server --fix tells how to start one' client doctor --fix
check_match "^serverk -m $server_queue |^systemctl start" "$output" 'by a command'

# A sync that fails makes a data file take no more writes.
if [ "${MQKV_VARIANT:-release}" = release ] && cc -shared -fPIC -o \
    "$MQKV_TEST_DIR/failing.so" -x c - <<'C'
#include <errno.h>
#include <unistd.h>
int fdatasync(int fd)
{
    (void)fd;
    errno = EIO;
    return -1;
}
C
then
    server_dir=$MQKV_TEST_DIR/failing
    start_server -d 1 # the store is made
    stop_server
    printf '#!/bin/sh\nLD_PRELOAD=%s exec "%s" "$@"\n' "$MQKV_TEST_DIR/failing.so" \
        "$server_program" \
        >"$MQKV_TEST_DIR/serverk-failing"
    chmod +x "$MQKV_TEST_DIR/serverk-failing"
    program=$server_program server_program=$MQKV_TEST_DIR/serverk-failing
    start_server -d 1
    client put k v --sync always >/dev/null 2>&1
    check_status 1 'doctor of a server whose data file takes no writes exits 1' client doctor
    check_match 'BAD +1 file of 1 file takes no writes any more \(data.0000\)' "$output" \
        'and names the file'
    check_match 'BAD +syncs to disk failed [0-9]+ times' "$output" 'and the syncs that failed'
    kill_server
    server_program=$program
else
    skip 'a data file that takes no writes: needs cc, and no sanitizer'
fi

# A damaged record: seen when it is read, and no more when it has been replaced.
server_dir="$MQKV_TEST_DIR/it's hurt"
start_server -d 1
client put hurt RECOGNISABLE-VALUE >/dev/null
client put sound one >/dev/null
client put sound two >/dev/null # one is dead: there is something to compact
stop_server
at=$(grep -abo RECOGNISABLE "$server_dir/data.0000" | head -n 1 | cut -d : -f 1)
printf X | dd of="$server_dir/data.0000" bs=1 seek="$at" conv=notrunc status=none
start_server -d 1
check_status 0 'what nobody has read is not known' client doctor
client get hurt >/dev/null 2>&1
check_status 1 'doctor of a server that met a damaged record exits 1' client doctor
check_match 'BAD +1 damaged record met in data.0000 \(data.0000 at offset [0-9]+\)' "$output" \
    'and says where it is'
check_status 1 'with --fix, too' client doctor --fix
salvage=$(grep '^kvcheck --salvage' <<<"$output")
check_status 4 'its command says of a running server that it uses the store' \
    env PATH="$MQKV_BUILD:$PATH" sh -c "$salvage"
check_status 0 'a compaction goes on' client compact
check_status 1 'and keeps the damage' client doctor
check_match 'BAD +1 damaged record met in data.0000 \(data.0000 at offset [0-9]+\)' "$output" \
    'which doctor says, too'
stop_server
check_status 1 'without the server the command saves what is intact' \
    env PATH="$MQKV_BUILD:$PATH" sh -c "$salvage"
check_status 0 'to a directory beside it' "$MQKV_BUILD/kvcheck" "$server_dir.salvaged"
start_server -d 1
check_status 0 'the key can be written again' client put hurt again
seq 1 20 | sed 's/.*/PUT torn& TORN&-/' | client batch -q - 2>/dev/null
stop_server
# As many places are not carried over.
for number in {1..17..2}; do
    at=$(grep -abo "TORN$number-" "$server_dir/data.0000" | head -n 1 | cut -d : -f 1)
    printf X | dd of="$server_dir/data.0000" bs=1 seek="$at" conv=notrunc status=none
done
start_server -d 1
check_status 4 'a compaction is stopped by damage all over' client compact
client doctor >"$MQKV_TEST_DIR/found"
check_match 'BAD +the last compaction failed \(data.0000\)' "$(cat "$MQKV_TEST_DIR/found")" \
    'which doctor says, too'
seq 1 20 | sed 's/.*/PUT torn& again/' | client batch -q - 2>/dev/null
check_status 1 'the compaction has still failed' client doctor
check_equal 0 "$(grep -c 'damaged record' <<<"$output")" 'but no damage is left'
check_status 0 'the next one is not stopped' client compact
check_status 0 'and all is well' client doctor
check_match '1 file: no failed sync or compaction that did not succeed later' "$output" \
    'with what has failed before'
stop_server

# A full disk.
if [ "$(id -u)" = 0 ] && mkdir "$MQKV_TEST_DIR/small" && mount -t tmpfs -o size=3m none \
    "$MQKV_TEST_DIR/small" 2>/dev/null
then
    server_dir=$MQKV_TEST_DIR/small
    start_server -d 1
    check_status 0 'doctor with room on the disk finds all well' client doctor
    seq 1 5000 | sed \
        "s/.*/PUT key& $(head -c 1000 /dev/zero | tr '\0' v)/" | client load - 2>/dev/null
    check_status 1 'doctor of a server whose disk is full exits 1' client doctor
    check_match 'BAD +no space: the last put to data.0000 was refused .* free' "$output" \
        'and names the disk'
    client scan --keys | sed 's/^/DEL /' | client batch -q - 2>/dev/null
    client_can_put() { client put again x >/dev/null 2>&1; }
    wait_until 20 client_can_put
    check_equal 0 "$(client doctor | grep -c 'the last put')" \
        'and says so no more when there is room'
    stop_server
    umount "$MQKV_TEST_DIR/small"
else
    skip 'a full disk: mounts need root'
fi
