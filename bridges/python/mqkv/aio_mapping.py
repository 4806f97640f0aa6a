"""Keys of the store as a dict, for asyncio: mqkv.aio.Mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, AsyncIterator, Iterable, Mapping as MappingType, Optional
from typing import TypeVar, Union, overload

from .errors import Exists, NotFound, VersionMismatch
from .transaction import as_bytes

if TYPE_CHECKING:
    from ._mqkv import Bytes, Seconds
    from .aio import Client

__all__ = ["Mapping"]

_Default = TypeVar("_Default")


class _Missing:
    """The default of pop if none was given."""


_MISSING = _Missing()


class Mapping:
    """The keys that begin with a prefix, without it, as mqkv.Mapping has them; what waits for the
    server is a coroutine or an asynchronous iterator:

        sessions = client.mapping("session:")
        await sessions.put("42", b"...")
        value = await sessions["42"]                    # KeyError
        async for key, value in sessions.items(): ...
    """

    def __init__(self, client: "Client", prefix: "Bytes" = b"", *,
                 ttl: "Optional[Seconds]" = None) -> None:
        self.client = client
        self.prefix = as_bytes(prefix)
        self.ttl = ttl

    def _key(self, key: "Bytes") -> bytes:
        return self.prefix + as_bytes(key)

    def __repr__(self) -> str:
        return f"<mqkv.aio.Mapping of {self.prefix!r} in {self.client!r}>"

    @overload
    async def get(self, key: "Bytes") -> Optional[bytes]: ...

    @overload
    async def get(self, key: "Bytes", default: _Default) -> Union[bytes, _Default]: ...

    async def get(self, key: "Bytes", default: Optional[object] = None) -> Optional[object]:
        """The value, or the default."""
        value = await self.client.get(self._key(key))
        return default if value is None else value

    __iter__ = None  # `async for`; without this iter() would ask for the keys 0, 1, ...

    async def __getitem__(self, key: "Bytes") -> bytes:
        """The value: `await mapping[key]`. KeyError."""
        value = await self.client.get(self._key(key))
        if value is None:
            raise KeyError(key)
        return value

    async def put(self, key: "Bytes", value: "Bytes") -> None:
        """What mapping[key] = value is in mqkv.Mapping."""
        await self.client.put(self._key(key), value, ttl=self.ttl)

    async def delete(self, key: "Bytes") -> None:
        """What del mapping[key] is in mqkv.Mapping. KeyError."""
        if not await self.client.discard(self._key(key)):
            raise KeyError(key)

    async def exists(self, key: "Bytes") -> bool:
        """What `key in mapping` is in mqkv.Mapping."""
        return await self.client.exists(self._key(key))

    async def keys(self) -> "AsyncIterator[bytes]":
        """The keys, from one scan."""
        async for key in self.client.keys(self.prefix):
            yield key[len(self.prefix):]

    def __aiter__(self) -> "AsyncIterator[bytes]":
        return self.keys()

    async def items(self) -> "AsyncIterator[tuple[bytes, bytes]]":
        """Keys and values, from one scan."""
        async for entry in self.client.scan(self.prefix):
            yield entry.key[len(self.prefix):], entry.value

    async def values(self) -> "AsyncIterator[bytes]":
        """The values, from one scan."""
        async for entry in self.client.scan(self.prefix):
            yield entry.value

    async def length(self) -> int:
        """How many there are, by counting."""
        count = 0
        async for _ in self.keys():
            count += 1
        return count

    async def setdefault(self, key: "Bytes", default: "Optional[Bytes]" = None) -> bytes:
        """The value; if there is none, stores the default and returns that. Atomic."""
        stored = self._key(key)
        wanted = b"" if default is None else as_bytes(default)
        while True:
            value = await self.client.get(stored)
            if value is not None:
                return value
            try:
                await self.client.put(stored, wanted, if_absent=True, ttl=self.ttl)
            except Exists:
                continue
            return wanted

    @overload
    async def pop(self, key: "Bytes") -> bytes: ...

    @overload
    async def pop(self, key: "Bytes", default: _Default) -> Union[bytes, _Default]: ...

    async def pop(self, key: "Bytes", default: object = _MISSING) -> object:
        """Takes the entry out and returns its value. Atomic. KeyError, without a default."""
        stored = self._key(key)
        while True:
            try:
                entry = await self.client.entry(stored)
                await self.client.delete(stored, if_version=entry.version)
            except VersionMismatch:
                continue
            except NotFound:
                if default is _MISSING:
                    raise KeyError(key) from None
                return default
            return entry.value

    async def update(self, entries: "Union[MappingType[str, Bytes], MappingType[bytes, Bytes], "
                                    "Iterable[tuple[Bytes, Bytes]]]") -> None:
        """Stores all entries of a mapping or of pairs, many in a message."""
        pairs: "Iterable[tuple[Bytes, Bytes]]" = (
            entries.items() if isinstance(entries, MappingType) else entries)
        await self.client.put_many(((self._key(key), value) for key, value in pairs), ttl=self.ttl)

    async def clear(self) -> None:
        """Deletes all keys of this mapping."""
        page: "list[bytes]" = []
        async for key in self.client.keys(self.prefix):
            page.append(key)
            if len(page) == 1000:
                await self.client.delete_many(page)
                page = []
        await self.client.delete_many(page)
