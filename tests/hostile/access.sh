#!/usr/bin/env bash
# access: users see and change the keys that the configuration file gives them, and no others
. "$(dirname "$0")/lib.sh"
need_root

config=$common_dir/serverk.conf
reader_uid=$hostile_uid stranger_uid=$((uid_base + 4)) busy_uid=$((uid_base + 5))
cat >"$config" <<END
[user $good_uid]
write = app: \\x00b
read = pub:

[user $reader_uid]
read = app:
sessions = 2

[user $busy_uid]
write = *
operations = 50

[quota app:]
max-keys = 12
[quota app:small:]
max-bytes = 200
END
chmod 644 "$config"

owner() {
    client_as "$daemon_uid" "$@"
}
reader() {
    client_as "$reader_uid" "$@"
}
# keys UID [OPTION...]: the keys that a scan shows, in order
keys() {
    client_as "$1" scan --keys "${@:2}" | sort | tr '\n' ' '
}

# Before there were rules the group could read in place.
start_server_as "$daemon_uid" --mode 0622 --direct group
owner put secret x >/dev/null
stop_server
check_status 2 "rules and --direct group exclude each other" as_uid "$daemon_uid" \
    "$MQKV_BUILD/serverk" -c "$config" -f "$server_dir" --direct group --check
check_match "could read all keys" "$errors" "since it would go around them"
check_status 0 "without it they are in order" as_uid "$daemon_uid" \
    "$MQKV_BUILD/serverk" -c "$config" -f "$server_dir" -m "$server_queue" --check
check_match "^\[user $reader_uid\]" "$output" "and --check shows them"

start_server_as "$daemon_uid" --mode 0622 -c "$config" --direct off
check_equal "" "$(find "$server_dir" -name 'data.*' -perm /077)" "nobody else can open the files"
check_equal "600" "$(stat -c %a "$server_dir/data.0000")" "which the owner can"

check_status 0 "a user writes where it may" client put app:1 v
check_status 0 "also below a binary prefix" client -e put '\0b:1' v
check_status 4 "but not where it may read" client put pub:1 v
check_match "permission denied" "$errors" "and is told so"
owner put pub:1 v >/dev/null
check_status 0 "it reads what it may read" client get pub:1
check_status 4 "and nothing else" client get secret
check_status 4 "also not whether it exists" client exists secret
check_status 4 "nor a prefix of its own" client get app

check_equal '"\0b:1" app:1 pub:1 ' "$(keys "$good_uid")" "a scan shows its keys only"
check_equal "$(keys "$good_uid")" "$(keys "$good_uid" --atomic)" "an atomic one, too"
check_equal "3" "$(client scan --count)" "and so it counts"
check_equal "" "$(keys "$good_uid" sec)" "a scan for others' keys finds nothing"
check_equal "app:1 " "$(keys "$reader_uid")" "the reader's shows what it reads"
check_equal "" "$(client_as "$good_uid" --direct map scan --keys sec)" "nor does a direct one"
check_status 4 "nor a direct get" client --direct map get secret

printf '%s\n' 'put app:1 w' 'del app:1' 'add app:n 1' 'append app:1 x' 'getset app:1 y' \
    'touch app:1 1h' 'persist app:1' 'put app:2 v' 'get app:1' 'get secret' |
    reader batch - >"$common_dir/out" 2>/dev/null
check_equal 9 "$(grep -c '^ERROR denied' "$common_dir/out")" "who may only read cannot write at all"
check_equal 1 "$(grep -c '^v' "$common_dir/out")" "but reads in the same batch"
check_equal v "$(owner get app:1)" "and nothing has changed"
check_status 4 "del --prefix deletes nothing of it" reader del --prefix app
check_equal '"\0b:1" app:1 pub:1 secret ' "$(keys "$daemon_uid")" "all is there"
check_status 4 "statistics, which name keys, are not theirs" reader stats
check_status 4 "nor are the owner's commands" reader config get

check_status 4 "a user without a section gets no session" client_as "$stranger_uid" get app:1
check_match "no section for uid $stranger_uid" "$errors" "and learns why"

# Transactions: each guard and step needs its right, of the list that is not done, too
check_status 0 "a transaction of keys that may be written and read" \
    client transact --if-present pub:1 -- put app:1 w -- get pub:1
check_status 4 "not of one that may only be read" client transact -- put app:1 x -- put pub:1 x
check_match 'then 2, "pub:1": permission denied; nothing changed' "$errors" "which is named"
check_status 4 "nor with a guard about another" client transact --if-present secret -- put app:1 x
check_match 'guard 1, "secret": permission denied' "$errors" "which is named, too"
check_status 4 "nor in the list that is not done" \
    client transact -- put app:1 x --else get secret
check_equal w "$(owner get app:1)" "and nothing has changed"
check_status 4 "who may only read writes in none" reader transact -- put app:1 x
check_status 0 "and reads in one" reader get app:1 app:1 --together
owner put app:1 v >/dev/null

# Quotas
for i in 2 3 4 5 6 7 8 9 10 11 12; do client put "app:$i" v; done >/dev/null
check_status 4 "a quota of keys holds" client put app:13 v
check_match "quota" "$errors" "and says what it is"
check_status 0 "replacing is no new key" client put app:12 w
check_status 4 "a longer prefix has its own quota" client put app:small:1 "$(printf '%0300d' 1)"
check_status 0 "which holds what fits" client put app:small:1 v
kill_server
start_server_as "$daemon_uid" --mode 0622 -c "$config"
check_status 4 "after kill -9 the quota is as it was" client put app:13 v
stop_server
start_server_as "$daemon_uid" --mode 0622 -c "$config"
check_status 4 "and after a stop" client put app:13 v
check_match '"prefix":"app:","bytes":[0-9]+,"max_bytes":0,"keys":12,"max_keys":12,"refusals":1' \
    "$(owner stats access --format json | tr -d ' \n')" "stats tells what is used"
for ((i = 0; i < 400; i++)); do echo "get app:1"; done |
    client_as "$busy_uid" batch - 2>/dev/null >"$common_dir/out"
check_equal yes "$([ "$(grep -c '^ERROR quota' "$common_dir/out")" -ge 100 ] && echo yes)" \
    "more operations than a second may have are refused"
check_match '"over_quota":[1-9]' "$(owner stats access --format json)" "and counted"

# What others write is no operation of who watches.
over_quota() {
    owner stats access --format json | tr -d ' \n' | grep -o '"over_quota":[0-9]*' | tr '\n' ' '
}
put_until_seen() {
    owner put seen: 1 >/dev/null && [ -s "$common_dir/seen" ]
}
has_operations_left() {
    client_as "$busy_uid" get app:1 >/dev/null 2>&1
}
wait_until 20 has_operations_left
refused=$(over_quota)
: >"$common_dir/seen"
client_as "$busy_uid" watch seen: --limit 50 >"$common_dir/seen" 2>"$common_dir/seen.err" &
watcher=$!
wait_until 20 put_until_seen
for ((i = 0; i < 20000; i++)); do echo "put app:1 v"; done | owner batch - >/dev/null
for ((i = 0; i < 50; i++)); do echo "put seen: $i"; done | owner batch - >/dev/null
check_status 0 "others' writes do not end a watch" wait "$watcher"
check_equal 50 "$(wc -l <"$common_dir/seen")" "which sees what it asked for"
check_equal "$refused" "$(over_quota)" "nor count for its user"

# Sessions
sessions_of_reader() {
    [ "$(owner stats sessions --format json | grep -o "\"uid\":$reader_uid" | wc -l)" -ge "$1" ]
}
mkfifo "$common_dir/hold.1" "$common_dir/hold.2"
for i in 1 2; do
    as_uid "$reader_uid" "$MQKV_BUILD/clientk" -m "$server_queue" batch - \
        <"$common_dir/hold.$i" >"$common_dir/held.$i" 2>&1 &
    holders[i]=$!
done
exec 7>"$common_dir/hold.1" 8>"$common_dir/hold.2"
for ((i = 0; i < 64; i++)); do echo "get app:1"; done | tee /dev/fd/8 >&7
wait_until 20 sessions_of_reader 2
check_status 4 "sessions are limited by the section" reader get app:1
check_match "by the configuration file" "$errors" "and the refusal says so"
exec 7>&- 8>&-
wait "${holders[@]}"
check_status 0 "once they are gone there is room" reader get app:1

# SIGHUP: sessions that there are follow.
mkfifo "$common_dir/live" "$common_dir/answers"
client batch - <"$common_dir/live" >"$common_dir/answers" 2>/dev/null &
live=$!
exec 7>"$common_dir/live" 8<"$common_dir/answers"
ask() { # LINE...: the last answer that the session gets; batches are sent 64 lines at a time
    local line answer
    for ((line = 0; line < 64; line++)); do printf '%s\n' "$1"; done >&7
    for ((line = 0; line < 64; line++)); do read -r -t 30 answer <&8; done
    echo "$answer"
}
check_equal OK "$(ask 'put app:1 v')" "a session writes"
sed -i 's/^write = app: .*/write = new:\nread = app:/' "$config"
sed -i 's/^read = pub:/&\nmax-keys = 2x/' "$config"
kill -HUP "$server_pid"
wait_until 20 grep -q 'SIGHUP: nothing was changed: .*serverk.conf:5: .*2x' "$server_log"
check_equal OK "$(ask 'put app:1 v')" "a mistake in one section changes nothing, and is logged"
check_status 2 "config reload tells of it" owner config reload
check_match 'serverk.conf:5: ' "$errors" "with file and line"
sed -i 's/^max-keys = 2x/max-keys = 2/' "$config"
check_status 0 "without the mistake it is read" owner config reload
check_match '^ERROR denied' "$(ask 'put app:1 v')" "the session has its new rights"
check_equal v "$(ask 'get app:1')" "reads"
check_match '^ERROR denied' "$(ask 'get app')" "and no others"
check_equal OK "$(ask 'put new:1 v')" "and writes"
check_status 0 "up to the quota of its section" client put new:2 v
check_status 4 "and no further" client put new:3 v
check_match 'quota' "$errors" "which is told"
check_match '"name":"'"$good_uid"'"' "$(owner stats access --format json | tr -d ' \n')" \
    "stats have the quota of the user"
check_match "mqkv_quota_keys{of=\"user\",name=\"$good_uid\"} 2" "$(owner metrics)" \
    "and metrics"
sed -i "s/^\[user $good_uid\]/[user $stranger_uid]/" "$config"
kill -HUP "$server_pid"
wait_until 20 grep -q '1 sessions of users without a section have ended' "$server_log"
exec 7>&- 8<&-
wait "$live"
check_status 4 "a user without a section any more is out" client get app:1
check_status 0 "and one for whom there is one now is in" client_as "$stranger_uid" get app:1
stop_server

# Mistakes
mistake() { # EXPECTED LINE...; mistake_line: of the mistake, 2 unless it is given
    local expected=$1
    shift
    printf '%s\n' "$@" >"$common_dir/wrong.conf"
    check_status 2 "refused: $2" as_uid "$daemon_uid" "$MQKV_BUILD/serverk" \
        -c "$common_dir/wrong.conf" -f "$server_dir" --check
    check_match "wrong.conf:${mistake_line:-2}: .*$expected" "$errors" "with the line"
}
mistake_line=1 mistake "no user 'nobody-of-that-name'" '[user nobody-of-that-name]' 'read = a'
mistake_line=1 mistake "no group" '[group nobodies-of-that-name]' 'read = a'
mistake "unknown key 'reed'" '[others]' 'reed = a'
mistake "escapes" '[others]' 'read = \q'
mistake "not a number" '[others]' 'sessions = many'
mistake "not a size such as" '[quota a]' 'max-bytes = -1'
mistake "a quota has max-bytes" '[quota a]' 'read = x'
mistake "no 'write = PREFIX'" '[others]' 'max-keys = 1'
mistake "keys of all" '[others]' 'max-keys = 1' 'write = *'
mistake "can count once" '[others]' 'max-keys = 1' 'write = a' '[quota a]' 'max-keys = 1'
