"""Client, Batch and Pipeline: the extension's, and what Python says better."""

from __future__ import annotations

import functools
import json
import os
import time
import weakref
from collections import deque
from itertools import chain, islice
from types import TracebackType
from typing import (TYPE_CHECKING, Any, Callable, Concatenate, Iterable, Iterator,
                    Literal, Mapping as MappingType, Optional, ParamSpec, Protocol, TypeVar, Union)

from . import _mqkv, home
from .errors import NoServer, NotFound, StorageError, TransactionConflict, UsageError
from .ranges import RangePages
from .transaction import Transaction, as_bytes, check_function, read_together

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")

if TYPE_CHECKING:
    from ._mqkv import Bytes, Durability, Entry, Result, Seconds
    from .mapping import Mapping
    from .watch import Watch

    class _Decorator(Protocol):
        def __call__(
                self, function: Callable[Concatenate[Transaction, _Arguments], _Answer], /
        ) -> Callable[_Arguments, _Answer]: ...

__all__ = ["Batch", "Client", "Pipeline"]

# Operations that one message of a batch of many may hold; the library cuts it where it must.
_MANY = 1000
_FEW = 5  # so many times _MANY are worth a session of their own


def _chunks(items: Iterable[Any]) -> Iterator[list[Any]]:
    """The items in lists of at most _MANY."""
    iterator = iter(items)
    while chunk := list(islice(iterator, _MANY)):
        yield chunk


def _is_path(queue: "Union[str, os.PathLike[str], None]") -> bool:
    """Whether it names a directory: a queue's name has its only slash in front."""
    return queue is not None and (not isinstance(queue, str) or "/" in queue[1:])


def _is_without_store(queue: Optional[str]) -> bool:
    """Whether somebody who means the directory of that name gives it as a queue's: there is one,
    and no daemon of such a queue can be expected for what is in it."""
    return (queue is not None and os.path.isdir(queue)
            and not os.path.exists(os.path.join(queue, "data.0000")))


def _with_advice(error: "Union[NoServer, UsageError]",
                 queue: Optional[str]) -> "Union[NoServer, UsageError]":
    """The error of an opening, with a word more if a directory may have been meant."""
    if queue is None or not (os.path.isdir(queue) if isinstance(error, NoServer)
                             else queue and not queue.startswith("/")):
        return error
    advised = type(error)(f"{error}; a directory? mqkv.Client(directory={queue!r}) opens the store "
                          "in it")
    advised.status = error.status
    return advised


class Client(_mqkv.Client):
    """A client of the store behind one queue, or of the store in a directory.

    queue is the name that `serverk -m` was given; by default $MQKV_QUEUE, else /serverk. A path
    instead (a pathlib.Path, or text with a slash after its first letter), or directory=, is the
    directory of a store of this user, whose daemon is started if nobody serves it yet, and ends
    when nobody uses it any more: see mqkv.home. "/data" is a queue, "/data/" a directory.

    Every call, opening too, returns within `timeout` seconds, with a sentence of what was wrong;
    when the server restarts, calls wait for it that long. A daemon that takes longer to start goes
    on starting.

    What the server had and did not answer before it ended is repeated: reads, and put, delete,
    touch and delete_range without a condition. It may be executed twice then. A repeated write may
    replace (or delete) what somebody else wrote between the two, which others may have read: where
    that matters, give a condition, or repeat_writes=False. The version is that of the last time,
    and 0 of a delete that found nothing then. Other writes are not repeated: OutcomeUnknown.

        repeat_writes   whether writes without a condition are repeated (True), else OutcomeUnknown
        fail_fast       NoServer at once instead of waiting for a server to come
        fail_fast_open  the same, but while opening only
        spin            how to wait: 'auto', 'off', microseconds
        combine_above   threads that get a session each (8); above, all share
        combine_groups  this many sessions (3)
        priority        of this client's messages, 0 to 31
        server_uid      the user (number or name) that the server must have
        replies         how they come: 'auto', 'shared' (memory), 'queue'
        direct          reads without messages: 'auto', 'off', 'map', 'pread'; see clientk(3)
        direct_stale    seconds that direct reads go on after the server was killed (0)

    Any number of threads may share a client; the GIL is released in every call. A child of fork
    uses its copy as if it were its own: the first call opens a new handle. Ctrl-C ends a call that
    waits. Close it, or use it in a with statement; otherwise it is closed when it is collected.
    """

    def __init__(self, queue: "Union[str, os.PathLike[str], None]" = None, *,
                 directory: "Union[str, os.PathLike[str], None]" = None, timeout: float = 5.0,
                 repeat_writes: bool = True, fail_fast: bool = False,
                 fail_fast_open: bool = False, spin: Optional[str] = None, combine_above: int = 0,
                 combine_groups: int = 0, priority: int = 0,
                 server_uid: Union[int, str, None] = None,
                 replies: "Optional[Literal['auto', 'shared', 'queue']]" = None,
                 direct: "Optional[Literal['auto', 'off', 'map', 'pread']]" = None,
                 direct_stale: float = 0) -> None:
        if directory is None and _is_path(queue):
            directory, queue = queue, None
        elif directory is not None and queue is not None:
            raise ValueError("a client is of a queue or of a directory, not of both")
        self._drop: Optional[Callable[[], object]] = None
        if directory is not None:
            directory = home.expand(directory)
            queue = home.queue_of(directory)
            server_uid = os.geteuid() if server_uid is None else server_uid
            if not timeout > 0:
                raise ValueError("timeout must be above 0")
            # From now on a thread starts another one, should it end before this client is there.
            home.keep(directory, queue, home.start(directory, queue, timeout))
            self._drop = weakref.finalize(self, home.drop, queue)
        name = queue if queue is None else os.fspath(queue)
        try:
            super().__init__(
                name, timeout=timeout, repeat_writes=repeat_writes, fail_fast=fail_fast,
                fail_fast_open=fail_fast_open or _is_without_store(name), spin=spin,
                combine_above=combine_above, combine_groups=combine_groups, priority=priority,
                server_uid=server_uid, replies=replies, direct=direct, direct_stale=direct_stale)
        except (NoServer, UsageError) as error:
            if (advised := _with_advice(error, name)) is error:
                raise
            raise advised from None

    def close(self) -> None:
        """Closes; closing twice is harmless."""
        super().close()
        if self._drop is not None:
            self._drop()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<mqkv.Client of {self.queue}{', closed' if self.closed else ''}>"

    def __contains__(self, key: "Bytes") -> bool:
        return self.exists(key)

    __iter__ = None  # keys() or scan(); without this iter() would ask for the keys 0, 1, ...

    def __getitem__(self, key: "Bytes") -> bytes:
        """The value of the key. NotFound, which is a KeyError."""
        return self.entry(key).value

    def __setitem__(self, key: "Bytes", value: "Bytes") -> None:
        self.put(key, value)

    def __delitem__(self, key: "Bytes") -> None:
        self.delete(key)

    def __reduce__(self) -> Any:
        raise TypeError("a Client cannot be pickled: let the other process open its own")

    # One key -------------------------------------------------------------------------------------

    def ttl(self, key: "Bytes") -> Optional[float]:
        """The seconds that the entry has left; None: it never ends. NotFound."""
        expiry_ms = self.stat(key).expiry_ms
        return max(0.0, expiry_ms / 1000 - time.time()) if expiry_ms else None

    def persist(self, key: "Bytes") -> int:
        """Lets the entry never end; returns its new version. NotFound."""
        return self.touch(key, None)

    def discard(self, key: "Bytes", *, durability: "Optional[Durability]" = None) -> bool:
        """Deletes the entry if there is one; tells whether there was."""
        try:
            self.delete(key, durability=durability)
        except NotFound:
            return False
        return True

    # Many keys -----------------------------------------------------------------------------------

    def batch(self) -> "Batch":
        """Operations that are executed together, in order, in as few messages as they fit in:

            with client.batch() as batch:
                name = batch.get("name")
                visits = batch.add("visits")
            print(name.result(), visits.result(), visits.version)

        Many times faster than one call each. Not atomic: see transaction.
        """
        return Batch(self)

    def pipeline(self, window: int = 0, batch: int = 0) -> "Pipeline":
        """Several messages in flight at once, for one thread:

            with client.pipeline() as pipeline:
                for key in keys:
                    pipeline.put(key, b"")

        window: messages in flight (0: as many as the server grants), batch: operations in a message
        (0: as many as fit). Operations on one key take effect in their order.
        """
        return Pipeline(self, window, batch)

    def get_many(self, keys: "Iterable[Bytes]") -> dict[bytes, bytes]:
        """The values of those keys that are there, by key."""
        found = {}
        for chunk in _chunks(keys):
            batch = Batch(self)
            for key in chunk:
                batch.get(key)
            for key, result in zip(chunk, batch.execute()):
                value = result.result()
                if value is not None:
                    found[as_bytes(key)] = value
        return found

    def put_many(self, entries: "Union[MappingType[Any, Any], Iterable[tuple[Bytes, Bytes]]]", *,
                 ttl: "Optional[Seconds]" = None, expiry_ms: Optional[int] = None,
                 durability: "Optional[Durability]" = None) -> None:
        """Stores all entries of a mapping, or of pairs. The first one that fails raises its
        exception; others may have been stored."""
        pairs = entries.items() if isinstance(entries, MappingType) else entries
        given = {"ttl": ttl, "expiry_ms": expiry_ms, "durability": durability}
        options: "dict[str, Any]" = {name: option for name, option in given.items()
                                     if option is not None}
        chunks = _chunks(pairs)
        head = list(islice(chunks, _FEW))
        if len(head) == _FEW:
            self._put_in_flight(chain(head, chunks), options)
            return
        for chunk in head:
            batch = Batch(self)
            put = batch.put
            for key, value in chunk:
                put(key, value, **options)
            for result in batch.execute():
                result.result()

    def _put_in_flight(self, chunks: "Iterable[list[tuple[Bytes, Bytes]]]",
                       options: "dict[str, Any]") -> None:
        """Stores them with several messages in flight: nobody waits for each to be answered."""
        waiting: "deque[list[Result[int]]]" = deque()
        with self.pipeline() as pipeline:
            put = pipeline.put
            for chunk in chunks:
                waiting.append([put(key, value, **options) for key, value in chunk])
                while waiting and all(result.done for result in waiting[0]):
                    for result in waiting.popleft():
                        result.result()
        for results in waiting:
            for result in results:
                result.result()

    def delete_many(self, keys: "Iterable[Bytes]", *,
                    durability: "Optional[Durability]" = None) -> int:
        """Deletes those keys that are there; returns how many were."""
        deleted = 0
        for chunk in _chunks(keys):
            batch = Batch(self)
            for key in chunk:
                batch.delete(key, durability=durability)
            for result in batch.execute():
                if result.status != "not_found":
                    result.result()
                    deleted += 1
        return deleted

    # Several keys as one step --------------------------------------------------------------------

    def get_together(self, keys: "Iterable[Bytes]") -> dict[bytes, bytes]:
        """The values of those keys (128 at most) that are there, read at one moment, by key."""
        wanted = [as_bytes(key) for key in keys]
        values = [result.result() for result in read_together(self, wanted)]
        return {key: value for key, value in zip(wanted, values) if value is not None}

    def transaction(self, *, durability: "Optional[Durability]" = None) -> "Transaction":
        """Several keys change together, or none:

            with client.transaction() as t:
                stock = int(t["stock"])
                t["stock"] = str(stock - 1)
                t["order:7"] = "..."

        Nothing is locked, and nothing is written before the end of the block. It is written then,
        in one step, if nothing that the block has read has changed meanwhile; else it is a
        TransactionConflict. An exception in the block abandons it. After an UnknownOutcome all of
        it was written, or nothing. At most 128 keys that are read, writes and guards together.

        What is read stays as it was first read, and the block sees its own puts and deletes. add,
        append and touch are executed at the end, and their Results are known then. guard adds what
        must hold. A transaction is for one thread; those of one client do not nest.
        """
        return Transaction(self, durability=durability)

    def transactional(
            self, *, tries: int = 100, durability: "Optional[Durability]" = None
    ) -> "_Decorator":
        """A decorator: each call of the function is a transaction, which the function gets as its
        first argument, and begins anew after a conflict:

            @client.transactional()
            def pay(t, source, target, amount):
                t[source] = str(int(t[source]) - amount)
                t[target] = str(int(t[target]) + amount)

            pay("account:1", "account:2", 30)

        The function must have no other effects: it may run `tries` times. The last
        TransactionConflict is raised.
        """
        def decorate(
                function: "Callable[Concatenate[Transaction, _Arguments], _Answer]"
        ) -> "Callable[_Arguments, _Answer]":
            check_function(function, False, tries)

            @functools.wraps(function)
            def call(*args: "_Arguments.args", **kwargs: "_Arguments.kwargs") -> _Answer:
                left = tries
                while True:
                    left -= 1
                    try:
                        with self.transaction(durability=durability) as transaction:
                            answer = function(transaction, *args, **kwargs)
                        return answer
                    except TransactionConflict:
                        if left == 0:
                            raise

            return call

        return decorate

    # All keys ------------------------------------------------------------------------------------

    def scan(self, prefix: "Bytes" = b"", *, limit: Optional[int] = None, cursor: int = 0,
             keys_only: bool = False, atomic: bool = False) -> "Iterator[Entry]":
        """The entries whose key begins with the prefix, in no order, page by page.

        An entry that exists all the while comes exactly once. limit: this many at most. atomic:
        each data file as it was at one moment. A record that cannot be read raises Corrupt or
        StorageError after the entries before it; scan(cursor=error.cursor) goes on behind it.
        A scan walks all keys of the store, whatever the prefix.
        """
        entries = self._entries(prefix, limit, cursor, keys_only, atomic)
        return entries if limit is None else islice(entries, limit)

    def _entries(self, prefix: "Bytes", limit: Optional[int], cursor: int, keys_only: bool,
                 atomic: bool) -> "Iterator[Entry]":
        page_limit = min(limit, _MANY) if limit is not None else _MANY
        while True:
            try:
                entries, cursor = self.scan_page(prefix, cursor=cursor, keys_only=keys_only,
                                                 limit=0 if atomic else page_limit, atomic=atomic)
            except StorageError as error:
                yield from error.entries
                raise
            yield from entries
            if cursor == 0:
                return

    def keys(self, prefix: "Bytes" = b"", *, limit: Optional[int] = None) -> Iterator[bytes]:
        """The keys that begin with the prefix, in no order: see scan."""
        for entry in self.scan(prefix, limit=limit, keys_only=True):
            yield entry.key

    def range(self, start: "Bytes" = b"", stop: "Bytes" = b"", *, prefix: "Bytes" = b"",
              reverse: bool = False, limit: Optional[int] = None,
              keys_only: bool = False) -> "Iterator[Entry]":
        """The entries from the key `start` on and before `stop`, in the order of their keys' bytes.

        Empty: from the first, to the last one that there is. prefix: only keys that begin with it.
        reverse: the last one first. An entry that exists all the while comes exactly once, also
        over a restart of the server. Records that cannot be read are left out, and raise
        StorageError after the last entry. The server must keep the order (serverk --ordered), else
        Unsupported; an Error while it is still building it.
        """
        pages = RangePages(start, stop, prefix, reverse, limit, keys_only)
        while pages.arguments is not None:
            yield from pages.take(self.range_page(*pages.arguments))

    def count(self, start: "Bytes" = b"", stop: "Bytes" = b"", *, prefix: "Bytes" = b"") -> int:
        """How many entries there are in a range: see range. Others may write meanwhile."""
        return self.count_range(as_bytes(start), as_bytes(stop), as_bytes(prefix))

    def delete_range(self, start: "Bytes" = b"", stop: "Bytes" = b"", *, prefix: "Bytes" = b"",
                     limit: Optional[int] = None) -> int:
        """Deletes the entries of a range (see range), at most `limit`, at the cost of what it
        deletes; returns how many. Others may read and write meanwhile."""
        if limit == 0:
            return 0
        return self.remove_range(as_bytes(start), as_bytes(stop), as_bytes(prefix), limit or 0)

    def delete_prefix(self, prefix: "Bytes") -> int:
        """Deletes every key that begins with the prefix, which must not be empty; returns how many
        were deleted. Keys that come meanwhile may stay."""
        if not prefix:
            raise ValueError("an empty prefix means every key: use delete_many(client.keys())")
        return self.delete_many(self.keys(prefix))

    def mapping(self, prefix: "Bytes" = b"", *, ttl: "Optional[Seconds]" = None) -> "Mapping":
        """The keys that begin with the prefix as a dict: see mqkv.Mapping."""
        from .mapping import Mapping
        return Mapping(self, prefix, ttl=ttl)

    # Changes -------------------------------------------------------------------------------------

    def watch(self, prefix: "Bytes" = b"", *, since: Optional[str] = None,
              keys_only: bool = False) -> "Watch":
        """What is put, deleted or expires from now on, of the keys that begin with the prefix:

            with client.watch("user:") as watch:
                for change in watch:
                    print(change.kind, change.key, change.value)

        Each change comes once, those of a key in their order; iteration waits for the next one.
        since: a watch's position, from which to go on, also after a restart of program or server.
        A restart of the server is a pause. After an exception the same watch goes on: Missed means
        that the server does not know some changes any more (serverk --keep-changes), so that what
        was made of them has to be made anew; NoServer, that nobody serves. It is a session of its
        own, for one thread, and may outlive the client.
        """
        from .watch import Watch
        return Watch(self, prefix, since=since, keys_only=keys_only)

    # The server ----------------------------------------------------------------------------------

    def stats(self, section: Optional[str] = None) -> Any:
        """The server's statistics, or one section of them."""
        return json.loads(self.stats_json(section))


class Batch(_mqkv.Batch):
    """Operations that are executed together: see Client.batch. Each method takes what Client's
    takes, and a tag, and returns a Result, which has its outcome after execute(). A with statement
    executes at its end, unless it ends with an exception."""

    def __enter__(self) -> "Batch":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is None:
            self.execute()
        else:
            self.clear()


class Pipeline(_mqkv.Pipeline):
    """Several messages in flight: see Client.pipeline. Each method takes what Client's takes, and a
    tag, and returns a Result, which has its outcome after flush(), or earlier. A with statement
    flushes and closes."""

    def __enter__(self) -> "Pipeline":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()
