#!/usr/bin/env bash
# serverk_sandbox: with the sandbox, which stats describes, the daemon does all that it does
# without; a crash leaves no values in a core file unless asked for.
. "$(dirname "$0")/lib.sh"
has_lab 'serverk_sandbox' || exit 0

# sandbox MEMBER: what stats says of it.
sandbox() {
    client --format json stats server | grep -oE '"sandbox":\{[^}]*\}' | grep -oE \
        "\"$1\":[^,}]*" | cut -d: -f2
}

daemon_status() {
    grep "^$1:" "/proc/$server_pid/status" | grep -oE '[0-9]+$'
}

# What this script has of it, as every program that it starts: in a container it may be more than 0.
own_status() {
    grep "^$1:" /proc/self/status | grep -oE '[0-9]+$'
}

# work TEXT: values of every kind of transport, a compaction, expiry and a scan; then a stop and a
# start from the checkpoint; nothing ends by a signal. The options of the daemon are in $options.
work() {
    local sum
    head -c 300000 /dev/urandom >"$MQKV_TEST_DIR/large"
    sum=$(md5sum <"$MQKV_TEST_DIR/large")
    client put large - <"$MQKV_TEST_DIR/large" >/dev/null
    check_equal "$sum" "$(client get large | md5sum)" "$1: large values"
    client bench -n 3 --mix put=80,get=15,scan=5 -L 4000 --keys 300 -c 2000 >/dev/null 2>&1
    client put short x --ttl 1s >/dev/null
    wait_until 60 compacted || not_ok "$1: a compaction" "$(client stats files)"
    check_status 0 "$1: a stop" stop_server
    # shellcheck disable=SC2086 # a list of options
    start_server $options
    check_equal "$sum" "$(client get large | md5sum)" "$1: a start from what the stop left"
    check_match '"from_checkpoint":true' "$(client --format json stats files)" \
        "$1: from the checkpoint"
    check_status 0 "$1: and a stop" stop_server
    rm -rf "$server_dir"
}

compacted() {
    client bench --mix put=100 -L 4000 --keys 300 -c 3000 >/dev/null 2>&1
    client --format json stats files | grep -qE '"sum":.*"compactions":[1-9]'
}

# What is on
start_server -v
if [ "${MQKV_VARIANT:-release}" != release ]; then
    check_equal false "$(sandbox syscall_filter)" \
        "a build with sanitizers has no sandbox, and says so"
    stop_server
    exit
fi
check_equal '"on"' "$(sandbox wanted)" "the sandbox is on if nothing is said"
check_equal 1 "$(daemon_status NoNewPrivs)" "no program can give it privileges"
check_equal true "$(sandbox no_new_privileges)" "and stats says so"
filtered=$(sandbox syscall_filter)
check_equal "$filtered" "$([ "$(daemon_status Seccomp)" = 2 ] && echo true || echo false)" \
    "stats says whether system calls are filtered"
check_match 'DEBUG sandbox: .*no core files' "$(cat "$server_log")" "the log tells what is on (-v)"
stop_server
start_server --sandbox off
check_equal '"off"' "$(sandbox wanted)" "it can be left out"
check_equal "$(own_status NoNewPrivs) $(own_status Seccomp) 0" \
    "$(daemon_status NoNewPrivs) $(daemon_status Seccomp) $(sandbox landlock_abi)" \
    "all of it"
check_equal false "$(sandbox syscall_filter)" "and stats says so"
stop_server
rm -rf "$server_dir"
check_status 2 "a word that is neither on nor off is refused" "$server_program" --sandbox maybe

# The daemon works
past_cache=()
has_direct_reads && past_cache=('-d 1 --io direct')
for options in '-d 1' '-d 1 --dispatch process --io pread' "${past_cache[@]}" \
    '-d 1 --dispatch thread --cache 1M --locking optimistic --sync always'; do
    # shellcheck disable=SC2086
    start_server $options
    work "in the sandbox with $options"
done

# A kernel that has none
options='-d 1'
printf '#!/bin/sh\nexec "%s" "%s" "$@"\n' "$MQKV_BUILD/tests/without_sandbox" \
    "$MQKV_BUILD/serverk" \
    >"$MQKV_TEST_DIR/old-kernel"
chmod 755 "$MQKV_TEST_DIR/old-kernel"
server_program=$MQKV_TEST_DIR/old-kernel
start_server -d 1
check_equal "false 0 false" \
    "$(sandbox syscall_filter) $(sandbox landlock_abi) $(sandbox files_confined)" \
    "where the kernel has neither Landlock nor filters, the daemon starts, and stats says so"
work "without a sandbox"

# Where the file system of queues is seen, opening files is confined too
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    mkdir "$MQKV_TEST_DIR/mqueue"
    # shellcheck disable=SC2016 # expanded by the inner shell
    printf '#!/bin/sh\nexec unshare --mount sh -c %s "%s" "%s" "$@"\n' \
        "'mount -t mqueue none \"\$0\" && exec \"\$@\"'" \
        "$MQKV_TEST_DIR/mqueue" "$MQKV_BUILD/serverk" >"$MQKV_TEST_DIR/mounted"
    chmod 755 "$MQKV_TEST_DIR/mounted"
    server_program=$MQKV_TEST_DIR/mounted
    options="-d 1 --pidfile $MQKV_TEST_DIR/pid"
    # shellcheck disable=SC2086
    start_server $options
    if [ "$(sandbox landlock_abi)" = 0 ]; then
        skip "confined to its directories: the kernel has no Landlock"
        stop_server
        rm -rf "$server_dir"
    else
        check_equal true "$(sandbox files_confined)" "with /dev/mqueue, opening files is confined"
        work "confined to its directories"
    fi
    check_equal no "$([ -e "$MQKV_TEST_DIR/pid" ] && echo yes || echo no)" "the pid file goes"
else
    skip "confined to its directories: only root can mount the queues"
fi
server_program=$MQKV_BUILD/serverk

# Core files
cd "$MQKV_TEST_DIR" || exit
mkdir cores && cd cores || exit
crash() {
    client put secret value >/dev/null
    kill -SEGV "$server_pid"
    wait_until 20 server_is_gone
    wait "$server_pid" 2>/dev/null
    killed_queues[$server_queue]=1
}
ulimit -c unlimited 2>/dev/null || true
if [ "$(ulimit -c)" != unlimited ] || [ "$(cat /proc/sys/kernel/core_pattern)" != core ]; then
    skip "core files: they are limited here, or go elsewhere"
else
    start_server
    crash
    check_equal "" "$(ls)" "a crash leaves no core file"
    start_server --core-dumps
    check_equal true "$(sandbox core_files)" "unless asked for, as stats says"
    crash
    check_match '^core' "$(ls)" "then it does"
    start_server
    stop_server
fi
