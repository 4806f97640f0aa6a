#!/usr/bin/env bash
# check_wheel: where nothing is installed, the wheel is the whole set-up
. "$(dirname "$0")/lib.sh"

if [ "${MQKV_VARIANT:-release}" != release ]; then
    skip "a build with sanitizers is not one to make a wheel of"
    exit
fi
check_status 0 "make wheel" env -u MAKEFLAGS make -C "$library_dir/../.." -s OUT="$MQKV_BUILD" wheel
wheel=$(tail -n 1 <<<"$output")
if [ -e "$MQKV_BUILD/wheel/tools/bin/auditwheel" ]; then
    check_match "/mqkv-[0-9.]+-cp311-abi3-manylinux_2_[0-9]+_$(uname -m)\.whl$" "$wheel" \
        "for Python 3.11 and later on many systems"
else
    skip "for which systems the wheel is: auditwheel is out of reach"
fi
check_status 0 "an environment" "$python" -m venv "$MQKV_TEST_DIR/venv"
check_status 0 "into which pip installs it alone" \
    "$MQKV_TEST_DIR/venv/bin/pip" install --quiet --no-deps --no-index "$wheel"
programs=$(echo "$MQKV_TEST_DIR"/venv/lib/python3*/site-packages/mqkv/bin)
check_equal "" "$(for program in serverk clientk kvcheck kresp; do ldd "$programs/$program"; done |
    grep -vE 'linux-vdso|/ld-linux|/lib(c|m)\.so')" "its programs need libc alone"
check_match "GNU LESSER GENERAL PUBLIC LICENSE|LGPL-2.1" "$(cat "$programs/LICENSES")" \
    "the terms of the libraries in them are beside them"

# alone COMMAND...: without what this system has installed.
alone() {
    env -i HOME="$MQKV_TEST_DIR" PATH=/nonexistent "$@"
}
cat >"$MQKV_TEST_DIR/use.py" <<'PYTHON'
import asyncio
import os
import sys

import mqkv
import mqkv.aio
from mqkv import home

with mqkv.Cache(sys.argv[1] + "/cache") as cache:
    cache.set("k", {"a": (1, 2)}, expire=60)
    assert cache["k"] == {"a": (1, 2)}
    server = os.readlink(f"/proc/{cache.client.info()['server_pid']}/exe")


async def ask():
    async with mqkv.aio.Client(sys.argv[1] + "/store") as client:
        await client.put("name", "Ada")
        return home.queue_of(sys.argv[1] + "/store"), (await client.get("name")).decode()

print(server, *asyncio.run(ask()))
PYTHON
check_status 0 "a cache and a client of directories start a daemon" \
    alone "$MQKV_TEST_DIR/venv/bin/python" -I "$MQKV_TEST_DIR/use.py" "$MQKV_TEST_DIR"
read -r server queue name <<<"$output"
check_equal "$programs/serverk Ada" "$server $name" "that of the wheel"
check_equal Ada "$(alone "$MQKV_TEST_DIR/venv/bin/clientk" -m "$queue" get name)" \
    "clientk is there, too"
for program in serverk clientk kvcheck kresp; do
    check_equal "$("$MQKV_BUILD/$program" --version)" \
        "$(alone "$MQKV_TEST_DIR/venv/bin/$program" --version)" "$program is as it was built"
done
check_status 1 "and its exit status comes through" \
    alone "$MQKV_TEST_DIR/venv/bin/clientk" -m "$queue" get none
for store in cache store; do
    server_pid=$(pgrep -f -- "--dir $MQKV_TEST_DIR/$store ") && kill "$server_pid"
done
