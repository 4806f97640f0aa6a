# lib.sh: what tests of hostile neighbours share; they begin with
#
#     #!/usr/bin/env bash
#     # name: what is shown to hold (one sentence)
#     . "$(dirname "$0")/lib.sh"
#     need_root
#
# It is tests/scenario/lib.sh with real users: the daemon, a good client and an attacker have a uid
# each, counted from MQKV_TEST_UIDS (default 40000). `client` is the good client. What other uids
# shall read or write belongs into $common_dir, which all may enter; $MQKV_TEST_DIR is root's alone.
#
#     need_root
#     start_server_as "$daemon_uid" --mode 0622
#     attack_as "$hostile_uid" "$MQKV_BUILD/tests/my_attack" "$server_queue"
#     check_status 0 "the good client is served" client ping
#     end_attacks
#
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../scenario/lib.sh"

uid_base=${MQKV_TEST_UIDS:-40000}
daemon_uid=$((uid_base + 1))
good_uid=$((uid_base + 2))
# shellcheck disable=SC2034 # for the tests
hostile_uid=$((uid_base + 3))
# More users of a test: uid_base + 4 .. uid_base + 99.

common_dir=
attack_pids=()
attack='' python='' # of python_attack
hostile_pairs=${HOSTILE_PAIRS:-3}           # of runs alone and under attack
hostile_run_s=${HOSTILE_RUN_SECONDS:-0.7}   # of each
good_ops_per_s=0 good_max_us=0 good_errors=0 # of the last good_bench

# Users --------------------------------------------------------------------------------------------

# need_root: ends the script, skipped by name, where no other users can be had. Makes $common_dir,
# and copies there what other users cannot reach where it is.
need_root() {
    if [ "$(id -u)" != 0 ] ||
        ! setpriv --reuid="$daemon_uid" --regid="$daemon_uid" --clear-groups true 2>/dev/null
    then
        skip "$(basename "$0" .sh): real users need root and setpriv"
        exit 0
    fi
    common_dir=$(mktemp -d /tmp/mqkv-hostile.XXXXXX) || exit 2
    chmod 711 "$common_dir"
    if ! as_uid "$daemon_uid" test -x "$MQKV_BUILD/serverk" -a -x "$MQKV_BUILD/clientk"; then
        copy_build
    fi
    server_dir=$common_dir/data
}

copy_build() {
    mkdir "$common_dir/build" "$common_dir/build/tests"
    cp "$MQKV_BUILD"/{serverk,clientk,kvcheck,kresp,libclientk.so*} "$common_dir/build"
    find "$MQKV_BUILD/tests" -maxdepth 1 -type f -executable ! -name 'unit_*' \
        -exec cp -t "$common_dir/build/tests" {} +
    chmod -R a+rX "$common_dir/build"
    MQKV_BUILD=$common_dir/build
}

# reachable FILE: prints a path under which every user can read (and execute) it.
reachable() {
    if as_uid "$hostile_uid" test -r "$1"; then
        realpath "$1"
    else
        cp "$1" "$common_dir/" && chmod a+rX "$common_dir/$(basename "$1")"
        echo "$common_dir/$(basename "$1")"
    fi
}

# as_uid UID[:GID] COMMAND...: as that user, without groups or capabilities. GID is UID if not
# named.
as_uid() {
    (exec_as_uid "$@")
}

# exec_as_uid UID[:GID] COMMAND...: for the background, where $! shall be the process of COMMAND.
exec_as_uid() {
    local uid=${1%%:*} gid=${1##*:}
    shift
    exec setpriv --reuid="$uid" --regid="$gid" --clear-groups "$@"
}

# as_uid_with CAPABILITIES UID[:GID] COMMAND...: the same with capabilities:
# "+sys_resource,+ipc_lock".
as_uid_with() {
    local capabilities=$1 uid=${2%%:*} gid=${2##*:}
    shift 2
    setpriv --reuid="$uid" --regid="$gid" --clear-groups --inh-caps="$capabilities" \
        --ambient-caps="$capabilities" "$@"
}

# The daemon and the good client -------------------------------------------------------------------

# start_server_as UID [OPTION...]: start_server as that user, on its own $server_dir. For other
# users to be let in: --mode 0622.
start_server_as() {
    local uid=$1
    shift
    mkdir -p "$server_dir"
    chown -R "$uid:$uid" "$server_dir"
    chmod 700 "$server_dir"
    server_program=$common_dir/serverk-as-$uid
    printf '#!/bin/sh\nexec setpriv --reuid=%s --regid=%s --clear-groups "%s" "$@"\n' \
        "$uid" "$uid" "$MQKV_BUILD/serverk" >"$server_program"
    chmod 755 "$server_program"
    start_server "$@"
}

# client ARGUMENT...: the good client.
client() {
    client_as "$good_uid" "$@"
}

# client_as UID[:GID] ARGUMENT...
client_as() {
    local uid=$1
    shift
    as_uid "$uid" "$MQKV_BUILD/clientk" -m "$server_queue" "$@"
}

# good_bench [BENCH-OPTION...]: the good client works for $hostile_run_s; its figures are then in
# good_ops_per_s, good_max_us and good_errors. A run that ends without figures counts as one error.
good_bench() {
    local line
    line=$(client --timeout 10000 --format csv \
        bench -t "$hostile_run_s" "$@" 2>"$MQKV_TEST_DIR/.bench" |
        tail -n 1)
    IFS=, read -r good_ops_per_s good_max_us good_errors < <(
        awk -F, 'NF > 20 && $13 ~ /^[0-9]+$/ {
                print int($15) "," int($21) "," $22 + $24; found = 1
            }
            END { if (!found) print "0,0,1" }' <<<"$line")
    [ "$good_errors" = 0 ] || sed 's/^/# bench: /' "$MQKV_TEST_DIR/.bench"
}

# Attacks ------------------------------------------------------------------------------------------

# attack_as UID[:GID] COMMAND...: starts it in the background, in a process group of its own, until
# end_attacks. What it prints is in $MQKV_TEST_DIR/attack.log. Its pid is then $attack_pid.
attack_as() {
    local user=$1
    shift
    setsid setpriv --reuid="${user%%:*}" --regid="${user##*:}" --clear-groups "$@" \
        </dev/null >>"$MQKV_TEST_DIR/attack.log" 2>&1 &
    attack_pid=$!
    attack_pids+=("$attack_pid")
}

# end_attacks: kill -9 of all that attack_as started, and of what these started.
end_attacks() {
    local pid
    for pid in "${attack_pids[@]}"; do
        kill -9 -- "-$pid" 2>/dev/null || kill -9 "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    attack_pids=()
}

# python_attack NAME: writes the program on stdin, in Python, where every user can read it: $python "$attack" runs it.
# It may import mqkv, the independent client (tests/independent).
python_attack() {
    local independent
    independent=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../independent")
    PYTHONPATH=$(dirname "$(reachable "$independent/mqkv.py")")
    if [ "$PYTHONPATH" != "$independent" ]; then
        cp "$independent"/*.py "$PYTHONPATH" && chmod a+r "$PYTHONPATH"/*.py
    fi
    export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
    python=/usr/bin/python3 # one that every user may run
    [ -x "$python" ] || python=$(command -v python3)
    attack=$common_dir/$1.py
    cat >"$attack"
    chmod a+r "$attack"
}

median() {
    sort -g | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# keeps_a_quarter TEXT ATTACK [BENCH-OPTION...]: runs of the good client alone and under attack, in
# turn. ATTACK is a function that starts the attack with attack_as and returns. Checks: the median
# of the ratios is at least a quarter; no operation fails; none waits more than a second longer than
# the longest one did alone. The machine may be busy with something else during a few pairs: so
# below a quarter there are up to two more rounds of pairs, and all pairs together are judged.
keeps_a_quarter() {
    local text=$1 attack=$2 ratios='' errors=0 alone_max_us=0 max_us=0 ratio round
    shift 2
    # shellcheck disable=SC2034 # counted only
    for round in 1 2 3; do
        run_pairs "$attack" "$@"
        ratio=$(tr ' ' '\n' <<<"${ratios% }" | median)
        awk -v ratio="$ratio" 'BEGIN { exit !(ratio >= 0.25) }' && break
    done
    check_at_least 0.25 "$ratio" "$text: a quarter of the throughput stays (${ratios% })"
    check_equal 0 "$errors" "$text: no operation fails"
    check_at_most $((1000000 + alone_max_us)) "$max_us" "$text: none waits more than a second"
}

# run_pairs ATTACK [BENCH-OPTION...]: one round of keeps_a_quarter, into its variables.
run_pairs() {
    local attack=$1 pair alone_ops
    shift
    for ((pair = 0; pair < hostile_pairs; pair++)); do
        good_bench "$@"
        alone_ops=$good_ops_per_s
        errors=$((errors + good_errors))
        [ "$good_max_us" -le "$alone_max_us" ] || alone_max_us=$good_max_us
        "$attack"
        sleep 0.2
        good_bench "$@"
        end_attacks
        errors=$((errors + good_errors))
        [ "$good_max_us" -le "$max_us" ] || max_us=$good_max_us
        ratio=$(awk -v a="$alone_ops" -v b="$good_ops_per_s" \
            'BEGIN { printf "%.3f", (a > 0 ? b / a : 0) }')
        ratios+="$ratio "
        echo "# $alone_ops/s alone, $good_ops_per_s/s under attack: $ratio; longest $good_max_us us"
    done
}

# check_at_least LEAST VALUE TEXT, check_at_most MOST VALUE TEXT
check_at_least() {
    check_bound 'at least' "$@"
}
check_at_most() {
    check_bound 'at most' "$@"
}

# check_bound 'at least'|'at most' BOUND VALUE TEXT
check_bound() {
    local relation=$1 bound=$2 value=$3 text=$4
    if awk -v relation="$relation" -v bound="$bound" -v value="$value" \
        'BEGIN { exit !(relation == "at least" ? value + 0 >= bound + 0 : value + 0 <= bound + 0) }'; then
        ok "$text"
    else
        not_ok "$text" "$relation: $bound
got:      $value"
    fi
}

# The end ------------------------------------------------------------------------------------------

finish_attacks() {
    local status=$?
    end_attacks
    (exit "$status")
    finish
}
trap finish_attacks EXIT
