"""Queues for jobs, for asyncio: mqkv.aio.Queue."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import (TYPE_CHECKING, AsyncIterator, Callable, Iterable, Optional, TypeVar, Union)

from .errors import Error, UsageError
from .jobs import Job as _Job, Queue as _Queue
from .transaction import as_bytes
from .watch import milliseconds_of

if TYPE_CHECKING:
    from ._mqkv import Bytes, Durability, Seconds
    from .aio import Client
    from .jobs import Lengths, State

__all__ = ["Job", "Queue"]

_T = TypeVar("_T")
_SLICE_MS = 1000  # after it a thread that waits for jobs looks whether anybody wants them still


class Job:
    """A job: see mqkv.Job. `async with job` acknowledges at its end; an exception gives it back as
    failed, and a cancellation as if it had not been taken."""

    def __init__(self, queue: "Queue", taken: _Job) -> None:
        self.queue = queue
        self._taken = taken
        self.payload, self.receipt, self.id = taken.payload, taken.receipt, taken.id
        self.priority, self.attempts = taken.priority, taken.attempts
        self.max_attempts, self.put_at = taken.max_attempts, taken.put_at
        self.reason = taken.reason

    def __repr__(self) -> str:
        return repr(self._taken)

    @property
    def until(self) -> float:
        """When its lease ends, in seconds since 1970; of one that waits: when it may be taken."""
        return self._taken.until

    @property
    def settled(self) -> bool:
        """Whether it was acknowledged or given back."""
        return self._taken.settled

    async def ack(self) -> None:
        """The job is done. NotFound, VersionMismatch: it is not this worker's any more."""
        await self.queue._do(self._taken.ack)

    async def fail(self, reason: "Union[str, BaseException]" = "",
                   delay: "Optional[Seconds]" = None) -> bool:
        """Gives it back as failed: see mqkv.Job.fail."""
        return await self.queue._do(functools.partial(self._taken.fail, reason, delay))

    async def bury(self, reason: str = "") -> None:
        """Makes it a dead letter."""
        await self.queue._do(functools.partial(self._taken.bury, reason))

    async def release(self, delay: "Seconds" = 0) -> None:
        """Gives it back as if it had not been taken."""
        await self.queue._do(functools.partial(self._taken.release, delay))

    async def extend(self, lease: "Optional[Seconds]" = None) -> None:
        """Lets the lease end that many seconds from now (None: as taken)."""
        await self.queue._do(functools.partial(self._taken.extend, lease))

    async def __aenter__(self) -> "Job":
        return self

    async def __aexit__(self, kind: "Optional[type[BaseException]]",
                        error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        if self.settled:
            return
        if error is None:
            await self.ack()
        elif isinstance(error, Exception):
            await self.fail(error)
        else:  # cancelled, or the program ends
            await self.release()


class Queue:
    """The queue of that name in the store of an mqkv.aio.Client: what mqkv.Queue has, as
    coroutines.

        queue = mqkv.aio.Queue(client, "mail")
        async for job in queue:
            async with job:
                await send(job.payload)

    Two threads of its own make the calls, one of them those that wait for jobs. A job that comes
    for a task that was cancelled meanwhile is given back. Close it, or use it in `async with`.
    """

    def __init__(self, client: "Client", name: "Bytes", lease: "Seconds" = 30,
                 durability: "Optional[Durability]" = None) -> None:
        self._client = client
        self._arguments = (as_bytes(name), lease, durability)
        self._queue: "Optional[_Queue]" = None
        self._closed = False
        self._taker = ThreadPoolExecutor(1, "mqkv.aio.Queue")
        self._others = ThreadPoolExecutor(1, "mqkv.aio.Queue")

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._arguments[0].decode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        return f"<mqkv.aio.Queue {self.name!r}>"

    def _open(self) -> "_Queue":
        """In a thread."""
        if self._queue is None:
            self._queue = _Queue(self._client._connected(), *self._arguments)
        return self._queue

    async def _run(self, executor: ThreadPoolExecutor, call: "Callable[[], _T]") -> _T:
        if self._closed:
            raise UsageError("the queue is closed")
        self._client._connected()
        return await self._client._chained(
            asyncio.get_running_loop().run_in_executor(executor, call), True)

    async def _do(self, call: "Callable[[], _T]") -> _T:
        return await self._run(self._others, call)

    async def put(self, payload: "Bytes", *, priority: int = 0, delay: "Seconds" = 0,
                  max_attempts: int = 5, backoff: "Seconds" = 1) -> str:
        """Puts a job and returns its id: see mqkv.Queue.put."""
        return await self._do(lambda: self._open().put(
            payload, priority=priority, delay=delay, max_attempts=max_attempts, backoff=backoff))

    async def put_many(self, payloads: "Iterable[Bytes]", *, priority: int = 0,
                       delay: "Seconds" = 0, max_attempts: int = 5,
                       backoff: "Seconds" = 1) -> "list[str]":
        """Puts jobs, in few messages: see mqkv.Queue.put_many."""
        given = list(payloads)
        return await self._do(lambda: self._open().put_many(
            given, priority=priority, delay=delay, max_attempts=max_attempts, backoff=backoff))

    async def take(self, timeout: "Optional[Seconds]" = 0) -> Optional[Job]:
        """Takes a job; None if there is none. timeout: seconds to wait for one; None: for ever."""
        taken = await self.take_many(1, timeout)
        return taken[0] if taken else None

    async def take_many(self, count: int, timeout: "Optional[Seconds]" = 0) -> "list[Job]":
        """Takes up to count jobs (64 at most); waits for the first one. Tasks that wait at the same
        time get theirs in turn."""
        left_ms = milliseconds_of(timeout)
        while True:
            taken = await self._take_once(count, left_ms)
            if taken or left_ms >= 0 or self._closed:
                return [Job(self, job) for job in taken]

    async def _take_once(self, count: int, left_ms: int) -> "list[_Job]":
        is_wanted = [True]
        loop = asyncio.get_running_loop()
        taking = asyncio.ensure_future(self._run(
            self._taker, lambda: self._take(loop, count, left_ms, is_wanted)))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            is_wanted[0] = False
            taking.add_done_callback(self._give_back)
            raise

    def _take(self, loop: asyncio.AbstractEventLoop, count: int, left_ms: int,
              is_wanted: "list[bool]") -> "list[_Job]":
        """In the thread that waits, which ends when nobody does any more."""
        queue = self._open()
        while is_wanted[0] and loop.is_running() and not self._closed and not self._client.closed:
            slice_ms = _SLICE_MS if left_ms < 0 else min(left_ms, _SLICE_MS)
            taken = queue.take_many(count, slice_ms / 1000)
            if taken and is_wanted[0]:
                return taken
            for job in taken:
                _release(job)
            left_ms = left_ms if left_ms < 0 else left_ms - slice_ms
            if left_ms == 0:
                break
        return []

    def _give_back(self, taking: "asyncio.Future[list[_Job]]") -> None:
        """Of jobs that came at the moment at which nobody wanted them any more."""
        if not taking.cancelled() and taking.exception() is None:
            with contextlib.suppress(RuntimeError):  # it is closed: their lease ends
                for job in taking.result():
                    self._others.submit(_release, job)

    def __aiter__(self) -> "AsyncIterator[Job]":
        return self

    async def __anext__(self) -> Job:
        while True:
            job = await self.take(None)
            if job is not None:
                return job
            if self._closed:
                raise UsageError("the queue is closed")

    async def ack(self, jobs: "Iterable[Union[Job, str]]") -> None:
        """Acknowledges jobs, or those of receipts: see mqkv.Queue.ack."""
        given: "list[Union[_Job, str]]" = [
            job._taken if isinstance(job, Job) else job for job in jobs]
        await self._do(lambda: self._open().ack(given))

    async def job_of(self, receipt: str) -> Job:
        """What settles the job of a receipt: its payload is not known."""
        return Job(self, (await self._do(self._open)).job_of(receipt))

    async def lengths(self) -> "Lengths":
        """How many jobs there are."""
        return await self._do(lambda: self._open().lengths())

    async def jobs(self, state: "State" = "ready", limit: int = 0) -> "list[Job]":
        """Jobs in the order in which they would be taken, without taking them; limit 0: all."""
        return [Job(self, job) for job in await self._do(lambda: self._open().jobs(state, limit))]

    async def peek(self) -> Optional[Job]:
        """The job that would be taken next."""
        found = await self.jobs("ready", 1)
        return found[0] if found else None

    async def revive(self, limit: int = 0) -> int:
        """Gives dead letters their attempts anew; how many."""
        return await self._do(lambda: self._open().revive(limit))

    async def drop(self, state: "State" = "ready", limit: int = 0) -> int:
        """Deletes jobs of a state other than leased; how many."""
        return await self._do(lambda: self._open().drop(state, limit))

    async def close(self) -> None:
        """Takes no more calls, and waits for those under way, for up to a second. Closing twice is
        harmless."""
        self._closed = True
        loop = asyncio.get_running_loop()
        for executor in (self._taker, self._others):
            await loop.run_in_executor(None, executor.shutdown)

    async def __aenter__(self) -> "Queue":
        return self

    async def __aexit__(self, kind: "Optional[type[BaseException]]",
                        error: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        await self.close()


def _release(job: _Job) -> None:
    try:
        job.release()
    except Error:  # its lease ends
        pass
