#!/usr/bin/env bash
# clientk_backup_rollback: a store that was put back to an earlier state, and goes on so that it
# looks like the one that was backed up: the next backup into the same directory has what it has.
. "$(dirname "$0")/lib.sh"
cd "$MQKV_TEST_DIR" || exit 2

long=$(printf '%05000d' 0) # more than what is compared of the bytes before the end

# history VALUE: two writes, of which the last is the same in each history.
history() {
    client put changed "$1" >/dev/null
    client put end "$long" >/dev/null
}

# new_bytes DIR: backs up to it, and how much of that was new.
new_bytes() {
    client backup "$1" 2>&1 | sed 's/.*, of which \(.*\) are new.*/\1/'
}

# check_backup NAME VALUE: that the backup is sound, and has the value and a key of the start.
check_backup() {
    check_status 0 "$1: the backup is sound" "$MQKV_BUILD/kvcheck" copy
    rm -rf restored
    check_status 0 'it is restored' client restore copy --to restored
    "$MQKV_BUILD/kvcheck" --dump restored >dump.txt 2>/dev/null
    check_match " $2\$" "$(grep ' live .* changed ' dump.txt)" 'with what the store has'
}

# put_back CUT: the store's files as they were, under the same inodes.
put_back() {
    local file
    for file in earlier/data.*; do
        case $1 in
        cut) cp "$file" "$server_dir/${file#*/}" ;;
        *) dd if="$file" of="$server_dir/${file#*/}" conv=notrunc status=none &&
            truncate -s "$(stat -c %s "$file")" "$server_dir/${file#*/}" ;;
        esac
    done
}

for way in stopped killed unlocked; do
    rm -rf "$server_dir" copy earlier
    start_server -d 1
    for key in a b c; do echo "PUT $key 1"; done | client batch -q -
    client sync >/dev/null
    # The state that it is put back to: after a clean stop, of a killed process, of a running one.
    case $way in
    stopped) stop_server ;;
    killed) kill_server ;;
    esac
    mkdir earlier && cp "$server_dir"/data.* earlier
    [ "$way" = unlocked ] || start_server
    history 100
    client backup copy 2>/dev/null
    check_backup "$way, before" 100
    case $way in
    stopped) stop_server ;;
    *) kill_server ;;
    esac
    put_back "$([ "$way" = stopped ] || echo cut)"
    start_server
    check_status 1 "$way: the store is back where it was" client get changed
    history 999
    new=$(new_bytes copy)
    check_equal "$(($(stat -c %s copy/data.0000) - 4096)) bytes" "$new" \
        'a file of the other history is copied whole'
    check_backup "$way, after" 999

    # Without a change of history the next one goes on from the last.
    stop_server
    start_server
    check_equal '0 bytes' "$(new_bytes copy)" "$way: after a clean restart nothing is new"
    client put changed 1000 >/dev/null
    kill_server
    start_server
    check_match '^[1-9][0-9]? bytes$' "$(new_bytes copy)" 'after kill -9 only what was written'
    check_backup "$way, at the end" 1000
    kill_server
done
