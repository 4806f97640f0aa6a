"""A cache for Flask-Caching (2.3 and later).

    app.config["CACHE_TYPE"] = "mqkv.flask_caching.Cache"
    app.config["CACHE_DIR"] = "~/.cache/myprogram"
    app.config["CACHE_OPTIONS"] = {"size_limit": 2 ** 28}

Without CACHE_DIR each process has a cache of its own. CACHE_OPTIONS are those of mqkv.Cache; values
are stored as it stores them, without pickle. What views return is stored, too: responses (jsonify,
redirect, ...), and what abort raises, which Flask-Caching caches since 2.5. Responses that are
streamed (send_file, generators) are not.
"""

from __future__ import annotations

from typing import Any, Optional

# Without these, or their types, nothing is known of them.
import cachelib  # type: ignore
from flask import current_app, has_app_context  # type: ignore
from flask_caching.backends.base import BaseCache  # type: ignore
from werkzeug.exceptions import HTTPException, default_exceptions  # type: ignore
from werkzeug.wrappers import Response  # type: ignore

from .cachelib import Cache as _Cache, Timeout

__all__ = ["Cache"]

# What stands first in the tuple that is stored for one of these.
_RESPONSE = "\0response"
_EXCEPTION = "\0exception"


def _storable(value: Any) -> Any:
    """The value, or a tuple that says what is in it."""
    if isinstance(value, Response):
        if value.is_sequence and not value.direct_passthrough:
            return _RESPONSE, value.status, list(value.headers.items()), value.get_data()
    elif isinstance(value, HTTPException):
        if value.response is not None:
            return _EXCEPTION, None, _storable(value.response)
        if type(value) is default_exceptions.get(value.code) and (
                vars(value).keys() <= {"description", "response"}):
            return _EXCEPTION, value.code, value.description
    elif type(value) is tuple:  # (jsonify(...), 201)
        return tuple(map(_storable, value))
    return value


def _restored(value: Any) -> Any:
    if type(value) is not tuple or not value:
        return value
    if value[0] == _RESPONSE:
        kind = current_app.response_class if has_app_context() else Response
        return kind(value[3], status=value[1], headers=value[2])
    if value[0] == _EXCEPTION:
        if value[1] is None:
            return HTTPException(response=_restored(value[2]))
        return default_exceptions[value[1]](value[2])
    return tuple(map(_restored, value))


class Cache(_Cache, BaseCache):  # type: ignore[misc]
    """The cache: see this module's page."""

    # Flask-Caching 2.3's own ends at the first key that is not there.
    delete_many = cachelib.BaseCache.delete_many

    def __init__(self, directory: Any = None, default_timeout: Timeout = 300,
                 ignore_delete_many_errors: bool = False, **options: Any) -> None:
        super().__init__(directory, default_timeout, ignore_delete_many_errors, **options)
        self.ignore_errors = ignore_delete_many_errors

    @classmethod
    def factory(cls, app: Any, config: "dict[str, Any]", args: "list[Any]",
                kwargs: "dict[str, Any]") -> "Cache":
        """Called by Flask-Caching."""
        if config.get("CACHE_DIR"):
            args = [config["CACHE_DIR"], *args]
        kwargs.setdefault("default_timeout", config["CACHE_DEFAULT_TIMEOUT"])
        return cls(*args, **kwargs)

    def get(self, key: str) -> Any:
        """The value, or None."""
        return _restored(super().get(key))

    def get_many(self, *keys: str) -> "list[Any]":
        """The values, None for those that are not there, in one message."""
        return list(map(_restored, super().get_many(*keys)))

    def get_dict(self, *keys: str) -> "dict[str, Any]":
        """The values by key, None for those that are not there."""
        return dict(zip(keys, self.get_many(*keys)))

    def set(self, key: str, value: Any, timeout: Optional[Timeout] = None) -> Optional[bool]:
        """Stores the value."""
        return super().set(key, _storable(value), timeout)

    def add(self, key: str, value: Any, timeout: Optional[Timeout] = None) -> Optional[bool]:
        """Stores the value if the key is absent; tells whether it was."""
        return super().add(key, _storable(value), timeout)

    def set_many(self, mapping: "dict[str, Any]",
                 timeout: Optional[Timeout] = None) -> "list[Any]":
        """Stores all of them, in one message; returns the keys."""
        return super().set_many({key: _storable(value) for key, value in mapping.items()}, timeout)

    def unlink(self, *keys: str) -> "list[str]":
        """As delete_many."""
        deleted: "list[str]" = self.delete_many(*keys)
        return deleted
