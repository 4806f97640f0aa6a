#!/usr/bin/env python3
"""A work queue: each job is done by one worker, and done again if that worker dies.

A job is an entry job:NUMBER. A worker takes a job by writing its claim with if_version: of several
that try, one succeeds. A claim holds for some seconds; the job of a worker that has died is free
again then. A worker that was too slow notices when it wants to finish: the version has changed.

Jobs are numbered by a counter, NAME:last, and tried from the oldest that is left, NAME:first: it
moves up over jobs that are not there any more. A job that is not there yet looks the same. So a
producer that has written its job writes NAME:first too: no higher than the job, and in any case
with a new version, so that no worker moves it up that has looked for the job before.
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
        self._announce(number)
        return number

    def _announce(self, number):
        """The job is there: first is not beyond it, and gets a new version in any case."""
        while True:
            try:
                first, version = self._first()
                if version is None:
                    self.client.put(f"{self.name}:first", str(number), if_absent=True)
                else:
                    self.client.put(f"{self.name}:first", str(min(first, number)),
                                    if_version=version)
                return
            except (mqkv.Exists, mqkv.VersionMismatch, mqkv.NotFound):
                continue  # somebody was faster

    def _first(self):
        """Where the jobs that are left begin, and the version of that; None: no job was put yet."""
        try:
            entry = self.client.entry(f"{self.name}:first")
        except mqkv.NotFound:
            return 1, None
        return int(entry.value), entry.version

    def take(self):
        """Claims the oldest job that is free: (number, work, version), or None."""
        first, version = self._first()
        last = int(self.client.get(f"{self.name}:last", b"0"))
        for number in range(first, last + 1):
            try:
                entry = self.client.entry(self._key(number))
            except mqkv.NotFound:
                if number == first and version is not None:
                    first, version = self._move_first(first, version)
                continue
            job = json.loads(entry.value)
            if job["until"] > time.time():
                continue  # somebody is at it
            job["until"] = time.time() + self.seconds
            try:
                claim = self.client.put(entry.key, json.dumps(job), if_version=entry.version)
            except (mqkv.VersionMismatch, mqkv.NotFound):
                continue  # somebody was faster
            return number, job["work"], claim
        return None

    def done(self, number, version):
        """Deletes the job, if the claim still holds; tells whether it did."""
        try:
            self.client.delete(self._key(number), if_version=version)
        except (mqkv.VersionMismatch, mqkv.NotFound):
            return False
        return True

    def _move_first(self, first, version):
        """The first job was not there after first had got that version. The new ones of both."""
        try:
            version = self.client.put(f"{self.name}:first", str(first + 1), if_version=version)
        except (mqkv.VersionMismatch, mqkv.NotFound):
            return first, None  # perhaps the job has come: it stays where it is
        return first + 1, version

    def is_empty(self):
        """Whether every job is done. A job whose producer died before it announced it is announced
        here."""
        key = next(self.client.keys(f"{self.name}:job:"), None)
        if key is None:
            return True
        number = int(key.rpartition(b":")[2])
        if number < self._first()[0]:
            self._announce(number)
        return False


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
