"""Queues for jobs: what is put is given to one worker at a time until one has acknowledged it.

    queue = mqkv.Queue(client, "mail")
    queue.put(b"to: Ada", priority=5, delay=60)

    for job in queue:                      # waits for jobs
        with job:                          # acknowledges; an exception gives it back as failed
            send(job.payload)

Payloads are bytes (a str is its UTF-8). A worker has a job for the seconds of its lease; one that
has died, or takes longer without job.extend(), loses it. A job that was given to a worker
max_attempts times becomes a dead letter. Nothing is lost when the daemon, a producer or a worker is
killed; a job may be done twice if its worker is killed between the work and the acknowledgement.
docs/QUEUES.md has the layout, which the programs in C share.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Iterable, Iterator, Literal, NamedTuple, Optional, Union

from . import _mqkv
from .transaction import as_bytes

if TYPE_CHECKING:
    from ._mqkv import Bytes, Durability, JobFields, Seconds

__all__ = ["Job", "Lengths", "Queue"]

State = Literal["ready", "leased", "later", "dead"]
_STATES: "dict[State, int]" = {"ready": 1, "leased": 2, "later": 3, "dead": 4}
_LONGEST_WAIT_MS = 2 ** 31 - 1


class Lengths(NamedTuple):
    """How many jobs can be taken now, are taken, wait for a time, and are dead letters."""

    ready: int
    leased: int
    later: int
    dead: int


def _milliseconds(seconds: "Seconds") -> int:
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if not seconds >= 0 or math.isinf(seconds):
        raise ValueError("seconds must be 0 or more")
    return math.ceil(seconds * 1000)


@dataclass
class Job:
    """A job. payload: its bytes; attempts: how often it was given to a worker, this time included;
    reason: why it failed the last time; until: when its lease ends, in seconds since 1970 (of one
    that waits: when it may be taken)."""

    queue: "Queue" = field(repr=False, compare=False)
    payload: bytes
    receipt: str
    id: str
    priority: int
    attempts: int
    max_attempts: int
    put_at: float
    until: float
    reason: str
    settled: bool = field(default=False, compare=False)

    def ack(self) -> None:
        """The job is done. NotFound, VersionMismatch: it is not this worker's any more;
        OutcomeUnknown: the daemon ended meanwhile, and the lease is over (so do all of these)."""
        self.queue.ack([self])

    def fail(self, reason: "Union[str, BaseException]" = "",
             delay: "Optional[Seconds]" = None) -> bool:
        """Gives it back as failed: it can be taken again after delay seconds, or after a time that
        doubles with each attempt (None). Returns whether it is a dead letter now."""
        text = reason if isinstance(reason, str) else f"{type(reason).__name__}: {reason}"
        dead = self.queue.native().fail(self.receipt, text.encode("utf-8", "replace"),
                                        -1 if delay is None else _milliseconds(delay))
        self.settled = True
        return dead

    def bury(self, reason: str = "") -> None:
        """Makes it a dead letter."""
        self.queue.native().bury(self.receipt, reason.encode("utf-8", "replace"))
        self.settled = True

    def release(self, delay: "Seconds" = 0) -> None:
        """Gives it back as if it had not been taken."""
        self.queue.native().release(self.receipt, _milliseconds(delay))
        self.settled = True

    def extend(self, lease: "Optional[Seconds]" = None) -> None:
        """Lets the lease end that many seconds from now (None: as taken)."""
        lease_ms = 0 if lease is None else max(1, _milliseconds(lease))
        self.until = self.queue.native().extend(self.receipt, lease_ms) / 1000

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: "Optional[type[BaseException]]", error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        if self.settled:
            return
        if error is None:
            self.ack()
        elif isinstance(error, Exception):
            self.fail(error)
        else:  # the program ends: KeyboardInterrupt, SystemExit
            self.release()


class Queue:
    """The queue of that name in a client's store. lease: seconds for which a worker has a job.

    Any number of threads may share it, and a child of fork may use its copy.
    """

    def __init__(self, client: "_mqkv.Client", name: "Bytes", lease: "Seconds" = 30,
                 durability: "Optional[Durability]" = None) -> None:
        self._client = client
        self._name = as_bytes(name)
        self._lease_ms = max(1, _milliseconds(lease))
        self._durability = durability
        self._local = threading.local()
        self.native()

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._name.decode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def native(self) -> "_mqkv.Queue":
        """The extension's queue of this thread."""
        native: "Optional[_mqkv.Queue]" = getattr(self._local, "queue", None)
        if native is None:
            native = _mqkv.Queue(self._client, self._name, self._lease_ms, self._durability)
            self._local.queue = native
        return native

    # Putting -------------------------------------------------------------------------------------

    def put(self, payload: "Bytes", *, priority: int = 0, delay: "Seconds" = 0,
            max_attempts: int = 5, backoff: "Seconds" = 1) -> str:
        """Puts a job and returns its id. priority: 0 to 9, which comes first; delay: seconds before
        which nobody gets it; backoff: seconds after its first failure, which double."""
        return self.put_many([payload], priority=priority, delay=delay, max_attempts=max_attempts,
                             backoff=backoff)[0]

    def put_many(self, payloads: "Iterable[Bytes]", *, priority: int = 0, delay: "Seconds" = 0,
                 max_attempts: int = 5, backoff: "Seconds" = 1) -> "list[str]":
        """Puts jobs, in few messages; all or, if the call fails, the first ones."""
        if not 0 <= priority <= 9 or not 1 <= max_attempts < 2 ** 32:
            raise ValueError("priority must be 0 to 9, and max_attempts above 0")
        ids = self.native().put(list(payloads), priority, _milliseconds(delay), max_attempts,
                                max(1, min(_milliseconds(backoff), 3600000)))
        return [f"{number:016x}" for number in ids]

    # Taking --------------------------------------------------------------------------------------

    def take(self, timeout: "Optional[Seconds]" = 0) -> Optional[Job]:
        """Takes a job; None if there is none. timeout: seconds to wait for one; None: for ever."""
        jobs = self.take_many(1, timeout)
        return jobs[0] if jobs else None

    def take_many(self, count: int, timeout: "Optional[Seconds]" = 0) -> "list[Job]":
        """Takes up to count jobs (64 at most); waits for the first one."""
        if not 1 <= count <= 64:
            raise ValueError("1 to 64 jobs are taken at once")
        timeout_ms = -1 if timeout is None else min(_milliseconds(timeout), _LONGEST_WAIT_MS)
        return [self._job(fields) for fields in self.native().take(count, timeout_ms)]

    def __iter__(self) -> Iterator[Job]:
        """Takes jobs for ever."""
        while True:
            job = self.take(None)
            if job is not None:
                yield job

    def _job(self, fields: "JobFields") -> Job:
        payload, receipt, number, priority, attempts, most, put_ms, until_ms, reason = fields
        return Job(self, payload, receipt, f"{number:016x}", priority, attempts, most,
                   put_ms / 1000, until_ms / 1000, reason.decode("utf-8", "replace"))

    def ack(self, jobs: "Iterable[Union[Job, str]]") -> None:
        """Acknowledges jobs, or those of receipts. All that are this worker's are done, and the
        first other one is the exception."""
        items = list(jobs)
        error: Optional[Exception] = None
        for begin in range(0, len(items), 64):
            page = items[begin:begin + 64]
            try:
                self.native().ack([item.receipt if isinstance(item, Job) else item
                                   for item in page])
            except Exception as failure:  # pylint: disable=broad-except
                error = error or failure
                continue
            for item in page:
                if isinstance(item, Job):
                    item.settled = True
        if error is not None:
            raise error

    def job_of(self, receipt: str) -> Job:
        """What settles the job of a receipt: its payload is not known."""
        return Job(self, b"", receipt, "", 0, 0, 0, 0.0, 0.0, "")

    # Looking -------------------------------------------------------------------------------------

    def lengths(self) -> Lengths:
        """How many jobs there are."""
        return Lengths(*self.native().lengths())

    def __len__(self) -> int:
        """How many can be taken now."""
        return self.lengths().ready

    def __bool__(self) -> bool:
        return True

    def jobs(self, state: State = "ready", limit: int = 0) -> "list[Job]":
        """Jobs in the order in which they would be taken, without taking them; limit 0: all."""
        return [self._job(fields) for fields in self.native().list(_STATES[state], limit)]

    def peek(self) -> Optional[Job]:
        """The job that would be taken next."""
        jobs = self.jobs("ready", 1)
        return jobs[0] if jobs else None

    def revive(self, limit: int = 0) -> int:
        """Gives dead letters their attempts anew; how many."""
        return self.native().revive(limit)

    def drop(self, state: State = "ready", limit: int = 0) -> int:
        """Deletes jobs of a state other than leased; how many."""
        return self.native().drop(_STATES[state], limit)
