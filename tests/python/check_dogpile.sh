#!/usr/bin/env bash
# check_dogpile: the tests that dogpile.cache has for backends pass on mqkv.dogpile
. "$(dirname "$0")/lib.sh"

environment dogpile "dogpile.cache==1.5.0" pytest || exit 0
cat >"$MQKV_TEST_DIR/test_mqkv.py" <<'PYTHON'
import os

import mqkv.dogpile
from dogpile.testing import fixtures
from mqkv import home

home.IDLE_EXIT = "200ms"
arguments = {"directory": os.environ["MQKV_TEST_DIR"] + "/cache", "expire": 600}


class TestBackend(fixtures._GenericBackendTestSuite):
    backend = "mqkv"
    config_args = {"arguments": arguments}


class TestSerializer(fixtures._GenericSerializerTestSuite, TestBackend):
    pass


class TestWithLocks(fixtures._GenericBackendTestSuite):
    backend = "mqkv"
    config_args = {"arguments": {**arguments, "distributed_lock": True}}


class TestMutex(fixtures._GenericMutexTestSuite):
    backend = "mqkv"
    config_args = {"arguments": {**arguments, "distributed_lock": True}}


def test_a_lock_of_one_that_died():
    maker = mqkv.dogpile.Backend({**arguments, "distributed_lock": True, "lock_timeout": 0.2})
    first, second = maker.get_mutex("died"), maker.get_mutex("died")
    assert first.acquire() and not second.acquire(False) and second.acquire()
    first.release()
    assert second.locked()
    second.release()
    assert not first.locked()
PYTHON
check_status 0 "they pass" "$environment_python" -m pytest -q -rs -p no:cacheprovider -c /dev/null \
    -W ignore --rootdir="$MQKV_TEST_DIR" "$MQKV_TEST_DIR/test_mqkv.py"
check_match '^81 passed in' "$output" "all of them"
