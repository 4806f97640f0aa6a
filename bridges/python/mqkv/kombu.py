"""A transport for kombu, and so for Celery: a broker without a server of its own to look after.

    import mqkv.kombu                                   # makes mqkv:// known

    app = Celery("app", broker="mqkv:///serverk", backend="mqkv.celery:Backend:///serverk")

mqkv:///NAME is the queue NAME of a daemon (mqkv://: $MQKV_QUEUE, else /serverk), mqkv:////a/path
the store in that directory, whose daemon starts by itself. Messages are jobs of mqkv.Queue, one
queue for each of kombu's: `clientk queue` shows them. A message that a worker has is its own for
transport_options["visibility_timeout"] seconds (an hour): a worker that has died loses it then,
and so does one that is slower. Priorities are 0 to 9, and 9 comes first. Direct, topic and fanout
exchanges work over all processes of the store; events and remote control do, too. A message that is
given back goes to the end of its queue, marked as redelivered.

Queues end as with AMQP, and their messages with them: with auto_delete when the last consumer has
ended or died, with expires when nobody has used them for so long. Messages end by the message_ttl
of the queue or their own expiration. max_length and exclusive are not kept.

A consumer that waits sleeps until a message comes. Every transport_options["polling_interval"]
seconds (1) it looks for messages whose time at a dead worker is over.
"""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from contextlib import suppress
from queue import Empty
from typing import Any, Callable, Optional
from urllib.parse import quote

# Without kombu, or its types, nothing is known of it.
from kombu.transport import TRANSPORT_ALIASES, virtual  # type: ignore
from kombu.transport.base import to_rabbitmq_queue_arguments  # type: ignore
from kombu.utils.json import dumps, loads  # type: ignore

from .client import Client
from .errors import Error, GuardFailed, NotFound, Unavailable, UnknownOutcome, VersionMismatch
from .jobs import Job, Queue
from .kombu_lifetime import Consumer, Lifetimes, Terms
from .kombu_waiter import Waiter
from .transaction import Transaction

__all__ = ["Channel", "Transport", "client_of"]

_FOR_EVER = 2 ** 31
_POLLING_S = 1.0  # the longest sleep
_MOMENT_S = 0.02  # after which a message that was given back can be taken, at the latest
_SWEEP = 64  # messages that are looked at for old ones, at every second such number of puts
_DELETES = 5  # attempts to delete a queue to which others put


def client_of(virtual_host: Optional[str], **options: Any) -> Client:
    """The client of what stands behind mqkv:// and a slash."""
    name = virtual_host or ""
    if name in ("", "/"):
        return Client(**options)
    if name.startswith("/"):
        return Client(directory=name, **options)
    return Client("/" + name, **options)


def _give_back(job: Job) -> None:
    """The job goes to the end of its queue; the attempt counts."""
    job.fail(delay=0)


def _is_old(job: Job, ttl_ms: "Any") -> bool:
    """Whether the time of the message is over. ttl_ms: a number, or the text of one."""
    try:
        return time.time() - job.put_at > float(ttl_ms) / 1000
    except (ValueError, TypeError):
        return False


class _QoS(virtual.QoS):  # type: ignore[misc]
    """Which messages of a channel are neither acknowledged nor given back."""

    def ack(self, delivery_tag: str) -> None:
        """The message is done."""
        self.channel.settle(delivery_tag, Job.ack)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """The message is given back, or dropped."""
        self.channel.settle(delivery_tag, _give_back if requeue else Job.ack)
        super().ack(delivery_tag)

    def restore_unacked(self) -> "list[Any]":
        """Gives back what is left."""
        self._flush()
        for delivery_tag in list(self._delivered):
            try:
                self.channel.settle(delivery_tag, _give_back)
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
        self._terms: "dict[str, Terms]" = {}  # of queues with an end that are consumed from
        self._ttl_ms: "dict[str, int]" = {}  # of the messages of queues
        self._consumer = Consumer.new()
        self._beat_at = math.inf
        self._puts = 0
        super().__init__(connection, **kwargs)

    @property
    def mqkv(self) -> Client:
        """The client of the connection."""
        client: Client = self.connection.mqkv
        return client

    @property
    def lifetimes(self) -> Lifetimes:
        """Those of the queues in the store."""
        return Lifetimes(self.mqkv)

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
        terms = self.lifetimes.terms(queue)
        if terms is not None:
            if terms.is_over():
                self._erase(queue, terms)
                return
            self._puts += 1
            if terms.ttl_ms >= 0 and self._puts % (_SWEEP // 2) == 0:
                self._drop_old(queue, terms.ttl_ms)
        self._jobs(queue).put(dumps(message), priority=self._get_message_priority(message),
                              max_attempts=_FOR_EVER)

    def _put_fanout(self, exchange: str, message: "dict[str, Any]", *_: Any, **__: Any) -> None:
        for _key, _pattern, queue in self.get_table(exchange):
            self._put(queue, message)

    def _drop_old(self, queue: str, ttl_ms: int) -> None:
        jobs = self._jobs(queue)
        old = sum(_is_old(job, ttl_ms) for job in jobs.jobs("ready", _SWEEP))
        for job in jobs.take_many(old) if old else ():
            with suppress(NotFound, VersionMismatch):
                if _is_old(job, ttl_ms):
                    job.ack()
                else:
                    job.release()

    def _take(self, queue: str) -> Job:
        jobs = self._jobs(queue)
        job = jobs.take()
        if job is None and time.monotonic() < self.connection.gave_back_at + _MOMENT_S:
            job = jobs.take(_MOMENT_S)
        if job is None:
            raise Empty
        return job

    def _get(self, queue: str, timeout: Optional[float] = None) -> "dict[str, Any]":
        while True:
            job = self._take(queue)
            try:
                message: "dict[str, Any]" = loads(job.payload.decode())
                properties = message["properties"]
                expiration = properties.get("expiration")
            except (ValueError, TypeError, KeyError, AttributeError):  # nobody could ever do it
                job.bury("no message of kombu")
                continue
            if not _is_old(job, expiration) and not _is_old(job, self._ttl_ms.get(queue)):
                break
            with suppress(NotFound, VersionMismatch):
                job.ack()
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
            if how is _give_back:
                self.connection.gave_back_at = time.monotonic()
            with suppress(NotFound, VersionMismatch):
                how(job)
            self._taken.pop(delivery_tag, None)
            self.connection.wake()  # there may be room for another

    def basic_consume(self, queue: str, no_ack: bool, *args: Any, **kwargs: Any) -> Any:
        """Consumes from the queue."""
        terms = self.lifetimes.terms(queue)
        if terms is not None:
            self._terms[queue] = terms
            self._ttl_ms[queue] = terms.ttl_ms if terms.ttl_ms >= 0 else _FOR_EVER
            self.lifetimes.join(queue, self._consumer)
            self._beat_at = min(self._beat_at, time.monotonic() + terms.beat_s())
        (self._unacknowledged.add if no_ack else self._unacknowledged.discard)(queue)
        return super().basic_consume(queue, no_ack, *args, **kwargs)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """One message, or None."""
        terms = self.lifetimes.terms(queue)
        if terms is not None:
            if terms.is_over():
                self._erase(queue, terms)
                return None
            self._ttl_ms[queue] = terms.ttl_ms if terms.ttl_ms >= 0 else _FOR_EVER
            if terms.expires_ms:
                self.lifetimes.use(queue)
        message = super().basic_get(queue, no_ack=no_ack, **kwargs)
        if message is not None and no_ack:
            self.settle(message.delivery_tag, Job.ack)
        return message

    # Queues --------------------------------------------------------------------------------------

    def _size(self, queue: str) -> int:
        return len(self._jobs(queue))

    def _has_queue(self, queue: str, **_: Any) -> bool:
        return (self.mqkv.exists(f"queue:{self._jobs(queue).name}:tails")
                or self.lifetimes.terms(queue) is not None)

    def _purge(self, queue: str) -> int:
        jobs = self._jobs(queue)
        return jobs.drop("ready") + jobs.drop("later")

    def prepare_queue_arguments(self, arguments: Any, **options: Any) -> Any:
        """What kombu's queue says of itself, as AMQP has it."""
        return to_rabbitmq_queue_arguments(arguments or {}, **options)

    def _new_queue(self, queue: str, auto_delete: bool = False, arguments: Any = None,
                   **_: Any) -> None:
        said = arguments or {}
        expires_ms, ttl_ms = said.get("x-expires"), said.get("x-message-ttl")
        if auto_delete or expires_ms or ttl_ms is not None:
            for name, terms in self.lifetimes.over().items():
                self._erase(name, terms)
            self.lifetimes.declare(queue, int(expires_ms or 0),
                                   -1 if ttl_ms is None else int(ttl_ms), auto_delete)

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False,
                     **_: Any) -> None:
        """Deletes the queue, its bindings and its messages."""
        if not if_empty or not self._size(queue):
            self._erase(queue, self.lifetimes.terms(queue) or Terms())
            self.state.queue_bindings_delete(queue)

    def _erase(self, queue: str, terms: Terms) -> None:
        bound = {binding.exchange for binding in self.state.queue_bindings(queue)}
        for exchange in bound.union(terms.exchanges):
            self._change_bindings(exchange, lambda table: [row for row in table if row[2] != queue])
        self.lifetimes.forget(queue)
        jobs = self._jobs(queue)
        root = f"queue:{jobs.name}:"
        records = [root + name for name in ("heads", "later", "outside", "tree", "done:dead")]
        records += [f"{root}done:{lane}" for lane in range(10)]
        for _ in range(_DELETES):
            tails = self.mqkv.get(root + "tails")
            if tails is None:
                break
            jobs.drop("ready")
            jobs.drop("later")
            jobs.drop("dead")
            for job in jobs.jobs("leased"):
                with suppress(NotFound, VersionMismatch):
                    job.ack()
            with suppress(GuardFailed), self.mqkv.transaction() as t:
                t.guard(root + "tails", value=tails)
                for name in (root + "tails", *records):
                    t.delete(name)
        self._queues.pop(queue, None)  # what it knows of the queue does not hold for the next one

    # Consumers of queues with an end -------------------------------------------------------------

    def beat(self) -> None:
        """Says that the consumers live, when it is time to. What others have deleted meanwhile,
        since they could not see it, is there again."""
        if time.monotonic() < self._beat_at:
            return
        for queue, terms in self._terms.items():
            if not self.lifetimes.join(queue, self._consumer):
                self._queues.pop(queue, None)
                self.lifetimes.declare(queue, terms.expires_ms, terms.ttl_ms, terms.auto_delete)
                for exchange, key, arguments in list(self.state.queue_bindings(queue)):
                    self.queue_bind(queue, exchange, key, arguments)
                self.lifetimes.join(queue, self._consumer)
        self._beat_at = time.monotonic() + min(
            (terms.beat_s() for terms in self._terms.values()), default=math.inf)

    def basic_cancel(self, consumer_tag: str) -> None:
        """Ends a consumer."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        terms = self._terms.get(queue or "")
        if queue is not None and terms is not None and queue not in self._active_queues:
            del self._terms[queue]
            with suppress(Error):  # then others see that it has ended
                if self.lifetimes.leave(queue, self._consumer):
                    self.queue_delete(queue)

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
            if before and not after:
                t.delete(key)
            elif after != before:
                t[key] = json.dumps(after)

        step()

    def queue_bind(self, queue: str, exchange: Optional[str] = None, routing_key: str = "",
                   arguments: Any = None, **_: Any) -> None:
        """Adds a binding, which others may have deleted since this process made it."""
        exchange = exchange or "amq.direct"
        if self.state.has_binding(queue, exchange, routing_key):
            self._queue_bind(exchange, *self.typeof(exchange).prepare_bind(
                queue, exchange, routing_key, arguments))
        else:
            super().queue_bind(queue, exchange, routing_key, arguments)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        row = [routing_key, pattern, queue]
        self.lifetimes.bind(queue, exchange)  # first, so that whoever deletes the queue finds it
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
        self._waiter: Optional[Waiter] = None
        self._lock = threading.Lock()
        self.gave_back_at = -math.inf  # when a message was given back, by time.monotonic()

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
            waiter = self._waiter = self._waiter or Waiter(client)
        changed = False  # there may be a message that can be taken in a moment
        while True:
            for channel in list(self.channels or ()):
                channel.beat()
            look_again = waiter.watch(name for channel in self.channels or ()
                                      if channel for name in channel.active_names())
            try:
                self.cycle.get(self._deliver, timeout=timeout)
                return
            except Empty:
                pass
            left = _MOMENT_S if changed else self.polling_interval or _POLLING_S
            if end is not None:
                left = min(left, end - time.monotonic())
                if left <= 0:
                    raise socket.timeout()
            changed = not look_again and waiter.wait(left)

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
