# histories.sh: what records histories shares, beside scenario/lib.sh: clients at work while the daemon
# is killed and started again.
# shellcheck shell=bash

# record_history KILLS LOAD... -- OPTION...: runs the load on a new store, whose daemon has these
# options, with that many kills; what it prints goes to $MQKV_TEST_DIR/load. Returns its status.
record_history() {
    local kills=$1 load=() pid status=0 i
    shift
    while [ "$1" != -- ]; do
        load+=("$1")
        shift
    done
    shift
    server_dir=$MQKV_TEST_DIR/store
    rm -rf "$server_dir"
    start_server "$@"
    "${load[@]}" >"$MQKV_TEST_DIR/load" 2>&1 &
    pid=$!
    for ((i = 0; i < kills; i++)); do
        sleep "0.0$((RANDOM % 90 + 10))"
        kill_server
        start_server "$@"
    done
    wait "$pid" || status=$?
    stop_server
    return "$status"
}
