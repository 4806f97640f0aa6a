#!/usr/bin/env bash
# check_flask: mqkv.cachelib is a cache for cachelib, and mqkv.flask_caching one for Flask-Caching
# (their newest releases and the oldest)
. "$(dirname "$0")/lib.sh"

cat >"$MQKV_TEST_DIR/use.py" <<'PYTHON'
import datetime
import os
import sys

import cachelib
from flask import Flask, Response, abort, jsonify, redirect
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
day = datetime.timedelta(days=1)
assert cache.set("day", 1, timeout=day) and cache.add("other", 1, timeout=day)
assert cache.set_many({"z": 1}, timeout=day) == ["z"]
assert all(cache.cache.get(key, expire_time=True)[1] for key in ("day", "other", "z"))
assert cache.delete("x") and not cache.delete("x")
memory = cachelib.SimpleCache()
for one in (cache, memory):
    one.set("y", 1)
assert cache.delete_many("y", "none") == memory.delete_many("y", "none")
assert cache.clear() and not cache.has("k")

app = Flask("app")
directory = sys.argv[1] + "/two"
app.config.update(CACHE_TYPE="mqkv.flask_caching.Cache", CACHE_DIR=directory,
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


@app.route("/made/<kind>")
@caching.cached()
def made(kind):
    calls.append(kind)
    if kind == "json":
        return jsonify(number=1), 201, {"X-Extra": "yes"}
    if kind == "redirect":
        return redirect("/elsewhere")
    if kind == "stream":
        return Response(part for part in ["a", "b"])
    abort(404, "nothing here")


with app.test_client() as client:
    for _ in range(2):
        answer = client.get("/made/json")
        assert (answer.status_code, answer.json, answer.headers["X-Extra"]) == (
            201, {"number": 1}, "yes"), answer
        assert answer.content_type == "application/json"
        answer = client.get("/made/redirect")
        assert (answer.status_code, answer.location) == (302, "/elsewhere"), answer
        answer = client.get("/made/stream")
        assert (answer.status_code, answer.text) == (200, "ab"), answer
        answer = client.get("/made/abort")
        assert answer.status_code == 404 and "nothing here" in answer.text, answer
assert calls[:4] == ["json", "redirect", "stream", "abort"], calls
# Those that are streamed are not stored, and what abort raises is by 2.5 and later.
assert calls[4:] in (["stream"], ["stream", "abort"]), calls
calls.clear()

with app.test_client() as client:
    assert [client.get(f"/{name}").text for name in ("a", "a", "b")] == ["hello a", "hello a",
                                                                        "hello b"]
with app.app_context():
    assert [square(3), square(3)] == [9, 9]
    caching.delete_memoized(square)
    assert square(3) == 9
    assert caching.set("k", 1) and caching.get_dict("k", "none") == {"k": 1, "none": None}
    memory.set("k", 1)
    assert caching.delete_many("none", "k") == memory.delete_many("none", "k")
    assert not caching.has("k")
    caching.set("kept", 1)
assert calls == ["a", "b", 3, 3], calls
assert os.path.exists(directory + "/serverk.conf"), "the data lie elsewhere"
with Cache(directory).cache as whole:
    assert whole.get("kept") == 1, list(whole)

for config in ({"CACHE_DIR": sys.argv[1] + "/three"}, {"CACHE_ARGS": [sys.argv[1] + "/three"]}):
    app = Flask("other")
    app.config.update(CACHE_TYPE="mqkv.cachelib.FlaskCache", **config)
    try:
        other = FlaskCaching(app).app.extensions["cache"]
    except TypeError:
        raise SystemExit(f"the name of before fails: {config}")
    used = [each.cache.directory for each in other.values()]
    assert used == [sys.argv[1] + "/three"] or "CACHE_DIR" in config, used
PYTHON
for release in "new cachelib>=0.17 flask-caching>=2.5.1" \
    "old cachelib==0.13.0 flask-caching==2.3.1"
do
    read -r name packages <<<"$release"
    # shellcheck disable=SC2086 # several packages
    environment "flask-$name" $packages || continue
    mkdir -p "$MQKV_TEST_DIR/$name"
    check_status 0 "views, functions and values are cached ($packages)" "$environment_python" \
        "$MQKV_TEST_DIR/use.py" "$MQKV_TEST_DIR/$name"
done
