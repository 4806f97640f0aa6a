#!/usr/bin/env bash
# kresp_start: kresp starts, tells what is wrong if it cannot, guards its socket, and leaves nothing
# behind.
# shellcheck disable=SC2016 # a reply has its size behind a dollar
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

kresp() {
    "$MQKV_BUILD/kresp" -m "$server_queue" "$@"
}

check_status 0 "the version is told" kresp --version
check_match "^kresp [0-9]+\.[0-9]+" "$output" "with the name of the program"
check_status 0 "help is given" kresp --help
check_match "--requirepass-file FILE" "$output" "which lists the options"
check_status 2 "an unknown option is a mistake" kresp --sokket x
check_match "did you mean --socket" "$errors" "with a guess of what was meant"
check_status 2 "so is a mode that nobody can use" kresp --mode 0077
check_status 2 "so is an argument" kresp get
check_status 2 "so is a port that is none" kresp --port 70000
check_status 2 "so is a file without a password" kresp --requirepass-file /dev/null
check_status 3 "without a server it ends" kresp --timeout 200ms -s "$kresp_socket"
check_status 0 "and has made no socket" test ! -e "$kresp_socket"

start_server
start_kresp
check_equal 600 "$(stat -c %a "$kresp_socket")" "the socket is for its owner alone"
check_equal "+PONG" "$(ask ping)" "a client is answered"
check_match "client 1: pid [0-9]+, uid $(id -u), gid $(id -g)" "$(cat "$kresp_log")" \
    "and the log says who it is"
check_status 4 "a second one at the same socket is refused" kresp -s "$kresp_socket"
check_match "another process listens on" "$errors" "and told why"
check_equal "+PONG" "$(ask ping)" "the first one does not mind"
check_status 0 "SIGTERM ends it" stop_kresp
check_status 0 "and the socket is gone" test ! -e "$kresp_socket"

start_kresp --mode 0660
check_equal 660 "$(stat -c %a "$kresp_socket")" "--mode sets the permissions"
kill -9 "$kresp_pid"
wait "$kresp_pid" 2>/dev/null
check_status 0 "kill -9 leaves the socket" test -S "$kresp_socket"
start_kresp -v
check_equal "+PONG" "$(ask ping)" "which the next one replaces"
check_match "kresp_version:" "$(ask info)" "INFO tells that it is kresp"
ask ping >/dev/null
check_match "DEBUG client 3: pid" "$(cat "$kresp_log")" "-v logs each connection"
mv "$kresp_socket" "$kresp_socket.moved"
: >"$kresp_socket"
check_status 0 "it ends" stop_kresp
check_status 0 "and leaves alone what is not its socket" test -f "$kresp_socket"
check_status 4 "a file in the place of the socket is refused" kresp -s "$kresp_socket"
check_status 0 "and stays" test -f "$kresp_socket"
rm "$kresp_socket"

# What it gives up, which all of its threads inherit; what it does not, it still can.
kresp_status() {
    cat /proc/"$kresp_pid"/task/*/status | grep "^$1:" | grep -oE '[0-9]+$' | sort -u
}
if [ "${MQKV_VARIANT:-release}" = release ]; then
    start_kresp -v --threads 2
    check_equal 1 "$(kresp_status NoNewPrivs)" "no program can give it privileges"
    check_equal "$(grep -q 'system calls filtered' "$kresp_log" && echo 2 || echo 0)" \
        "$(kresp_status Seccomp)" "its system calls are filtered, as its log says (-v)"
    check_equal "+OK" "$(ask 'set before 1')" "it writes"
    stop_server
    start_server
    check_equal '$1 1' "$(ask 'get before')" "it connects to another daemon"
    check_status 0 "it ends" stop_kresp
    check_status 1 "and removes its socket" test -e "$kresp_socket"
    start_kresp --sandbox off
    check_equal "$(grep -oP '^Seccomp:\s+\K.*' /proc/self/status)" "$(kresp_status Seccomp)" \
        "all of that can be left out"
    check_status 0 "it ends" stop_kresp
fi

port=$((20000 + RANDOM % 20000))
start_kresp --port $port --threads 3
check_match "^\+PONG" "$(printf 'PING\r\nQUIT\r\n' |
    timeout 20 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; cat >&3; cat <&3")" \
    "--port listens on 127.0.0.1"
check_match "and on 127.0.0.1:$port" "$(cat "$kresp_log")" "which the log says"
http=$(printf 'POST / HTTP/1.1\r\nHost: localhost\r\n\r\nset a 1\r\nPING\r\n' |
    timeout 20 bash -c "exec 3<>/dev/tcp/127.0.0.1/$port; cat >&3; cat <&3" 2>/dev/null)
check_equal "" "$http" "a browser gets no answer there"
check_match "it speaks HTTP" "$(cat "$kresp_log")" "and the log says so"
check_equal "0100007F" "$(awk -v port="$(printf %04X $port)" \
    '$4 == "0A" && $2 ~ port"$" { split($2, a, ":"); print a[1] }' /proc/net/tcp)" \
    "and nowhere else"
check_status 0 "it ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
