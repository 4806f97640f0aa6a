"""smoke_django: Django's cache and sessions, and django-redis with its locks and its counter, which
is a script, do on kresp what programs do with them."""
import os
import sys

import django
from django.conf import settings

URL = "unix://" + os.environ["KRESP_SOCKET"]
settings.configure(
    CACHES={
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": URL},
        "django-redis": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": URL},
    },
    INSTALLED_APPS=["django.contrib.sessions"],
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
    USE_TZ=True,
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import caches  # noqa: E402

failed = 0


def check(holds, text):
    global failed
    failed += not holds
    print("ok" if holds else "not ok", "-", f"Django {django.__version__}:", text)


def raises(error, call, *arguments):
    try:
        call(*arguments)
    except error:
        return True
    return False


def try_cache(name):
    cache = caches[name]
    cache.clear()
    cache.set("a", {"any": ["object", 1]}, 60)
    check(cache.get("a") == {"any": ["object", 1]}, f"{name}: set and get")
    check(cache.get("b", 7) == 7, f"{name}: a default")
    check(cache.add("b", 1, 60) and not cache.add("b", 2, 60), f"{name}: add")
    check(cache.incr("b") == 2 and cache.incr("b", 40) == 42, f"{name}: counters")
    check(cache.decr("b") == 41, f"{name}: and down")
    check(raises(ValueError, cache.incr, "nothing"), f"{name}: a counter that is not there")
    check(cache.touch("a", 100) and not cache.touch("nothing", 100), f"{name}: touch")
    check(not cache.set_many({"x": 1, "y": "2"}, 60), f"{name}: set_many")
    check(cache.get_many(["x", "y", "z"]) == {"x": 1, "y": "2"}, f"{name}: get_many")
    cache.delete_many(["x", "y"])
    check(not cache.has_key("x") and cache.delete("a"), f"{name}: deletion")
    check(not cache.delete("a"), f"{name}: of what is absent")
    check(cache.get_or_set("s", lambda: "made", 60) == "made", f"{name}: get_or_set")
    cache.set("gone", 1, 0)
    check(cache.get("gone") is None, f"{name}: an expiry that is over")
    cache.set("forever", 1, None)
    check(cache.get("forever") == 1, f"{name}: no expiry")


def try_django_redis():
    cache = caches["django-redis"]
    cache.set("t", 1, 100)
    check(0 < cache.ttl("t") <= 100, "django-redis: ttl")
    check(cache.persist("t") and cache.ttl("t") is None, "django-redis: persist")
    cache.set_many({f"k{i}": i for i in range(100)})
    check(len(cache.keys("k*")) == 100, "django-redis: keys")
    check(len(set(cache.iter_keys("k*"))) == 100, "django-redis: iter_keys")
    check(cache.delete_pattern("k*") == 100, "django-redis: delete_pattern")
    with cache.lock("l", timeout=10):
        check(not cache.lock("l", timeout=10, blocking=False).acquire(), "django-redis: lock")
    check(cache.set("nx", 1, nx=True) and not cache.set("nx", 2, nx=True), "django-redis: set nx")


def try_sessions():
    session = SessionStore()
    session["user"] = 7
    session.set_expiry(100)
    session.save()
    again = SessionStore(session.session_key)
    check(again["user"] == 7 and again.exists(session.session_key), "sessions: saved and loaded")
    old_key = again.session_key
    again.cycle_key()
    check(again["user"] == 7 and not again.exists(old_key), "sessions: a new key")
    again.flush()
    check(SessionStore(again.session_key).get("user") is None, "sessions: flushed")


try_cache("default")
try_cache("django-redis")
try_django_redis()
try_sessions()
sys.exit(1 if failed else 0)
