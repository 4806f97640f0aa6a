#!/usr/bin/env bash
# serverk_commit_log: with --sync always many clients share syncs of a commit log; a kill leaves it,
# kvcheck and a start take it into account, a clean stop removes it
. "$(dirname "$0")/lib.sh"

commit_log=$server_dir/commit.log
check_keys() { # TEXT
    check_equal 20 "$(for i in {1..20}; do client get "key$i"; done | grep -o value | wc -l)" "$1"
}

start_server -d 4 --sync always
check_equal 1 "$([ -e "$commit_log" ]; echo $?)" "no commit log without a need"
commit_some() {
    client bench -n 20 -t 0.3 --mix put=1 --keys 1000 >/dev/null && [ -e "$commit_log" ]
}
check_status 0 "twenty clients share syncs" wait_until 60 commit_some
check_equal 4194304 "$(stat -c %s "$commit_log")" "the log has its size from the start"
check_equal 600 "$(stat -c %a "$commit_log")" "and is its owner's"
for i in {1..20}; do echo "put key$i value$i"; done | client batch - >/dev/null
kill_server
check_equal 0 "$([ -e "$commit_log" ]; echo $?)" "a kill leaves it"
check_status 0 "kvcheck finds the store sound" "$MQKV_BUILD/kvcheck" "$server_dir"

start_server --sync none
check_keys "everything is found"
check_equal 1 "$([ -e "$commit_log" ]; echo $?)" "the start has removed it"
stop_server

start_server --sync always
check_status 0 "it is made again" wait_until 60 commit_some
stop_server
check_equal 1 "$([ -e "$commit_log" ]; echo $?)" "a clean stop removes it"
ln -s data.0000 "$commit_log"
check_status 4 "nothing else is taken for it" \
    "$MQKV_BUILD/serverk" -m "$server_queue" -f "$server_dir"
check_match "commit\.log: cannot read the file, which may hold the last writes" "$errors" \
    "and the error names it"
rm "$commit_log"
start_server
check_keys "without it the store opens"
stop_server
