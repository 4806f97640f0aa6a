"""On what a connection of mqkv.kombu sleeps."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import Iterable, Optional

from .client import Client
from .errors import Error, Missed
from .watch import Watch

__all__ = ["Waiter"]

_RETRY_S = 1.0  # after which a watch that failed is tried again
_UNWATCHED_S = 0.02  # the longest sleep while nothing can be watched
_CHANGES_AT_ONCE = 1000


class Waiter:
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
            self._again_at = time.monotonic() + _RETRY_S
            return False
        self._prefix = prefix
        return True

    def wait(self, seconds: float) -> bool:
        """Sleeps so long at most; whether a queue has changed."""
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
                return False
            if any(number == self._reads for number, _ in poll.poll(1000 * left)):
                with suppress(BlockingIOError):
                    os.read(self._reads, 4096)
                return False
        return True

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
