#!/usr/bin/env bash
# direct_users: who reads without messages is decided by --direct and by the modes of the files;
# everybody else gets the same values by message, and is told why
. "$(dirname "$0")/lib.sh"
need_root

group_gid=$((uid_base + 10)) # of the data directory

# Clients. The daemon's own user waits for the start, too.
client() {
    client_as "$daemon_uid" "$@"
}
member() {
    client_as "$good_uid:$group_gid" "$@"
}
also_member() {
    setpriv --reuid="$good_uid" --regid="$good_uid" --groups="$group_gid" \
        "$MQKV_BUILD/clientk" -m "$server_queue" "$@"
}
outsider() {
    client_as "$hostile_uid" "$@"
}
neighbour() { # in the daemon's group, which is not the directory's
    client_as "$hostile_uid:$daemon_uid" "$@"
}

# way_of CLIENT: of a bench, its errors, its wrong values, and how many reads went without messages.
way_of() {
    "$1" --format csv bench --preload --verify --keys 100 --mix get=1 -c 2000 |
        tail -n 1 | cut -d, -f22,24,25
}

gets_the_value() { # CLIENT TEXT
    check_status 0 "$2 is served" "$1" --timeout 10000 get name
    check_equal Ada "$output" "$2 gets the value"
}

reads_in_place() { # CLIENT TEXT
    gets_the_value "$1" "$2"
    check_match 'ok +reads need no message \(map\)' "$("$1" doctor)" "$2 needs no message"
    check_match '^0,0,[1-9]' "$(way_of "$1")" "$2 sends none, and every value is right"
}

reads_by_message() { # CLIENT WHY TEXT
    gets_the_value "$1" "$3"
    check_match "ok +reads go by message: .*$2" "$("$1" doctor)" "$3 is told why"
    check_equal 0,0,0 "$(way_of "$1")" "$3 sends messages, and every value is right"
}

may_not_open() { # UID[:GID] TEXT
    check_status 1 "$2 cannot open the index" as_uid "$1" test -r "$object"
    check_status 1 "$2 cannot open the data files" as_uid "$1" test -r "$server_dir/data.0000"
}

mkdir "$server_dir"
chown "$daemon_uid:$group_gid" "$server_dir"
chmod 710 "$server_dir"
object=$(printf '/dev/shm/mqkv.store.%x.%x' "$(stat -c %d "$server_dir")" \
    "$(stat -c %i "$server_dir")")
server_program=$common_dir/serverk-in-group
printf '#!/bin/sh\nexec setpriv --reuid=%s --regid=%s --groups=%s "%s" "$@"\n' "$daemon_uid" \
    "$daemon_uid" "$group_gid" "$MQKV_BUILD/serverk" >"$server_program"
chmod 755 "$server_program"

# The group
start_server --mode 0622 --group "$group_gid" --direct group
check_status 0 "the daemon's own user stores a value" client put name Ada
reads_in_place client "--direct group: the daemon's own user"
reads_in_place member "--direct group: a member"
reads_in_place also_member "--direct group: a member by one more group"
reads_by_message outsider 'may not read the shared memory' "--direct group: an outsider"
reads_by_message neighbour 'may not read the shared memory' \
    "--direct group: one of the daemon's other group"
check_equal Ada "$(outsider --direct map get name)" \
    "--direct group: an outsider who insists gets it by message"
may_not_open "$hostile_uid" "--direct group: an outsider"
may_not_open "$hostile_uid:$daemon_uid" "--direct group: one of the daemon's other group"
check_status 0 "--direct group: a member opens the index" \
    as_uid "$good_uid:$group_gid" test -r "$object"
check_status 1 "--direct group: but not to write" \
    as_uid "$good_uid:$group_gid" test -w "$object"
check_status 1 "--direct group: nor the data files" \
    as_uid "$good_uid:$group_gid" test -w "$server_dir/data.0000"
chmod 700 "$server_dir"
reads_by_message member 'may not enter the data directory' \
    "--direct group: a member who may not enter the directory"
chmod 710 "$server_dir"
reads_in_place member "--direct group: once he may, he"
stop_server
check_equal 0 $? "the daemon stops cleanly"

# The owner; the files are those that the group could read.
start_server --mode 0622 --group "$group_gid" --direct owner
reads_in_place client "--direct owner: the daemon's own user"
reads_by_message member 'to others, but not to this user' "--direct owner: a member"
reads_by_message outsider 'to others, but not to this user' "--direct owner: an outsider"
may_not_open "$good_uid:$group_gid" "--direct owner: a member"
may_not_open "$hostile_uid" "--direct owner: an outsider"
stop_server

# Nobody
start_server --mode 0622 --group "$group_gid" --direct off
check_status 1 "--direct off: there is no shared index" test -e "$object"
reads_by_message client 'the server does not offer it' "--direct off: the daemon's own user"
reads_by_message member 'the server does not offer it' "--direct off: a member"
stop_server

# Another user has taken the name of the index.
as_uid "$hostile_uid" touch "$object"
start_server --mode 0622 --direct group
check_status 0 "with the name taken: a value is stored" client put name Ada
reads_in_place client "with the name taken, another is told: the daemon's own user"
reads_in_place member "with the name taken, another is told: a member"
check_equal "$hostile_uid" "$(stat -c %u "$object")" "with the name taken: it stays whose it is"
stop_server
check_equal "$object" "$(ls "$object"*)" "with the name taken: the other one is removed"
rm -f "$object"
