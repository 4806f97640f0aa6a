"""A cache backend for Django 3.2 and later, and so for its sessions.

    CACHES = {
        "default": {
            "BACKEND": "mqkv.django.Cache",
            "LOCATION": "/serverk",             # the queue; "": $MQKV_QUEUE, else /serverk
            "OPTIONS": {"namespace": "cache:"},
        }
    }
    SESSION_ENGINE = "django.contrib.sessions.backends.cache"

Everything that the cache stores begins with the namespace ("django:"), which is all that clear()
deletes. Integers are stored as decimal numbers, so that incr() is atomic; all other values by
pickle, or by the serializer: an object, class or dotted path with dumps and loads.
OPTIONS: namespace, serializer, pickle_protocol, and the options of mqkv.Client (timeout, ...).

All threads of a process share one client for each queue.
"""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any, Iterable, Optional, Union

# Without Django, or its types, nothing is known of them.
from django.core.cache.backends.base import (  # type: ignore
    DEFAULT_TIMEOUT, BaseCache)
from django.utils.module_loading import import_string  # type: ignore

from .client import Client
from .errors import Exists, NotANumber, NotFound

__all__ = ["Cache"]

_clients: dict[Any, Client] = {}
_clients_lock = threading.Lock()
_DIGITS = frozenset(b"-0123456789")


def _client_of(queue: Optional[str], options: dict[str, Any]) -> Client:
    """The process' client of the queue, opened when it is first asked for."""
    name = (queue, tuple(sorted(options.items())))
    client = _clients.get(name)
    if client is None:
        with _clients_lock:
            client = _clients.get(name)
            if client is None:
                client = _clients[name] = Client(queue, **options)
    return client


class _Pickle:
    """Values as pickles."""

    def __init__(self, protocol: Optional[int] = None) -> None:
        self.protocol = pickle.HIGHEST_PROTOCOL if protocol is None else protocol

    def dumps(self, value: Any) -> bytes:
        """The pickle."""
        return pickle.dumps(value, self.protocol)

    def loads(self, data: bytes) -> Any:
        """What was pickled."""
        return pickle.loads(data)


class Cache(BaseCache):  # type: ignore[misc]
    """The cache backend: see this module's page. Its methods are those of BaseCache."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        options = dict(params.get("OPTIONS", {}))
        for name in ("MAX_ENTRIES", "CULL_FREQUENCY"):  # of all backends; nothing is culled here
            options.pop(name, None)
        self._namespace = str(options.pop("namespace", "django:")).encode()
        if not self._namespace:
            raise ValueError("the namespace must not be empty: clear() deletes all that is in it")
        protocol = options.pop("pickle_protocol", None)
        serializer = options.pop("serializer", None)
        if isinstance(serializer, str):
            serializer = import_string(serializer)
        if callable(serializer):
            serializer = serializer()
        self._serializer = serializer or _Pickle(protocol)
        self._queue = location or None
        self._options = options

    @property
    def _client(self) -> Client:
        return _client_of(self._queue, self._options)

    # Keys, values, times -------------------------------------------------------------------------

    def _key(self, key: Any, version: Optional[int]) -> bytes:
        made = self.make_key(key, version=version)
        self.validate_key(made)
        return self._namespace + str(made).encode()

    def _dumps(self, value: Any) -> bytes:
        if type(value) is int and -2 ** 63 <= value < 2 ** 63:  # a bool is none
            return b"%d" % value
        data: bytes = self._serializer.dumps(value)
        return data

    def _loads(self, data: bytes) -> Any:
        if data and data[0] in _DIGITS:
            try:
                return int(data)
            except ValueError:
                pass
        return self._serializer.loads(data)

    def _ttl(self, timeout: Any) -> Optional[float]:
        """Seconds from now; None: never, 0: it has ended already."""
        end = self.get_backend_timeout(timeout)
        return None if end is None else max(0.0, end - time.time())

    # The contract of BaseCache -------------------------------------------------------------------

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT,
            version: Optional[int] = None) -> bool:
        """Stores the value if the key is absent; tells whether it was."""
        stored, ttl = self._key(key, version), self._ttl(timeout)
        data = self._dumps(value)
        if ttl is not None and ttl <= 0:
            return not self._client.exists(stored)
        try:
            self._client.put(stored, data, ttl=ttl, if_absent=True)
        except Exists:
            return False
        return True

    def get(self, key: Any, default: Any = None, version: Optional[int] = None) -> Any:
        """The value, or the default."""
        data = self._client.get(self._key(key, version))
        return default if data is None else self._loads(data)

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT,
            version: Optional[int] = None) -> None:
        """Stores the value."""
        stored, ttl = self._key(key, version), self._ttl(timeout)
        data = self._dumps(value)
        if ttl is not None and ttl <= 0:
            self._client.discard(stored)
        else:
            self._client.put(stored, data, ttl=ttl)

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT,
              version: Optional[int] = None) -> bool:
        """Sets when the entry ends; tells whether there is one."""
        stored, ttl = self._key(key, version), self._ttl(timeout)
        if ttl is not None and ttl <= 0:
            return self._client.discard(stored)
        try:
            self._client.touch(stored, ttl)
        except NotFound:
            return False
        return True

    def delete(self, key: Any, version: Optional[int] = None) -> bool:
        """Deletes the entry; tells whether there was one."""
        return self._client.discard(self._key(key, version))

    def has_key(self, key: Any, version: Optional[int] = None) -> bool:
        """Whether the key is there."""
        return self._client.exists(self._key(key, version))

    def incr(self, key: Any, delta: int = 1, version: Optional[int] = None) -> int:
        """Adds to an integer, atomically. ValueError: no such key; TypeError: no integer."""
        try:
            return self._client.add(self._key(key, version), delta, if_present=True)
        except NotFound:
            raise ValueError(f"Key '{key}' not found") from None
        except NotANumber:
            raise TypeError(f"the value of key '{key}' is not an integer") from None

    def get_many(self, keys: Iterable[Any], version: Optional[int] = None) -> dict[Any, Any]:
        """The values of those keys that are there, in one message."""
        names = {self._key(key, version): key for key in keys}
        found = self._client.get_many(names)
        return {names[stored]: self._loads(data) for stored, data in found.items()}

    def set_many(self, data: dict[Any, Any], timeout: Any = DEFAULT_TIMEOUT,
                 version: Optional[int] = None) -> list[Any]:
        """Stores all of them, in one message."""
        ttl = self._ttl(timeout)
        entries = {self._key(key, version): self._dumps(value) for key, value in data.items()}
        if ttl is not None and ttl <= 0:
            self._client.delete_many(entries)
        else:
            self._client.put_many(entries, ttl=ttl)
        return []

    def delete_many(self, keys: Iterable[Any], version: Optional[int] = None) -> None:
        """Deletes all of them, in one message."""
        self._client.delete_many([self._key(key, version) for key in keys])

    def clear(self) -> None:
        """Deletes everything in the namespace."""
        self._client.delete_prefix(self._namespace)

    def __contains__(self, key: Any) -> bool:
        return self.has_key(key)


def close_clients() -> None:
    """Closes the clients of this process, for tests; the next use opens them again."""
    with _clients_lock:
        clients: Union[list[Client], tuple[Client, ...]] = list(_clients.values())
        _clients.clear()
    for client in clients:
        client.close()
