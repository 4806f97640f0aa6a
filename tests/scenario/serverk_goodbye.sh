#!/usr/bin/env bash
# serverk_goodbye: what a session sent before its BYE is executed, however requests reach the
# workers, and who says BYE is not counted as dead
. "$(dirname "$0")/lib.sh"
has_lab 'serverk_goodbye' || exit 0

session_facts() {
    client --format json stats sessions | tr -d ' \n' | grep -oE \
        "\"$1\":[0-9]+" | head -n 1 | tr -dc '0-9'
}

sessions=1000
for options in "" "--lanes shared -w 2" "--lanes shared -w 8" "--lanes worker -w 4" \
    "--lanes auto -w 4" \
    "--dispatch thread" "--dispatch process" "--sched cost -w 4" "--sched priority -w 4"; do
    rm -rf "$server_dir"
    # shellcheck disable=SC2086 # options are words
    start_server $options
    check_status 0 "${options:-default}: no PUT before a BYE is lost" \
        "$MQKV_BUILD/tests/goodbye" "$server_queue" "$sessions" stay
    check_status 0 "${options:-default}: nor if the process ends at once" \
        "$MQKV_BUILD/tests/goodbye" "$server_queue" 200 exit
    # Each goodbye has one session, its last, that ends without a BYE.
    check_equal 2 "$(session_facts died)" \
        "${options:-default}: whoever said BYE is not counted as dead"
    check_equal 1 "$(session_facts live)" \
        "${options:-default}: no session is left but the one that asks"
    stop_server
    check_equal 0 $? "${options:-default}: the daemon stops cleanly"
done

start_server
for _ in $(seq 60); do
    client ping >/dev/null
done
check_equal 0 "$(session_facts died)" "60 commands that end well are 60 BYEs"
