#!/usr/bin/env python3
"""A work queue: each job is done by one worker, and done again if that worker dies.

A job is an entry job:NUMBER. A worker takes a job by writing its claim with if_version: of several
that try, one succeeds. A claim holds for some seconds; the job of a worker that has died is free
again then. A worker that was too slow notices when it wants to finish: the version has changed.

Jobs are numbered by a counter, and tried from the oldest that is left: job:first moves up.
"""

import json
import multiprocessing
import os
import time

import mqkv


class WorkQueue:
    """A queue of that name. seconds: how long a claim holds."""

    def __init__(self, client, name, seconds=30.0):
        self.client = client
        self.name = name
        self.seconds = seconds

    def _key(self, number):
        return f"{self.name}:job:{number}"

    def put(self, work):
        """Adds a job, which is anything that JSON can say; returns its number."""
        number = self.client.add(f"{self.name}:last")
        self.client.put(self._key(number), json.dumps({"work": work, "until": 0}), if_absent=True)
        return number

    def take(self):
        """Claims the oldest job that is free: (number, work, version), or None."""
        first = int(self.client.get(f"{self.name}:first", b"1"))
        last = int(self.client.get(f"{self.name}:last", b"0"))
        for number in range(first, last + 1):
            try:
                entry = self.client.entry(self._key(number))
            except mqkv.NotFound:
                self._move_first(number)
                continue
            job = json.loads(entry.value)
            if job["until"] > time.time():
                continue  # somebody is at it
            job["until"] = time.time() + self.seconds
            try:
                version = self.client.put(entry.key, json.dumps(job), if_version=entry.version)
            except (mqkv.VersionMismatch, mqkv.NotFound):
                continue  # somebody was faster
            return number, job["work"], version
        return None

    def done(self, number, version):
        """Deletes the job, if the claim still holds; tells whether it did."""
        try:
            self.client.delete(self._key(number), if_version=version)
        except (mqkv.VersionMismatch, mqkv.NotFound):
            return False
        return True

    def _move_first(self, number):
        """All jobs up to that one are done, if the one before it is the last that was known so."""
        first = f"{self.name}:first"
        try:
            entry = self.client.entry(first)
            if int(entry.value) == number:
                self.client.put(first, str(number + 1), if_version=entry.version)
        except (mqkv.NotFound, mqkv.VersionMismatch):
            if number == 1:
                try:
                    self.client.put(first, "2", if_absent=True)
                except mqkv.Exists:
                    pass

    def is_empty(self):
        """Whether every job is done."""
        return next(self.client.keys(f"{self.name}:job:"), None) is None


def worker(dies):
    """Takes jobs until there are none left. One dies at its third."""
    with mqkv.Client() as client:
        queue = WorkQueue(client, "squares", seconds=1.0)
        taken = 0
        while not queue.is_empty():
            job = queue.take()
            if job is None:
                time.sleep(0.02)
                continue
            number, work, version = job
            taken += 1
            if dies and taken == 3:
                os._exit(9)
            client.put(f"result:{number}", str(work * work))
            queue.done(number, version)


def main():
    """Three workers, one of which dies with a job in its hands."""
    with mqkv.Client() as client:
        queue = WorkQueue(client, "squares")
        for i in range(40):
            queue.put(i)
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=worker, args=(number == 0,)) for number in range(3)]
        workers[0].start()
        workers[0].join()  # it has died; its claim holds for a second
        for process in workers[1:]:
            process.start()
        for process in workers[1:]:
            process.join()
        results = sorted(int(entry.value) for entry in client.scan("result:"))
        print("workers that died:", sum(process.exitcode == 9 for process in workers))
        print("all squares are there:", results == [i * i for i in range(40)])


if __name__ == "__main__":
    main()
