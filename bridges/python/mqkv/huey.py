"""A storage for huey.

    from huey import Huey
    from mqkv.huey import Storage

    huey = Huey("app", storage_class=Storage, queue="/serverk")     # or directory="/a/path"

Other options are those of mqkv.Client. Workers that wait sleep. Priorities are 0 to 9. As with
huey's other storages a task is gone from the queue when a worker has it. One that was scheduled
stays in the schedule until it is in the queue.
"""

from __future__ import annotations

import struct
import threading
import time
from datetime import datetime, timezone
from typing import Any, Iterable, Optional

# Without huey, or its types, nothing is known of it.
from huey.constants import EmptyData  # type: ignore
from huey.storage import BaseStorage  # type: ignore

from .client import Client
from .errors import Exists, NotFound, VersionMismatch
from .jobs import Queue
from .transaction import Transaction

__all__ = ["Storage"]

_PAGE = 64

# What a scheduled task begins with: when it is due, in ms since 1970.
_DUE = struct.Struct(">4sq")
_DUE_MARK = b"due\0"
_MOST_ATTEMPTS = 2 ** 32 - 1


def _due_and_data(payload: bytes) -> "tuple[int, bytes]":
    if payload[:4] != _DUE_MARK or len(payload) < _DUE.size:  # of an older version
        return 0, payload
    return _DUE.unpack_from(payload)[1], payload[_DUE.size:]


class Storage(BaseStorage):  # type: ignore[misc]
    """The storage: see this module's page. utc: what huey was given (times are in UTC)."""

    blocking = True
    priority = True

    def __init__(self, name: str = "huey", queue: Any = None, utc: bool = True,
                 read_timeout: float = 1, **options: Any) -> None:
        super().__init__(name)
        self._options = (queue, options)
        self._lock = threading.Lock()
        self._read: "dict[bytes, list[str]]" = {}  # from the schedule, not queued yet: receipts
        self._opened: "Optional[tuple[Client, Queue, Queue]]" = None
        self._utc = utc
        self._read_timeout = read_timeout
        self._open()

    def _open(self) -> "tuple[Client, Queue, Queue]":
        with self._lock:
            if self._opened is None:
                queue, options = self._options
                client = Client(queue, **options)
                self._opened = (client, Queue(client, f"huey.{self.name}"),
                                Queue(client, f"huey.{self.name}.schedule"))
            return self._opened

    @property
    def _client(self) -> Client:
        return self._open()[0]

    @property
    def _tasks(self) -> Queue:
        return self._open()[1]

    @property
    def _schedule(self) -> Queue:
        return self._open()[2]

    def close(self) -> None:
        """Closes the client. It opens again when it is used: huey closes before it forks."""
        with self._lock:
            if self._opened is not None:
                self._opened[0].close()
                self._opened = None

    # The queue -----------------------------------------------------------------------------------

    def enqueue(self, data: bytes, priority: Optional[float] = None) -> None:
        """Adds a task."""
        self._tasks.put(data, priority=max(0, min(9, int(priority or 0))))
        self._leave_schedule(data)

    def dequeue(self) -> Optional[bytes]:
        """Takes a task; None: there is none yet."""
        job = self._tasks.take(self._read_timeout)
        if job is None:
            return None
        job.ack()
        return job.payload

    def queue_size(self) -> int:
        """How many tasks wait."""
        return len(self._tasks)

    def enqueued_items(self, limit: Optional[int] = None) -> "list[bytes]":
        """The tasks that wait."""
        return [job.payload for job in self._tasks.jobs("ready", limit or 0)]

    def flush_queue(self) -> None:
        """Drops all tasks."""
        self._tasks.drop("ready")

    # The schedule --------------------------------------------------------------------------------

    def _seconds(self, moment: datetime) -> float:
        if moment.tzinfo is None and self._utc:
            moment = moment.replace(tzinfo=timezone.utc)
        return moment.timestamp()

    def add_to_schedule(self, data: bytes, ts: datetime) -> None:
        """Adds a task for that time."""
        seconds = self._seconds(ts)
        self._schedule.put(_DUE.pack(_DUE_MARK, int(seconds * 1000)) + data,
                           delay=max(0.0, seconds - time.time()), max_attempts=_MOST_ATTEMPTS)

    def _leave_schedule(self, data: "Optional[bytes]" = None) -> None:
        """Acknowledges what was read from the schedule: all, or that task."""
        with self._lock:
            if data is None:
                left = [receipt for receipts in self._read.values() for receipt in receipts]
                self._read = {}
            else:
                left = self._read.pop(data, [])
        try:
            self._schedule.ack(left)
        except (NotFound, VersionMismatch):  # the lease of some is over: they will be read again
            pass

    def read_schedule(self, ts: datetime) -> "list[bytes]":
        """Takes the tasks whose time has come, the soonest first. They leave the schedule when they
        are queued, or with the next call: a scheduler that is killed before loses none."""
        self._leave_schedule()
        due, early = [], []
        latest_ms = int(self._seconds(ts) * 1000)
        while jobs := self._schedule.take_many(_PAGE):
            for job in jobs:
                due_ms, data = _due_and_data(job.payload)
                if due_ms <= latest_ms:
                    due.append((due_ms, data, job.receipt))
                else:
                    early.append(job)
        for job in early:
            job.release()
        due.sort(key=lambda read: read[0])
        with self._lock:
            for _, data, receipt in due:
                self._read.setdefault(data, []).append(receipt)
        return [data for _, data, _ in due]

    def schedule_size(self) -> int:
        """How many tasks wait for their time."""
        lengths = self._schedule.lengths()
        return lengths.later + lengths.ready

    def scheduled_items(self, limit: Optional[int] = None) -> "list[bytes]":
        """Those tasks, the soonest first."""
        items = sorted((_due_and_data(job.payload) for state in ("ready", "later")
                        for job in self._schedule.jobs(state)),  # type: ignore[arg-type]
                       key=lambda item: item[0])
        return [data for _, data in items[:limit or None]]

    def flush_schedule(self) -> None:
        """Drops those tasks."""
        self._leave_schedule()
        self._schedule.drop("ready")
        self._schedule.drop("later")

    # Data and counters ---------------------------------------------------------------------------

    def _key(self, key: Any, kind: str = "data") -> bytes:
        prefix = f"huey:{self.name}:{kind}:".encode()
        return prefix + (key.encode() if isinstance(key, str) else bytes(key))

    def put_data(self, key: Any, value: Any, is_result: bool = False) -> None:
        """Stores the value."""
        self._client.put(self._key(key), value)

    def peek_data(self, key: Any) -> Any:
        """The value, or EmptyData."""
        return self._client.get(self._key(key), EmptyData)

    def peek_many(self, keys: "Iterable[Any]") -> "dict[Any, bytes]":
        """The values of the keys that are there."""
        names = {self._key(key): key for key in keys}
        return {names[key]: value for key, value in self._client.get_many(names).items()}

    def pop_data(self, key: Any) -> Any:
        """The value, or EmptyData; it is deleted."""
        @self._client.transactional()
        def pop(t: Transaction) -> Any:
            value = t.get(self._key(key), EmptyData)
            if value is not EmptyData:
                t.delete(self._key(key))
            return value

        return pop()

    def delete_data(self, key: Any) -> bool:
        """Deletes the value; whether there was one."""
        return self._client.discard(self._key(key))

    def has_data_for_key(self, key: Any) -> bool:
        """Whether there is a value."""
        return self._client.exists(self._key(key))

    def put_if_empty(self, key: Any, value: Any, ttl: Optional[float] = None) -> bool:
        """Stores the value, if there is none; whether it did."""
        try:
            self._client.put(self._key(key), value, if_absent=True, ttl=ttl)
        except Exists:
            return False
        return True

    def incr(self, key: Any, amount: int = 1) -> int:
        """Adds to a counter."""
        return self._client.add(self._key(key, "count"), amount)

    def delete_counter(self, key: Any) -> bool:
        """Deletes the counter; whether there was one."""
        return self._client.discard(self._key(key, "count"))

    def result_store_size(self) -> int:
        """How many values there are."""
        return sum(1 for _ in self._client.keys(self._key("")))

    def result_items(self) -> "dict[str, bytes]":
        """All values."""
        prefix = self._key("")
        return {entry.key[len(prefix):].decode("utf-8", "surrogateescape"): entry.value
                for entry in self._client.scan(prefix)}

    def flush_results(self) -> None:
        """Deletes all values."""
        self._client.delete_prefix(self._key(""))

    def flush_counters(self) -> None:
        """Deletes all counters."""
        self._client.delete_prefix(self._key("", "count"))
