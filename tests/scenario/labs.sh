#!/usr/bin/env bash
# labs: each lab gives its start, its reference and each wrong solution the points that it should.
# long: builds and judges some forty programs, three minutes
. "$(dirname "$0")/lib.sh"

labs=$(cd "$(dirname "$0")/../../examples/labs" && pwd)
if [ ! -x "$MQKV_BUILD/explore/explore" ]; then
    skip "it is built without sanitizers only"
    exit
fi
export OUT=$MQKV_BUILD
for lab in "$labs"/*/points; do
    name=$(basename "$(dirname "$lab")")
    make -s -C "$labs/$name" verify >"$MQKV_TEST_DIR/$name" 2>&1
    sed 's/^/# /' "$MQKV_TEST_DIR/$name"
    check_match "^$name: 0 of its variants" "$(cat "$MQKV_TEST_DIR/$name")" "$name"
done

# As a student begins, where nothing was built: the start of the log works as long as nothing
# happens.
told=$(make -s -C "$labs/log" check OUT="$MQKV_TEST_DIR/nothing" 2>&1)
check_match "^ok +0/15 comes_back" "$told" "a start works with what the lab says that it may use"
check_match "^NOT OK +0/20 killed" "$told" "and shows a student what is missing"

# Somebody has done the lab in its folder, and badly: what is handed in is judged as before.
tree=$MQKV_TEST_DIR/tree
mkdir -p "$tree/examples" "$MQKV_TEST_DIR/done"
ln -s "$labs"/../../* "$tree" 2>/dev/null
ln -s "$labs"/../* "$tree/examples"
rm "$tree/examples/labs"
cp -r "$labs" "$tree/examples/labs"
cp "$(make -s -C "$labs/rwlock" solution)"/* "$MQKV_TEST_DIR/done"
for file in rwlock.c rwlock.h; do
    echo 'int unfinished(' >>"$tree/examples/labs/rwlock/$file"
done
graded=$(make -s -C "$tree/examples/labs/rwlock" grade SUBMISSION="$MQKV_TEST_DIR/done" \
    RESULTS="$MQKV_TEST_DIR/results.json" 2>&1)
check_match '^(95|100) of 100 points' "$graded" "who has done the lab in its folder can still grade"
sed -i '/^void rwlock_read_lock/,/^}/d; /^void rwlock_destroy/,/^}/d' "$MQKV_TEST_DIR/done/rwlock.c"
graded=$(make -s -C "$tree/examples/labs/rwlock" grade SUBMISSION="$MQKV_TEST_DIR/done" \
    RESULTS="$MQKV_TEST_DIR/results.json" 2>&1)
check_match 'these functions are missing: .*rwlock_read_lock' "$graded" \
    "functions that are missing are named"
check_equal 0 "$(grep -c 'undefined reference' <<<"$graded")" "and the linker says nothing"
told=$(make -s -C "$labs/rwlock" check 2>&1)
check_match '^ok +0/15 exclusion +.it counts as soon as readers_share passes' "$told" \
    "what the start does without its student gives no points"
check_match 'in the first schedule; schedules --seed' "$told" \
    "a first schedule that fails is called so"

# What is handed in may be anything: nothing is won by ending early, and nothing is sent.
mkdir "$MQKV_TEST_DIR/ends"
cat >"$MQKV_TEST_DIR/ends/policy.c" <<'EOF'
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include "policy.h"
__attribute__((constructor)) static void end(void)
{
    printf("socket: %d\n", socket(AF_INET, SOCK_STREAM, 0));
    fflush(stdout);
    _exit(0);
}
uint64_t policy_delay_ns(unsigned priority, uint64_t work_ns)
{
    return priority + work_ns;
}
EOF
graded=$(cd "$labs/policy" &&
    ../grade --submission "$MQKV_TEST_DIR/ends" --results "$MQKV_TEST_DIR/results.json" . 2>&1)
check_match "^0 of 100 points" "$graded" "a program that ends before it is asked has no points"
check_match "socket: -1" "$graded" "it has no network"
check_match '"score": 0' "$(cat "$MQKV_TEST_DIR/results.json")" "results.json has the score"
check_match '"scores": {"policy": 0}' "$graded" "Autolab's line ends the output"
echo 'int policy(' >"$MQKV_TEST_DIR/ends/policy.c"
graded=$(cd "$labs/policy" && ../grade --submission "$MQKV_TEST_DIR/ends" . 2>&1)
check_match "cannot be built" "$graded" "what the compiler says is told"
rm "$MQKV_TEST_DIR/ends/policy.c"
check_status 2 "a file that is missing is named" \
    env -C "$labs/policy" ../grade --submission "$MQKV_TEST_DIR/ends" .
