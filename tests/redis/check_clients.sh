#!/usr/bin/env bash
# check_clients: client libraries of Redis work on kresp as they come: redis-py, ioredis,
# node-redis, go-redis. Each is installed by its own package manager into the build folder; what
# cannot be is skipped by name.
. "$(dirname "$0")/../scenario/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

clients=$MQKV_BUILD/redis-clients
mkdir -p "$clients"
start_server
start_kresp --allow-flush
export KRESP_SOCKET=$kresp_socket

# install NAME COMMAND...: once; true if it is there.
install() {
    local name=$1
    shift
    [ -e "$clients/$name.installed" ] && return
    "$1" "${@:2}" >"$clients/$name.log" 2>&1 </dev/null && : >"$clients/$name.installed" && return
    skip "$name: cannot be installed ($(tail -n 1 "$clients/$name.log"))"
    return 1
}

install_redis_py() {
    python3 -m venv "$clients/python" && "$clients/python/bin/pip" install -q redis
}

install_node() {
    npm install --silent --no-fund --no-audit --prefix "$clients/node" "$1"
}

install_go_redis() {
    cp -r "$redis_tests/go_redis" "$clients/" &&
        (cd "$clients/go_redis" && GOFLAGS=-mod=mod go build -o go_redis .)
}

if install redis-py install_redis_py; then
    "$clients/python/bin/python" "$redis_tests/smoke_redis_py.py" || failed_checks=1
fi
for library in ioredis redis; do
    if install "node-$library" install_node "$library"; then
        NODE_PATH=$clients/node/node_modules node "$redis_tests/smoke_$library.js" ||
            failed_checks=1
    fi
done
if install go-redis install_go_redis; then
    "$clients/go_redis/go_redis" || failed_checks=1
fi
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
