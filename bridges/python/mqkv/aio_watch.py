"""Watches for asyncio: mqkv.aio.Watch."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, AsyncIterator, Optional

from . import _mqkv
from .errors import UsageError
from .transaction import as_bytes
from .watch import Change, change_of, milliseconds_of

if TYPE_CHECKING:
    from ._mqkv import Bytes, Seconds
    from .aio import Client

__all__ = ["Watch"]


class Watch:
    """The changes of the keys with a prefix: see mqkv.aio.Client.watch. It begins when it is
    entered, or first asked. A task that is cancelled while it waits loses no change. For one task
    at a time."""

    def __init__(self, client: "Client", prefix: "Bytes" = b"", *, since: Optional[str] = None,
                 keys_only: bool = False) -> None:
        self._client = client
        self._prefix, self._since, self._keys_only = as_bytes(prefix), since, keys_only
        self._native: "Optional[_mqkv.Watch]" = None
        self._closed = False
        self._is_asked = False
        self._waiter: "Optional[asyncio.Future[None]]" = None

    async def _open(self) -> "_mqkv.Watch":
        if self._closed:
            raise UsageError("the watch is closed")
        if self._native is None:
            self._native = await self._client._call(lambda client: _mqkv.Watch(
                client, self._prefix, self._since, self._keys_only))
        return self._native

    async def __aenter__(self) -> "Watch":
        await self._open()
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()

    async def next(self, timeout: "Optional[Seconds]" = 0) -> Optional[Change]:
        """The next change; None if there is none. timeout: seconds to wait for one; None: for
        ever."""
        left_ms = milliseconds_of(timeout)
        if self._is_asked:
            raise RuntimeError("a watch is for one task at a time")
        self._is_asked = True
        try:
            native = await self._open()
            loop = asyncio.get_running_loop()
            end = None if left_ms < 0 else loop.time() + left_ms / 1000
            while True:
                fields = native.next(0)
                if fields is not None:
                    return change_of(fields, self._keys_only)
                if end is not None and loop.time() >= end:
                    return None
                await self._readable(native.fileno(), end)
        finally:
            self._is_asked = False

    async def _readable(self, descriptor: int, end: Optional[float]) -> None:
        """Returns when the descriptor is readable, or at end."""
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = None if end is None else loop.call_at(end, _wake, waiter)
        loop.add_reader(descriptor, _wake, waiter)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
            if not self._closed:
                loop.remove_reader(descriptor)

    def __aiter__(self) -> "AsyncIterator[Change]":
        return self

    async def __anext__(self) -> Change:
        while True:
            change = await self.next(None)
            if change is not None:
                return change

    @property
    def position(self) -> str:
        """The place behind the last change, for since=."""
        if self._native is None:
            raise UsageError("the watch has not begun yet")
        return self._native.position()

    async def close(self) -> None:
        """Ends it; a task that waits for a change gets a UsageError. Closing twice is harmless."""
        self._closed = True
        native = self._native
        if native is None:
            return
        waiter = self._waiter
        if waiter is not None:
            asyncio.get_running_loop().remove_reader(native.fileno())
            if not waiter.done():
                waiter.set_exception(UsageError("the watch is closed"))
        native.close()


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
