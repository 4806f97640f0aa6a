# lib.sh: what the scripts of this folder share, beside tests/scenario/lib.sh: NATS servers on
# loopback, and serverk with the engine nats. `make check-nats` runs them.
#
# NATS_SERVER names the program; without it, it is built once through the Go module proxy into
# $XDG_CACHE_HOME/mqkv. Without Go, or without libnats in the build, the script is skipped.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../scenario/lib.sh"

nats_version=${nats_version:-2.12.15}
bucket=check
declare -a nats_pids=() nats_ports=() route_ports=()
nats_options=() # of serverk, beside those of start_server

find_nats_server() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/mqkv
    if "$MQKV_BUILD/serverk" --engine nats --nats nats://127.0.0.1:1 --bucket b --check 2>&1 |
        grep -q 'built without NATS'; then
        skip "engine nats: this build has no libnats"
        exit 0
    fi
    NATS_SERVER=${NATS_SERVER:-$cache/nats-server-$nats_version}
    [ -x "$NATS_SERVER" ] && return
    if ! command -v go >/dev/null; then
        skip "engine nats: there is no nats-server (NATS_SERVER), and no Go to build it with"
        exit 0
    fi
    mkdir -p "$cache"
    (
        # Scripts run side by side, with several versions: one builds each, into a folder of its own.
        flock 9
        [ -x "$NATS_SERVER" ] || {
            GOBIN=$NATS_SERVER.built GOFLAGS=-mod=mod \
                go install "github.com/nats-io/nats-server/v2@v$nats_version" >&2 &&
                mv "$NATS_SERVER.built/nats-server" "$NATS_SERVER"
        }
    ) 9>"$NATS_SERVER.lock" && return
    skip "engine nats: nats-server $nats_version cannot be built here"
    exit 0
}

# free_ports COUNT
free_ports() {
    python3 -c '
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for s in sockets:
    s.bind(("127.0.0.1", 0))
print(*[s.getsockname()[1] for s in sockets])' "$1"
}

# write_nats_configs COUNT [LINE...]: of servers that are one cluster if they are several.
write_nats_configs() {
    local count=$1 i routes=
    shift
    read -ra nats_ports < <(free_ports "$count")
    read -ra route_ports < <(free_ports "$count")
    for ((i = 0; i < count; i++)); do
        routes+="${routes:+, }\"nats://127.0.0.1:${route_ports[i]}\""
    done
    for ((i = 0; i < count; i++)); do
        {
            echo "listen: 127.0.0.1:${nats_ports[i]}"
            echo "server_name: n$i"
            echo "jetstream { store_dir: \"$MQKV_TEST_DIR/n$i\", max_file: 1G, max_mem: 64M }"
            [ "$count" = 1 ] || echo "cluster { name: checked, listen: 127.0.0.1:${route_ports[i]}," \
                "routes: [ $routes ] }"
            [ $# = 0 ] || printf '%s\n' "$@"
        } >"$MQKV_TEST_DIR/n$i.conf"
    done
}

# start_nats NUMBER...: of those whose configuration is written.
start_nats() {
    local i
    for i in "$@"; do
        "$NATS_SERVER" -c "$MQKV_TEST_DIR/n$i.conf" >>"$MQKV_TEST_DIR/n$i.log" 2>&1 &
        nats_pids[i]=$!
    done
    for i in "$@"; do
        wait_until 30 grep -q 'Server is ready' "$MQKV_TEST_DIR/n$i.log" ||
            { not_ok "nats-server $i starts" "$(tail -n 5 "$MQKV_TEST_DIR/n$i.log")"; exit 1; }
    done
}

# signal_nats SIGNAL NUMBER...; KILL waits for the end.
signal_nats() {
    local signal=$1 i
    shift
    for i in "$@"; do
        kill "-$signal" "${nats_pids[i]}"
        [ "$signal" != KILL ] || wait "${nats_pids[i]}" 2>/dev/null
    done
}

nats_urls() {
    local i urls=
    for i in "${!nats_ports[@]}"; do
        urls+=,nats://127.0.0.1:${nats_ports[i]}
    done
    echo "${urls:1}"
}

# leader_of STREAM: the number of the server that leads it.
leader_of() {
    python3 "$library_dir/../nats/ask.py" "$(nats_urls)" "\$JS.API.STREAM.INFO.$1" '' |
        python3 -c '
import json, sys
print(json.load(sys.stdin).get("cluster", {}).get("leader", "n0")[1:])'
}

# start_server of tests/scenario/lib.sh, with the bucket of the cluster instead of a directory.
start_server() {
    launch_server "$*" "$server_program" -m "$server_queue" --engine nats --nats "$(nats_urls)" \
        --bucket "$bucket" "${nats_options[@]}" "$@"
}

client_works() {
    client --timeout 1000 put __works 1 >/dev/null 2>&1
}

find_nats_server
