"""A cache for cachelib, and so for Flask-Session, and one for Flask-Caching.

    from mqkv.cachelib import Cache
    sessions = Cache("~/.cache/myprogram", default_timeout=3600)

    app.config["CACHE_TYPE"] = "mqkv.cachelib.FlaskCache"
    app.config["CACHE_DIR"] = "~/.cache/myprogram"
    app.config["CACHE_OPTIONS"] = {"size_limit": 2 ** 28}

Arguments and options are those of mqkv.Cache; values are stored as it stores them, without pickle.
"""

from __future__ import annotations

from typing import Any, Optional

# Without cachelib, or its types, nothing is known of it.
from cachelib.base import BaseCache  # type: ignore

from .cache import Cache as _Cache

__all__ = ["Cache", "FlaskCache"]


class Cache(BaseCache):  # type: ignore[misc]
    """The cache: see this module's page. Its methods are those of cachelib's BaseCache. A timeout
    of 0 is none."""

    def __init__(self, directory: Any = None, default_timeout: int = 300, **options: Any) -> None:
        super().__init__(default_timeout)
        self.cache = _Cache(directory, **options)

    def _expire(self, timeout: Optional[int]) -> Optional[int]:
        seconds: int = self.default_timeout if timeout is None else timeout
        return seconds if seconds > 0 else None

    def get(self, key: str) -> Any:
        """The value, or None."""
        return self.cache.get(key)

    def set(self, key: str, value: Any, timeout: Optional[int] = None) -> Optional[bool]:
        """Stores the value."""
        return self.cache.set(key, value, self._expire(timeout))

    def add(self, key: str, value: Any, timeout: Optional[int] = None) -> Optional[bool]:
        """Stores the value if the key is absent; tells whether it was."""
        return self.cache.add(key, value, self._expire(timeout))

    def delete(self, key: str) -> bool:
        """Deletes the entry; tells whether there was one."""
        return self.cache.delete(key)

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return key in self.cache

    def clear(self) -> bool:
        """Deletes everything in the cache."""
        self.cache.clear()
        return True

    def get_many(self, *keys: str) -> "list[Any]":
        """The values, None for those that are not there, in one message."""
        found = self.cache.get_many(keys)
        return [found.get(key) for key in keys]

    def set_many(self, mapping: "dict[str, Any]", timeout: Optional[int] = None) -> "list[Any]":
        """Stores all of them, in one message; returns the keys."""
        self.cache.set_many(mapping, self._expire(timeout))
        return list(mapping)

    def inc(self, key: str, delta: int = 1) -> Optional[int]:
        """Adds to a number, in one step; there is a new one, without end, if there was none."""
        total: int = self.cache.incr(key, delta)
        return total

    def dec(self, key: str, delta: int = 1) -> Optional[int]:
        """Takes from a number: see inc."""
        return self.inc(key, -delta)


class FlaskCache(Cache):
    """What CACHE_TYPE of Flask-Caching names."""

    def __init__(self, directory: Any = None, default_timeout: int = 300, **options: Any) -> None:
        super().__init__(directory, default_timeout, **options)
        self.ignore_errors = False

    @classmethod
    def factory(cls, app: Any, config: "dict[str, Any]", args: "list[Any]",
                kwargs: "dict[str, Any]") -> "FlaskCache":
        """Called by Flask-Caching."""
        kwargs.setdefault("default_timeout", config["CACHE_DEFAULT_TIMEOUT"])
        if config.get("CACHE_DIR"):
            args.insert(0, config["CACHE_DIR"])
        return cls(*args, **kwargs)

    def delete_many(self, *keys: str) -> "list[str]":
        """Deletes all of them; returns those that were there."""
        return [key for key in keys if self.delete(key)]

    def unlink(self, *keys: str) -> "list[str]":
        """As delete_many."""
        return self.delete_many(*keys)

    def get_dict(self, *keys: str) -> "dict[str, Any]":
        """The values by key, None for those that are not there."""
        return dict(zip(keys, self.get_many(*keys)))
