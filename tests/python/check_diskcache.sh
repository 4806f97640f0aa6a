#!/usr/bin/env bash
# check_diskcache: diskcache's own tests pass on mqkv.Cache, but for those of diskcache_skips
. "$(dirname "$0")/lib.sh"

version=5.6.3
environment diskcache pytest || exit 0
if ! "$environment_python" -m pip download --quiet --disable-pip-version-check --no-deps \
    --no-binary :all: --no-build-isolation -d "$kept_dir" "diskcache==$version" \
    >"$MQKV_TEST_DIR/pip.log" 2>&1 && [ ! -e "$kept_dir/diskcache-$version.tar.gz" ]
then
    skip "diskcache's tests: its sources are out of reach: $(tail -n 1 "$MQKV_TEST_DIR/pip.log")"
    exit
fi
tar -xzf "$kept_dir/diskcache-$version.tar.gz" -C "$MQKV_TEST_DIR"
sources=$MQKV_TEST_DIR/diskcache-$version
mkdir "$MQKV_TEST_DIR/caches"

check_status 0 "diskcache's tests pass" env TMPDIR="$MQKV_TEST_DIR/caches" \
    DISKCACHE_SKIPS="$python_dir/diskcache_skips" PYTHONPATH="$python_dir" \
    "$environment_python" -m pytest -q -rs -p as_diskcache -p no:cacheprovider -c /dev/null \
    --rootdir="$sources/tests" --basetemp="$MQKV_TEST_DIR/pytest" "$sources"/tests/test_core.py \
    "$sources"/tests/test_{fanout,deque,index,recipes}.py
check_match '^1[12][0-9] passed, 60 skipped' "$output" "of which these are skipped:"
sed -n 's/^SKIPPED \[[0-9]*\] //p' <<<"$output" | sort | uniq -c
