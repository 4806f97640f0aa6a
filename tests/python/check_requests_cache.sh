#!/usr/bin/env bash
# check_requests_cache: the tests that requests-cache has for backends pass on mqkv.requests_cache
. "$(dirname "$0")/lib.sh"

version=1.3.3
environment requests_cache "requests-cache==$version" pytest pytest-httpbin requests-mock \
    responses rich time-machine hatchling || exit 0
if [ ! -e "$kept_dir/requests_cache-$version.tar.gz" ] && ! "$environment_python" -m pip download \
    --quiet --disable-pip-version-check --no-deps --no-binary :all: --no-build-isolation \
    -d "$kept_dir" "requests-cache==$version" >"$MQKV_TEST_DIR/pip.log" 2>&1
then
    skip "its tests: its sources are out of reach: $(tail -n 1 "$MQKV_TEST_DIR/pip.log")"
    exit
fi
tar -xzf "$kept_dir/requests_cache-$version.tar.gz" -C "$MQKV_TEST_DIR"
sources=$MQKV_TEST_DIR/requests_cache-$version
cat >"$sources/tests/integration/test_mqkv.py" <<'PYTHON'
import os

from mqkv import home
from mqkv.cache import Cache as Values
from mqkv.requests_cache import Cache, Storage
from tests.integration.base_cache_test import BaseCacheTest
from tests.integration.base_storage_test import BaseStorageTest

home.IDLE_EXIT = "200ms"
DIRECTORY = os.environ["MQKV_TEST_DIR"]
SHARED = Values(DIRECTORY + "/storage")


class TestStorage(BaseStorageTest):
    init_kwargs = {"serializer": "json"}

    @staticmethod
    def storage_class(name, table, connection=None, **options):
        return Storage(SHARED, f"{name}/{table}", **options)


class TestCache(BaseCacheTest):
    @staticmethod
    def backend_class(name, **options):
        return Cache(DIRECTORY + "/cache", **options)

    def test_responses_end(self):
        session = self.init_session(expire_after=60, ttl_offset=40)
        session.get(os.environ["HTTPBIN_URL"] + "/get")
        responses = session.cache.responses
        key, = responses
        assert 90 < responses.cache.client.ttl(responses.cache._stored(key)) <= 100
PYTHON
cd "$sources" || exit
check_status 0 "they pass" env USE_PYTEST_HTTPBIN=true PYTHONPATH="$sources" "$environment_python" \
    -m pytest -q -rs -p no:cacheprovider -W ignore tests/integration/test_mqkv.py
check_match '^1[23][0-9] passed in' "$output" "all of them"
