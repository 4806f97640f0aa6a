# lib.sh: what scenario scripts share; they begin with
#
#     #!/usr/bin/env bash
#     # name: what is shown to hold (one sentence)
#     . "$(dirname "$0")/lib.sh"
#
# and use the functions below. tests/run gives MQKV_BUILD, MQKV_TEST_DIR and MQKV_TEST_QUEUE; by
# hand (tests/scenario/x.sh) they get defaults. When the script ends, by whatever way, the daemons
# it started are stopped, their logs searched for what sanitizers report, and its queues removed; it
# exits 1 if any check failed.
#
# The daemon under test is described by these variables, which a script may set before start_server
# to have a second one beside: server_program, server_queue, server_dir, server_log; server_pid is
# that of the one started last.
# shellcheck shell=bash
set -u -o pipefail
# Whoever runs the tests: files have the modes, and programs speak the language, that they expect.
umask 022
export LC_ALL=C.UTF-8
unset LANGUAGE

if [ -z "${MQKV_TEST_DIR:-}" ]; then
    MQKV_TEST_DIR=$(mktemp -d "${TMPDIR:-/tmp}/mqkv-test.XXXXXX") || exit 2
    remove_test_dir=yes
fi
export MQKV_TEST_DIR MQKV_TEST_QUEUE=${MQKV_TEST_QUEUE:-/t$$x0} MQKV_BUILD=${MQKV_BUILD:-build}
MQKV_BUILD=$(realpath "$MQKV_BUILD") || exit 2
library_dir=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
# shellcheck source=tests/counted_time
. "$library_dir/../counted_time"

server_program=$MQKV_BUILD/serverk
server_queue=$MQKV_TEST_QUEUE
server_dir=$MQKV_TEST_DIR/data
server_log=$MQKV_TEST_DIR/serverk.log
server_pid=
start_timeout_s=${MQKV_START_TIMEOUT:-30}
stop_timeout_s=${MQKV_STOP_TIMEOUT:-60}
failed_checks=0

# Checks -------------------------------------------------------------------------------------------

ok() {
    echo "ok - $1"
}

# not_ok TEXT [DETAIL]: details are printed indented below.
not_ok() {
    echo "not ok - $1"
    [ $# -lt 2 ] || printf '%s\n' "$2" | sed 's/^/    /'
    failed_checks=$((failed_checks + 1))
}

skip() {
    echo "skip - $1"
}

# has_lab WHAT: was the daemon built with the lab (make LAB=no builds without)? If not, skips WHAT.
has_lab() {
    [[ $("$server_program" --help studies) != *--dispatch* ]] || return 0
    skip "$1: the daemon was built without the lab"
    return 1
}

# Can files of the tests' directory be read past the page cache (serverk --io direct)?
has_direct_reads() {
    local file=$MQKV_TEST_DIR/direct-reads status
    head -c 4096 /dev/zero >"$file"
    dd if="$file" of=/dev/null bs=4096 iflag=direct 2>/dev/null
    status=$?
    rm -f "$file"
    return $status
}

# check_equal EXPECTED ACTUAL TEXT
check_equal() {
    if [ "$1" = "$2" ]; then
        ok "$3"
    else
        not_ok "$3" "expected: $1
got:      $2"
    fi
}

# check_match PATTERN ACTUAL TEXT: an extended regular expression somewhere in ACTUAL.
check_match() {
    if grep -qE -- "$1" <<<"$2"; then
        ok "$3"
    else
        not_ok "$3" "expected: $1
got:      $2"
    fi
}

# check_status STATUS TEXT COMMAND...: runs it and checks the exit status. What it prints is kept
# in $output (stdout) and $errors (stderr).
check_status() {
    local expected=$1 text=$2 status
    shift 2
    "$@" >"$MQKV_TEST_DIR/.output" 2>"$MQKV_TEST_DIR/.errors"
    status=$?
    output=$(tr -d '\0' <"$MQKV_TEST_DIR/.output")
    errors=$(tr -d '\0' <"$MQKV_TEST_DIR/.errors")
    if [ "$status" = "$expected" ]; then
        ok "$text"
    else
        not_ok "$text" "expected exit status $expected, got $status from: $*
$output
$errors"
    fi
}

# bash calls this for a command that is not there: a function whose name was mistyped would pass for
# a command that failed. (Functions of these scripts have an underscore; a program of the system that
# is not installed has none, and is the script's business.)
command_not_found_handle() {
    [[ $1 != *_* ]] || echo "$1" >>"$MQKV_TEST_DIR/.unknown_functions"
    echo "bash: $1: command not found" >&2
    return 127
}

# wait_until SECONDS COMMAND...: true as soon as the command succeeds; the seconds are those of
# tests/counted_time.
wait_until() {
    local limit_ms=$((1000 * $1)) counted_ms counted_at_us
    shift
    begin_counting
    until "$@"; do
        count_time
        [ "$counted_ms" -lt "$limit_ms" ] || return 1
        sleep 0.05
    done
}

stands_still() { # PID
    ! grep -h '^State:' "/proc/$1"/task/*/status | grep -qv 'T (stopped)'
}

# hold_still PID...: SIGSTOP, and waits until each thread stands still: the signal comes to them one
# after the other, and on a busy machine those that are still to get it go on for a while.
hold_still() {
    local pid
    kill -STOP "$@" || return
    for pid in "$@"; do
        wait_until 20 stands_still "$pid" || return
    done
}

# The daemon ---------------------------------------------------------------------------------------

declare -A server_logs=()   # of all daemons started
declare -A killed_queues=() # whose daemon was killed and not started again: its queues stay

# client ARGUMENT...: clientk on the queue of the daemon under test.
client() {
    "$MQKV_BUILD/clientk" -m "$server_queue" "$@"
}

# exec_client ARGUMENT...: the same for the background: `exec_client ... &` makes $! the process of
# clientk; with client it would be a shell around it, and a signal would not reach clientk.
exec_client() {
    exec "$MQKV_BUILD/clientk" -m "$server_queue" "$@"
}

# stuff_pipe PIPE: opens the FIFO in the background, with the pid in pipe_reader, and makes the file
# "full" when it is; it never reads.
stuff_pipe() {
    python3 -c '
import fcntl, os, struct, sys, termios, time
lines = os.open(sys.argv[1], os.O_RDONLY)
while struct.unpack("i", fcntl.ioctl(lines, termios.FIONREAD, bytes(4)))[0] < 60000:
    time.sleep(0.01)
open("full", "w").close()
time.sleep(600)' "$1" &
    # shellcheck disable=SC2034  # for the tests
    pipe_reader=$!
}

server_answers_or_is_gone() {
    client --timeout 500 ping >/dev/null 2>&1 || ! kill -0 "$server_pid" 2>/dev/null
}

# launch_server OPTIONS COMMAND...: runs the command, which is serverk with these options beside those
# that it always has, and waits until it answers. If it does not, that is a failed check, and the
# script ends.
launch_server() {
    local told=$1
    shift
    server_logs[$server_log]=1
    unset "killed_queues[$server_queue]"
    "$@" </dev/null >>"$server_log" 2>&1 &
    server_pid=$!
    if ! wait_until "$start_timeout_s" server_answers_or_is_gone || ! kill -0 \
        "$server_pid" 2>/dev/null
    then
        not_ok "serverk starts $told" "$(tail -n 30 "$server_log")"
        exit 1
    fi
}

# start_server [OPTION...]: starts serverk with these options.
start_server() {
    mkdir -p "$server_dir"
    launch_server "$*" "$server_program" -m "$server_queue" -f "$server_dir" "$@"
}

server_is_gone() {
    ! kill -0 "$server_pid" 2>/dev/null
}

# stop_server: asks it to stop (SIGTERM) and waits; returns its exit status.
stop_server() {
    kill "$server_pid" || return
    if ! wait_until "$stop_timeout_s" server_is_gone; then
        not_ok "serverk stops within $stop_timeout_s s of the signal" "$(tail -n 30 "$server_log")"
        kill -9 "$server_pid"
    fi
    local status=0
    wait "$server_pid" 2>/dev/null || status=$?
    server_pid=
    return "$status"
}

# kill_server: kill -9.
kill_server() {
    kill -9 "$server_pid"
    wait "$server_pid" 2>/dev/null
    server_pid=
    killed_queues[$server_queue]=1
}

# restart_server [OPTION...]: stops it and starts it again with these options.
restart_server() {
    stop_server
    start_server "$@"
}

# The end ------------------------------------------------------------------------------------------

check_sanitizer_reports() {
    local log reports
    for log in "${!server_logs[@]}"; do
        reports=$(grep -E -A 30 \
            'ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|runtime error:' \
            "$log" 2>/dev/null) || continue
        not_ok "serverk gives the sanitizers nothing to report" "$reports"
    done
}

# Queues and segments go with the daemon, unless it was killed.
check_leftovers() {
    local left
    left=$("$library_dir/../leftovers" --remove "$MQKV_TEST_QUEUE")
    [ -z "$left" ] || [ "${#killed_queues[@]}" -gt 0 ] || not_ok "no queue or segment is left" \
        "$left"
}

check_functions() {
    local unknown=$MQKV_TEST_DIR/.unknown_functions
    [ ! -e "$unknown" ] || not_ok "the script calls no function that is not there" "$(<"$unknown")"
}

finish() {
    local status=$? pid
    trap - EXIT INT TERM HUP PIPE
    for pid in $(jobs -p); do
        kill "$pid" 2>/dev/null
    done
    for pid in $(jobs -p); do
        wait_until 10 eval "! kill -0 $pid 2>/dev/null" || kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    check_sanitizer_reports
    check_leftovers
    check_functions
    if [ "$failed_checks" -gt 0 ] && [ -s "$server_log" ]; then
        echo "# the end of $server_log:"
        tail -n 20 "$server_log" | sed 's/^/#   /'
    fi
    [ "${remove_test_dir:-}" != yes ] || rm -rf "$MQKV_TEST_DIR"
    [ -z "${common_dir:-}" ] || rm -rf "$common_dir" # of tests/hostile/lib.sh
    [ "$failed_checks" = 0 ] || status=1
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP PIPE

# `make check-nats` runs some scenarios with the data in a cluster.
# shellcheck source=../nats/engine.sh
[ -z "${MQKV_TEST_ENGINE:-}" ] || . "$library_dir/../nats/engine.sh"
