#!/usr/bin/env bash
# restore_drill: the backup of packaging/mqkv-backup and the commands of serverk(1), Backups, run
# as they are written there, by root: the daemon's user owns what is restored, nobody else reads it.
# long: a whole drill of backup and restore
. "$(dirname "$0")/lib.sh"
need_root
page=$library_dir/../../docs/serverk.1
script=$(reachable "$library_dir/../../packaging/mqkv-backup")

# commands N: the root commands of the N-th example of the section, as man(1) shows them.
commands() {
    awk -v wanted="$1" '
        /^\.Ss/ { inside = /Backups/ }
        inside && /^\.Bd/ { block++; next }
        /^\.Ed/ { shown = 0 }
        inside && /^# / && block == wanted { shown = 1 }
        inside && shown && block == wanted { sub(/^# /, ""); sub(/\\e$/, "\\"); print }' "$page"
}

# The programs of this build; the unit is a daemon as its user.
mkdir "$common_dir/bin" "$common_dir/backups"
ln -s "$MQKV_BUILD"/{serverk,clientk,kvcheck} "$common_dir/bin"
cat >"$common_dir/bin/systemctl" <<END
#!/bin/sh
if [ "\$1" = start ]; then
    exec setpriv --reuid=$daemon_uid --regid=$daemon_uid --clear-groups \
        "$MQKV_BUILD/serverk" -m "$server_queue" -f "$server_dir" --daemon
fi
pid=\$(cat "$server_dir/lock")
kill "\$pid"
while kill -0 "\$pid" 2>/dev/null; do sleep 0.05; done
END
chmod 755 "$common_dir/bin/systemctl"
chown "$daemon_uid:$daemon_uid" "$common_dir/backups"
PATH=$common_dir/bin:$PATH
export MQKV_QUEUE=$server_queue

start_server_as "$daemon_uid" --mode 0622
as_uid "$daemon_uid" clientk put name Ada >/dev/null
for i in 1 2 3; do
    check_status 0 "backup $i, within a second of the one before" \
        as_uid "$daemon_uid" "$script" "$common_dir/backups" 2
done
check_equal 2 "$(find "$common_dir/backups" -mindepth 1 -maxdepth 1 -type d | wc -l)" \
    "the newest two are kept"
check_equal 0 "$(find "$common_dir/backups" -mindepth 2 -type d | wc -l)" "none lies in another"
check_status 0 "and the last one is sound" kvcheck "$common_dir/backups/latest"
check_equal "700 600" "$(stat -Lc %a "$common_dir/backups/latest") $(stat -Lc %a \
    "$common_dir/backups/latest/data.0000")" "which nobody else may read"
MQKV_QUEUE=/nobody check_status 1 "one that fails says so" as_uid "$daemon_uid" "$script" \
    "$common_dir/backups" 2
check_equal 2 "$(find "$common_dir/backups" -mindepth 1 -maxdepth 1 -type d | wc -l)" \
    "and leaves those that were there"
as_uid "$daemon_uid" clientk put name Eve >/dev/null

drill=$(commands 1 | sed -e "1s|.*|store=$server_dir backup=$common_dir/backups/latest \
user=$daemon_uid|" -e "s|/drill|$server_queue.drill|")
check_equal "7 1" "$(grep -c . <<<"$(commands 1 | tail -n +4)") $(commands 1 |
    grep -c '^store=.* user=mqkv$')" "the page has the commands, and the first names the places"
check_status 0 "the drill runs as it is written" bash -euc "$drill"
check_match '^name$' "$output" "and finds the key"
check_equal "$daemon_uid $daemon_uid" \
    "$(find "$server_dir.drill" -printf '%U %G\n' | sort -u)" "all belongs to the daemon's user"
check_equal "" "$(find "$server_dir.drill" -perm /077)" "and nobody else may read it"
check_equal Eve "$(as_uid "$daemon_uid" clientk get name)" "the store is as it was"

drilled() {
    ! pgrep -f "serverk -m $server_queue.drill " >/dev/null
}
wait_until 20 drilled
check_status 0 "and in earnest" bash -euc "store=$server_dir
$(commands 2 | sed 's/^clientk --wait doctor$/clientk --wait ping/')"
check_equal Ada "$(as_uid "$daemon_uid" clientk --wait get name)" "what was backed up is back"
kill "$(cat "$server_dir/lock")"
wait_until 20 sh -c "! pgrep -f 'serverk -m $server_queue -f' >/dev/null"
server_pid=
