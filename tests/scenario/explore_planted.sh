#!/usr/bin/env bash
# explore_planted: the explorer finds each of the faults that are kept as patches.
# long: builds the code anew for each fault, five minutes
. "$(dirname "$0")/lib.sh"

planted=$(dirname "$0")/../explore/planted
if [ ! -x "$MQKV_BUILD/explore/explore" ]; then
    skip "it is built without sanitizers only"
    exit
fi
# Two at a time, since the other tests of make check have ended by then.
patches=("$planted"/*.patch)
half=$((${#patches[@]} / 2))
"$planted/find" "${patches[@]:half}" >"$MQKV_TEST_DIR/found.later" 2>&1 &
"$planted/find" "${patches[@]:0:half}" >"$MQKV_TEST_DIR/found" 2>&1
wait
cat "$MQKV_TEST_DIR/found.later" >>"$MQKV_TEST_DIR/found"
sed 's/^/# /' "$MQKV_TEST_DIR/found"
for patch in "${patches[@]}"; do
    name=$(basename "$patch" .patch)
    check_match "^$name: fail " "$(cat "$MQKV_TEST_DIR/found")" "$name"
done
