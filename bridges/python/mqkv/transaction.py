"""Transaction: several keys change together, or none. See mqkv.Client.transaction."""

from __future__ import annotations

import inspect
import os
import threading
from types import TracebackType
from typing import (TYPE_CHECKING, Any, Callable, Iterable, NamedTuple, Optional, TypeVar, Union,
                    overload)
from weakref import WeakValueDictionary

from . import _mqkv
from .errors import GuardFailed, NotFound, TransactionConflict, UsageError

if TYPE_CHECKING:
    from ._mqkv import Bytes, Durability, Result, Seconds
    from .client import Client

    _Default = TypeVar("_Default")

__all__ = ["Transaction"]

_NOTHING: Any = object()  # the block has not written the value, or not read it
_UNKNOWN: Any = object()  # the block has written it, and does not know it

# The transactions whose blocks run, by client, thread or task, and process.
_running: "WeakValueDictionary[tuple[int, int, int], _Steps]" = WeakValueDictionary()


def as_bytes(value: "Bytes") -> bytes:
    """What is stored for it. TypeError, as of the extension; bytes(5) would be five zeros."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, int):
        raise TypeError("keys and values must be bytes-like or str")
    return bytes(memoryview(value))


class _Write(NamedTuple):
    result: "Result[Any]"
    value: Any  # bytes; None: deleted; _UNKNOWN, _NOTHING
    is_final: bool
    keep_ttl: bool


class _Steps:
    """What transactions of both kinds of clients collect: writes, and what must hold."""

    def __init__(self, client: _mqkv.Client, durability: "Optional[Durability]") -> None:
        self._batch = _mqkv.Batch(client)
        self._durability = durability
        self._versions: dict[bytes, int] = {}  # of what was read; 0: absent
        self._values: dict[bytes, Optional[bytes]] = {}  # the same; not of what only exists
        self._guards: list[tuple[bytes, Union[int, bytes]]] = []
        self._writes: dict[bytes, _Write] = {}
        self._name: Optional[tuple[int, int, int]] = None  # in _running, while the block runs
        self._has_begun = False

    # The block -----------------------------------------------------------------------------------

    def _begin(self, client: Any, runner: int) -> None:
        name = (id(client), runner, os.getpid())
        if self._has_begun:
            raise UsageError("a transaction is used once: ask the client for another")
        if name in _running:
            raise UsageError("a transaction of this client runs already here: they do not nest")
        self._has_begun = True
        self._name = name
        _running[name] = self

    def _end(self) -> None:
        """The block has ended, one way or another."""
        if self._name is not None:
            _running.pop(self._name, None)
        self._name = None

    def _check(self) -> None:
        if self._name is None:
            raise UsageError("a transaction is used within its with statement")

    def _abandon(self) -> None:
        self._end()
        self._batch.clear()

    def _expected(self) -> "list[tuple[bytes, Union[int, bytes]]]":
        """All that must hold. What was read comes first: if the block has seen something old, it
        may have asked for the wrong guards, too."""
        return [*self._versions.items(), *self._guards]

    def _conclude(self, expected: "list[tuple[bytes, Union[int, bytes]]]",
                  failed: Optional[int]) -> None:
        """failed: the number of the guard that did not hold."""
        if failed is None:
            return
        key = expected[failed][0]
        if failed < len(self._versions):
            raise self._conflict(key)
        guarded = GuardFailed(f"the guard on {key!r} does not hold; nothing was written")
        guarded.status, guarded.key = "guard_failed", key
        raise guarded

    @staticmethod
    def _conflict(key: bytes) -> TransactionConflict:
        error = TransactionConflict(f"{key!r} has changed since the transaction read it; "
                                    "nothing was written")
        error.status, error.key = "version_mismatch", key
        return error

    # Reads ---------------------------------------------------------------------------------------

    def _known(self, key: bytes) -> Any:
        """The value that the block has written or read; None: no such key; _NOTHING: neither."""
        self._check()
        write = self._writes.get(key)
        if write is None or write.value is _NOTHING:
            return self._values.get(key, _NOTHING)
        if write.value is _UNKNOWN:
            raise UsageError(f"{key!r} is added or appended to at the end of the transaction: read "
                             "it before, or put what is computed")
        return write.value

    def _note_version(self, key: bytes, version: int) -> None:
        """version: of the entry that was read; 0: absent."""
        if self._versions.setdefault(key, version) != version:
            raise self._conflict(key)

    def _version_read(self, key: "Bytes") -> int:
        """The version of the key, as the block has read it; 0: absent, or not read."""
        return self._versions.get(as_bytes(key), 0)

    def _note(self, key: bytes, version: int, value: Optional[bytes]) -> None:
        self._note_version(key, version if value is not None else 0)
        self._values[key] = value

    def _unknown(self, wanted: "list[bytes]") -> "list[bytes]":
        """Those that are neither written nor read."""
        return [key for key in wanted if self._known(key) is _NOTHING]

    def _note_together(self, results: "list[Result[Optional[bytes]]]",
                       wanted: "list[bytes]") -> dict[bytes, bytes]:
        for result in results:
            value = result.result()
            self._note(as_bytes(result.key or b""), result.version, value)
        known = {key: self._known(key) for key in wanted}
        return {key: value for key, value in known.items() if value is not None}

    # Writes --------------------------------------------------------------------------------------

    def _make_way(self, key: "Bytes", is_final: bool, keep_ttl: bool = False) -> bytes:
        """For a write of the key, of which a transaction has one: takes back the put or delete
        that a put or delete replaces."""
        self._check()
        stored = as_bytes(key)
        before = self._writes.get(stored)
        if before is None:
            return stored
        if not (is_final and before.is_final) or (keep_ttl and not before.keep_ttl):
            raise UsageError(f"the transaction writes {stored!r} already: only a put or delete can "
                             "be replaced, by a put without keep_ttl or a delete")
        self._batch.withdraw(before.result)
        del self._writes[stored]
        return stored

    def put(self, key: "Bytes", value: "Bytes", *, ttl: "Optional[Seconds]" = None,
            expiry_ms: Optional[int] = None, keep_ttl: bool = False) -> "Result[int]":
        """Stores the value, as mqkv.Client.put. The Result has the version after the block."""
        stored = self._make_way(key, True, keep_ttl)
        result = self._batch.put(stored, value, ttl=ttl, expiry_ms=expiry_ms, keep_ttl=keep_ttl)
        self._writes[stored] = _Write(result, as_bytes(value), True, keep_ttl)
        return result

    def delete(self, key: "Bytes") -> "Result[int]":
        """Deletes the entry, if there is one: no failure of the transaction if not, but the Result
        is NotFound then."""
        stored = self._make_way(key, True)
        result = self._batch.delete(stored)
        self._writes[stored] = _Write(result, None, True, False)
        return result

    def add(self, key: "Bytes", delta: int = 1, **options: Any) -> "Result[int]":
        """Adds to a decimal number, as mqkv.Client.add, without reading it first: others that count
        are no conflict. The Result has the sum after the block. A sum out of its bounds, or a value
        that is no number, fails the transaction."""
        stored = self._make_way(key, False)
        result = self._batch.add(stored, delta, **options)
        self._writes[stored] = _Write(result, _UNKNOWN, False, False)
        return result

    def append(self, key: "Bytes", value: "Bytes") -> "Result[int]":
        """Appends to the value. The Result has the new size after the block."""
        stored = self._make_way(key, False)
        result = self._batch.append(stored, value)
        self._writes[stored] = _Write(result, _UNKNOWN, False, False)
        return result

    def touch(self, key: "Bytes", *ttl: "Optional[Seconds]",
              expiry_ms: Optional[int] = None) -> "Result[int]":
        """Lets the entry end in ttl seconds (None: never), or at expiry_ms. If there is none, it is
        no failure of the transaction, but the Result is NotFound."""
        stored = self._make_way(key, False)
        given: dict[str, Any] = {} if expiry_ms is None else {"expiry_ms": expiry_ms}
        result = self._batch.touch(stored, *ttl, **given)
        self._writes[stored] = _Write(result, _NOTHING, False, False)
        return result

    def __setitem__(self, key: "Bytes", value: "Bytes") -> None:
        self.put(key, value)

    # What else must hold -------------------------------------------------------------------------

    def guard(self, key: "Bytes", *, version: Optional[int] = None,
              value: "Optional[Bytes]" = None, present: Optional[bool] = None) -> None:
        """Before the transaction the entry must have this version (0: there must be none), or this
        value, or be there or not. Otherwise GuardFailed, and nothing is written."""
        self._check()
        given = [what for what in (version, value, present) if what is not None]
        if len(given) != 1:
            raise UsageError("a guard takes one of version, value and present")
        if version is not None:
            self._guards.append((as_bytes(key), int(version)))
        elif value is not None:
            self._guards.append((as_bytes(key), as_bytes(value)))
        else:
            self._guards.append((as_bytes(key), bool(present)))


class Transaction(_Steps):
    """Several keys change together, or none: see mqkv.Client.transaction."""

    def __init__(self, client: "Client", *, durability: "Optional[Durability]" = None) -> None:
        super().__init__(client, durability)
        self._client = client

    def __enter__(self) -> "Transaction":
        self._begin(self._client, threading.get_ident())
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is not None:
            self._abandon()
            return
        self._end()
        expected = self._expected()
        if expected or len(self._batch):
            self._conclude(expected, self._batch.transact(expected, durability=self._durability))

    def __repr__(self) -> str:
        return f"<mqkv.Transaction of {self._client!r}>"

    @overload
    def get(self, key: "Bytes") -> Optional[bytes]: ...

    @overload
    def get(self, key: "Bytes", default: "_Default") -> "Union[bytes, _Default]": ...

    def get(self, key: "Bytes", default: Any = None) -> Any:
        """The value of the key, as the block has written it, else as it is; default if there is
        none. At the end the key must be as it was read."""
        stored = as_bytes(key)
        value = self._known(stored)
        if value is _NOTHING:
            try:
                entry = self._client.entry(stored)
                value = entry.value
                self._note(stored, entry.version, value)
            except NotFound:
                value = None
                self._note(stored, 0, None)
        return default if value is None else value

    def get_together(self, keys: "Iterable[Bytes]") -> dict[bytes, bytes]:
        """The values of those keys that are there, read at one moment, by key."""
        wanted = [as_bytes(key) for key in keys]
        return self._note_together(read_together(self._client, self._unknown(wanted)), wanted)

    def exists(self, key: "Bytes") -> bool:
        """Whether the key is there. At the end it must be as it was."""
        stored = as_bytes(key)
        value = self._known(stored)
        if value is not _NOTHING:
            return value is not None
        try:
            version = self._client.stat(stored).version
        except NotFound:
            version = 0
        self._note_version(stored, version)
        return version != 0

    def __contains__(self, key: "Bytes") -> bool:
        return self.exists(key)

    __iter__ = None  # it has no keys of its own; iter() would ask for the keys 0, 1, ...

    def __getitem__(self, key: "Bytes") -> bytes:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __delitem__(self, key: "Bytes") -> None:
        if not self.exists(key):
            raise KeyError(key)
        self.delete(key)


def read_together(client: _mqkv.Client, keys: "list[bytes]") -> "list[Result[Optional[bytes]]]":
    """Reads the keys as of one moment."""
    batch = _mqkv.Batch(client)
    results = [batch.get(key) for key in keys]
    if results:
        batch.transact(())
    return results


def check_function(function: "Callable[..., Any]", is_async: bool, tries: int) -> None:
    """For the decorators: whether it can be executed within one call."""
    if tries < 1:
        raise ValueError("tries must be at least 1")
    if (inspect.iscoroutinefunction(function) != is_async or inspect.isasyncgenfunction(function)
            or inspect.isgeneratorfunction(function)):
        raise TypeError("mqkv.Client.transactional decorates functions, mqkv.aio.Client's "
                        "coroutine functions, and neither generators")
