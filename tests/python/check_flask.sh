#!/usr/bin/env bash
# check_flask: mqkv.cachelib is a cache for cachelib and for Flask-Caching
. "$(dirname "$0")/lib.sh"

environment flask cachelib flask-caching || exit 0
cat >"$MQKV_TEST_DIR/use.py" <<'PYTHON'
import sys

from flask import Flask
from flask_caching import Cache as FlaskCaching

from mqkv import home
from mqkv.cachelib import Cache

home.IDLE_EXIT = "200ms"
cache = Cache(sys.argv[1] + "/one", default_timeout=60)
assert cache.set("k", ("a", 1)) and cache.get("k") == ("a", 1) and cache.has("k")
assert not cache.add("k", 2) and cache.add("new", 2, timeout=0)
assert cache.cache.get("k", expire_time=True)[1] and not cache.cache.get("new", expire_time=True)[1]
assert cache.inc("n", 3) == 3 and cache.dec("n") == 2
assert cache.set_many({"x": 1, "y": [2]}) == ["x", "y"]
assert cache.get_many("x", "none", "y") == [1, None, [2]] and cache.get_dict("x") == {"x": 1}
assert cache.delete("x") and not cache.delete("x") and cache.delete_many("y", "none") is not None
assert cache.clear() and not cache.has("k")

app = Flask("app")
app.config.update(CACHE_TYPE="mqkv.cachelib.FlaskCache", CACHE_DIR=sys.argv[1] + "/two",
                  CACHE_OPTIONS={"size_limit": 1 << 24})
caching, calls = FlaskCaching(app), []


@app.route("/<name>")
@caching.cached(timeout=50)
def hello(name):
    calls.append(name)
    return f"hello {name}"


@caching.memoize(50)
def square(number):
    calls.append(number)
    return number * number


with app.test_client() as client:
    assert [client.get(f"/{name}").text for name in ("a", "a", "b")] == ["hello a", "hello a",
                                                                        "hello b"]
with app.app_context():
    assert [square(3), square(3)] == [9, 9]
    caching.delete_memoized(square)
    assert square(3) == 9
    assert caching.set("k", 1) and caching.get_dict("k", "none") == {"k": 1, "none": None}
    assert caching.delete_many("k", "none") == ["k"] and caching.clear()
assert calls == ["a", "b", 3, 3], calls
PYTHON
check_status 0 "views, functions and values are cached" "$environment_python" \
    "$MQKV_TEST_DIR/use.py" "$MQKV_TEST_DIR"
