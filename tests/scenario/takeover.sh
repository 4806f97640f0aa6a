#!/usr/bin/env bash
# takeover: a program that writes to a store, killed at any instruction: the index that it leaves is
# taken over, and is what the logs say (tests/crash/takeover_kills.c). make crash-test does it for
# longer.
# long: kills at many instructions
. "$(dirname "$0")/lib.sh"

mkdir "$MQKV_TEST_DIR/stores"
status=0
"$MQKV_BUILD/tests/takeover_kills" "$MQKV_TEST_DIR/stores" "${TAKEOVER_KILLS:-60}" \
    "${TAKEOVER_SEED:-1}" || status=$?
check_equal 0 "$status" "what is taken over is what the logs say, and nothing is left of it"

# What the log says of it
renewed() { # FILE...: is the same, but not the file that the index is of
    local file
    for file; do
        cp -p "$file" "$MQKV_TEST_DIR/renewed"
        mv "$MQKV_TEST_DIR/renewed" "$file"
    done
}

log_says() { # PATTERN TEXT [FILE...]: after a kill and with those files renewed
    client put name Ada >/dev/null
    kill_server
    : >"$server_log"
    renewed "${@:3}"
    start_server --sync none
    check_match "$1" "$(grep 'was killed' "$server_log")" "the log says: $2"
    check_equal Ada "$(client get name)" 'and all is there'
}

start_server --sync none -d 4
log_says 'was killed and left its index, which is taken over$' 'all is taken over'
log_says '3 of 4 data files are taken over, the others are read$' 'one is not' \
    "$server_dir/data.0002"
log_says 'which is in doubt: every data file is read instead$' 'none is' "$server_dir"/data.*
stop_server
