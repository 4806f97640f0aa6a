#!/usr/bin/env bash
# check_clients: client libraries of Redis and what is built on them work on kresp as they come:
# redis-py, Django (and its own tests), django-redis, ioredis, node-redis, go-redis, Jedis, Lettuce;
# the examples in Go and Node. Each is installed by its own package manager into the build folder;
# what cannot be is skipped by name.
. "$(dirname "$0")/../scenario/lib.sh"
. "$(dirname "$0")/../support/kresp.sh"

clients=$MQKV_BUILD/redis-clients
mkdir -p "$clients"
start_server
port=$((20000 + RANDOM % 20000))
start_kresp --allow-flush --port $port
examples=$redis_tests/../../examples
export KRESP_SOCKET=$kresp_socket

# install NAME COMMAND...: once; true if it is there.
install() {
    install_once "$clients" "$@"
}

install_redis_py() {
    python3 -m venv "$clients/python" && "$clients/python/bin/pip" install -q redis
}

install_node() {
    npm install --silent --no-fund --no-audit --prefix "$clients/node" "$1"
}

install_django() {
    "$clients/python/bin/pip" install -q django django-redis
}

# The tests of the version that pip has installed.
install_django_suite() {
    local version
    version=$("$clients/python/bin/python" -c "import django; print(django.__version__)") &&
        "$clients/python/bin/pip" download -q --no-deps --no-binary :all: -d "$clients" \
            "django==$version" && mkdir -p "$clients/django" &&
        tar -xf "$clients/django-$version.tar.gz" -C "$clients/django" --strip-components=1
}

# Its caches on Redis, and sessions in a cache.
check_django_suite() {
    local suite
    suite=$(cd "$clients/django/tests" && PYTHONPATH=$redis_tests:.. timeout 500 \
        "$(realpath "$clients")/python/bin/python" runtests.py --parallel 1 \
        --settings django_settings cache.tests.RedisCacheTests \
        sessions_tests.tests.CacheSessionTests sessions_tests.tests.CacheDBSessionTests 2>&1)
    check_match "^OK" "$suite" "Django's own tests: $(grep '^Ran' <<<"$suite")"
}

# install_go FOLDER PROGRAM: builds what is in the folder.
install_go() {
    cp -r "$1" "$clients/" &&
        (cd "$clients/$(basename "$1")" && GOFLAGS=-mod=mod go build -o "$2" .)
}

install_java() {
    cp -r "$redis_tests/java_clients" "$clients/" &&
        (cd "$clients/java_clients" && mvn -q -B package dependency:copy-dependencies)
}

install_node_example() {
    cp -r "$examples/node" "$clients/node-example" &&
        npm install --silent --no-fund --no-audit --prefix "$clients/node-example"
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
if [ -e "$clients/redis-py.installed" ] && install django install_django; then
    "$clients/python/bin/python" "$redis_tests/smoke_django.py" || failed_checks=1
    install django-suite install_django_suite && check_django_suite
fi
if install go-redis install_go "$redis_tests/go_redis" go_redis; then
    "$clients/go_redis/go_redis" || failed_checks=1
fi
if install java-clients install_java; then
    target=$clients/java_clients/target
    java -cp "$target/classes:$target/dependency/*" Smoke $port || failed_checks=1
fi
if install go-example install_go "$examples/go" example; then
    check_equal "the session belongs to ada
call 1 allowed: true
call 2 allowed: true
call 3 allowed: true
call 4 allowed: false
after ten at once: 0
one more: only 0 left" "$("$clients/go/example" 2>&1)" "examples/go"
fi
if install node-example install_node_example; then
    check_equal "the session belongs to ada, who likes it dark
another session: null
call 1 allowed: true
call 2 allowed: true
call 3 allowed: true
call 4 allowed: false
20 readers, computed 1 time
sessions: session:7f3a" "$(node "$clients/node-example/main.js" 2>&1)" "examples/node"
fi
check_status 0 "kresp ends" stop_kresp
check_status 0 "and so does the daemon" stop_server
