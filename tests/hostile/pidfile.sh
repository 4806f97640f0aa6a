#!/usr/bin/env bash
# pidfile: in a directory where others may make files, they cannot choose what --pidfile overwrites,
# nor keep a daemon from starting with a lock.
. "$(dirname "$0")/lib.sh"
need_root

shared=$common_dir/shared
mkdir "$shared"
chmod 1777 "$shared"
pidfile=$shared/serverk.pid
mkdir -p "$server_dir"
chown "$daemon_uid:$daemon_uid" "$server_dir"
precious=$server_dir/../precious
echo precious >"$precious"
chown "$daemon_uid:$daemon_uid" "$precious"

# start_refused PATTERN TEXT: a start with the pid file fails in time, with that in its sentence.
start_refused() {
    check_status 4 "$2 is refused" as_uid "$daemon_uid" timeout -k 1 20 "$MQKV_BUILD/serverk" \
        -m "$server_queue" -f "$server_dir" --pidfile "$pidfile"
    check_match "pid file $pidfile .*$1" "$errors" "and told"
    check_equal precious "$(cat "$precious")" "and nothing is written over"
    rm -f "$pidfile"
}

as_uid "$hostile_uid" ln -s "$precious" "$pidfile"
start_refused "symbolic link" "a link that another user made"
as_uid "$daemon_uid" ln -s "$precious" "$pidfile"
start_refused "symbolic link" "a link of the daemon's own user"
as_uid "$hostile_uid" ln -s "$shared/nowhere" "$pidfile"
start_refused "symbolic link" "a link to what is not there"
check_equal no "$([ -e "$shared/nowhere" ] && echo yes || echo no)" "and what it names is not made"
as_uid "$hostile_uid" sh -c "echo 1 >'$pidfile'; chmod 666 '$pidfile'"
start_refused "belongs to uid $hostile_uid" "a file of another user"
as_uid "$hostile_uid" mkfifo -m 666 "$pidfile"
start_refused "(belongs to uid $hostile_uid|not a regular file)" "a FIFO of another user"
ln "$precious" "$pidfile" # as another user could, where fs.protected_hardlinks is 0
start_refused "second name" "another name of a file of the daemon's user"

# A stale file that others may read, and one of them has locked.
as_uid "$daemon_uid" sh -c "echo 1 >'$pidfile'; chmod 644 '$pidfile'"
attack_as "$hostile_uid" env PATH=/usr/bin:/bin python3 -c '
import fcntl, sys, time
stale = open(sys.argv[1])
fcntl.lockf(stale, fcntl.LOCK_SH)
print("locked", flush=True)
time.sleep(600)' "$pidfile"
check_status 0 "another user locks a stale file" wait_until 20 grep -q locked \
    "$MQKV_TEST_DIR/attack.log"
start_server_as "$daemon_uid" --mode 0622 --pidfile "$pidfile"
served=$(as_uid "$daemon_uid" "$MQKV_BUILD/clientk" -m "$server_queue" --format json stats server |
    grep -oE '"pid":[0-9]+' | head -n 1)
check_equal "$served" "\"pid\":$(cat "$pidfile")" \
    "a lock of another user keeps no daemon from its stale pid file"
check_equal 644 "$(stat -c %a "$pidfile")" "which others may read"
check_status 4 "a living daemon's is refused" as_uid "$daemon_uid" timeout -k 1 20 \
    "$MQKV_BUILD/serverk" \
    -m "$server_queue.second" -f "$common_dir" --pidfile "$pidfile"
check_match "belongs to process $(cat "$pidfile")," "$errors" "with its process"
stop_server
check_equal no "$([ -e "$pidfile" ] && echo yes || echo no)" "it goes with the daemon"
