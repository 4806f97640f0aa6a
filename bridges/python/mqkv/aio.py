"""mqkv for asyncio.

    import mqkv.aio

    async with mqkv.aio.Client() as client:
        await client.put("name", "Ada")
        print(await client.get("name"))

The client watches the library's descriptor in the running event loop: no thread, no polling, but
for the ends of transactions, get_together and ranges, for which the loop's executor waits. What is
asked for in one turn of the loop travels together, and any number of operations may be under way.
Operations on one key take effect in the order of the calls; others may overtake each other.

A task that is cancelled no longer waits; its operation is executed nevertheless. The CancelledError
of a write says that its outcome is unknown.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import time
from itertools import islice
from types import TracebackType
from typing import (TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Concatenate, Coroutine,
                    Generator, Iterable, Iterator, Literal, Mapping as MappingType, Optional,
                    ParamSpec, Protocol, TypeVar, Union, overload)

from . import _mqkv
from .aio_jobs import Job, Queue
from .aio_mapping import Mapping
from .aio_watch import Watch
from .client import Client as _Client, Pipeline as _Pipeline
from .errors import Error, NotFound, StorageError, TransactionConflict, UsageError
from .ranges import RangePages
from .transaction import _NOTHING, _Steps, as_bytes, check_function, read_together

if TYPE_CHECKING:
    from ._mqkv import Bytes, Durability, Entry, Result, Seconds, Stat

__all__ = ["Batch", "Client", "Job", "Mapping", "Queue", "Transaction", "Watch"]

_MANY = 5000  # operations of put_many and its like that are under way at a time

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


class _Write(_Operation[_T]):
    """One that a cancelled task cannot know the outcome of."""

    def cancel(self, msg: Optional[Any] = None) -> bool:
        """Nobody waits any more. Called by the task, too."""
        told = "a write was under way: whether it is executed is unknown"
        return super().cancel(told if msg is None else f"{msg}: {told}")


_WRITES = frozenset(("put", "delete", "add", "append", "exchange", "touch"))

_Opened = tuple[_Client, _Pipeline, int]  # the last is the pipeline's descriptor


def _close(client: _Client, pipeline: Optional[_Pipeline]) -> None:
    try:
        if pipeline is not None:
            pipeline.close()
    finally:
        client.close()


def _hand_over(operation: "_Operation[_T]", future: "asyncio.Future[_T]") -> None:
    if future.cancelled():
        operation.cancel()
        return
    error = future.exception()
    if operation.done():
        return
    if error is not None:
        operation.set_exception(error)
    else:
        operation.set_result(future.result())


def _chunks(items: "Iterable[_T]") -> "Iterator[list[_T]]":
    iterator = iter(items)
    while chunk := list(islice(iterator, _MANY)):
        yield chunk


async def _with_version(operation: "_Operation[Any]", result: "Result[Any]") -> "tuple[Any, int]":
    return await operation, result.version


class Client:
    """A client of the store, for one event loop. The arguments are those of mqkv.Client, and
    `window` and `batch` those of mqkv.Client.pipeline.

    Methods take what mqkv.Client's take. get, exists, put, delete, add, append, exchange, touch,
    scan_page, stats_json and sync return a coroutine: to await, or for asyncio.create_task,
    TaskGroup and their like. The operation is under way once the method has returned, awaited or
    not.
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

    def _begin(self, name: str, arguments: Any, options: Any) -> "Result[Any]":
        """Submits an operation; the Result's tag is its future."""
        if self.closed or self._loop is None:
            raise UsageError("the client is closed, or not connected yet")
        kind = _Write if name in _WRITES else _Operation
        result: "Result[Any]" = getattr(self._pipeline, name)(
            *arguments, tag=kind(loop=self._loop), **options)
        self._schedule()
        return result

    def _submit(self, name: str, arguments: Any, options: Any) -> "_Operation[Any]":
        future: "_Operation[Any]" = self._begin(name, arguments, options).tag
        return future

    def _connected(self) -> _Client:
        """The client whose calls wait."""
        if self.closed or self._client is None:
            raise UsageError("the client is closed, or not connected yet")
        return self._client

    def _call(self, function: "Callable[[_Client], _T]",
              is_write: bool = False) -> "Coroutine[Any, Any, _T]":
        """Has a thread of the loop's executor make a call that waits: a pipeline has no
        transactions. The call is made even if nobody waits for it any more."""
        client = self._connected()
        assert self._loop is not None
        return self._chained(self._loop.run_in_executor(None, function, client), is_write)

    def _chained(self, future: "asyncio.Future[_T]", is_write: bool) -> "Coroutine[Any, Any, _T]":
        """What is awaited for a thread's call, which goes on if nobody does."""
        kind: "type[_Operation[_T]]" = _Write if is_write else _Operation
        operation = kind(loop=self._loop)
        self._calls += 1
        future.add_done_callback(functools.partial(_hand_over, operation))
        future.add_done_callback(self._end_call)
        return operation

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

    __iter__ = None  # keys() or scan(); without this iter() would ask for the keys 0, 1, ...

    async def __getitem__(self, key: "Bytes") -> bytes:
        """The value of the key: `await client[key]`. NotFound, which is a KeyError."""
        return (await self.entry(key)).value

    def exists(self, key: "Bytes") -> "Coroutine[Any, Any, bool]":
        """Whether the key is there."""
        return self._submit("exists", (key,), {})

    def put(self, key: "Bytes", value: "Bytes", *, ttl: "Optional[Seconds]" = None,
            expiry_ms: Optional[int] = None, keep_ttl: bool = False, if_absent: bool = False,
            if_present: bool = False, if_version: Optional[int] = None,
            durability: "Optional[Durability]" = None) -> "Coroutine[Any, Any, int]":
        """Stores the value and returns the entry's new version: see mqkv.Client.put."""
        return self._submit("put", (key, value), {
            "ttl": ttl, "expiry_ms": expiry_ms, "keep_ttl": keep_ttl, "if_absent": if_absent,
            "if_present": if_present, "if_version": if_version, "durability": durability})

    def delete(self, key: "Bytes", *, if_version: Optional[int] = None,
               durability: "Optional[Durability]" = None) -> "Coroutine[Any, Any, int]":
        """Deletes the entry and returns the version of the deletion. NotFound."""
        return self._submit("delete", (key,), {"if_version": if_version, "durability": durability})

    @overload
    def add(self, key: "Bytes", delta: int = 1, *, min: Optional[int] = None,
            max: Optional[int] = None, initial: Optional[int] = None, canonical: bool = False,
            if_present: bool = False, ttl: "Optional[Seconds]" = None,
            expiry_ms: Optional[int] = None, durability: "Optional[Durability]" = None,
            with_version: Literal[False] = False) -> "Coroutine[Any, Any, int]": ...

    @overload
    def add(self, key: "Bytes", delta: int = 1, *, min: Optional[int] = None,
            max: Optional[int] = None, initial: Optional[int] = None, canonical: bool = False,
            if_present: bool = False, ttl: "Optional[Seconds]" = None,
            expiry_ms: Optional[int] = None, durability: "Optional[Durability]" = None,
            with_version: Literal[True]) -> "Coroutine[Any, Any, tuple[int, int]]": ...

    def add(self, key: "Bytes", delta: int = 1, *, min: Optional[int] = None,
            max: Optional[int] = None, initial: Optional[int] = None, canonical: bool = False,
            if_present: bool = False, ttl: "Optional[Seconds]" = None,
            expiry_ms: Optional[int] = None, durability: "Optional[Durability]" = None,
            with_version: bool = False) -> "Coroutine[Any, Any, Any]":
        """Adds to a decimal number and returns the sum: see mqkv.Client.add."""
        return self._maybe_versioned("add", (key, delta), {
            "min": min, "max": max, "initial": initial, "canonical": canonical,
            "if_present": if_present, "ttl": ttl, "expiry_ms": expiry_ms,
            "durability": durability}, with_version)

    @overload
    def append(self, key: "Bytes", value: "Bytes", *, durability: "Optional[Durability]" = None,
               with_version: Literal[False] = False) -> "Coroutine[Any, Any, int]": ...

    @overload
    def append(self, key: "Bytes", value: "Bytes", *, durability: "Optional[Durability]" = None,
               with_version: Literal[True]) -> "Coroutine[Any, Any, tuple[int, int]]": ...

    def append(self, key: "Bytes", value: "Bytes", *, durability: "Optional[Durability]" = None,
               with_version: bool = False) -> "Coroutine[Any, Any, Any]":
        """Appends to the value and returns its new size."""
        return self._maybe_versioned("append", (key, value), {"durability": durability},
                                     with_version)

    @overload
    def exchange(self, key: "Bytes", value: "Bytes", *, ttl: "Optional[Seconds]" = None,
                 expiry_ms: Optional[int] = None, keep_ttl: bool = False, if_absent: bool = False,
                 if_present: bool = False, if_version: Optional[int] = None,
                 durability: "Optional[Durability]" = None,
                 with_version: Literal[False] = False
                 ) -> "Coroutine[Any, Any, Optional[bytes]]": ...

    @overload
    def exchange(self, key: "Bytes", value: "Bytes", *, ttl: "Optional[Seconds]" = None,
                 expiry_ms: Optional[int] = None, keep_ttl: bool = False, if_absent: bool = False,
                 if_present: bool = False, if_version: Optional[int] = None,
                 durability: "Optional[Durability]" = None, with_version: Literal[True]
                 ) -> "Coroutine[Any, Any, tuple[Optional[bytes], int]]": ...

    def exchange(self, key: "Bytes", value: "Bytes", *, ttl: "Optional[Seconds]" = None,
                 expiry_ms: Optional[int] = None, keep_ttl: bool = False, if_absent: bool = False,
                 if_present: bool = False, if_version: Optional[int] = None,
                 durability: "Optional[Durability]" = None,
                 with_version: bool = False) -> "Coroutine[Any, Any, Any]":
        """Stores the value and returns the old one."""
        return self._maybe_versioned("exchange", (key, value), {
            "ttl": ttl, "expiry_ms": expiry_ms, "keep_ttl": keep_ttl, "if_absent": if_absent,
            "if_present": if_present, "if_version": if_version, "durability": durability},
            with_version)

    def _maybe_versioned(self, name: str, arguments: Any, options: Any,
                         with_version: bool) -> "Coroutine[Any, Any, Any]":
        result = self._begin(name, arguments, options)
        operation: "_Operation[Any]" = result.tag
        return _with_version(operation, result) if with_version else operation

    def touch(self, key: "Bytes", *ttl: "Optional[Seconds]", expiry_ms: Optional[int] = None,
              durability: "Optional[Durability]" = None) -> "Coroutine[Any, Any, int]":
        """Lets the entry end in ttl seconds (None: never), or at expiry_ms. NotFound."""
        options: "dict[str, Any]" = {"durability": durability}
        if expiry_ms is not None:
            options["expiry_ms"] = expiry_ms
        return self._submit("touch", (key, *ttl), options)

    def scan_page(self, prefix: "Bytes" = b"", *, cursor: int = 0, limit: int = 0,
                  keys_only: bool = False,
                  atomic: bool = False) -> "Coroutine[Any, Any, tuple[list[Entry], int]]":
        """One page of a scan, and the cursor of the next: see mqkv.Client.scan_page."""
        return self._submit("scan_page", (prefix,), {
            "cursor": cursor, "limit": limit, "keys_only": keys_only, "atomic": atomic})

    def stats_json(self, section: Optional[str] = None) -> "Coroutine[Any, Any, bytes]":
        """The server's statistics as JSON."""
        return self._submit("stats_json", (section,), {})

    def sync(self) -> "Coroutine[Any, Any, None]":
        """Returns when everything that was complete before is on disk."""
        return self._submit("sync", (), {})

    # What is made of them ------------------------------------------------------------------------

    async def entry(self, key: "Bytes") -> "Entry":
        """The entry with its version and expiry. NotFound."""
        result = self._begin("get", (key,), {})
        value = await result.tag
        if value is None:
            error = NotFound("key not found")
            error.status, error.key = "not_found", as_bytes(key)
            raise error
        fields = (as_bytes(key), value, result.version, result.expiry_ms)
        return _mqkv.Entry(fields)  # type: ignore

    async def stat(self, key: "Bytes") -> "Stat":
        """Size, version and expiry without the value. NotFound."""
        result = self._begin("exists", (key,), {})
        if not await result.tag:
            error = NotFound("key not found")
            error.status, error.key = "not_found", as_bytes(key)
            raise error
        return _mqkv.Stat((result.number, result.version, result.expiry_ms))  # type: ignore

    async def ttl(self, key: "Bytes") -> Optional[float]:
        """The seconds that the entry has left; None: it never ends. NotFound."""
        expiry_ms = (await self.stat(key)).expiry_ms
        return max(0.0, expiry_ms / 1000 - time.time()) if expiry_ms else None

    def persist(self, key: "Bytes") -> "Coroutine[Any, Any, int]":
        """Lets the entry never end. NotFound."""
        return self.touch(key, None)

    async def discard(self, key: "Bytes", *, durability: "Optional[Durability]" = None) -> bool:
        """Deletes the entry if there is one; tells whether there was."""
        try:
            await self.delete(key, durability=durability)
        except NotFound:
            return False
        return True

    async def get_many(self, keys: "Iterable[Bytes]") -> dict[bytes, bytes]:
        """The values of those keys that are there, by key."""
        found: "dict[bytes, bytes]" = {}
        for chunk in _chunks(keys):
            values = await asyncio.gather(*[self.get(key) for key in chunk])
            found.update((as_bytes(key), value) for key, value in zip(chunk, values)
                         if value is not None)
        return found

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

    async def put_many(self, entries: "Union[MappingType[Any, Any], "
                       "Iterable[tuple[Bytes, Bytes]]]", *, ttl: "Optional[Seconds]" = None,
                       expiry_ms: Optional[int] = None,
                       durability: "Optional[Durability]" = None) -> None:
        """Stores all entries of a mapping, or of pairs. The first one that fails raises its
        exception; others may have been stored."""
        pairs = entries.items() if isinstance(entries, MappingType) else entries
        for chunk in _chunks(pairs):
            await asyncio.gather(*[self.put(key, value, ttl=ttl, expiry_ms=expiry_ms,
                                            durability=durability) for key, value in chunk])

    async def delete_many(self, keys: "Iterable[Bytes]", *,
                          durability: "Optional[Durability]" = None) -> int:
        """Deletes those keys that are there; returns how many were."""
        deleted = 0
        for chunk in _chunks(keys):
            done = await asyncio.gather(
                *[self.delete(key, durability=durability) for key in chunk],
                return_exceptions=True)
            for outcome in done:
                if isinstance(outcome, BaseException) and not isinstance(outcome, NotFound):
                    raise outcome
            deleted += sum(isinstance(outcome, int) for outcome in done)
        return deleted

    def batch(self) -> "Batch":
        """Operations that are executed together, in order: see mqkv.Client.batch.

            async with client.batch() as batch:
                name = batch.get("name")
                visits = batch.add("visits")
            print(name.result(), visits.result())

        What is asked for in one turn of the loop travels together anyway; but in a batch the order
        holds for different keys, too.
        """
        return Batch(self)

    def mapping(self, prefix: "Bytes" = b"", *, ttl: "Optional[Seconds]" = None) -> Mapping:
        """The keys that begin with the prefix as a dict: see mqkv.aio.Mapping."""
        return Mapping(self, prefix, ttl=ttl)

    def watch(self, prefix: "Bytes" = b"", *, since: Optional[str] = None,
              keys_only: bool = False) -> Watch:
        """What is put, deleted or expires, of the keys that begin with the prefix: see
        mqkv.Client.watch.

            async with client.watch("user:") as watch:
                async for change in watch:
                    print(change.kind, change.key, change.value)
        """
        return Watch(self, prefix, since=since, keys_only=keys_only)

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
            lambda client: client.delete_range(start, stop, prefix=prefix, limit=limit), True)

    # The server ----------------------------------------------------------------------------------

    async def ping(self) -> float:
        """One empty round trip; returns its seconds."""
        return await self._call(lambda client: client.ping())

    def info(self) -> dict[str, Any]:
        """What is known of the server and this client; nobody is asked."""
        return self._connected().info()

    def set_priority(self, priority: int) -> None:
        """The priority, 0 to 31, of this client's operations from now on."""
        self._connected().set_priority(priority)
        if self._pipeline is not None:
            self._pipeline.set_priority(priority)

    @property
    def queue(self) -> str:
        """The name of the server's queue."""
        return self._connected().queue

    async def stats(self, section: Optional[str] = None) -> Any:
        """The server's statistics, or one section of them."""
        return json.loads(await self.stats_json(section))


class Batch(_mqkv.Batch):
    """Operations that are executed together: see Client.batch. Each method takes what
    mqkv.Client's takes, and a tag, and returns a Result, which has its outcome after execute().
    `async with` executes at its end, unless it ends with an exception."""

    def __new__(cls, client: Client) -> "Batch":
        """The extension's is of the client whose calls wait."""
        return super().__new__(cls, client._connected())

    def __init__(self, client: Client) -> None:  # pylint: disable=super-init-not-called
        self._client = client

    async def execute(self) -> "list[Result[Any]]":  # type: ignore[override]
        """Sends what was asked for and returns its Results. Of a task that is cancelled meanwhile
        it is executed nevertheless."""
        return await self._client._call(lambda _: _mqkv.Batch.execute(self), True)

    async def __aenter__(self) -> "Batch":
        return self

    async def __aexit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        if kind is None:
            await self.execute()
        else:
            self.clear()


class Transaction(_Steps):
    """Several keys change together, or none: see Client.transaction. put, delete, add, append,
    touch, guard and t[key] = value are those of mqkv.Transaction."""

    def __init__(self, client: Client, *, durability: "Optional[Durability]" = None) -> None:
        super().__init__(client._connected(), durability)
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
                lambda _: self._batch.transact(expected, durability=self._durability), True))

    @overload
    async def get(self, key: "Bytes") -> Optional[bytes]: ...

    @overload
    async def get(self, key: "Bytes", default: "_T") -> "Union[bytes, _T]": ...

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
