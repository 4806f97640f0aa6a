#!/usr/bin/env bash
# clientk_example: the example programs compile without a warning, as C and against the shared
# library too, and do what they say.
. "$(dirname "$0")/lib.sh"

if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "the example is built without sanitizers"
    exit
fi

source_dir=$(cd "$library_dir/../.." && pwd)
example=$source_dir/examples/hello.c
warnings=(-std=c11 -Wall -Wextra -Wpedantic -Werror "-I$source_dir/include")

check_status 0 "it links with the static library" \
    gcc "${warnings[@]}" -o "$MQKV_TEST_DIR/hello-static" "$example" "$MQKV_BUILD/libclientk.a" \
    -pthread -lm
check_status 0 "it links with the shared library" \
    gcc "${warnings[@]}" -o "$MQKV_TEST_DIR/hello-shared" "$example" "-L$MQKV_BUILD" -lclientk

export MQKV_QUEUE=$server_queue
start_server
check_status 0 "it runs" "$MQKV_TEST_DIR/hello-static"
check_match '^Hello, Ada \(version [0-9]+\)!$' "$output" "it greets"
check_status 0 "it runs with the shared library" \
    env "LD_LIBRARY_PATH=$MQKV_BUILD" "$MQKV_TEST_DIR/hello-shared"
check_match '^Hello, Ada \(version [0-9]+\)!$' "$output" "it greets"
check_equal Ada "$(client get name)" "what it stored is there"

# Event loops.

# check_loop NAME PATTERN FLAG...: an example that runs an event loop, compiled with the flags.
check_loop() {
    local name=$1 pattern=$2
    shift 2
    check_status 0 "examples/$name.c compiles" \
        gcc "${warnings[@]}" -D_GNU_SOURCE -o "$MQKV_TEST_DIR/$name" \
        "$source_dir/examples/$name.c" \
        "-L$MQKV_BUILD" -lclientk "$@"
    check_status 0 "it runs" env "LD_LIBRARY_PATH=$MQKV_BUILD" "$MQKV_TEST_DIR/$name"
    check_match "$pattern" "$output" "it does what it says"
}

check_loop epoll '^1000 stored, 1000 read, 0 failed; the loop went on' -pthread
check_equal value "$(client get 'epoll 999')" "what it stored is there"
if pkg-config --exists libuv; then
    read -ra uv < <(pkg-config --cflags --libs libuv)
    check_loop libuv '^10000 additions, the counter is 10000$' "${uv[@]}"
    check_equal 10000 "$(client get libuv)" "what it counted is there"
else
    skip "libuv is not there (libuv1-dev): examples/libuv.c is not compiled"
fi
