"""What the adapters of frameworks do on their own. The frameworks are not there: what the adapters
take from them is made here, as little as they need. tests/python runs the frameworks."""

import datetime
import importlib
import sys
import types

import pytest


@pytest.fixture
def framework(monkeypatch):
    """Makes modules of a framework, and imports the adapters that it is asked for anew."""
    def make(adapters, **modules):
        for name, content in modules.items():
            name = name.replace("__", ".")
            made = types.ModuleType(name)
            vars(made).update(content)
            monkeypatch.setitem(sys.modules, name, made)
        for adapter in adapters:
            monkeypatch.delitem(sys.modules, f"mqkv.{adapter}", raising=False)
        return [importlib.import_module(f"mqkv.{adapter}") for adapter in adapters]

    return make


# cachelib, Flask-Caching -------------------------------------------------------------------------

class _CachelibBase:
    def __init__(self, default_timeout=300):
        self.default_timeout = default_timeout

    def delete_many(self, *keys):
        return [key for key in keys if self.delete(key) or not self.has(key)]


class _FlaskBase(_CachelibBase):
    def delete_many(self, *keys):
        raise AssertionError("this one ends at the first key that is not there")


class _Response:
    def __init__(self, body, status="200 OK", headers=(), streamed=False):
        self.body, self.status, self.headers = body, status, dict(headers)
        self.is_sequence, self.direct_passthrough = not streamed, False

    def get_data(self):
        return self.body


class _HTTPException(Exception):
    code = None

    def __init__(self, description=None, response=None):
        super().__init__()
        self.description, self.response = description, response


class _NotFound(_HTTPException):
    code = 404


@pytest.fixture
def flask_caches(framework):
    return framework(
        ["cachelib", "flask_caching"],
        cachelib={"BaseCache": _CachelibBase}, cachelib__base={"BaseCache": _CachelibBase},
        flask={"current_app": None, "has_app_context": lambda: False},
        flask_caching={}, flask_caching__backends={},
        flask_caching__backends__base={"BaseCache": _FlaskBase},
        werkzeug={}, werkzeug__wrappers={"Response": _Response},
        werkzeug__exceptions={"HTTPException": _HTTPException,
                              "default_exceptions": {404: _NotFound}})


def test_cachelib_takes_timedeltas(flask_caches, client):
    """A timeout is one, whatever the release of cachelib."""
    cache = flask_caches[0].Cache(client=client, default_timeout=datetime.timedelta(days=9))
    day = datetime.timedelta(days=1)
    cache.set("a", 1, timeout=day)
    cache.add("b", 1, timeout=day)
    cache.set_many({"c": 1}, timeout=day)
    for key in "abc":
        assert 86000 < client.ttl(b"cache:ks" + key.encode()) <= 86400
    cache.set("d", 1)
    assert client.ttl(b"cache:ksd") > 86400
    cache.set("e", 1, timeout=datetime.timedelta(0))
    assert client.ttl(b"cache:kse") is None
    assert flask_caches[0].Cache(client=client, ignore_delete_many_errors=False) \
        .ignore_delete_many_errors is False


def test_flask_caching_sees_the_directory(flask_caches, tmp_path):
    """CACHE_DIR is where the data lie; CACHE_ARGS come behind it."""
    _, module = flask_caches
    assert "cachelib" not in module.__name__ and issubclass(module.Cache, _FlaskBase)
    made = module.Cache.factory(None, {"CACHE_DIR": str(tmp_path / "d"),
                                       "CACHE_DEFAULT_TIMEOUT": 7}, [], {"size_limit": 1 << 24})
    assert made.cache.directory == str(tmp_path / "d") and made.default_timeout == 7
    assert (tmp_path / "d" / "serverk.conf").exists()
    assert made.delete_many("none", "other") == ["none", "other"]
    made.cache.close()


def test_flask_caching_the_old_name(flask_caches, tmp_path):
    """It is called in two ways, by release; without a directory it says what is better."""
    old = flask_caches[0].FlaskCache
    directory = str(tmp_path / "d")
    for made in (old(directory, default_timeout=7),
                 old(None, {"CACHE_DIR": directory, "CACHE_DEFAULT_TIMEOUT": 7}, [], {})):
        assert made.cache.directory == directory and made.default_timeout == 7
        made.cache.close()
    with pytest.warns(UserWarning, match="mqkv.flask_caching.Cache"):
        old(default_timeout=7).cache.close()


def test_flask_caching_keeps_what_views_return(flask_caches, client):
    """Responses, alone or with a status, and what abort raises; no streams."""
    cache = flask_caches[1].Cache(client=client)
    cache.set("json", _Response(b"{}", "201 CREATED", {"X-Extra": "yes"}))
    got = cache.get("json")
    assert type(got) is _Response
    assert (got.body, got.status, got.headers) == (b"{}", "201 CREATED", {"X-Extra": "yes"})
    cache.set_many({"pair": (_Response(b"x"), 202)})
    (got, status), none = cache.get_many("pair", "none")
    assert (got.body, status, none) == (b"x", 202, None)
    cache.add("abort", _NotFound("gone"))
    got = cache.get_dict("abort")["abort"]
    assert type(got) is _NotFound and got.description == "gone"
    cache.set("custom", _HTTPException(response=_Response(b"y")))
    assert cache.get("custom").response.body == b"y"
    with pytest.raises(TypeError):
        cache.set("stream", _Response(b"", streamed=True))
    for value in ((), (1, "a"), "text", {"a": (1,)}):
        cache.set("plain", value)
        assert cache.get("plain") == value
