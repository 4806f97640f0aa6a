#!/usr/bin/env bash
# serverk_config: a configuration file, what --check tells of it, SIGHUP, and logs that are renamed
. "$(dirname "$0")/lib.sh"

config=$MQKV_TEST_DIR/serverk.conf
log=$MQKV_TEST_DIR/daemon.log
other_queue=${server_queue}y

# The example names every option there is in its section, and what it shows are defaults.
example=$library_dir/../../packaging/serverk.conf
mkdir "$MQKV_TEST_DIR/empty"
sed -E 's/^#([a-z-]+ = )/\1/' "$example" |
    sed -E '/^((read-)?group|pidfile|log|rwlock|metrics|audit|mirror) =/d' >"$config"
options_of_lab='^#?(dispatch|sched-queue|service-time|locking|rwlock|allocator) ='
has_lab "options of the lab in the example" || sed -i -E "/$options_of_lab/d" "$config"
check_status 0 "the example is right where nothing is a comment" \
    "$server_program" -c "$config" -m "$other_queue" -f "$MQKV_TEST_DIR/empty" --check
settings=$output
printed=$("$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/empty" --check |
    sed -nE 's/^(; )?([a-z-]+) (= |is not set).*/\2/p' | sort)
shown=$(sed -nE 's/^#?([a-z-]+) = .*/\1/p' "$example" | sort)
! grep -qx dispatch <<<"$printed" || options_of_lab=none
check_equal "$printed" "$(awk '{ print $0, "=" }' <<<"$shown" | grep -vE "$options_of_lab" |
    sed 's/ =$//')" \
    "and names the same options as --check"
check_match "sync = interval:1s ; $config:[0-9]+" "$settings" \
    "--check tells where a value is from"
check_match "mq = $other_queue ; command line" "$settings" "or that it is of the command line"
check_match "; io = mmap ; default" \
    "$("$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/empty" --check)" "or the default"
check_match "is not a group's name or number\$" \
    "$("$server_program" --group nobody-has-it --check 2>&1 | head -1)" "a group that is none"
if has_lab "defaults that depend on other options"; then
    check_match "; direct = off ; default ; workers = 16 ; default" \
        "$("$server_program" -f "$MQKV_TEST_DIR/empty" --io direct --dispatch process --check |
            grep -E '^; (workers|direct) =' | tr '\n' ' ')" "defaults that depend on other options"
fi

# What --check prints may be used
"$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/empty" --check |
    sed -nE '/^\[/p; s/^; ([a-z-]+ = )/\1/p' >"$MQKV_TEST_DIR/printed.conf"
check_status 0 "what --check prints, uncommented, is a configuration" \
    "$server_program" -c "$MQKV_TEST_DIR/printed.conf" -m "$other_queue" \
    -f "$MQKV_TEST_DIR/empty" --check
check_match "max-bytes = 0 ; $MQKV_TEST_DIR/printed.conf:[0-9]+" "$output" "which is in force"

# --check of what a start would find
checked=("$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/empty")
for file in log audit pidfile metrics; do
    check_status 4 "--check refuses a --$file in a directory that is not there" \
        "${checked[@]}" "--$file" "$MQKV_TEST_DIR/none/file" --check
    check_match "none/file.*: No such file" "$errors" "and names it"
done
ln -s "$config" "$MQKV_TEST_DIR/link"
check_status 4 "and a log that is a link" "${checked[@]}" --log "$MQKV_TEST_DIR/link" --check
check_match "is a symbolic link" "$errors" "and says so"

# hold_queues: takes all bytes of queues that this user may have, and makes "held" when it has.
hold_queues() {
    exec python3 - "$other_queue" "$MQKV_TEST_DIR/held" <<'END'
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
class Attributes(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ("flags", "maxmsg", "msgsize", "curmsgs")] + [
        ("reserved", ctypes.c_long * 4)]
name = (sys.argv[1] + ".hold").encode()
for geometry in (10, 8192), (10, 1024), (1, 256):
    while True:
        queue = libc.mq_open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600,
                             ctypes.byref(Attributes(0, *geometry)))
        if queue < 0:
            break
        libc.mq_unlink(name)
open(sys.argv[2], "w").close()
time.sleep(600)
END
}
hold_queues &
holder=$!
wait_until 20 test -e "$MQKV_TEST_DIR/held"
check_status 4 "--check finds that the user's bytes of queues are used up" "${checked[@]}" --check
check_match "RLIMIT_MSGQUEUE.*Raise it|queues_max" "$errors" "and how to raise the limit"
check_status 4 "as a start does" "${checked[@]}"
kill "$holder"
wait "$holder" 2>/dev/null
check_status 0 "without that it is content" "${checked[@]}" --check

# A start
cat >"$config" <<END
[queues]
mq = /nobody.uses.this
[store]
datafiles = 2
[log]
log = $log
END
start_server -c "$config"
wait_until 20 grep -q ' ready: ' "$log"
check_match " ready: .*queue $server_queue,.* 2 data files" "$(cat "$log")" \
    "file and command line are one, and the log is in its file"

# Reload
sed -i 's/datafiles = 2/datafiles = 3/' "$config"
echo "verbose = on" >>"$config"
kill -HUP "$server_pid"
wait_until 20 grep -q 'was read again' "$log"
check_match 'INFO verbose is now on' "$(cat "$log")" "SIGHUP changes what can change"
check_match 'WARN datafiles stays 2: .* 3 takes a restart' "$(cat "$log")" "and names the rest"
client put a b
wait_until 20 grep -q 'DEBUG' "$log"
check_match 'DEBUG' "$(cat "$log")" "sessions are logged from then on"
echo "verbos = on" >>"$config"
kill -HUP "$server_pid"
wait_until 20 grep -q 'nothing was changed' "$log"
check_match "ERROR SIGHUP: nothing was changed: $config:[0-9]+: unknown key 'verbos'" \
    "$(cat "$log")" "a mistake changes nothing"
check_status 0 "and ends nothing" client ping

# Logs that are renamed
mv "$log" "$log.1"
kill -USR1 "$server_pid"
wait_until 20 test -s "$log"
check_match 'log file opened anew' "$(cat "$log")" "SIGUSR1 opens the log's name anew"
mv "$log" "$log.2"
kill -HUP "$server_pid"
wait_until 20 test -s "$log"
check_match 'log file opened anew' "$(cat "$log")" "so does SIGHUP"
stop_server
check_match 'serverk stopped' "$(cat "$log")" "and lines go there"

# Workers that sleep in a receive, which a signal can interrupt, take none away from the log.
start_server --lanes shared -w 4 --log "$log"
opened=0
while [ "$opened" -lt 20 ]; do
    mv "$log" "$log.3"
    kill -USR1 "$server_pid"
    wait_until 5 test -s "$log" || break
    opened=$((opened + 1))
done
check_equal 20 "$opened" "each SIGUSR1 opens the log anew beside workers that sleep in a receive"
stop_server

# A log that cannot be opened
check_status 4 "a log in no directory is a failure to start" \
    "$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/empty" --log "$MQKV_TEST_DIR/no/log"
check_match "cannot write the log file .*no/log: No such file" "$errors" "that is named"

# The owner's changes
cat >"$config" <<END_OF_FILE
[store]
sync = interval:500
END_OF_FILE
start_server -c "$config" --verbose
check_equal interval:500ms "$(client config get sync)" "config get tells a setting"
check_match "^dir +$server_dir +false +command line" "$(client config get)" "or all, with origins"
check_match "^sync +interval:500ms +true +$config:2" "$(client config get)" \
    "and whether they can change"
check_match '"name":"sync","value":"interval:500ms"' "$(client --format json config get sync)" \
    "also as JSON"
check_status 0 "config set changes one" client config set sync always
check_equal always "$(client config get sync)" "which is then in force"
check_match '^  sync +always' "$(client stats server)" "for writes too"
check_match 'INFO sync is now always \(it was interval:500\)' "$(cat "$server_log")" \
    "and the log tells"
check_status 0 "an interval" client config set sync interval:20
client put a b >/dev/null
synced() {
    local bytes='s/.*"sum":\{[^}]*"synced_bytes":([0-9]+).*/\1/'
    [ "$(client --format json stats files | sed -E "$bytes")" -gt 0 ]
}
wait_until 20 synced
check_equal 0 $? "that is shorter is followed"
# Words and units
check_equal "0: none" "$(client config get cache)" "0 is told with what it means"
check_equal 100ms "$(client config get slow)" "times have their unit"
check_equal 2 "$(client config get datafiles)" "what the store decides is told"
check_equal "$(nproc)" "$(client config get workers)" "and what the machine does"
check_status 0 "a bare number" client config set slow 90000
check_equal 90s "$(client config get slow)" "is told with its unit"
check_status 0 "which is understood" client config set slow 90s
check_status 0 "a size" client config set max-value 524288
check_equal 512k "$(client config get max-value)" "likewise"
check_status 0 "sizes in TiB are known" "$server_program" -m "$other_queue" \
    -f "$MQKV_TEST_DIR/empty" --max-bytes 1T --keep-changes-bytes 0.5TiB --check

# What a reload comes to
check_status 0 "--check beside the running service is one of the configuration" \
    "$server_program" -m "$server_queue" -f "$server_dir" --check
check_match "in use by process $server_pid, as they are" "$output" "and says so"
check_status 2 "a mistake is found there, too" \
    "$server_program" -m "$server_queue" -f "$server_dir" --sync sometimes --check
check_status 4 "the queue of another daemon is none of it" \
    "$server_program" -m "$server_queue" -f "$MQKV_TEST_DIR/empty" --check
check_status 0 "reload succeeds where nothing changed" client config reload
echo "cache = 2M" >>"$config"
check_status 4 "not where something takes a restart" client config reload
check_match "cache stays the default: that it is to be 2M takes a restart" "$errors" \
    "which it names"
printf 'datafiles = 7\n[log]\nverbose = on\n' >>"$config"
check_status 4 "nor where two things do" client config reload
check_match "takes a restart \(and 1 more: see the log\)" "$errors" "which it counts"
check_equal on "$(client config get verbose)" "the rest is in force"
if [ -e "/dev/mqueue$server_queue.lock" ]; then
    check_status 4 "it finds the server by its process" client -m /nobody config reload \
        --pid "$server_pid"
    check_match "takes a restart" "$errors" "and asks that"
else
    skip "config reload --pid: the queues are not mounted at /dev/mqueue"
fi
check_status 3 "a process that is no server is none" client config reload --pid $$
check_match "process $$ serves no queue" "$errors" "and told"
echo "nonsense" >>"$config"
check_status 2 "a mistake is another failure" client config reload
check_match "$config:[0-9]+: neither" "$errors" "with its place"
printf '[store]\nsync = interval:500\n' >"$config"
check_status 0 "as soon as all is well, reload succeeds" client config reload

check_status 2 "a wrong value is refused" client config set sync sometimes
check_match 'is not none, interval' "$errors" "with what would be right"
check_status 2 "so is an unknown name" client config set snyc none
check_match "did you mean 'sync'" "$errors" "with what may be meant"
check_status 4 "what takes a restart is refused" client config set workers 9
check_match 'workers cannot change while' "$errors" "with the reason"
check_status 4 "as are lanes for others that are not there" client config set mode 0622
check_status 0 "smaller values" client config set max-value 100
check_status 2 "are all that is taken" client put big "$(printf '%200s' '')"
check_status 4 "more than at the start is not" client config set max-value 2M
check_status 4 "a log that cannot be opened is refused" \
    client config set log "$MQKV_TEST_DIR/no/log"
check_status 2 "config needs more" client config set sync
kill -HUP "$server_pid"
wait_until 20 grep -q 'sync is now interval:500 (it was interval:20)' "$server_log"
check_equal interval:500ms "$(client config get sync)" "SIGHUP goes back to the file"
stop_server

# Any daemon of one lane can change its mode.
start_server --lanes shared --mode 0622
check_status 0 "a mode that lets nobody in" client config set mode 0600
check_status 0 "does not keep the owner out" client ping
stop_server

# Without a file nothing is read again, and nothing goes back to a default
start_server
client config set sync always >/dev/null
check_status 2 "a reload without a configuration file fails" client config reload
check_match "there is no configuration file to read again" "$errors" "and says why"
kill -HUP "$server_pid"
wait_until 20 grep -q 'no configuration file to read again (-c); settings stay' "$server_log"
check_equal always "$(client config get sync)" "durability stays as it was set, by SIGHUP, too"
live=$(client --format json stats server | tr -d ' \n' | grep -c '"landlock_abi":[1-9]')
if [ "$live" = 1 ]; then
    check_match '^log .* false +default$' "$(client config get)" \
        "a log that the sandbox has no directory for is not said to be live"
    check_status 4 "and takes a restart" client config set log "$server_dir/log"
    check_match "takes a restart|cannot change" "$errors" "which is said"
fi
stop_server
start_server --log "$MQKV_TEST_DIR/some.log"
check_match '^log .* true +command line$' "$(client config get)" "one that it has is"
stop_server

# A client that waits is not answered by a daemon that then fails to start
server_dir=$MQKV_TEST_DIR/unserved
mkdir "$server_dir"
client --wait --timeout 3000 put early yes >"$MQKV_TEST_DIR/early" 2>&1 &
waiting=$!
sleep 0.3
check_status 4 "metrics that cannot be written are a failure to start" \
    "$server_program" -m "$server_queue" -f "$server_dir" --metrics "$MQKV_TEST_DIR/no/metrics"
wait "$waiting"
check_equal 0 "$(grep -c OK "$MQKV_TEST_DIR/early")" "before any request is answered"
chmod 777 "$server_dir"
start_server
check_match "WARN .*unserved has mode 0777: anybody may exchange the data files" \
    "$(cat "$server_log")" "a directory that is everybody's is warned of"
stop_server
