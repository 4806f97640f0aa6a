#!/usr/bin/env bash
# serverk_start: whatever keeps the daemon from starting is said with its cause, its value and a
# remedy
. "$(dirname "$0")/lib.sh"

other_uid=54321
other_queue=${server_queue}y
mkdir -p "$server_dir" "$MQKV_TEST_DIR/first"

# refused STATUS PATTERN TEXT COMMAND...: the command fails with the status, says the pattern in one
# line of stderr, and leaves no queue.
refused() {
    local status=$1 pattern=$2 text=$3
    shift 3
    check_status "$status" "$text: exit status $status" timeout 20 "$@"
    check_match "$pattern" "$errors" "$text: the error says so"
    check_equal 1 "$(grep -c . <<<"$errors")" "$text: in one line"
}

serverk() {
    refused "$1" "$2" "$3" "$server_program" -m "$other_queue" "${@:4}"
}

# Arguments
serverk 2 "unknown.*--satellites" "an option of a later version" --satellites 2
serverk 2 "--workers: '0'.*from 1 to 256" "no workers" -w 0
if has_lab "dispatch models that do not go"; then
    serverk 2 "--dispatch: 'fork'.*pool, event, thread or process" "another dispatch" \
        --dispatch fork
    serverk 2 "--workers: '3'.*event" "workers of one thread" --dispatch event -w 3
else
    serverk 2 "unknown.*--dispatch" "a switch of the lab" --dispatch event
fi
serverk 2 "'surplus'" "a surplus argument" surplus

# Help: every option once, on three pages, by section; the manual has the same groups.
options_of_page() { # [PAGE]
    "$server_program" -h "$@" | sed -nE 's/^  (-.,|   ) --([a-z-]+).*/\2/p'
}
options_of_manual() { # TITLE
    awk -v title=".Ss $1" '
        /^\.S[sh] / { inside = $0 == title }
        inside && /^\.It / && depth == 1 {
            gsub(/ No = Ar [A-Z:]+ , Cm /, "\n")
            while (match($0, /(Fl [^-].* , |Fl |\n|^\.It Cm )-?[a-z][a-z-]+/)) {
                name = substr($0, RSTART, RLENGTH); $0 = substr($0, RSTART + RLENGTH)
                sub(/.*[ \n]-?/, "", name); print name
            }
        }
        /^\.Bl / { depth++ }
        /^\.El/ { depth-- }' "$library_dir/../../docs/serverk.1"
}
all=
for group in ":Options" "tuning:Options for tuning" "studies:Options for studies"; do
    # shellcheck disable=SC2086 # the first page has no name
    listed=$(options_of_page ${group%%:*})
    all+=$listed$'\n'
    lab_only='dispatch|sched-queue|service-time|locking|rwlock|allocator'
    has_lab "its options in the manual" >/dev/null && lab_only=none
    check_equal "$(options_of_manual "${group#*:}" | grep -vxE "$lab_only")" "$listed" \
        "-h ${group%%:*} lists what the manual has below ${group#*:}, in its order"
done
check_equal "" "$(sort <<<"$all" | uniq -d)" "each of them once"
known=$("$server_program" --check -m "$other_queue" -f "$MQKV_TEST_DIR/first" |
    sed -nE 's/^(; )?([a-z-]+) (= |is not set).*/\2/p')
check_equal "" "$(comm -23 <(sort <<<"$known") <(sort <<<"$all"))" "and none is left out"
check_equal "The store:" "$("$server_program" -h | grep -m 1 -E '^[A-Z].*:$')" "the store's first"
check_match "keep-changes-bytes SIZE
 +disk space" "$("$server_program" --help tuning)" "a label that is too long has a line of its own"
serverk 2 "'turning'.*tuning and studies" "a page that there is not" -h turning
check_status 0 "options behind -h are not looked at" "$server_program" -h --tuning

# Directories
serverk 4 "$MQKV_TEST_DIR/nowhere" "a directory that is not there" -f "$MQKV_TEST_DIR/nowhere"
touch "$MQKV_TEST_DIR/file"
serverk 4 "$MQKV_TEST_DIR/file: not a directory" "a directory that is a file" \
    -f "$MQKV_TEST_DIR/file"
refused 4 "^serverk: ./datafiles: no such directory; create it first, or name another: serverk -f" \
    "no directory" env -C "$MQKV_TEST_DIR" "$server_program" -m "$other_queue"
# shellcheck disable=SC2016 # expanded by the inner shell
refused 4 "name another: serverk -f" "the same for --check" \
    sh -c 'cd "$1" && exec "$2" -m "$3" --check >/dev/null' - "$MQKV_TEST_DIR" "$server_program" \
    "$other_queue"
serverk 4 "$MQKV_TEST_DIR/none/pid" "a pid file that cannot be written" \
    -f "$MQKV_TEST_DIR/first" --pidfile "$MQKV_TEST_DIR/none/pid"
check_equal "" "$("$library_dir/../leftovers" "$other_queue")" "and its queues are removed again"

# Limits
check_limit() {
    # shellcheck disable=SC2016 # expanded by the inner shell
    refused 4 "RLIMIT_MSGQUEUE" "too few bytes for queues" bash -c 'ulimit -q 500 && exec "$@"' - \
        "$server_program" -m "$other_queue" -f "$server_dir" "$@"
}
check_limit

# shellcheck disable=SC2016 # expanded by the inner shell
refused 4 "ulimit -n" "too few descriptors" bash -c 'ulimit -n 22 && exec "$@"' - \
    "$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/first"
if [ "$(id -u)" = 0 ]; then
    skip "too few threads: root may have more"
elif [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "too few threads: sanitizers want one of their own at the end"
else
    # shellcheck disable=SC2016 # expanded by the inner shell
    refused 4 "ulimit -u" "too few threads" bash -c 'ulimit -u 2 && exec "$@"' - \
        "$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/first"
fi

# Another daemon
without_effect=()
! has_lab "options without effect" || without_effect=(--allocator locked --sched-queue 5)
start_server -d 3 "${without_effect[@]}"
wait_until 20 grep -q ' ready: ' "$server_log" # it answers a little before
if [ ${#without_effect[@]} -gt 0 ]; then
    check_match 'WARN --sched-queue 5 has no effect' "$(cat "$server_log")" \
        "a bound of a queue that is not there is warned of"
    check_match 'WARN --allocator locked has no effect' "$(cat "$server_log")" \
        "an allocator without a cache is warned of"
fi
serverk 4 "$server_dir.*$server_pid|$server_pid.*$server_dir" "a directory that is in use" -f \
    "$server_dir"
mkdir "$MQKV_TEST_DIR/second"
refused 4 "$server_queue.*$server_pid" "a queue that is in use" \
    "$server_program" -m "$server_queue" -f "$MQKV_TEST_DIR/second"
refused 4 "$server_queue.*$server_pid" "--check of a queue that is in use" \
    "$server_program" -m "$server_queue" -f "$MQKV_TEST_DIR/second" --check
check_status 0 "the first daemon is not disturbed" client ping

# Other users
if [ "$(id -u)" = 0 ] && setpriv --reuid $other_uid --clear-groups true 2>/dev/null; then
    as_other=(setpriv --reuid "$other_uid" --regid "$other_uid" --clear-groups)
    chmod 711 "$MQKV_TEST_DIR"
    mkdir -m 777 "$MQKV_TEST_DIR/others"
    refused 4 "another user" "a queue that belongs to another user" \
        "${as_other[@]}" "$server_program" -m "$server_queue" -f "$MQKV_TEST_DIR/others"
    chmod 700 "$server_dir"
    refused 4 "$server_dir.*[Pp]ermission|[Pp]ermission.*$server_dir" \
        "a directory without permission" \
        "${as_other[@]}" "$server_program" -m "$other_queue" -f "$server_dir"
else
    skip "other users: only root can be one"
fi
stop_server

# Stores
serverk 4 "3 data files, not 5, .*: kvcheck --resize 5 --to OUT $server_dir" \
    "a store of another number of data files" -f "$server_dir" -d 5
check_status 0 "--check of a good store" "$server_program" -m "$other_queue" -f \
    "$server_dir" --check
check_match "3 data files" "$output" "and it tells the number of data files"
serverk 4 "5.*3|3.*5" "--check with another number" -f "$server_dir" -d 5 --check
# missing FILE: without it neither a start nor a check succeeds, and both say the same.
missing() {
    mv "$server_dir/$1" "$MQKV_TEST_DIR/gone"
    serverk 4 "$1.*missing.*kvcheck --salvage OUT $server_dir" "a start without $1" -f "$server_dir"
    local told=$errors
    serverk 4 "$1.*missing" "--check without $1" -f "$server_dir" --check
    check_equal "$told" "$errors" "says the same"
    mv "$MQKV_TEST_DIR/gone" "$server_dir/$1"
}
missing data.0000
missing data.0002
chmod 400 "$server_dir/data.0001"
if [ -w "$server_dir/data.0001" ]; then
    skip "--check of a file without permission to write: this user may"
else
    serverk 4 "data.0001.*Permission" "--check of a file that cannot be written to" -f \
        "$server_dir" --check
fi
chmod 600 "$server_dir/data.0001"
mkdir "$MQKV_TEST_DIR/empty"
check_status 0 "--check of an empty directory" "$server_program" -m "$other_queue" -f \
    "$MQKV_TEST_DIR/empty" --check
check_equal "" "$(ls -A "$MQKV_TEST_DIR/empty")" "and it creates nothing"
touch "$MQKV_TEST_DIR/empty/notes"
check_status 0 "--check of a directory with other files" \
    "$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/empty" --check
check_match "none yet; 4 data files" "$output" "and a store would be made there, as a start does"
check_limit --check
mkdir -m 555 "$MQKV_TEST_DIR/fixed"
if [ -w "$MQKV_TEST_DIR/fixed" ]; then
    skip "--check of a directory without permission to write: this user may"
else
    serverk 4 "$MQKV_TEST_DIR/fixed.*Permission" \
        "--check of a directory that cannot be written to" \
        -f "$MQKV_TEST_DIR/fixed" --check
fi

# A limit on the size of files is a full disk, not the end
mkdir "$MQKV_TEST_DIR/limited"
# shellcheck disable=SC2016 # expanded by the inner shell
refused 4 "$MQKV_TEST_DIR/limited.*too large" "a limit on the size of files" bash -c \
    'ulimit -f 10 && exec "$@"' - \
    "$server_program" -m "$other_queue" -f "$MQKV_TEST_DIR/limited"

# A log that nobody reads any more
mkfifo "$MQKV_TEST_DIR/log"
"$server_program" -v -m "$server_queue" -f "$MQKV_TEST_DIR/limited" >"$MQKV_TEST_DIR/log" 2>&1 &
server_pid=$!
head -n 1 "$MQKV_TEST_DIR/log" >/dev/null
check_status 0 "a daemon whose log nobody reads answers" client ping
check_status 0 "and goes on to" client ping
check_status 0 "and stops like any other" stop_server

# Started without standard descriptors, it gives their numbers to no data file.
"$server_program" -m "$server_queue" -f "$MQKV_TEST_DIR/limited" <&- >&- 2>&- &
server_pid=$!
wait_until "$start_timeout_s" server_answers_or_is_gone
check_equal "/dev/null /dev/null /dev/null" \
    "$(readlink "/proc/$server_pid"/fd/{0,1,2} | paste -s -d ' ')" \
    "closed standard descriptors are filled"
check_status 0 "and it stops like any other" stop_server

# A full disk
full=$MQKV_TEST_DIR/full
mkdir "$full"
if [ "$(id -u)" = 0 ] && unshare -m mount -t tmpfs -o size=16k none "$full" 2>/dev/null; then
    # shellcheck disable=SC2016 # expanded by the inner shell
    refused 4 "[Nn]o space|full" "a full disk" unshare -m sh -c \
        'mount -t tmpfs -o size=16k none "$1" && exec "$2" -m "$3" -f "$1"' - \
        "$full" "$server_program" "$other_queue"
else
    skip "a full disk: only root can mount one"
fi
