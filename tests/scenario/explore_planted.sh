#!/usr/bin/env bash
# explore_planted: the explorer finds each of the faults that are kept as patches.
# long: builds the code anew for each fault, two minutes
. "$(dirname "$0")/lib.sh"

planted=$(dirname "$0")/../explore/planted
if [ ! -x "$MQKV_BUILD/explore/explore" ]; then
    skip "it is built without sanitizers only"
    exit
fi
"$planted/find" >"$MQKV_TEST_DIR/found" 2>&1
sed 's/^/# /' "$MQKV_TEST_DIR/found"
for patch in "$planted"/*.patch; do
    name=$(basename "$patch" .patch)
    check_match "^$name: fail " "$(cat "$MQKV_TEST_DIR/found")" "$name"
done
