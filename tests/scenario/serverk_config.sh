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
check_status 0 "the example is right where nothing is a comment" \
    "$server_program" -c "$config" -m "$other_queue" -f "$MQKV_TEST_DIR/empty" --check
settings=$output
printed=$("$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/empty" --check |
    sed -nE 's/^(; )?([a-z-]+) = .*/\2/p' | sort)
check_equal "$printed" "$(sed -nE 's/^#?([a-z-]+) = .*/\1/p' "$example" | sort)" \
    "and names the same options as --check"
check_match "sync = interval:1000 ; $config:[0-9]+" "$settings" \
    "--check tells where a value is from"
check_match "mq = $other_queue ; command line" "$settings" "or that it is of the command line"
check_match "; io = mmap ; default" \
    "$("$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/empty" --check)" "or the default"
check_match "is not a group's name or number\$" \
    "$("$server_program" --group nobody-has-it --check 2>&1 | head -1)" "a group that is none"
check_match "; direct = off ; default ; workers = 16 ; default" \
    "$("$server_program" -f "$MQKV_TEST_DIR/empty" --io direct --dispatch process --check |
        grep -E '^; (workers|direct) =' | tr '\n' ' ')" "defaults that depend on other options"

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
check_match "no/log: cannot open the log file" "$errors" "that is named"

# The owner's changes
cat >"$config" <<END_OF_FILE
[store]
sync = interval:500
END_OF_FILE
start_server -c "$config" --verbose
check_equal interval:500 "$(client config get sync)" "config get tells a setting"
check_match "^dir +$server_dir +false +command line" "$(client config get)" "or all, with origins"
check_match "^sync +interval:500 +true +$config:2" "$(client config get)" \
    "and whether they can change"
check_match '"name":"sync","value":"interval:500"' "$(client --format json config get sync)" \
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
check_status 2 "a wrong value is refused" client config set sync sometimes
check_match 'is not none, interval' "$errors" "with what would be right"
check_status 2 "so is an unknown name" client config set snyc none
check_match "did you mean 'sync'" "$errors" "with what may be meant"
check_status 4 "what takes a restart is refused" client config set workers 9
check_match 'workers cannot change while' "$errors" "with the reason"
check_status 4 "as are lanes for others that are not there" client config set mode 0622
check_status 0 "smaller values" client config set max-value 100
check_status 4 "are all that is taken" client put big "$(printf '%200s' '')"
check_status 4 "more than at the start is not" client config set max-value 2M
check_status 4 "a log that cannot be opened is refused" \
    client config set log "$MQKV_TEST_DIR/no/log"
check_status 2 "config needs more" client config set sync
kill -HUP "$server_pid"
wait_until 20 grep -q 'sync is now interval:500 (it was interval:20)' "$server_log"
check_equal interval:500 "$(client config get sync)" "SIGHUP goes back to the file"
stop_server

# Any daemon of one lane can change its mode.
start_server --lanes shared --mode 0622
check_status 0 "a mode that lets nobody in" client config set mode 0600
check_status 0 "does not keep the owner out" client ping
stop_server
