"""A transport for kombu, and so for Celery: a broker without a server of its own to look after.

    import mqkv.kombu                                   # makes mqkv:// known

    app = Celery("app", broker="mqkv:///serverk", backend="mqkv.celery:Backend:///serverk")

mqkv:///NAME is the queue NAME of a daemon (mqkv://: $MQKV_QUEUE, else /serverk), mqkv:////a/path
the store in that directory, whose daemon starts by itself. Messages are jobs of mqkv.Queue, one
queue for each of kombu's: `clientk queue` shows them. A message that a worker has is its own for
transport_options["visibility_timeout"] seconds (an hour): a worker that has died loses it then,
and so does one that is slower. Priorities are 0 to 9, and 9 comes first. Direct, topic and fanout
exchanges work over all processes of the store; events and remote control do, too.

A consumer that waits sleeps until a message comes. Every transport_options["polling_interval"]
seconds (1) it looks for messages whose time at a dead worker is over.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from contextlib import suppress
from queue import Empty
from typing import Any, Callable, Iterable, Optional
from urllib.parse import quote

# Without kombu, or its types, nothing is known of it.
from kombu.transport import TRANSPORT_ALIASES, virtual  # type: ignore
from kombu.utils.json import dumps, loads  # type: ignore

from .client import Client
from .errors import Error, Missed, NotFound, Unavailable, UnknownOutcome, VersionMismatch
from .jobs import Job, Queue
from .transaction import Transaction
from .watch import Watch

__all__ = ["Channel", "Transport", "client_of"]

_FOR_EVER = 2 ** 31
_POLLING_S = 1.0  # the longest sleep
_UNWATCHED_S = 0.02  # and while nothing can be watched
_CHANGES_AT_ONCE = 1000


def client_of(virtual_host: Optional[str], **options: Any) -> Client:
    """The client of what stands behind mqkv:// and a slash."""
    name = virtual_host or ""
    if name in ("", "/"):
        return Client(**options)
    if name.startswith("/"):
        return Client(directory=name, **options)
    return Client("/" + name, **options)


class _Waiter:
    """On which a connection sleeps until one of the queues that it consumes from has changed, or
    wake was called, by any thread. The rest is for one thread at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._keys: "set[bytes]" = set()  # what changes with a queue
        self._prefix = ""
        self._watch: Optional[Watch] = None  # one for all of them: it takes a session
        self._again_at = 0.0  # after a failure
        self._reads, self._writes = os.pipe()
        os.set_blocking(self._reads, False)
        os.set_blocking(self._writes, False)

    def watch(self, names: "Iterable[str]") -> bool:
        """Watches these queues and no others. True: only from now on, so that they have to be
        looked at once more."""
        keys = {f"queue:{name}:tails" for name in names}
        before, self._keys = self._keys, {key.encode() for key in keys}
        prefix = os.path.commonprefix(list(keys))
        if self._watch is not None and prefix == self._prefix:
            return bool(self._keys - before)
        if not keys or time.monotonic() < self._again_at:
            return False
        self._drop_watch()
        try:
            self._watch = self._client.watch(prefix, keys_only=True)
        except Error:
            self._again_at = time.monotonic() + _POLLING_S
            return False
        self._prefix = prefix
        return True

    def wait(self, seconds: float) -> None:
        """Sleeps so long at most."""
        end = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        if self._watch is not None:
            poll.register(self._watch.fileno(), select.POLLIN)
        else:
            end = min(end, time.monotonic() + _UNWATCHED_S)
        while not self._has_changed():
            left = end - time.monotonic()
            if left <= 0:
                return
            if any(number == self._reads for number, _ in poll.poll(1000 * left)):
                with suppress(BlockingIOError):
                    os.read(self._reads, 4096)
                return

    def _has_changed(self) -> bool:
        changed = False
        try:
            for _ in range(_CHANGES_AT_ONCE):
                change = self._watch.next() if self._watch is not None else None
                if change is None:
                    return changed
                changed |= change.key in self._keys
        except Missed:
            pass
        except Error:
            self._drop_watch()  # another one is made, and a look follows it
        return True

    def _drop_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def wake(self) -> None:
        """Ends the sleep."""
        with suppress(OSError):  # it is awake as often as that
            os.write(self._writes, b"\0")

    def close(self) -> None:
        """Ends all of it."""
        self._drop_watch()
        os.close(self._reads)
        os.close(self._writes)


class _QoS(virtual.QoS):  # type: ignore[misc]
    """Which messages of a channel are neither acknowledged nor given back."""

    def ack(self, delivery_tag: str) -> None:
        """The message is done."""
        self.channel.settle(delivery_tag, Job.ack)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """The message is given back, or dropped."""
        self.channel.settle(delivery_tag, Job.release if requeue else Job.ack)
        super().ack(delivery_tag)

    def restore_unacked(self) -> "list[Any]":
        """Gives back what is left."""
        self._flush()
        for delivery_tag in list(self._delivered):
            try:
                self.channel.settle(delivery_tag, Job.release)
            except Error:
                pass  # its lease ends
        self._delivered.clear()
        return []


class Channel(virtual.Channel):  # type: ignore[misc]
    """A channel: see this module's page."""

    QoS = _QoS
    supports_fanout = True
    visibility_timeout = 3600
    from_transport_options = (*virtual.Channel.from_transport_options, "visibility_timeout")

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        self._queues: "dict[str, Queue]" = {}
        self._taken: "dict[str, Job]" = {}
        self._unacknowledged: "set[str]" = set()  # queues whose messages are done when delivered
        super().__init__(connection, **kwargs)

    @property
    def mqkv(self) -> Client:
        """The client of the connection."""
        client: Client = self.connection.mqkv
        return client

    def active_names(self) -> "list[str]":
        """The names in the store of the queues that are consumed from."""
        return [self._jobs(queue).name for queue in self._active_queues]

    def _jobs(self, queue: str) -> Queue:
        if queue not in self._queues:
            self._queues[queue] = Queue(self.mqkv, quote(queue, safe="@/+,;=~!$()[]{}#& "),
                                        lease=self.visibility_timeout)
        return self._queues[queue]

    # Messages ------------------------------------------------------------------------------------

    def _put(self, queue: str, message: "dict[str, Any]", **_: Any) -> None:
        self._jobs(queue).put(dumps(message), priority=self._get_message_priority(message),
                              max_attempts=_FOR_EVER)

    def _put_fanout(self, exchange: str, message: "dict[str, Any]", *_: Any, **__: Any) -> None:
        for _key, _pattern, queue in self.get_table(exchange):
            self._put(queue, message)

    def _get(self, queue: str, timeout: Optional[float] = None) -> "dict[str, Any]":
        job = self._jobs(queue).take()
        if job is None:
            raise Empty
        try:
            message: "dict[str, Any]" = loads(job.payload.decode())
            properties = message["properties"]
        except (ValueError, TypeError, KeyError):  # nobody could ever do it
            job.bury("no message of kombu")
            raise Empty from None
        # The publisher's own is the same in all queues that an exchange leads to.
        properties["delivery_tag"] = f"{queue}:{job.receipt}"
        if job.attempts > 1:
            properties["delivery_info"]["redelivered"] = True
        if queue in self._unacknowledged:
            job.ack()
        else:
            self._taken[properties["delivery_tag"]] = job
        return message

    def settle(self, delivery_tag: str, how: "Callable[[Job], Any]") -> None:
        """Ends the delivery of a message. One whose time was over is another worker's."""
        job = self._taken.get(delivery_tag)
        if job is not None:
            with suppress(NotFound, VersionMismatch):
                how(job)
            self._taken.pop(delivery_tag, None)
            self.connection.wake()  # there may be room for another

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        """Consumes from the queue."""
        (self._unacknowledged.add if no_ack else self._unacknowledged.discard)(queue)
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """One message, or None."""
        message = super().basic_get(queue, no_ack=no_ack, **kwargs)
        if message is not None and no_ack:
            self.settle(message.delivery_tag, Job.ack)
        return message

    # Queues --------------------------------------------------------------------------------------

    def _size(self, queue: str) -> int:
        return len(self._jobs(queue))

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return self.mqkv.exists(f"queue:{self._jobs(queue).name}:tails")

    def _purge(self, queue: str) -> int:
        jobs = self._jobs(queue)
        return jobs.drop("ready") + jobs.drop("later")

    def _delete(self, queue: str, *meta: Any, **_: Any) -> None:
        if meta:
            self._change_bindings(meta[0], lambda table: [row for row in table if row[2] != queue])
        self._purge(queue)

    # Bindings: of an exchange they are one entry, a list in JSON ---------------------------------

    @staticmethod
    def _bindings_key(exchange: str) -> str:
        return f"kombu:bindings:{exchange}"

    def _change_bindings(self, exchange: str,
                         change: "Callable[[list[list[str]]], list[list[str]]]") -> None:
        @self.mqkv.transactional()
        def step(t: Transaction) -> None:
            key = self._bindings_key(exchange)
            before = json.loads(t.get(key) or b"[]")
            after = change(before)
            if after != before:
                t[key] = json.dumps(after)

        step()

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        row = [routing_key, pattern, queue]
        self._change_bindings(exchange,
                              lambda table: table if row in table else table + [row])

    def get_table(self, exchange: str) -> "list[tuple[str, str, str]]":
        """The bindings of an exchange, of all processes."""
        return [(key, pattern, queue) for key, pattern, queue in
                json.loads(self.mqkv.get(self._bindings_key(exchange)) or b"[]")]

    def queue_unbind(self, queue: str, exchange: Optional[str] = None, routing_key: str = "",
                     arguments: Any = None, **_: Any) -> None:
        """Removes a binding."""
        self.state.binding_delete(queue, exchange, routing_key)
        row = list(self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments))
        self._change_bindings(exchange or "amq.direct",
                              lambda table: [other for other in table if other != row])


class Transport(virtual.Transport):  # type: ignore[misc]
    """The transport: see this module's page."""

    Channel = Channel
    default_port = 0
    driver_type = "mqkv"
    driver_name = "mqkv"
    polling_interval = _POLLING_S
    connection_errors = (*virtual.Transport.connection_errors, Unavailable, UnknownOutcome)
    channel_errors = (*virtual.Transport.channel_errors, Error)
    implements = virtual.Transport.implements.extend(
        asynchronous=False, exchange_type=frozenset(["direct", "topic", "fanout"]))
    global_state = virtual.BrokerState()

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self.state = self.global_state
        self._mqkv: Optional[Client] = None
        self._waiter: Optional[_Waiter] = None
        self._lock = threading.Lock()

    @property
    def mqkv(self) -> Client:
        """The client of the store, opened when it is first needed."""
        with self._lock:
            if self._mqkv is None:
                self._mqkv = client_of(self.client.virtual_host)
            return self._mqkv

    def driver_version(self) -> str:
        """The version of mqkv."""
        from . import __version__
        return __version__

    def establish_connection(self) -> Any:
        """Connects."""
        self.mqkv.ping()
        return super().establish_connection()

    def drain_events(self, connection: Any, timeout: Optional[float] = None) -> None:
        """Delivers a message; socket.timeout: none came."""
        end = None if timeout is None else time.monotonic() + timeout
        client = self.mqkv
        with self._lock:
            waiter = self._waiter = self._waiter or _Waiter(client)
        while True:
            look_again = waiter.watch(name for channel in self.channels or ()
                                      if channel for name in channel.active_names())
            try:
                self.cycle.get(self._deliver, timeout=timeout)
                return
            except Empty:
                pass
            left = self.polling_interval or _POLLING_S
            if end is not None:
                left = min(left, end - time.monotonic())
                if left <= 0:
                    raise socket.timeout()
            if not look_again:
                waiter.wait(left)

    def wake(self) -> None:
        """Ends the sleep of drain_events."""
        with self._lock:
            if self._waiter is not None:
                self._waiter.wake()

    def close_connection(self, connection: Any) -> None:
        """Closes all channels, and the client."""
        super().close_connection(connection)
        with self._lock:
            if self._waiter is not None:
                self._waiter.close()
                self._waiter = None
            if self._mqkv is not None:
                self._mqkv.close()
                self._mqkv = None


TRANSPORT_ALIASES["mqkv"] = "mqkv.kombu:Transport"
