# kresp.sh: what scenario scripts about kresp share; they source it behind lib.sh.
# shellcheck shell=bash
# shellcheck disable=SC2154,SC2034,SC2004 # variables of lib.sh

kresp_socket=$MQKV_TEST_DIR/kresp.sock
kresp_log= # of the one that was started last
kresp_pid=
redis_tests=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../redis")
kresp_program=$MQKV_BUILD/kresp
kresp_starts=0

kresp_listens_or_is_gone() {
    grep -q 'listens on' "$kresp_log" || ! kill -0 "$kresp_pid" 2>/dev/null
}

# start_kresp [OPTION...]: starts kresp in front of the daemon under test, and waits until it
# listens.
start_kresp() {
    kresp_log=$MQKV_TEST_DIR/kresp.$((++kresp_starts)).log
    : >"$kresp_log"
    server_logs[$kresp_log]=1 # searched for what sanitizers report
    "$kresp_program" -m "$server_queue" -s "$kresp_socket" "$@" </dev/null >>"$kresp_log" 2>&1 &
    kresp_pid=$!
    if ! wait_until "$start_timeout_s" kresp_listens_or_is_gone ||
        ! kill -0 "$kresp_pid" 2>/dev/null
    then
        not_ok "kresp starts $*" "$(tail -n 30 "$kresp_log")"
        exit 1
    fi
}

kresp_is_gone() {
    ! kill -0 "$kresp_pid" 2>/dev/null
}

# stop_kresp: asks it to stop (SIGTERM) and waits; returns its exit status.
stop_kresp() {
    if ! kill "$kresp_pid"; then
        tail -n 30 "$kresp_log"
        return 1
    fi
    if ! wait_until "$stop_timeout_s" kresp_is_gone; then
        not_ok "kresp stops within $stop_timeout_s s of the signal" "$(tail -n 30 "$kresp_log")"
        kill -9 "$kresp_pid"
    fi
    local status=0
    wait "$kresp_pid" 2>/dev/null || status=$?
    kresp_pid=
    return "$status"
}

# ask COMMAND...: sends each argument as a command, in one pipeline; prints the replies, a line
# each, as tests/redis/ask shows them.
ask() {
    printf '%s\n' "$@" | python3 "$redis_tests/ask" "$kresp_socket"
}

# install_once FOLDER NAME COMMAND...: has the command install into the folder, which lasts as long
# as the build; true if it is there, now or from an earlier run. What cannot be is skipped by name.
install_once() {
    local folder=$1 name=$2
    shift 2
    mkdir -p "$folder"
    [ -e "$folder/$name.installed" ] && return
    "$@" >"$folder/$name.log" 2>&1 </dev/null && : >"$folder/$name.installed" && return
    skip "$name: cannot be installed ($(tail -n 1 "$folder/$name.log"))"
    return 1
}
