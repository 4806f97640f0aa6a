#!/usr/bin/env bash
# written_files: in a directory where others may make files, they cannot choose where --log and
# --audit go on after SIGUSR1, nor stop the daemon with a FIFO beside the file of --metrics.
# long: waits for metrics, which are written every ten seconds
. "$(dirname "$0")/lib.sh"
need_root

shared=$common_dir/shared
mkdir "$shared"
chmod 777 "$shared"
log=$shared/serverk.log audit=$shared/audit.log metrics=$shared/mqkv.prom
mkdir -p "$server_dir"
precious=$server_dir/precious
echo precious >"$precious"

as_uid "$hostile_uid" mkfifo -m 666 "$metrics.new"
start_server_as "$daemon_uid" --mode 0622 --log "$log" --audit "$audit" --metrics "$metrics"
check_status 0 "a FIFO beside the metrics file keeps no daemon from starting" client ping

# written_anew: the metrics were written after the file that the test put there.
written_anew() {
    grep -qs '^mqkv_info' "$metrics" && [ ! -e "$metrics.new" ]
}

rm -f "$metrics"
as_uid "$hostile_uid" mkfifo -m 666 "$metrics.new"
check_status 0 "nor from writing them later" wait_until 30 written_anew
rm -f "$metrics"
as_uid "$hostile_uid" ln -s "$precious" "$metrics.new"
check_status 0 "nor does a link" wait_until 30 written_anew
check_equal precious "$(<"$precious")" "which is not followed"

# opened_anew: what SIGUSR1 led to is in the log, wherever that is now.
opened_anew() {
    kill -USR1 "$server_pid"
    wait_until 20 grep -qE "$1" "$log.1"
}

for link in symlink hardlink; do
    rm -f "$log.1" "$audit.1"
    mv "$log" "$log.1"
    mv "$audit" "$audit.1"
    case $link in
    symlink)
        as_uid "$hostile_uid" ln -s "$precious" "$log"
        as_uid "$hostile_uid" ln -s "$precious" "$audit"
        ;;
    hardlink) # as another user could, where fs.protected_hardlinks is 0
        ln "$precious" "$log"
        ln "$precious" "$audit"
        ;;
    esac
    check_status 0 "$link: the log goes on where it was" \
        opened_anew "the log file $log .*(link|name).*; the log goes on where it was"
    check_status 0 "$link: and so does the audit log" \
        grep -q "the audit log $audit .*; it goes on where it was" "$log.1"
    client ping >/dev/null
    check_equal precious "$(<"$precious")" "$link: what it leads to is not written to"
    rm -f "$log" "$audit"
    kill -USR1 "$server_pid"
    check_status 0 "$link: without it the files are made anew" wait_until 20 grep -q anew "$log"
done

as_uid "$hostile_uid" sh -c "rm -f '$audit'; : >'$audit'; chmod 666 '$audit'"
kill -USR1 "$server_pid"
check_status 0 "a file of another user is none" wait_until 20 grep -q \
    "the audit log $audit exists and belongs to uid $hostile_uid" "$log"
client ping >/dev/null
check_equal "" "$(<"$audit")" "and learns nothing"
stop_server
