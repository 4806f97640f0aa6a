# lib.sh of the tests that take programs from PyPI (make check-python): an environment for each, and
# what was downloaded, stay in $MQKV_BUILD/check-python.
# shellcheck shell=bash
. "$(dirname "${BASH_SOURCE[0]}")/../scenario/lib.sh"

python_dir=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
python=$(command -v /usr/bin/python3 || command -v python3)
kept_dir=$MQKV_BUILD/check-python
mkdir -p "$kept_dir"
export PYTHONDONTWRITEBYTECODE=1

if [ ! -e "$MQKV_BUILD/python/mqkv/_mqkv.abi3.so" ]; then
    skip "the Python package: it is not built (python3-dev)"
    exit
fi

# environment NAME PACKAGE...: makes the environment $kept_dir/NAME with these packages and mqkv, once;
# its Python is $environment_python. False, with a line: PyPI is out of reach, or has no such package.
environment() {
    local name=$1 dir=$kept_dir/$1
    shift
    environment_python=$dir/bin/python
    [ ! -e "$dir/complete" ] || return 0
    rm -rf "$dir"
    if ! "$python" -m venv "$dir" >"$MQKV_TEST_DIR/venv.log" 2>&1 ||
        ! "$environment_python" -m pip install --quiet --disable-pip-version-check "$@" \
            >>"$MQKV_TEST_DIR/venv.log" 2>&1
    then
        skip "$name: $* cannot be installed: $(tail -n 1 "$MQKV_TEST_DIR/venv.log")"
        return 1
    fi
    echo "$MQKV_BUILD/python" >"$(echo "$dir"/lib/python3*/site-packages)/mqkv.pth"
    touch "$dir/complete"
}
