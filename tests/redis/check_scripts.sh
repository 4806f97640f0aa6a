#!/usr/bin/env bash
# check_scripts: programs of Redis that lock and limit by Lua scripts work on kresp as they come:
# limits, flask-limiter, python-redis-lock (as far as it needs no list), rate-limiter-flexible,
# rate-limit-redis, redlock, redsync, redislock and redis_rate. Each is installed by its own package
# manager into the build folder; what cannot be is skipped by name.
. "$(dirname "$0")/../scenario/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

folder=$MQKV_BUILD/redis-scripts
mkdir -p "$folder"
start_server
start_kresp --allow-flush
export KRESP_SOCKET=$kresp_socket

install_python() {
    python3 -m venv "$folder/python" &&
        "$folder/python/bin/pip" install -q redis limits flask flask-limiter python-redis-lock
}

install_node() {
    npm install --silent --no-fund --no-audit --prefix "$folder/node" ioredis \
        rate-limiter-flexible rate-limit-redis express-rate-limit redlock@4
}

install_go() {
    cp -r "$redis_tests/go_scripts" "$folder/" &&
        (cd "$folder/go_scripts" && GOFLAGS=-mod=mod go mod tidy &&
            GOFLAGS=-mod=mod go build -o go_scripts .)
}

if install_once "$folder" scripts-python install_python; then
    "$folder/python/bin/python" "$redis_tests/smoke_scripts.py" || failed_checks=1
fi
if install_once "$folder" scripts-node install_node; then
    NODE_PATH=$folder/node/node_modules node "$redis_tests/smoke_scripts.js" || failed_checks=1
fi
if install_once "$folder" scripts-go install_go; then
    "$folder/go_scripts/go_scripts" || failed_checks=1
fi
check_match "the command 'lpush'" "$(cat "$kresp_log")" "what a script lacked is in the log"
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
