#!/usr/bin/env bash
# python: the Python package does what its pages say: its tests, by pytest, each with a line here.
. "$(dirname "$0")/lib.sh"

source_dir=$(cd "$library_dir/../.." && pwd)
python=$(command -v /usr/bin/python3 || command -v python3)
if [ ! -e "$MQKV_BUILD/python/mqkv/_mqkv.abi3.so" ]; then
    skip "the Python package: it is not built (python3-dev)"
    exit
fi
if ! "$python" -c 'import pytest' 2>/dev/null; then
    skip "the Python package: pytest is not there (python3-pytest)"
    exit
fi
case ${MQKV_VARIANT:-release} in
tsan)
    skip "the Python package with the thread sanitizer: Python is not built with it"
    exit
    ;;
asan) # Python's own allocations are never given back
    LD_PRELOAD=$(gcc -print-file-name=libasan.so)
    ASAN_OPTIONS=detect_leaks=0
    export LD_PRELOAD ASAN_OPTIONS
    ;;
esac

export MQKV_TEST_REPORT=$MQKV_TEST_DIR/report PYTHONDONTWRITEBYTECODE=1
: >"$MQKV_TEST_REPORT"
PYTHONPATH=$MQKV_BUILD/python "$python" -m pytest -q --tb=short -W ignore::DeprecationWarning \
    -p no:cacheprovider --basetemp="$MQKV_TEST_DIR/pytest" --rootdir="$source_dir/bridges/python" \
    "$source_dir/bridges/python/tests" >"$MQKV_TEST_DIR/pytest.log" 2>&1
status=$?
unset LD_PRELOAD
cat "$MQKV_TEST_REPORT"
[ "$status" = 0 ] || not_ok "pytest is content" "$(cat "$MQKV_TEST_DIR/pytest.log")"
