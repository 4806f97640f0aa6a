#!/usr/bin/env bash
# large_values: who writes values of 60 MB again and again (--max-value 64M) leaves others their
# share, and lets nobody wait
# long: a flood for seconds, and quiet runs beside it
. "$(dirname "$0")/lib.sh"
# exclusive
need_root
if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "large_values: sanitizers take from each another share"
    exit 0
fi

# Each operation keeps a CPU for 50 ms: beside many other programs it lasts for half a second, as
# long as a run.
if awk -v cpus="$(nproc)" '{ exit !($1 > 4 * cpus) }' /proc/loadavg; then
    skip "large_values: the machine is too busy to judge it"
    exit 0
fi

# One process after the other sends one operation: what is left of them at the end of the attack is
# short.
writers() { # COMMAND of clientk
    for _ in 1 2 3; do
        attack_as "$hostile_uid" bash -c \
            "while :; do
                '$MQKV_BUILD/clientk' --timeout 60000 -m '$server_queue' $1 <'$common_dir/large'
            done"
    done
}

# shellcheck disable=SC2016 # expanded by the attacker's shell
appends() { writers 'append large$((RANDOM % 4)) y'; }
# shellcheck disable=SC2016
puts() { writers 'put large$((RANDOM % 4)) -'; }

head -c 60000000 /dev/zero >"$common_dir/large"
chmod 644 "$common_dir/large"

# begin WORKERS: in memory, for a disk that others use, too, would be judged with it.
begin() {
    server_dir=$(mktemp -d /dev/shm/mqkv-hostile.XXXXXX)
    start_server_as "$daemon_uid" --mode 0622 --max-value 64M --sync none -w "$1"
    for key in 0 1 2 3; do
        client_as "$hostile_uid" --timeout 60000 put "large$key" - <"$common_dir/large" \
            >"$MQKV_TEST_DIR/.put"
    done
}

end() {
    sleep 2.1 # they are left alone for a second
    client_as "$hostile_uid" doctor >"$MQKV_TEST_DIR/.doctor" # removes queues of the killed writers
    stop_server
    rm -r "$server_dir"
}

begin 1
keeps_a_quarter "one worker: appends to 60 MB beside reads" appends --mix get=1
end
begin 2
keeps_a_quarter "two workers: appends to 60 MB beside writes" appends --mix put=1
keeps_a_quarter "two workers: values of 60 MB beside writes" puts --mix put=1
end
