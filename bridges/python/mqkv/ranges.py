"""Ranges of keys in their order, page by page: what the clients of both worlds share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from .errors import StorageError
from .transaction import as_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._mqkv import Bytes, Entry

_PAGE = 1000


class RangePages:
    """What is left of a range. arguments: of the next call of range_page; None: there is none."""

    arguments: "Optional[tuple[bytes, bytes, bytes, bool, bool, bool, int]]"

    def __init__(self, start: "Bytes", stop: "Bytes", prefix: "Bytes", reverse: bool,
                 limit: Optional[int], keys_only: bool) -> None:
        self._start, self._stop = as_bytes(start), as_bytes(stop)
        self._prefix = as_bytes(prefix)
        self._behind, self._reverse, self._keys_only = False, reverse, keys_only
        self._left = limit
        self._left_out: Optional[str] = None
        self._prepare()

    def _prepare(self) -> None:
        limit = _PAGE if self._left is None else min(self._left, _PAGE)
        self.arguments = (self._start, self._stop, self._prefix, self._behind, self._reverse,
                          self._keys_only, limit) if limit > 0 else None

    def take(self, page: "tuple[list[Entry], bool, Optional[str]]") -> "Iterator[Entry]":
        """The entries of what range_page has returned; raises what is to be told behind them."""
        entries, at_end, left_out = page
        self._left_out = self._left_out or left_out
        if self._left is not None:
            self._left -= len(entries)
        if entries and self._reverse:
            self._stop = entries[-1].key
        elif entries:
            self._start, self._behind = entries[-1].key, True
        self._prepare()
        if at_end:
            self.arguments = None
        yield from entries
        if self.arguments is None and self._left_out:
            raise StorageError(self._left_out)
