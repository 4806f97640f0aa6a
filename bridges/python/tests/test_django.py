"""mqkv.django.Cache: its own tests, and Django's where its sources are."""

import os
import subprocess
import sys
import threading
import time

import pytest

import mqkv

django = pytest.importorskip("django", reason="Django is not there (python3-django)")

from django.conf import settings  # noqa: E402

if not settings.configured:
    settings.configure(CACHES={"default": {"BACKEND": "mqkv.django.Cache", "LOCATION": ""}},
                       SECRET_KEY="x", USE_TZ=True)

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import caches  # noqa: E402
from mqkv.django import Cache, close_clients  # noqa: E402


@pytest.fixture
def cache(queue):
    yield Cache(queue, {"KEY_PREFIX": "p"})
    close_clients()


VALUES = ["text", "", 0, 1, -5, 2 ** 62, 2 ** 63, -2 ** 63, 10 ** 30, True, False, None, 1.5,
          b"bytes",
          b"12", "12", ["list"], {"a": (1, 2)}, {1, 2}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_every_value_comes_back(cache, value):
    cache.set("k", value)
    found = cache.get("k", "absent")
    assert found == value and type(found) is type(value)
    assert cache.get_many(["k", "none"]) == {"k": value}


def test_the_contract(cache):
    assert cache.get("k") is None and cache.get("k", 5) == 5
    assert cache.add("k", 1) is True and cache.add("k", 2) is False and cache.get("k") == 1
    assert cache.incr("k") == 2 and cache.incr("k", 10) == 12 and cache.decr("k", 2) == 10
    assert cache.has_key("k") and "k" in cache and "none" not in cache
    with pytest.raises(ValueError):
        cache.incr("none")
    cache.set("text", "x")
    with pytest.raises(TypeError):
        cache.incr("text")
    assert cache.set_many({"a": 1, "b": "2"}) == []
    assert cache.get_many(["a", "b", "c"]) == {"a": 1, "b": "2"}
    cache.delete_many(["a", "b", "c"])
    assert cache.get_many(["a", "b"]) == {}
    assert cache.delete("k") is True and cache.delete("k") is False
    assert cache.get_or_set("k", lambda: 7) == 7 and cache.get("k") == 7
    cache.set("k", 1, version=2)
    assert cache.get("k") == 7 and cache.get("k", version=2) == 1
    assert cache.incr_version("k") == 2 and cache.get("k") is None


def test_timeouts(cache):
    cache.set("k", 1, timeout=None)
    assert cache._client.ttl(b"django:p:1:k") is None
    cache.set("k", 1)
    assert 290 < cache._client.ttl(b"django:p:1:k") <= 300
    cache.incr("k")
    assert 290 < cache._client.ttl(b"django:p:1:k") <= 300
    assert cache.touch("k", 50) and 40 < cache._client.ttl(b"django:p:1:k") <= 50
    assert cache.touch("k", None) and cache._client.ttl(b"django:p:1:k") is None
    assert cache.touch("k", 0) is True and cache.get("k") is None
    assert cache.touch("k", 5) is False and cache.touch("k", -1) is False
    for over in (0, -5):
        cache.set("k", 1)
        cache.set("k", 2, timeout=over)
        assert cache.get("k") is None
        assert cache.add("k", 1, timeout=over) is True and cache.get("k") is None
        cache.set_many({"k": 1}, timeout=over)
        assert cache.get("k") is None
    cache.set("k", 1, timeout=0.05)
    time.sleep(0.07)
    assert cache.get("k") is None
    cache.set_many({"k": 1}, timeout=100)
    assert 90 < cache._client.ttl(b"django:p:1:k") <= 100


def test_clear_deletes_its_namespace_only(queue, client):
    one = Cache(queue, {"OPTIONS": {"namespace": "one:"}})
    two = Cache(queue, {"OPTIONS": {"namespace": "two:"}})
    client.put("other", "1")
    one.set("k", 1)
    two.set("k", 2)
    one.clear()
    assert one.get("k") is None and two.get("k") == 2 and client.get("other") == b"1"
    with pytest.raises(ValueError):
        Cache(queue, {"OPTIONS": {"namespace": ""}})
    close_clients()


class Reversed:
    """A serializer."""

    def dumps(self, value):
        return repr(value).encode()[::-1]

    def loads(self, data):
        return data[::-1].decode()


def test_options(queue):
    for serializer in (Reversed, Reversed(), f"{__name__}.Reversed"):
        sys.modules.setdefault(__name__, sys.modules[Reversed.__module__])
        cache = Cache(queue, {"OPTIONS": {"serializer": serializer, "timeout": 2.5}})
        cache.set("k", 4.5)
        assert cache.get("k") == "4.5"
        cache.set("n", 45)
        assert cache.incr("n") == 46
    old = Cache(queue, {"OPTIONS": {"pickle_protocol": 0, "MAX_ENTRIES": 5}})
    old.set("k", ["x"])
    assert old.get("k") == ["x"] and old._client.get("django::1:k")[:1] != b"\x80"
    close_clients()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_keys_are_validated(cache):
    with pytest.warns(Warning):
        cache.set("with blank", 1)
    with pytest.raises(mqkv.BadKey):
        cache.set("k" * 70_000, 1)


def test_threads_and_forks(cache):
    cache.set("n", 0)

    def work():
        for _ in range(100):
            cache.incr("n")

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if cache.incr("n") == 501 else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert cache.get("n") == 501


def test_sessions(queue):
    session = SessionStore()
    session["user"] = 7
    session.create()
    again = SessionStore(session.session_key)
    assert again["user"] == 7 and again.exists(session.session_key)
    again.cycle_key()
    assert SessionStore(again.session_key)["user"] == 7
    again.flush()
    assert SessionStore(session.session_key).load() == {}
    caches["default"].close()
    close_clients()


def test_djangos_own_tests(queue):
    if not os.environ.get("DJANGO_SOURCE"):
        pytest.skip("they need DJANGO_SOURCE=<source tree of Django>")
    script = os.path.join(os.path.dirname(__file__), "django_suite.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=500,
                          check=False)
    assert done.returncode == 0 and "OK" in done.stderr, done.stdout + done.stderr
