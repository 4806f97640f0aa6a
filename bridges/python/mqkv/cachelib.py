"""A cache for cachelib, and so for Flask-Session. Flask-Caching has mqkv.flask_caching.

    from mqkv.cachelib import Cache
    sessions = Cache("~/.cache/myprogram", default_timeout=3600)

Arguments and options are those of mqkv.Cache; values are stored as it stores them, without pickle.
"""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import Any, Optional, Union

# Without cachelib, or its types, nothing is known of it.
from cachelib.base import BaseCache  # type: ignore

from .cache import Cache as _Cache

__all__ = ["Cache", "FlaskCache", "Timeout"]

Timeout = Union[int, timedelta]


class Cache(BaseCache):  # type: ignore[misc]
    """The cache: see this module's page. Its methods are those of cachelib's BaseCache. A timeout
    is a number of seconds or a timedelta, with any release of cachelib; 0 is none."""

    def __init__(self, directory: Any = None, default_timeout: Timeout = 300,
                 ignore_delete_many_errors: bool = True, **options: Any) -> None:
        super().__init__(default_timeout)
        self.ignore_delete_many_errors = ignore_delete_many_errors
        self.cache = _Cache(directory, **options)

    def _expire(self, timeout: Optional[Timeout]) -> Optional[float]:
        given = self.default_timeout if timeout is None else timeout
        seconds: float = given.total_seconds() if isinstance(given, timedelta) else given
        return seconds if seconds > 0 else None

    def get(self, key: str) -> Any:
        """The value, or None."""
        return self.cache.get(key)

    def set(self, key: str, value: Any, timeout: Optional[Timeout] = None) -> Optional[bool]:
        """Stores the value."""
        return self.cache.set(key, value, self._expire(timeout))

    def add(self, key: str, value: Any, timeout: Optional[Timeout] = None) -> Optional[bool]:
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

    def set_many(self, mapping: "dict[str, Any]", timeout: Optional[Timeout] = None) -> "list[Any]":
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


def FlaskCache(*args: Any, **options: Any) -> Any:
    """What CACHE_TYPE of Flask-Caching named before there was mqkv.flask_caching. Flask-Caching 2.5
    does not tell a name with "cachelib" in it of CACHE_DIR: CACHE_ARGS = [directory] reaches it."""
    from .flask_caching import Cache as ForFlask
    if len(args) == 4:  # Flask-Caching before 2.5
        return ForFlask.factory(*args)
    if not args and "directory" not in options:
        warnings.warn("Flask-Caching 2.5 does not tell mqkv.cachelib.FlaskCache of CACHE_DIR, and "
                      "each process has a cache of its own: CACHE_TYPE='mqkv.flask_caching.Cache'")
    return ForFlask(*args, **options)
