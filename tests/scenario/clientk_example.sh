#!/usr/bin/env bash
# clientk_example: the example program compiles without a warning, as C and against the shared
# library too, and does what it says.
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
