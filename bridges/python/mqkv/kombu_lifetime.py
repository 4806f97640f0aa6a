"""How long the queues of mqkv.kombu live that do not live for ever.

A queue with an expiry, a time to live of its messages, or auto_delete has an entry,
kombu:queue:NAME, in JSON; kombu:queues is a list of all of these names. The entry tells who
consumes from it. A consumer lives as long as its process, which the others of its PID namespace can
see; for processes elsewhere (in other containers) it lives for five minutes, which it renews.

A queue is over when nobody consumes from it, and it has auto_delete and somebody did, or it was not
used for the time of its expiry. Who puts to one that is over, or declares one, deletes it.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from typing import Any, Callable, Optional

from .client import Client
from .transaction import Transaction

__all__ = ["Consumer", "Lifetimes", "Terms"]

_ELSEWHERE_MS = 300_000
_BEAT_S = 60.0
_NAMES = "kombu:queues"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _started(pid: int) -> "Optional[str]":
    """When the process began; "": it has ended; None: that is not to be seen."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return "" if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return None


class Consumer(str):
    """The name of a consumer: the PID namespace and the process, and what makes it unique."""

    @classmethod
    def new(cls) -> "Consumer":
        """One of this process."""
        pid = os.getpid()
        return cls(f"{_namespace()}:{pid}:{_started(pid) or 0}:{uuid.uuid4().hex}")

    def lives(self, until_ms: int) -> bool:
        """Whether it does. until_ms: what it has said itself."""
        try:
            namespace, pid, started, _ = self.split(":")
            number = int(pid)
            if int(namespace) == 0 or int(namespace) != _namespace():
                return until_ms > _now_ms()
            os.kill(number, 0)
        except ProcessLookupError:
            return False
        except (ValueError, OverflowError):
            return until_ms > _now_ms()
        except OSError:  # it is another user's
            pass
        found = _started(number)
        return found is None or found == started


class Terms:
    """What the entry of a queue says; times are in milliseconds, since 1970 or as a length."""

    def __init__(self, data: "Optional[bytes]" = None) -> None:
        try:
            said = json.loads(data or b"{}")
            self.auto_delete = bool(said.get("auto_delete"))
            self.expires_ms: int = int(said.get("expires_ms") or 0)
            self.ttl_ms: int = int(said.get("ttl_ms", -1))  # of messages; -1: for ever
            self.ends_ms: int = int(said.get("ends_ms") or 0)
            self.consumers = {str(name): int(until_ms)
                              for name, until_ms in dict(said.get("consumers") or {}).items()}
            self.had_consumers = bool(said.get("had_consumers"))
            self.exchanges: "list[str]" = list(said.get("exchanges") or [])
        except (ValueError, TypeError, AttributeError):  # nothing that was written here
            Terms.__init__(self)

    def data(self) -> str:
        """What is stored."""
        return json.dumps(vars(self))

    def use(self) -> None:
        """It is used now."""
        self.ends_ms = _now_ms() + self.expires_ms

    def is_over(self) -> bool:
        """Whether the queue is."""
        if any(Consumer(name).lives(until_ms) for name, until_ms in self.consumers.items()):
            return False
        return (self.auto_delete and self.had_consumers
                or 0 < self.expires_ms and self.ends_ms <= _now_ms())

    def beat_s(self) -> float:
        """How often a consumer says that it lives."""
        return max(0.5, min(_BEAT_S, self.expires_ms / 3000)) if self.expires_ms else _BEAT_S


class Lifetimes:
    """Those of the queues in a client's store. Threads may share it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @staticmethod
    def _key(queue: str) -> str:
        return f"kombu:queue:{queue}"

    def terms(self, queue: str) -> "Optional[Terms]":
        """What was said of the queue; None: nothing, it lives for ever."""
        data = self._client.get(self._key(queue))
        return None if data is None else Terms(data)

    def _change(self, queue: str, change: "Callable[[Terms], Any]") -> bool:
        """False: there is no entry."""
        @self._client.transactional()
        def step(t: Transaction) -> bool:
            data = t.get(self._key(queue))
            if data is None:
                return False
            terms = Terms(data)
            change(terms)
            t[self._key(queue)] = terms.data()
            return True

        return step()

    def declare(self, queue: str, expires_ms: int, ttl_ms: int, auto_delete: bool) -> bool:
        """Says how long the queue lives; whether nothing was said before."""
        @self._client.transactional()
        def step(t: Transaction) -> bool:
            data = t.get(self._key(queue))
            terms = Terms(data)
            terms.expires_ms, terms.ttl_ms, terms.auto_delete = expires_ms, ttl_ms, auto_delete
            terms.use()
            t[self._key(queue)] = terms.data()
            names = json.loads(t.get(_NAMES) or b"[]")
            if queue not in names:
                t[_NAMES] = json.dumps(names + [queue])
            return data is None

        return step()

    def use(self, queue: str) -> None:
        """The queue is used now."""
        self._change(queue, Terms.use)

    def bind(self, queue: str, exchange: str) -> None:
        """The exchange has a binding of the queue."""
        def change(terms: Terms) -> None:
            if exchange not in terms.exchanges:
                terms.exchanges.append(exchange)

        self._change(queue, change)

    def join(self, queue: str, consumer: str) -> bool:
        """The consumer lives. False: there is no entry."""
        def change(terms: Terms) -> None:
            terms.use()
            terms.had_consumers = True
            terms.consumers[consumer] = _now_ms() + _ELSEWHERE_MS

        return self._change(queue, change)

    def leave(self, queue: str, consumer: str) -> bool:
        """The consumer ends; whether it was the last one of a queue with auto_delete."""
        last = False

        def change(terms: Terms) -> None:
            nonlocal last
            terms.use()
            last = terms.auto_delete and not any(
                Consumer(name).lives(until_ms) for name, until_ms in terms.consumers.items()
                if name != consumer)
            terms.consumers.pop(consumer, None)

        return self._change(queue, change) and last

    def forget(self, queue: str) -> None:
        """The queue is deleted."""
        @self._client.transactional()
        def step(t: Transaction) -> None:
            t.delete(self._key(queue))
            before = json.loads(t.get(_NAMES) or b"[]")
            after = [name for name in before if name != queue]
            if before and not after:
                t.delete(_NAMES)
            elif after != before:
                t[_NAMES] = json.dumps(after)

        step()

    def over(self) -> "dict[str, Terms]":
        """All queues that are over."""
        names = json.loads(self._client.get(_NAMES) or b"[]")
        found = self._client.get_many([self._key(name) for name in names])
        said = {name: Terms(found.get(self._key(name).encode())) for name in names}
        return {name: terms for name, terms in said.items() if terms.is_over()}
