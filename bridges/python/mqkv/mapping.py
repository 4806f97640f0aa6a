"""Mapping: keys of the store as a dict."""

from __future__ import annotations

from collections.abc import ItemsView, MutableMapping, ValuesView
from typing import TYPE_CHECKING, Any, Iterator, Optional, TypeVar, Union, overload

from .errors import Exists, NotFound, VersionMismatch
from .transaction import as_bytes

if TYPE_CHECKING:
    from ._mqkv import Bytes, Seconds
    from .client import Client

__all__ = ["Mapping"]

_Default = TypeVar("_Default")
_MISSING: Any = object()


class Mapping(MutableMapping[bytes, bytes]):
    """The keys that begin with a prefix, as a dict of bytes, without that prefix.

        sessions = client.mapping("session:")
        sessions["42"] = b"..."

    A str stands for its UTF-8; what comes back is bytes. What is shared by programs changes under
    one's hands: setdefault and pop are atomic, iteration is a scan (in no order, each entry that
    stays exactly once), and len() counts by one, all of which take time in a large store.
    ttl: of everything that is stored through this mapping, in seconds.

    Where the server keeps the order of keys (serverk --ordered), a slice is a range of it:

        for key, value in sessions["4":"5"]:      # from "4" on, before "5"; [::-1]: backward
        del sessions[:"2026-"]
    """

    def __init__(self, client: "Client", prefix: "Bytes" = b"", *,
                 ttl: "Optional[Seconds]" = None) -> None:
        self.client = client
        self.prefix = as_bytes(prefix)
        self.ttl = ttl

    def _key(self, key: "Bytes") -> bytes:
        return self.prefix + as_bytes(key)

    def _bounds(self, keys: slice) -> "tuple[bytes, bytes]":
        start = b"" if keys.start is None else self._key(keys.start)
        return start, b"" if keys.stop is None else self._key(keys.stop)

    def _range(self, keys: slice) -> "Iterator[tuple[bytes, bytes]]":
        start, stop = self._bounds(keys)
        for entry in self.client.range(start, stop, prefix=self.prefix, reverse=keys.step == -1):
            yield entry.key[len(self.prefix):], entry.value

    @overload
    def __getitem__(self, key: "Bytes") -> bytes: ...

    @overload
    def __getitem__(self, key: slice) -> "Iterator[tuple[bytes, bytes]]": ...

    def __getitem__(self, key: "Union[Bytes, slice]") -> Any:
        if isinstance(key, slice):
            if key.step not in (None, 1, -1):
                raise ValueError("the step of a slice of keys is 1 or -1")
            return self._range(key)
        value = self.client.get(self._key(key))
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: "Bytes", value: "Bytes") -> None:
        self.client.put(self._key(key), value, ttl=self.ttl)

    def __delitem__(self, key: "Union[Bytes, slice]") -> None:
        if isinstance(key, slice):
            if key.step is not None:
                raise ValueError("keys are deleted without a step")
            start, stop = self._bounds(key)
            self.client.delete_range(start, stop, prefix=self.prefix)
        elif not self.client.discard(self._key(key)):
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, (str, bytes, bytearray, memoryview)):
            return False
        return self.client.exists(self._key(key))

    def __iter__(self) -> Iterator[bytes]:
        for key in self.client.keys(self.prefix):
            yield key[len(self.prefix):]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __repr__(self) -> str:
        return f"<mqkv.Mapping of {self.prefix!r} in {self.client!r}>"

    @overload
    def get(self, key: "Bytes") -> Optional[bytes]: ...

    @overload
    def get(self, key: "Bytes", default: "Union[bytes, _Default]") -> "Union[bytes, _Default]": ...

    def get(self, key: "Bytes", default: Any = None) -> Any:
        """The value, or the default."""
        return self.client.get(self._key(key), default)

    def items(self) -> "ItemsView[bytes, bytes]":
        """Keys and values, from one scan."""
        return _Items(self)

    def values(self) -> "ValuesView[bytes]":
        """The values, from one scan."""
        return _Values(self)

    def setdefault(self, key: "Bytes", default: "Optional[Bytes]" = None) -> bytes:
        """The value; if there is none, stores the default and returns that. Atomic."""
        stored = self._key(key)
        wanted = b"" if default is None else default
        while True:
            value = self.client.get(stored)
            if value is not None:
                return value
            try:
                self.client.put(stored, wanted, if_absent=True, ttl=self.ttl)
            except Exists:
                continue
            return as_bytes(wanted)

    @overload
    def pop(self, key: "Bytes") -> bytes: ...

    @overload
    def pop(self, key: "Bytes", default: "Union[bytes, _Default]") -> "Union[bytes, _Default]": ...

    def pop(self, key: "Bytes", default: Any = _MISSING) -> Any:
        """Takes the entry out and returns its value. Atomic."""
        stored = self._key(key)
        while True:
            try:
                entry = self.client.entry(stored)
                self.client.delete(stored, if_version=entry.version)
            except VersionMismatch:
                continue
            except NotFound:
                if default is _MISSING:
                    raise KeyError(key) from None
                return default
            return entry.value

    def update(self, *others: Any, **named: Any) -> None:
        """Stores all entries of other mappings or of pairs, many in a message."""
        pairs = dict(*others, **named).items()
        self.client.put_many(((self._key(key), value) for key, value in pairs), ttl=self.ttl)

    def clear(self) -> None:
        """Deletes all keys of this mapping."""
        self.client.delete_many(self.client.keys(self.prefix))


class _Items(ItemsView[bytes, bytes]):
    """What Mapping.items returns: a scan each time it is iterated."""

    _mapping: Mapping

    def __iter__(self) -> "Iterator[tuple[bytes, bytes]]":
        prefix = self._mapping.prefix
        for entry in self._mapping.client.scan(prefix):
            yield entry.key[len(prefix):], entry.value


class _Values(ValuesView[bytes]):
    """What Mapping.values returns: a scan each time it is iterated."""

    _mapping: Mapping

    def __iter__(self) -> Iterator[bytes]:
        for entry in self._mapping.client.scan(self._mapping.prefix):
            yield entry.value
