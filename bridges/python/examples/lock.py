#!/usr/bin/env python3
"""A lock that programs share: one has it, until it gives it back or its time is over.

    with Lock(client, "lock:report", seconds=30) as lock:
        ...
        lock.extend()                   # before the 30 seconds are over

The entry's version is the proof of ownership: only that very entry is deleted or prolonged, never
one that somebody else made after the time was over. The version also grows from owner to owner, so
that it can go with what is written elsewhere as a fencing token.
"""

import threading
import time

import mqkv


class LockLost(Exception):
    """The time was over, and perhaps somebody else has the lock."""


class Lock:
    """One attempt at a lock. seconds: how long it is held at most, if its owner dies."""

    def __init__(self, client, key, seconds=30.0):
        self.client = client
        self.key = key
        self.seconds = seconds
        self.version = None  # the fencing token; None: not held

    def try_acquire(self):
        """Takes the lock if it is free; tells whether."""
        try:
            self.version = self.client.put(self.key, b"", if_absent=True, ttl=self.seconds)
        except mqkv.Exists:
            return False
        return True

    def acquire(self, timeout=60.0):
        """Waits for the lock. TimeoutError."""
        end = time.monotonic() + timeout
        while not self.try_acquire():
            if time.monotonic() > end:
                raise TimeoutError(f"the lock {self.key} is held")
            time.sleep(0.01)
        return self

    def _proof(self):
        """The version that is ours. LockLost: without one, the store would ask for no proof."""
        if self.version is None:
            raise LockLost(self.key)
        return self.version

    def extend(self):
        """Begins the time anew. LockLost."""
        version = self._proof()
        try:
            self.version = self.client.put(self.key, b"", if_version=version, ttl=self.seconds)
        except (mqkv.NotFound, mqkv.VersionMismatch):
            self.version = None
            raise LockLost(self.key) from None

    def release(self):
        """Gives the lock back. LockLost: it was no longer ours."""
        version, self.version = self._proof(), None
        try:
            self.client.delete(self.key, if_version=version)
        except (mqkv.NotFound, mqkv.VersionMismatch):
            raise LockLost(self.key) from None

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        if self.version is not None:
            self.release()


def main():
    """Four threads count to 200 without an atomic operation; then a lock is lost."""
    with mqkv.Client() as client:
        client.put("counter", "0")

        def count():
            for _ in range(50):
                with Lock(client, "lock:counter"):
                    client.put("counter", str(int(client.get("counter")) + 1))

        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print("counted to", client.get("counter").decode())

        slow = Lock(client, "lock:slow", seconds=0.05).acquire()
        first = slow.version
        other = Lock(client, "lock:slow").acquire()  # once the time is over
        print("the token has grown:", other.version > first)
        try:
            slow.release()
        except LockLost:
            print("the slow one has lost its lock, and deletes nobody else's")
        other.extend()
        other.release()


if __name__ == "__main__":
    main()
