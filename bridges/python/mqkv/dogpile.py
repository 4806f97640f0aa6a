"""A backend for dogpile.cache.

    import mqkv.dogpile                      # registers it; where mqkv is installed this may go
    from dogpile.cache import make_region

    region = make_region().configure("mqkv", expiration_time=3600,
                                     arguments={"directory": "~/.cache/myprogram"})

Values are stored as by mqkv.Cache, without pickle; a region's own serializer counts if it has one.
Arguments are those of mqkv.Cache, and

    expire              seconds after which the store forgets a value; by default none
    distributed_lock    whether one of all programs makes a value, not one of each: its lock ends
                        after lock_timeout seconds (60) in any case, so that a program that died
                        holds nobody up
"""

from __future__ import annotations

import os
import time
from typing import Any, Iterable, Mapping, Optional

# Without dogpile.cache, or its types, nothing is known of it.
from dogpile.cache import register_backend  # type: ignore
from dogpile.cache.api import NO_VALUE, CacheBackend, CachedValue  # type: ignore

from .cache import Cache
from .errors import Exists, NotFound, VersionMismatch

__all__ = ["Backend"]

_VALUE = "dogpile"  # before the payload and the metadata of a value


class Mutex:
    """The lock of a value, for all programs."""

    def __init__(self, cache: Cache, key: str, timeout: float) -> None:
        self._client = cache.client
        self._name = cache.lock_name + b":" + key.encode("utf-8", "surrogatepass")
        self._timeout = timeout
        self._version = 0

    def acquire(self, wait: bool = True) -> bool:
        """Takes it; False: somebody else has it, and wait is false."""
        pause = 0.001
        while True:
            try:
                self._version = self._client.put(self._name, f"{os.getpid()}", if_absent=True,
                                                 ttl=self._timeout)
                return True
            except Exists:
                if not wait:
                    return False
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def release(self) -> None:
        """Gives it back, unless its time was over."""
        try:
            self._client.delete(self._name, if_version=self._version)
        except (NotFound, VersionMismatch):
            pass

    def locked(self) -> bool:
        """Whether somebody has it."""
        return self._client.exists(self._name)


class Backend(CacheBackend):  # type: ignore[misc]
    """The backend: see this module's page."""

    def __init__(self, arguments: "dict[str, Any]") -> None:
        options = dict(arguments)
        self._expire: "Optional[float]" = options.pop("expire", None)
        self._is_distributed = options.pop("distributed_lock", False)
        self._lock_timeout: float = options.pop("lock_timeout", 60.0)
        self.cache = Cache(options.pop("directory", None), **options)

    def get_mutex(self, key: str) -> "Optional[Mutex]":
        """Called by dogpile.cache."""
        return Mutex(self.cache, key, self._lock_timeout) if self._is_distributed else None

    @staticmethod
    def _made(found: Any) -> Any:
        if isinstance(found, tuple) and len(found) == 3 and found[0] == _VALUE:
            return CachedValue(found[1], found[2])
        return found

    @staticmethod
    def _kept(value: Any) -> Any:
        if isinstance(value, CachedValue):
            return _VALUE, value.payload, dict(value.metadata)
        return value

    def get(self, key: str) -> Any:
        """The value, or NO_VALUE."""
        return self._made(self.cache.get(key, NO_VALUE))

    def get_multi(self, keys: "Iterable[str]") -> "list[Any]":
        """The values, in one message."""
        wanted = list(keys)
        found = self.cache.get_many(wanted)
        return [self._made(found.get(key, NO_VALUE)) for key in wanted]

    def set(self, key: str, value: Any) -> None:
        """Stores the value."""
        self.cache.set(key, self._kept(value), self._expire)

    def set_multi(self, mapping: "Mapping[str, Any]") -> None:
        """Stores the values, in one message."""
        self.cache.set_many({key: self._kept(value) for key, value in mapping.items()},
                            self._expire)

    def delete(self, key: str) -> None:
        """Deletes the entry, if there is one."""
        self.cache.delete(key)

    def delete_multi(self, keys: "Iterable[str]") -> None:
        """Deletes those that are there, in one message."""
        self.cache.delete_many(keys)


register_backend("mqkv", "mqkv.dogpile", "Backend")
