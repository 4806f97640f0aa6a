#!/usr/bin/env bash
# many_names: names of queues' clients in /dev/shm without number, made by another user, slow down
# neither a start nor a session (30,000; 300,000 with LIMITS_LONG=1)
. "$(dirname "$0")/lib.sh"
if [ -z "${NAMES_NAMESPACE:-}" ] && [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    export NAMES_NAMESPACE=1
    exec unshare --mount --propagation private "$0"
fi
need_root
if [ -z "${NAMES_NAMESPACE:-}" ]; then
    skip "many_names: no mount namespaces here"
    exit
fi
names=$([ -n "${LIMITS_LONG:-}" ] && echo 300000 || echo 30000)
mount -t tmpfs -o mode=1777,nr_inodes=1000000 none /dev/shm || exit 2

# QUEUE COUNT: segments as clients name them, of processes that there are not and of those that
# there are.
python_attack names <<'END'
import os, sys

for number in range(int(sys.argv[2])):
    pid = 4000000 + number if number % 2 else 1 + number % 1000
    os.close(os.open(f"/dev/shm{sys.argv[1]}.s{pid}.{number}", os.O_CREAT | os.O_RDWR, 0o666))
print("made", flush=True)
END

now_ms() {
    date +%s%3N
}

# began_ms: how long a start takes, and a session, in start_ms and session_ms; the best of three.
measure() {
    local began
    start_ms=1000000 session_ms=1000000
    for _ in 1 2 3; do
        began=$(now_ms)
        start_server_as "$daemon_uid" --mode 0622
        began=$(($(now_ms) - began))
        [ $began -ge $start_ms ] || start_ms=$began
        began=$(now_ms)
        client --timeout 5000 put key value >"$MQKV_TEST_DIR/.put" || answered=no
        began=$(($(now_ms) - began))
        [ $began -ge $session_ms ] || session_ms=$began
        stop_server || answered=no
    done
}

answered=yes
measure
start_alone_ms=$start_ms session_alone_ms=$session_ms
as_uid "$hostile_uid" "$python" "$attack" "$server_queue" "$names" >"$MQKV_TEST_DIR/attack.log"
check_match "$names" "$(find /dev/shm -type f | wc -l)" "another user makes $names names"
measure
check_equal yes "$answered" "the daemon starts, answers within its timeout, and stops"
echo "# start: $start_alone_ms ms, then $start_ms ms;" \
    "session: $session_alone_ms ms, then $session_ms ms"
# The start looks at all names for half a second at most; a session looks at none.
check_at_most $((10 * start_alone_ms + 1000)) "$start_ms" \
    "a start takes no multiple of what it took (ms)"
check_at_most $((5 * session_alone_ms + 50)) "$session_ms" "a session neither (ms)"

# What a killed client leaves is removed beside them.
start_server_as "$daemon_uid" --mode 0622
attack_as "$daemon_uid" "$MQKV_BUILD/clientk" -m "$server_queue" bench --mix put=1 -L 300000 -t 60
own_segments() {
    find /dev/shm -user "$daemon_uid" -name "${server_queue#/}*" | wc -l
}
one_is_there() {
    [ "$(own_segments)" -gt 0 ]
}
wait_until 20 one_is_there
end_attacks
none_left() {
    [ "$(own_segments)" = 0 ]
}
check_status 0 "what a killed client leaves there is removed" wait_until 20 none_left
stop_server
check_equal "$names" "$(find /dev/shm -type f | wc -l)" "and nothing that is another user's"
umount /dev/shm
