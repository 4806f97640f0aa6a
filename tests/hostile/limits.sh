#!/usr/bin/env bash
# limits: with every limit of the process small, and the disk, /dev/shm or the queues' budget full
# at every step, a start is refused with a sentence or the daemon works: no crash, no hang, nothing
# left, nothing lost; names that others took are refused by name.
#
#     LIMITS_LONG=1 tests/hostile/limits.sh    many more values, some minutes
. "$(dirname "$0")/lib.sh"
if [ -z "${LIMITS_NAMESPACE:-}" ] && [ \
    "$(id -u)" = 0 ] && unshare --mount --ipc true 2>/dev/null; then
    export LIMITS_NAMESPACE=1
    exec unshare --mount --ipc --propagation private "$0"
fi
need_root
if [ -z "${LIMITS_NAMESPACE:-}" ]; then
    skip "limits: no mount namespaces here"
    exit
fi
if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "limits: the sanitizers need more than small limits give"
    exit
fi

server_log=$common_dir/log
pidfile=$common_dir/run/pid
mkdir "$common_dir/run" "$common_dir/mqueue"
chown "$daemon_uid" "$common_dir/run"
mount -t mqueue none "$common_dir/mqueue" || exit 2
trap 'umount "$common_dir/mqueue"; finish_attacks' EXIT
values=$common_dir/values
mkdir "$values"
head -c 700000 /dev/urandom >"$values/large"
head -c 4000 /dev/urandom >"$values/small"
long=${LIMITS_LONG:-}
operations=3000 # of work

# owner ARGUMENT...: a client of the daemon's own user.
owner() {
    as_uid "$daemon_uid" timeout -k 1 30 "$MQKV_BUILD/clientk" -m "$server_queue" --timeout 5000 \
        "$@"
}

left_behind() {
    find "$common_dir/mqueue" /dev/shm "$common_dir/run" -mindepth 1 \
        \( -name "${server_queue#/}" -o -name "${server_queue#/}.*" -o -name pid \) -printf '%p '
}

fresh_directory() {
    rm -rf "$server_dir"
    mkdir -p "$server_dir"
    chown "$daemon_uid:$daemon_uid" "$server_dir"
}

# start_limited [PRLIMIT-OPTION...] -- [OPTION...]: starts the daemon with these limits; served=yes
# if it answers, no if it has ended, hung if neither. Its log goes through a pipe: a limit on files
# is not for that.
start_limited() {
    local limits=() end=$((SECONDS + 20))
    while [ "$1" != -- ]; do
        limits+=("$1")
        shift
    done
    shift
    rm -f "$server_log"
    exec_as_uid "$daemon_uid" prlimit "${limits[@]}" -- "$MQKV_BUILD/serverk" -m "$server_queue" \
        -f "$server_dir" --pidfile "$pidfile" "$@" </dev/null 2> >(cat >"$server_log") &
    server_pid=$!
    served=hung
    while [ "$SECONDS" -lt "$end" ]; do
        if owner --timeout 500 ping >/dev/null 2>&1; then
            served=yes
            return
        elif server_is_gone; then
            served=no
            wait_until 5 test -s "$server_log"
            return
        fi
        sleep 0.03
    done
}

# end_limited: stops the daemon, if it serves; its exit status, 124 if it does not end, in $ended.
end_limited() {
    kill "$server_pid" 2>/dev/null
    wait_until 20 server_is_gone || { kill -9 "$server_pid" && ended=124 && return; }
    wait "$server_pid" 2>/dev/null
    ended=$?
    server_pid=
}

# work: values small and large, overwritten until logs are compacted. Sets $trouble to what took too
# long, or failed without being told that there is no room.
work() {
    local status step
    trouble=
    for step in "put a -" "put large -" "get a" "scan" "stats" \
        "bench -n 4 -L 4000 --keys 200 -c $operations"; do
        # shellcheck disable=SC2086 # words
        owner $step <"$values/$([ "$step" = "put large -" ] && echo large || echo small)" \
            >"$MQKV_TEST_DIR/step" 2>&1
        status=$?
        [ $status = 0 ] || { [ $status = 4 ] && grep -qE 'no space|no_space|memory' \
            "$MQKV_TEST_DIR/step"; } ||
            { [ $status = 1 ] && [ "$step" = "get a" ]; } ||
            trouble+="$step: $status $(tail -n 1 "$MQKV_TEST_DIR/step"); "
    done
}

# judge TEXT: one check of what start_limited did and work found.
judge() {
    local fault=
    case $served in
    yes)
        work
        # The first worker can have answered before another could not be started.
        if server_is_gone; then
            served=no
            judge "$1"
            return
        fi
        end_limited
        fault=$trouble
        [ "$ended" = 0 ] || { [ "$ended" = 4 ] && grep -qE \
            'ERROR .*(descriptor|space|large|open files)' "$server_log"; } ||
            fault+="ended with $ended"
        ;;
    no)
        end_limited
        # 127: the limit is too small for the loader of programs
        [ "$ended" = 127 ] || { [ "$ended" = 4 ] && grep -q '^serverk: ' "$server_log"; } ||
            fault="the start ended with $ended"
        ;;
    hung)
        end_limited
        fault="neither served nor ended"
        ;;
    esac
    [ -z "$(left_behind)" ] || fault+=" left behind: $(left_behind)"
    rm -f "$common_dir/mqueue/${server_queue#/}"* "/dev/shm/${server_queue#/}"* "$pidfile"
    if [ -z "$fault" ]; then
        ok "$1: $([ $served = yes ] || tail -n 1 "$server_log" | cut -c 1-100)"
    else
        not_ok "$1" "$fault
$(tail -n 5 "$server_log")"
    fi
}

# limited NAME UNIT VALUE...: a start with each value of the limit.
limited() {
    local name=$1 unit=$2 value
    shift 2
    for value in "$@"; do
        fresh_directory
        start_limited "--$name=$((value * unit)):$((value * unit))" -- -d 2
        judge "$name $value"
    done
}

# Limits of the process ----------------------------------------------------------------------------

if [ -n "$long" ]; then
    # shellcheck disable=SC2046
    {
        limited nofile 1 $(seq 3 45)
        limited nproc 1 $(seq 0 9)
        limited msgqueue 1 0 97 98 1000 1217 1218 9000 9504 12000 $(seq 20000 20000 300000)
        limited fsize 1 0 1 4095 4096 8192 65535 65536 65537 131072 300000 1000000
        limited stack 1024 32 48 64 100 128 200 255 256 512 1024
        limited as 1048576 $(seq 6 8 100) $(seq 120 60 1200)
        limited data 1048576 1 2 4 8 12 16 20 24 28 32 48 64
    }
else
    limited nofile 1 3 8 20 27 31 40
    limited nproc 1 0 3 6
    limited msgqueue 1 0 1000 12000
    limited fsize 1 4096 300000
    limited stack 1024 32 64 256 # with 24 the loader of programs crashes now and then
    limited as 1048576 20 200 700
    limited data 1048576 4 16
fi
limited memlock 1 0
limited sigpending 1 0
fresh_directory
start_limited --nofile=12:200 --stack=32768:8388608 -- -d 2
check_equal yes "$served" "limits that may be raised are"
judge "and the daemon works"

# Names that others took ---------------------------------------------------------------------------

# taken QUEUE...: queues of another user's.
taken() {
    as_uid "$hostile_uid" env PATH=/usr/bin:/bin python3 -c '
import ctypes, sys
smallest = (ctypes.c_long * 8)(0, 1, 1, 0)
for name in sys.argv[1:]:
    if ctypes.CDLL("librt.so.1").mq_open(name.encode(), 0o102, 0o600, smallest) < 0:
        sys.exit(1)' "$@"
}

for suffix in '' .lock; do
    fresh_directory
    taken "$server_queue$suffix" || not_ok "another user takes $suffix"
    start_limited --
    check_equal no "$served" "a queue of another user with the name NAME$suffix: no start"
    check_match "message queue $server_queue$suffix .*belongs to another user" \
        "$(cat "$server_log")" "which names it"
    end_limited
    check_equal 4 "$ended" "and ends with 4"
    as_uid "$daemon_uid" "$MQKV_BUILD/serverk" --check -m "$server_queue" -f \
        "$server_dir" >"$server_log" 2>&1
    check_equal 4 $? "--check says the same"
    check_match "message queue $server_queue$suffix .*belongs to another user" \
        "$(cat "$server_log")" "and names it"
    rm -f "$common_dir/mqueue/${server_queue#/}"*
done

# served_beside TEXT SUFFIX...: a start beside queues of another user with these names; each is told
# in the log.
served_beside() {
    local text=$1 suffix
    shift
    start_limited -- --mode 0622
    check_equal yes "$served" "$text: the daemon starts"
    for suffix in "$@"; do
        check_match "WARN.*message queue $server_queue\\$suffix belongs to $told" \
            "$(cat "$server_log")" \
            "$text: the log names NAME$suffix and its uid"
    done
    owner put large - <"$values/large"
    check_equal "$(md5sum <"$values/large")" "$(owner get large | md5sum)" \
        "$text: values large and small go"
    owner bench -n 12 --threads 12 -c 2000 >/dev/null 2>"$MQKV_TEST_DIR/step"
    check_equal 0 $? "$text: so many clients that each lane is used are served"
}

# Where it is mounted, the log tells the owner of a queue that the daemon may not open.
told="another user"
mount --bind "$common_dir/mqueue" /dev/mqueue 2>/dev/null && told="uid $hostile_uid"
fresh_directory
taken "$server_queue".{l1,l8,b0} || not_ok "another user takes names of lanes"
as_uid "$daemon_uid" "$MQKV_BUILD/serverk" --check -m "$server_queue" -f \
    "$server_dir" >"$server_log" 2>&1
check_equal 0 $? "queues of another user with names of lanes: --check finds no fault"
served_beside "before the start" .l1 .l8 .b0
taken "$server_queue".{l11,l12,b3} || not_ok \
    "another user takes names of lanes while the daemon runs"
kill -9 "$server_pid"
wait_until 20 server_is_gone
served_beside "after a crash" .l1 .l8 .b0 .l11 .l12 .b3
end_limited
check_equal 0 "$ended" "and it ends as always"
check_equal "b0 b3 l1 l11 l12 l8" \
    "$(find "$common_dir/mqueue" -name "${server_queue#/}*" -printf '%f\n' |
    sed 's/.*\.//' | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')" \
        "and leaves nothing but what is of the other user"
# shellcheck disable=SC2046 # words
taken $(printf "$server_queue.l%s " $(seq 2 7) 9 10 $(seq 13 63)) \
    $(printf "$server_queue.b%s " 1 2 $(seq 4 63)) ||
    not_ok "another user takes all names"
served_beside "when all names but NAME are taken" .l63 .b63
end_limited
check_equal 0 "$ended" "and it ends as always"
[ "$told" = "another user" ] || umount /dev/mqueue
rm -f "$common_dir/mqueue/${server_queue#/}"*

# A client's names, taken as soon as its process is known: its segments' by links, some of its reply
# queues'. named_client RANGE COMMAND...: a client whose reply queues of these numbers are taken.
named_client() {
    local range=$1 pid number
    shift
    rm -f "$common_dir/run/"{known,go}
    # shellcheck disable=SC2016 # expanded by the inner shell
    as_uid "$daemon_uid" bash -c 'echo $$ >"$1/known"; until [ -e "$1/go" ]; do sleep 0.02; done
        shift; exec "$@"' - "$common_dir/run" "$MQKV_BUILD/clientk" \
        --replies queue -m "$server_queue" "$@" <"$values/large" >"$MQKV_TEST_DIR/named" 2>&1 &
    local job=$!
    wait_until 20 test -s "$common_dir/run/known"
    pid=$(cat "$common_dir/run/known")
    # shellcheck disable=SC2046,SC2086 # words
    taken $(printf "$server_queue.c$pid.%s " $range)
    for number in 0 1 2 3; do
        as_uid "$hostile_uid" ln -s "$common_dir/precious" \
            "/dev/shm/${server_queue#/}.s$pid.$number"
    done
    touch "$common_dir/run/go"
    wait "$job"
}

echo precious >"$common_dir/precious"
chown "$daemon_uid" "$common_dir/precious"
fresh_directory
start_limited --
named_client "0" put large -
check_equal 0 $? \
    "a client whose first reply queue and whose segments have names that are taken works"
check_equal "$(md5sum <"$values/large")" "$(owner get large | md5sum)" "and its value is whole"
check_equal precious "$(cat "$common_dir/precious")" "no link of the name of a segment is followed"
named_client "$(seq -s " " 0 63)" put large -
check_equal 4 $? "one that finds no name for a reply queue is refused"
check_match "names of reply queues" "$(cat "$MQKV_TEST_DIR/named")" "and told why"
end_limited
check_equal 0 "$ended" "and the daemon is as before"
rm -f "$common_dir/mqueue/${server_queue#/}"* "/dev/shm/${server_queue#/}"* "$common_dir/run/"*

# Full at every step -------------------------------------------------------------------------------

# put_until_full: stores keys, and writes down which were acknowledged, until one is refused or 60
# are stored.
put_until_full() {
    local i
    : >"$MQKV_TEST_DIR/acknowledged"
    for ((i = 0; i < 60; i++)); do
        owner put "key$i" - <"$values/small" >/dev/null 2>"$MQKV_TEST_DIR/step" || break
        echo "key$i" >>"$MQKV_TEST_DIR/acknowledged"
    done
}

# lost: how many of the acknowledged keys have another value than was put.
lost() {
    local key count=0
    while read -r key; do
        owner get "$key" 2>/dev/null | cmp -s - "$values/small" || count=$((count + 1))
    done <"$MQKV_TEST_DIR/acknowledged"
    echo $count
}

# disk KIBIBYTES: start, put, compaction, checkpoint and stop on a disk of that size, and a start
# from what is left.
disk() {
    rm -rf "$server_dir"
    mkdir -p "$server_dir"
    mount -t tmpfs -o "size=${1}k,mode=700,uid=$daemon_uid" none "$server_dir" || exit 2
    start_limited -- -d 2
    if [ $served = yes ]; then
        put_until_full
        owner bench -L 4000 --keys 30 -c 600 --mix put=90,get=10 >/dev/null 2>&1
        check_equal 0 "$(lost)" "a disk of $1 KiB: what was acknowledged is there ($(wc -l \
            <"$MQKV_TEST_DIR/acknowledged") keys)"
        end_limited
        [ "$ended" = 0 ] || [ "$ended" = 4 ] || not_ok "a disk of $1 KiB: a stop" \
            "ended with $ended"
        start_limited -- -d 2
        check_equal yes "$served" "a disk of $1 KiB: a start from what is left"
        check_equal 0 "$(lost)" "a disk of $1 KiB: and all is there"
        owner del key0 >/dev/null 2>&1
        check_match '^[01]$' $? "a disk of $1 KiB: a delete has room"
        end_limited
        [ -z "$(left_behind)" ] || not_ok "a disk of $1 KiB: nothing is left" "$(left_behind)"
    else
        judge "a disk of $1 KiB"
    fi
    umount "$server_dir"
}

if [ -n "$long" ]; then
    for size in $(seq 4 12 400) 500 700 1000 2000; do
        disk "$size"
    done
else
    for size in 20 200 360; do
        disk "$size"
    done
fi

# /dev/shm, from the start on, and while a client has a segment.
mount -t tmpfs -o size=64k,mode=1777 none /dev/shm || exit 2
fresh_directory
start_limited --
check_equal yes "$served" "with /dev/shm full: a start"
owner put large - <"$values/large" >/dev/null 2>"$MQKV_TEST_DIR/step"
check_equal 0 $? "with /dev/shm full: a value goes without a segment"
check_equal "$(md5sum <"$values/large")" "$(owner get large | md5sum)" "and comes back whole"
end_limited
check_equal 0 "$ended" "with /dev/shm full: a stop"
umount /dev/shm
mount -t tmpfs -o size=3m,mode=1777 none /dev/shm || exit 2
start_limited --
for i in 1 2 3; do
    owner bench -n 6 -L 500000 --keys 4 -c 60 >/dev/null 2>"$MQKV_TEST_DIR/step" || break
done
check_equal 3 "$i" "with /dev/shm full under way: clients go on"
check_equal "" "$(grep 'ended by signal' "$server_log")" "and nothing is ended"
end_limited
check_equal 0 "$ended" "and the daemon stops as always"
umount /dev/shm

# The index of many keys outgrows it: then the rest is the daemon's own memory.
mount -t tmpfs -o size=300k,mode=1777 none /dev/shm || exit 2
fresh_directory
start_limited --
owner bench --mix put=100 --keys 100000 --dist sequential -c 100000 --batch 32 \
    >/dev/null 2>"$MQKV_TEST_DIR/step"
check_equal 0 $? "with /dev/shm too small for the index: puts go on"
check_match 'private_bytes +[1-9]' "$(owner stats server)" "in memory of the daemon"
owner bench --mix get=100 --keys 100000 -c 20000 --verify >/dev/null 2>"$MQKV_TEST_DIR/step"
check_equal 0 $? "what is there is read by message, and what is not without"
end_limited
check_equal 0 "$ended" "and the daemon stops as always, again"
umount /dev/shm

# The kernel's number of queues, which others may use up.
most=$(cat /proc/sys/fs/mqueue/queues_max)
for allowed in 0 1 5 12; do
    fresh_directory
    echo $allowed >/proc/sys/fs/mqueue/queues_max
    start_limited --
    judge "$allowed queues for all users"
done
echo "$most" >/proc/sys/fs/mqueue/queues_max
