#!/usr/bin/env bash
# explore: the code under some schedules that a seed decides, none of which may find anything.
# make explore runs more of them.
. "$(dirname "$0")/lib.sh"

explore=$MQKV_BUILD/explore/explore
if [ ! -x "$explore" ]; then
    skip "it is built without sanitizers only"
    exit
fi

"$explore" --schedules "${EXPLORE_SCHEDULES:-1000}" >"$MQKV_TEST_DIR/found" 2>&1
sed 's/^/# /' "$MQKV_TEST_DIR/found"
for harness in $("$explore" --list | cut -d' ' -f1); do
    check_match "^pass $harness:" "$(cat "$MQKV_TEST_DIR/found")" "$harness"
done

# What it finds is told: the seed, and the shortest schedule; a seed finds it again.
check_status 2 "a harness that is none" "$explore" no-such-harness
