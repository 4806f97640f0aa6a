"""mqkv for asyncio.

    import mqkv.aio

    async with mqkv.aio.Client() as client:
        await client.put("name", "Ada")
        print(await client.get("name"))

The client watches the library's descriptor in the running event loop: no thread, no polling, but
for the ends of transactions, get_together and ranges, for which the loop's executor waits. What is
asked for in one turn of the loop travels together, and any number of operations may be under way.
Operations on one key take effect in the order of the calls; others may overtake each other.

A task that is cancelled no longer waits; its operation is executed nevertheless.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import time
from types import TracebackType
from typing import (TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Concatenate, Coroutine,
                    Generator, Iterable, Mapping, Optional, ParamSpec, Protocol, TypeVar, Union,
                    overload)

from .client import Client as _Client, Pipeline as _Pipeline
from .errors import Error, NotFound, StorageError, TransactionConflict, UsageError
from .ranges import RangePages
from .transaction import _NOTHING, _Steps, as_bytes, check_function, read_together

if TYPE_CHECKING:
    from ._mqkv import Bytes, Durability, Entry, Result, Seconds

__all__ = ["Client", "Transaction"]

_T = TypeVar("_T")
_Arguments = ParamSpec("_Arguments")

if TYPE_CHECKING:
    class _Base(asyncio.Future[_T], Coroutine[Any, Any, _T]):
        """What a coroutine is by its methods."""
else:
    class _Base(asyncio.Future):
        @classmethod
        def __class_getitem__(cls, _):
            return cls


class _Operation(_Base[_T]):
    """An operation that is under way: a future, and by these methods also a coroutine, so that
    asyncio.create_task and TaskGroup take it, and nobody need await it."""

    _steps: "Optional[Generator[Any, Any, _T]]" = None

    def send(self, value: Any) -> Any:
        """What a task does with a coroutine."""
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.send(value)

    def throw(self, *error: Any) -> Any:
        """The same with an exception."""
        if self._steps is None:
            self._steps = self.__await__()
        return self._steps.throw(*error)

    def close(self) -> None:
        """The operation is executed nevertheless."""
        if self._steps is not None:
            self._steps.close()


_Opened = tuple[_Client, _Pipeline, int]  # the last is the pipeline's descriptor


def _close(client: _Client, pipeline: Optional[_Pipeline]) -> None:
    try:
        if pipeline is not None:
            pipeline.close()
    finally:
        client.close()


class Client:
    """A client of the store, for one event loop. The arguments are those of mqkv.Client, and
    `window` and `batch` those of mqkv.Client.pipeline.

    get, exists, put, delete, add, append, exchange, touch, scan_page, stats_json and sync take what
    mqkv.Client's take, and return a coroutine: to await, or for asyncio.create_task, TaskGroup and
    their like. The operation is under way once the method has returned, awaited or not.
    """

    def __init__(self, queue: "Union[str, os.PathLike[str], None]" = None, *, window: int = 0,
                 batch: int = 0, **options: Any) -> None:
        self._arguments = (queue, window, batch, options)
        self._client: Optional[_Client] = None
        self._pipeline: Optional[_Pipeline] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._descriptor = -1
        self._is_scheduled = False
        self._opening: "Optional[asyncio.Future[_Opened]]" = None
        self._calls = 0  # of the executor's threads, under way
        self._connecting = 0  # tasks that wait for it
        self._has_user = False  # one of them has got it
        # Of close(): nothing is pending. It has the future of what closes the client then.
        self._drained: "Optional[asyncio.Future[asyncio.Future[None]]]" = None

    # Opening and closing -------------------------------------------------------------------------

    def _open(self) -> "_Opened":
        queue, window, batch, options = self._arguments
        client = _Client(queue, **options)
        pipeline = None
        try:
            pipeline = client.pipeline(window, batch)
            return client, pipeline, pipeline.fileno()  # which may wait as well
        except BaseException:
            _close(client, pipeline)
            raise

    def _begin_to_open(self) -> "asyncio.Future[_Opened]":
        """For all tasks that connect at the same time."""
        if self._opening is None:
            self._loop = asyncio.get_running_loop()
            self._opening = self._loop.run_in_executor(None, self._open)  # it may wait for a server
            self._opening.add_done_callback(self._end_opening)
        return self._opening

    def _end_opening(self, opening: "asyncio.Future[_Opened]") -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None or self._loop is None:
            return
        self._client, self._pipeline, self._descriptor = opening.result()
        self._has_user = False
        self._loop.add_reader(self._descriptor, self._process)
        self._end_if_unwanted()

    def _end_if_unwanted(self) -> None:
        """If all tasks that wanted it were cancelled, nobody would close it."""
        if self._pipeline is not None and not self._connecting and not self._has_user:
            self._end()

    async def connect(self) -> "Client":
        """Opens it; `async with` does this too."""
        self._connecting += 1
        try:
            if self._drained is not None:
                await asyncio.shield(self._drained)
            if self._pipeline is None:
                await asyncio.shield(self._begin_to_open())
            self._has_user = True
        finally:
            self._connecting -= 1
            self._end_if_unwanted()
        return self

    def _end(self) -> None:
        """Closes it, with nothing under way, in the executor. What closes is taken out of self at
        once: what another task submitted while it closes would never be told."""
        client, pipeline, loop = self._client, self._pipeline, self._loop
        if client is None or pipeline is None or loop is None:
            return
        self._client = self._pipeline = None
        loop.remove_reader(self._descriptor)
        drained, self._drained = self._drained, None
        try:
            closing = loop.run_in_executor(None, _close, client, pipeline)
        except RuntimeError:  # the loop is about to end, and its executor takes no more work
            _close(client, pipeline)
            closing = loop.create_future()
            closing.set_result(None)
        if drained is not None:
            drained.set_result(closing)

    async def close(self) -> None:
        """Takes no more operations, waits for those under way, and closes. Closing twice is
        harmless. A task that is cancelled here no longer waits; it is closed nevertheless."""
        if self._pipeline is None or self._loop is None:
            return
        if self._drained is None:
            self._drained = self._loop.create_future()
            self._schedule()
        await asyncio.shield(await asyncio.shield(self._drained))

    async def __aenter__(self) -> "Client":
        return await self.connect()

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()

    @property
    def closed(self) -> bool:
        """Whether it takes no operations: close() was called, or it is not connected yet."""
        return self._pipeline is None or self._drained is not None

    @property
    def pending(self) -> int:
        """Operations that are under way."""
        return (self._pipeline.pending if self._pipeline is not None else 0) + self._calls

    # The event loop ------------------------------------------------------------------------------

    def _schedule(self) -> None:
        """Sends, at the end of this turn of the loop, what was submitted in it."""
        if not self._is_scheduled and self._loop is not None:
            self._is_scheduled = True
            self._loop.call_soon(self._process)

    def _process(self) -> None:
        self._is_scheduled = False
        if self._pipeline is None or self._loop is None:
            return
        try:
            done = self._pipeline.process()
        except Error as error:  # of memory or descriptors: the descriptor does not tell all
            done = error.results
            self._loop.call_later(0.01, self._process)
        for result in done:
            future = result.tag
            if future is None or future.done():
                continue
            try:
                future.set_result(result.result())
            except Exception as error:  # pylint: disable=broad-except
                future.set_exception(error)
        if self._drained is not None and not self.pending:
            self._end()

    def _begin(self, name: str, arguments: Any, options: Any) -> "Result":
        """Submits an operation; the Result's tag is its future."""
        if self.closed or self._loop is None:
            raise UsageError("the client is closed, or not connected yet")
        result: "Result" = getattr(self._pipeline, name)(
            *arguments, tag=_Operation(loop=self._loop), **options)
        self._schedule()
        return result

    def _submit(self, name: str, arguments: Any, options: Any) -> "_Operation[Any]":
        future: "_Operation[Any]" = self._begin(name, arguments, options).tag
        return future

    def _call(self, function: "Callable[[_Client], _T]") -> "asyncio.Future[_T]":
        """Has a thread of the loop's executor make a call that waits: a pipeline has no
        transactions. The call is made even if nobody waits for it any more."""
        client = self._client
        if self.closed or self._loop is None or client is None:
            raise UsageError("the client is closed, or not connected yet")
        future = self._loop.run_in_executor(None, function, client)
        self._calls += 1
        future.add_done_callback(self._end_call)
        return asyncio.shield(future)

    def _end_call(self, _: "asyncio.Future[Any]") -> None:
        self._calls -= 1
        self._schedule()

    # Operations ----------------------------------------------------------------------------------

    @overload
    def get(self, key: "Bytes") -> "Coroutine[Any, Any, Optional[bytes]]": ...

    @overload
    def get(self, key: "Bytes", default: "_T") -> "Coroutine[Any, Any, Union[bytes, _T]]": ...

    def get(self, key: "Bytes", default: Any = None) -> "Coroutine[Any, Any, Any]":
        """The value of the key; default if there is none."""
        future = self._submit("get", (key,), {})
        return future if default is None else self._get_or(future, default)

    @staticmethod
    async def _get_or(future: "asyncio.Future[Optional[bytes]]", default: Any) -> Any:
        value = await future
        return default if value is None else value

    async def __getitem__(self, key: "Bytes") -> bytes:
        """The value of the key: `await client[key]`. NotFound, which is a KeyError."""
        return (await self.entry(key)).value

    def exists(self, key: "Bytes") -> "Coroutine[Any, Any, bool]":
        """Whether the key is there."""
        return self._submit("exists", (key,), {})

    def put(self, key: "Bytes", value: "Bytes", **options: Any) -> "Coroutine[Any, Any, int]":
        """Stores the value and returns the entry's new version: see mqkv.Client.put."""
        return self._submit("put", (key, value), options)

    def delete(self, key: "Bytes", **options: Any) -> "Coroutine[Any, Any, int]":
        """Deletes the entry and returns the version of the deletion. NotFound."""
        return self._submit("delete", (key,), options)

    def add(self, key: "Bytes", delta: int = 1, **options: Any) -> "Coroutine[Any, Any, int]":
        """Adds to a decimal number and returns the sum: see mqkv.Client.add."""
        return self._submit("add", (key, delta), options)

    def append(self, key: "Bytes", value: "Bytes", **options: Any) -> "Coroutine[Any, Any, int]":
        """Appends to the value and returns its new size."""
        return self._submit("append", (key, value), options)

    def exchange(self, key: "Bytes", value: "Bytes",
                 **options: Any) -> "Coroutine[Any, Any, Optional[bytes]]":
        """Stores the value and returns the old one."""
        return self._submit("exchange", (key, value), options)

    def touch(self, key: "Bytes", ttl: "Optional[Seconds]",
              **options: Any) -> "Coroutine[Any, Any, int]":
        """Lets the entry end in ttl seconds (None: never). NotFound."""
        return self._submit("touch", (key, ttl), options)

    def scan_page(self, prefix: "Bytes" = b"",
                  **options: Any) -> "Coroutine[Any, Any, tuple[list[Entry], int]]":
        """One page of a scan, and the cursor of the next: see mqkv.Client.scan_page."""
        return self._submit("scan_page", (prefix,), options)

    def stats_json(self, section: Optional[str] = None) -> "Coroutine[Any, Any, bytes]":
        """The server's statistics as JSON."""
        return self._submit("stats_json", (section,), {})

    def sync(self) -> "Coroutine[Any, Any, None]":
        """Returns when everything that was complete before is on disk."""
        return self._submit("sync", (), {})

    # What is made of them ------------------------------------------------------------------------

    async def entry(self, key: "Bytes") -> "Entry":
        """The entry with its version and expiry. NotFound."""
        from ._mqkv import Entry
        result = self._begin("get", (key,), {})
        value = await result.tag
        if value is None:
            error = NotFound("key not found")
            error.status, error.key = "not_found", as_bytes(key)
            raise error
        return Entry((as_bytes(key), value, result.version, result.expiry_ms))  # type: ignore

    async def ttl(self, key: "Bytes") -> Optional[float]:
        """The seconds that the entry has left; None: it never ends. NotFound."""
        result = self._begin("exists", (key,), {})
        if not await result.tag:
            error = NotFound("key not found")
            error.status, error.key = "not_found", as_bytes(key)
            raise error
        if not result.expiry_ms:
            return None
        return max(0.0, result.expiry_ms / 1000 - time.time())

    def persist(self, key: "Bytes") -> "Coroutine[Any, Any, int]":
        """Lets the entry never end. NotFound."""
        return self.touch(key, None)

    async def discard(self, key: "Bytes") -> bool:
        """Deletes the entry if there is one; tells whether there was."""
        try:
            await self.delete(key)
        except NotFound:
            return False
        return True

    async def get_many(self, keys: "Iterable[Bytes]") -> dict[bytes, bytes]:
        """The values of those keys that are there, by key."""
        wanted = list(keys)
        values = await asyncio.gather(*[self.get(key) for key in wanted])
        return {as_bytes(key): value for key, value in zip(wanted, values) if value is not None}

    async def get_together(self, keys: "Iterable[Bytes]") -> dict[bytes, bytes]:
        """The values of those keys (128 at most) that are there, read at one moment, by key."""
        wanted = [as_bytes(key) for key in keys]
        results = await self._call(lambda client: read_together(client, wanted))
        values = [result.result() for result in results]
        return {key: value for key, value in zip(wanted, values) if value is not None}

    def transaction(self, *, durability: "Optional[Durability]" = None) -> "Transaction":
        """Several keys change together, or none: see mqkv.Client.transaction.

            async with client.transaction() as t:
                stock = int(await t.get("stock"))
                t.put("stock", str(stock - 1))
                t.put("order:7", "...")

        Reads are awaited; writes are collected, and `del t[key]` is t.delete(key). A thread of the
        loop's executor waits for the answer. A task that is cancelled while the block ends does not
        know whether it was written. A transaction is for one task.
        """
        return Transaction(self, durability=durability)

    def transactional(self, *, tries: int = 100,
                      durability: "Optional[Durability]" = None) -> "_Decorator":
        """A decorator of coroutine functions: see mqkv.Client.transactional."""
        def decorate(
                function: "Callable[Concatenate[Transaction, _Arguments], Awaitable[_T]]"
        ) -> "Callable[_Arguments, Coroutine[Any, Any, _T]]":
            check_function(function, True, tries)

            @functools.wraps(function)
            async def call(*args: "_Arguments.args", **kwargs: "_Arguments.kwargs") -> _T:
                left = tries
                while True:
                    left -= 1
                    try:
                        async with self.transaction(durability=durability) as transaction:
                            answer = await function(transaction, *args, **kwargs)
                        return answer
                    except TransactionConflict:
                        if left == 0:
                            raise

            return call

        return decorate

    async def put_many(self, entries: "Union[Mapping[Any, Any], Iterable[tuple[Bytes, Bytes]]]",
                       **options: Any) -> None:
        """Stores all entries of a mapping, or of pairs."""
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        await asyncio.gather(*[self.put(key, value, **options) for key, value in pairs])

    async def delete_many(self, keys: "Iterable[Bytes]", *,
                          durability: "Optional[Durability]" = None) -> int:
        """Deletes those keys that are there; returns how many were."""
        done = await asyncio.gather(
            *[self.delete(key, durability=durability) for key in keys], return_exceptions=True)
        for outcome in done:
            if isinstance(outcome, BaseException) and not isinstance(outcome, NotFound):
                raise outcome
        return sum(isinstance(outcome, int) for outcome in done)

    async def delete_prefix(self, prefix: "Bytes") -> int:
        """Deletes every key that begins with the prefix, which must not be empty; returns how many
        were deleted. Keys that come meanwhile may stay."""
        if not prefix:
            raise ValueError("an empty prefix means every key")
        deleted, cursor = 0, 0
        while True:
            entries, cursor = await self.scan_page(prefix, cursor=cursor, limit=1000,
                                                   keys_only=True)
            deleted += await self.delete_many(entry.key for entry in entries)
            if cursor == 0:
                return deleted

    async def keys(self, prefix: "Bytes" = b"", *,
                   limit: Optional[int] = None) -> "AsyncIterator[bytes]":
        """The keys that begin with the prefix, in no order: see mqkv.Client.scan."""
        async for entry in self.scan(prefix, limit=limit, keys_only=True):
            yield entry.key

    async def scan(self, prefix: "Bytes" = b"", *, limit: Optional[int] = None, cursor: int = 0,
                   keys_only: bool = False, atomic: bool = False) -> "AsyncIterator[Entry]":
        """The entries whose key begins with the prefix: see mqkv.Client.scan."""
        left = limit
        while left is None or left > 0:
            page_limit = 0 if atomic else min(left, 1000) if left is not None else 1000
            try:
                entries, cursor = await self.scan_page(prefix, cursor=cursor, limit=page_limit,
                                                       keys_only=keys_only, atomic=atomic)
            except StorageError as error:
                for entry in error.entries[:left]:
                    yield entry
                raise
            for entry in entries[:left]:
                yield entry
            if left is not None:
                left -= len(entries)
            if cursor == 0:
                return

    async def range(self, start: "Bytes" = b"", stop: "Bytes" = b"", *, prefix: "Bytes" = b"",
                    reverse: bool = False, limit: Optional[int] = None,
                    keys_only: bool = False) -> "AsyncIterator[Entry]":
        """The entries of a range, in order: see mqkv.Client.range."""
        pages = RangePages(start, stop, prefix, reverse, limit, keys_only)
        while pages.arguments is not None:
            arguments = pages.arguments
            for entry in pages.take(await self._call(lambda client: client.range_page(*arguments))):
                yield entry

    async def count(self, start: "Bytes" = b"", stop: "Bytes" = b"", *,
                    prefix: "Bytes" = b"") -> int:
        """How many entries there are in a range: see mqkv.Client.count."""
        return await self._call(lambda client: client.count(start, stop, prefix=prefix))

    async def delete_range(self, start: "Bytes" = b"", stop: "Bytes" = b"", *,
                           prefix: "Bytes" = b"", limit: Optional[int] = None) -> int:
        """Deletes the entries of a range: see mqkv.Client.delete_range."""
        return await self._call(
            lambda client: client.delete_range(start, stop, prefix=prefix, limit=limit))

    async def stats(self, section: Optional[str] = None) -> Any:
        """The server's statistics, or one section of them."""
        return json.loads(await self.stats_json(section))


class Transaction(_Steps):
    """Several keys change together, or none: see Client.transaction. put, delete, add, append,
    touch, guard and t[key] = value are those of mqkv.Transaction."""

    def __init__(self, client: Client, *, durability: "Optional[Durability]" = None) -> None:
        if client.closed or client._client is None:
            raise UsageError("the client is closed, or not connected yet")
        super().__init__(client._client, durability)
        self._client = client

    async def __aenter__(self) -> "Transaction":
        self._begin(self._client, id(asyncio.current_task()))
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        if kind is not None:
            self._abandon()
            return
        self._end()
        expected = self._expected()
        if expected or len(self._batch):
            self._conclude(expected, await self._client._call(
                lambda _: self._batch.transact(expected, durability=self._durability)))

    async def get(self, key: "Bytes", default: Any = None) -> Any:
        """The value of the key, as the block has written it, else as it is; default if there is
        none. At the end the key must be as it was read."""
        stored = as_bytes(key)
        value = self._known(stored)
        if value is _NOTHING:
            result = self._client._begin("get", (stored,), {})
            value = await result.tag
            self._note(stored, result.version, value)
        return default if value is None else value

    async def get_together(self, keys: "Iterable[Bytes]") -> dict[bytes, bytes]:
        """The values of those keys that are there, read at one moment, by key."""
        wanted = [as_bytes(key) for key in keys]
        asked = self._unknown(wanted)
        results = await self._client._call(lambda client: read_together(client, asked))
        return self._note_together(results, wanted)

    async def exists(self, key: "Bytes") -> bool:
        """Whether the key is there. At the end it must be as it was."""
        stored = as_bytes(key)
        value = self._known(stored)
        if value is not _NOTHING:
            return value is not None
        result = self._client._begin("exists", (stored,), {})
        version = result.version if await result.tag else 0
        self._note_version(stored, version)
        return version != 0

    def __delitem__(self, key: "Bytes") -> None:
        self.delete(key)


if TYPE_CHECKING:
    class _Decorator(Protocol):
        def __call__(
                self, function: Callable[Concatenate[Transaction, _Arguments], Awaitable[_T]], /
        ) -> Callable[_Arguments, Coroutine[Any, Any, _T]]: ...
