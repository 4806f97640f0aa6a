"""A transport for kombu, and so for Celery: a broker without a server of its own to look after.

    import mqkv.kombu                                   # makes mqkv:// known

    app = Celery("app", broker="mqkv:///serverk", backend="mqkv.celery:Backend:///serverk")

mqkv:///NAME is the queue NAME of a daemon (mqkv://: $MQKV_QUEUE, else /serverk), mqkv:////a/path
the store in that directory, whose daemon starts by itself. Messages are jobs of mqkv.Queue, one
queue for each of kombu's: `clientk queue` shows them. A message that a worker has is its own for
transport_options["visibility_timeout"] seconds (an hour): a worker that has died loses it then,
and so does one that is slower. Priorities are 0 to 9, and 9 comes first. Direct, topic and fanout
exchanges work over all processes of the store; events and remote control do, too.

A consumer that waits looks for messages every transport_options["polling_interval"] seconds (0.02),
which takes no message to the daemon where its store can be read in place.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from queue import Empty
from typing import Any, Callable, Optional
from urllib.parse import quote

# Without kombu, or its types, nothing is known of it.
from kombu.transport import TRANSPORT_ALIASES, virtual  # type: ignore
from kombu.utils.json import dumps, loads  # type: ignore

from .client import Client
from .errors import Error, NotFound, Unavailable, UnknownOutcome, VersionMismatch
from .jobs import Job, Queue
from .transaction import Transaction

__all__ = ["Channel", "Transport", "client_of"]

_FOR_EVER = 2 ** 31
_POLLING_S = 0.02


def client_of(virtual_host: Optional[str], **options: Any) -> Client:
    """The client of what stands behind mqkv:// and a slash."""
    name = virtual_host or ""
    if name in ("", "/"):
        return Client(**options)
    if name.startswith("/"):
        return Client(directory=name, **options)
    return Client("/" + name, **options)


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

    def close_connection(self, connection: Any) -> None:
        """Closes all channels, and the client."""
        super().close_connection(connection)
        with self._lock:
            if self._mqkv is not None:
                self._mqkv.close()
                self._mqkv = None


TRANSPORT_ALIASES["mqkv"] = "mqkv.kombu:Transport"
