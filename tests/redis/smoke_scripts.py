"""Programs of Redis that limit and lock by scripts, on kresp: limits, flask-limiter and
python-redis-lock, as they come. KRESP_SOCKET is where kresp listens."""
import os
import sys

import flask
import flask_limiter
import limits
import redis
import redis_lock
from limits import storage, strategies

SOCKET = os.environ["KRESP_SOCKET"]
URL = f"redis+unix://{SOCKET}"
FAILED = []


def check(holds, text, *seen):
    print("ok" if holds else "not ok", "-", text, *([] if holds else seen))
    if not holds:
        FAILED.append(text)


def check_limits():
    place = storage.storage_from_string(URL)
    three = limits.parse("3/hour")
    for name in ("FixedWindow", "SlidingWindowCounter"):
        strategy = getattr(strategies, f"{name}RateLimiter")(place)
        hits = [strategy.hit(three, "user", name) for _ in range(4)]
        check(hits == [True, True, True, False], f"limits: {name} lets three in", hits)
        left = strategy.get_window_stats(three, "user", name)
        check(left.remaining == 0, f"limits: {name} tells that none is left", left)
        strategy.clear(three, "user", name)
        check(strategy.hit(three, "user", name), f"limits: {name} begins anew")
    try:
        place.reset()
        check(False, "limits: reset needs KEYS")
    except redis.ResponseError as error:
        check("about the whole store" in str(error), "limits: reset needs KEYS, and is told", error)
    try:
        strategies.MovingWindowRateLimiter(place).hit(three, "user")
        check(False, "limits: MovingWindow needs a list")
    except redis.ResponseError as error:
        check("kresp has no 'lindex'" in str(error) or "kresp has no 'lrange'" in str(error),
              "limits: MovingWindow needs a list, and is told", error)


def check_flask_limiter():
    app = flask.Flask("limited")
    flask_limiter.Limiter(lambda: "somebody", app=app, storage_uri=URL,
                          default_limits=["2 per hour"])
    app.add_url_rule("/", view_func=lambda: "served")
    codes = [app.test_client().get("/").status_code for _ in range(3)]
    check(codes == [200, 200, 429], "flask-limiter: the third request is one too many", codes)


def check_redis_lock():
    client = redis.Redis(unix_socket_path=SOCKET)
    lock = redis_lock.Lock(client, "one", expire=60)
    check(lock.acquire(blocking=False), "python-redis-lock: acquires a lock")
    check(not redis_lock.Lock(client, "one", expire=60).acquire(blocking=False),
          "python-redis-lock: which nobody else has then")
    lock.extend(100)
    check(client.pttl("lock:one") > 90000, "python-redis-lock: extends it")
    try:
        lock.release()
        check(False, "python-redis-lock: releases it with a list")
    except redis.ResponseError as error:
        check("kresp has no 'lpush'" in str(error) or "kresp has no 'del'" in str(error),
              "python-redis-lock: releases it with a list, and is told", error)


redis.Redis(unix_socket_path=SOCKET).flushall()
check_limits()
check_flask_limiter()
check_redis_lock()
sys.exit(1 if FAILED else 0)
