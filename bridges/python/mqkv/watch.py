"""Watches: what is put, deleted or expires, as it happens."""

from __future__ import annotations

import math
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Iterator, Literal, NamedTuple, Optional

from . import _mqkv
from .transaction import as_bytes

if TYPE_CHECKING:
    from ._mqkv import Bytes, ChangeFields, Seconds

__all__ = ["Change", "ChangePart", "Watch"]

_KINDS: "tuple[Literal['put', 'delete', 'expire'], ...]" = ("put", "delete", "expire")


class ChangePart(NamedTuple):
    """To which transaction a change belongs. number: the same in all of its changes (0: they lie in
    one data file of the server); parts: how many data files it has changed (0: not known); goes_on:
    the next change belongs to it, too. See clientk_watch_transaction in clientk(3)."""

    number: int
    parts: int
    goes_on: bool


class Change(NamedTuple):
    """What has become of a key. value: of a put, the whole new value; None with keys_only.
    expiry_ms: milliseconds since 1970, 0: never. transaction: None, unless it is one of several."""

    kind: Literal["put", "delete", "expire"]
    key: bytes
    value: Optional[bytes]
    version: int
    expiry_ms: int
    transaction: Optional[ChangePart]


def change_of(fields: "ChangeFields", keys_only: bool) -> Change:
    """The change that the extension has told."""
    kind, key, value, version, expiry_ms, number, parts, goes_on = fields
    part = ChangePart(number, parts, goes_on) if number or parts or goes_on else None
    has_value = kind == 1 and not keys_only
    return Change(_KINDS[kind - 1], key, value if has_value else None, version, expiry_ms, part)


def milliseconds_of(timeout: "Optional[Seconds]") -> int:
    """None: for ever, -1."""
    if timeout is None:
        return -1
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if not seconds >= 0:
        raise ValueError("timeout must be 0 or more, or None")
    return min(math.ceil(min(seconds, 1e9) * 1000), 2 ** 31 - 1)


class Watch:
    """The changes of the keys with a prefix, once each, from the moment at which it was made: see
    mqkv.Client.watch. For one thread at a time; a child of fork makes its own."""

    def __init__(self, client: "_mqkv.Client", prefix: "Bytes" = b"", *,
                 since: Optional[str] = None, keys_only: bool = False) -> None:
        self._keys_only = keys_only
        self._native = _mqkv.Watch(client, as_bytes(prefix), since, keys_only)

    def next(self, timeout: "Optional[Seconds]" = 0) -> Optional[Change]:
        """The next change; None if there is none. timeout: seconds to wait for one; None: for
        ever."""
        fields = self._native.next(milliseconds_of(timeout))
        return None if fields is None else change_of(fields, self._keys_only)

    def __iter__(self) -> "Iterator[Change]":
        return self

    def __next__(self) -> Change:
        while True:
            change = self.next(None)
            if change is not None:
                return change

    @property
    def position(self) -> str:
        """The place behind the last change, for since=."""
        return self._native.position()

    def fileno(self) -> int:
        """A descriptor that is readable when there may be a change: then next() until None."""
        return self._native.fileno()

    def close(self) -> None:
        """Ends it. Closing twice is harmless."""
        self._native.close()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()
