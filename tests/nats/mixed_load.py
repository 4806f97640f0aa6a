#!/usr/bin/env python3
"""Puts, deletes and short expiry, mixed, while servers of the cluster are killed: whether what was
acknowledged is there afterwards, and the same in each replica.

    mixed_load.py write QUEUE FILE      writes until SIGTERM; then FILE has what each key may be
    mixed_load.py check QUEUE FILE URLS BUCKET SHARDS
                                        compares it with what serverk answers and what each server
                                        has; then writes and reads every key once more

Each key has one writer, which awaits each answer, so the last acknowledged write is what there is.
A key whose outcome is unknown is not written any more, as that write may come later."""
import collections
import json
import pathlib
import random
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "independent"))
import mqkv  # noqa: E402

WRITERS, KEYS, PAGE = 6, 500, 32
SHORT_MS, LONG_MS = 2000, 3600000
TIMEOUT = 45.0  # longer than serverk's own patience with the cluster
NOTHING_DONE = (mqkv.S.NO_SERVER, mqkv.S.DEADLINE, mqkv.S.OVERLOADED, mqkv.S.BUSY)


def clock_ms():
    return int(time.time() * 1000)


class Key:
    """What a key may be: a list of [value, expiry_ms], None for absent."""

    def __init__(self, name):
        self.name, self.may_be, self.sure = name, [None], True

    def next(self, number):
        """An operation, and what the key is once it is acknowledged."""
        kind = random.randrange(10)
        if kind < 3:
            return mqkv.delete(self.name), None
        value = b"%s=%d" % (self.name, number)
        if kind < 7:
            return mqkv.put(self.name, value), [value.decode(), 0]
        expiry_ms = clock_ms() + (LONG_MS if kind == 7 else SHORT_MS)
        return mqkv.put(self.name, value, expiry_ms=expiry_ms), [value.decode(), expiry_ms]

    def take(self, status, after, wrong):
        """The outcome of that operation."""
        if status == mqkv.S.NOT_FOUND and after is None:
            before = self.may_be[0]
            if before and before[1] == 0:
                wrong.append(f"{self.name}: NOT_FOUND to a delete of {before[0]}")
        if status == mqkv.S.OK or (status == mqkv.S.NOT_FOUND and after is None):
            self.may_be = [after]
        elif status not in NOTHING_DONE:
            self.may_be.append(after)
            self.sure = False


def write(queue, keys, stop, counts, wrong):
    number = 0
    session = mqkv.Session(queue, depth=2, message_bytes=4096, timeout=TIMEOUT)
    while not stop.is_set():
        page = random.sample([key for key in keys if key.sure], PAGE)
        number += 1
        steps = [(key, *key.next(number)) for key in page]
        try:
            reply = session.request([step[1] for step in steps], again=False)
            statuses = ([reply.status] * len(steps) if reply.status
                        else [result.status for result in reply.results])
        except mqkv.Failure:
            statuses = [mqkv.S.OUTCOME_UNKNOWN] * len(steps)
            session.close()
            session = mqkv.Session(queue, depth=2, message_bytes=4096, timeout=TIMEOUT)
        for (key, _, after), status in zip(steps, statuses, strict=True):
            key.take(status, after, wrong)
            counts[mqkv.STATUS_NAMES[status]] += 1


def run_writers(queue, path):
    stop, counts, wrong = threading.Event(), collections.Counter(), []
    threading.excepthook = lambda failure: wrong.append(f"a writer ended: {failure.exc_value!r}")
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    keys = [[Key(b"mixed.%d.%d" % (writer, number)) for number in range(KEYS)]
            for writer in range(WRITERS)]
    threads = [threading.Thread(target=write, args=(queue, part, stop, counts, wrong))
               for part in keys]
    for thread in threads:
        thread.start()
    while not stop.wait(0.2):
        pass
    for thread in threads:
        thread.join()
    with open(path, "w", encoding="utf-8") as file:
        json.dump({key.name.decode(): key.may_be for part in keys for key in part}, file)
    print(*(f"{count} {name}" for name, count in sorted(counts.items())), sep=", ")
    print(*wrong[:10], sep="\n", end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)


def batches(session, operations):
    """The results of many operations."""
    for at in range(0, len(operations), PAGE):
        yield from session.request(operations[at:at + PAGE], timeout=TIMEOUT).results


def unlike(results, expected):
    """Keys whose answer is none of those that may be."""
    now_ms, bad = clock_ms(), []
    for (name, may_be), result in zip(expected.items(), results, strict=True):
        found = result.value.decode() if result.status == mqkv.S.OK else None
        living = [one[0] if one and (one[1] == 0 or one[1] > now_ms) else None for one in may_be]
        if found not in living or result.status not in (mqkv.S.OK, mqkv.S.NOT_FOUND):
            bad.append(f"{name}: {result.name} {found}, not {living}")
    return bad


def header_of(block, name):
    for line in block.split(b"\r\n"):
        field, _, value = line.partition(b": ")
        if field == name:
            return value
    return None


def messages_of(port, stream):
    """Of each message of the replica at that server its sequence, subject and data: requests for
    direct reads go to the replica of the server that a client is connected to, if it has one."""
    found, sequence = [], 1
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        file = connection.makefile("rwb")
        file.readline()
        file.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
                   b"SUB _INBOX.all 1\r\n")
        while True:
            asked = b'{"seq":%d,"batch":500}' % sequence
            file.write(b"PUB $JS.API.DIRECT.GET.%s _INBOX.all %d\r\n%s\r\n"
                       % (stream.encode(), len(asked), asked))
            file.flush()
            while True:
                words = file.readline().split()
                if not words:
                    raise OSError("the server closed the connection")
                if words[0] == b"PING":
                    file.write(b"PONG\r\n")
                    file.flush()
                if words[0] != b"HMSG":
                    continue
                body = file.read(int(words[-1]) + 2)[:-2]
                block, data = body[:int(words[-2])], body[int(words[-2]):]
                if block.startswith(b"NATS/1.0 404"):
                    return found
                if block.startswith(b"NATS/1.0 503"):
                    raise OSError("nobody answers")
                if block.startswith(b"NATS/1.0 204"):
                    break
                sequence = int(header_of(block, b"Nats-Sequence"))
                found.append((sequence, header_of(block, b"Nats-Subject"), data))
                sequence += 1


def replicas_differ(ports, stream):
    """What the replicas have that others lack, as text."""
    for _ in range(60):
        try:
            sets = [set(messages_of(port, stream)) for port in ports]
        except OSError as error:
            sets, said = [], str(error)
        if sets:
            common = set.intersection(*sets)
            said = "; ".join(f"server {number}: {len(one)}, of which others lack "
                             f"{sorted(one - common)[:3]}" for number, one in enumerate(sets))
            if all(one == common for one in sets):
                return None
        time.sleep(0.5)
    return said


def check(queue, path, urls, bucket, shards):
    with open(path, encoding="utf-8") as file:
        expected = json.load(file)
    time.sleep(SHORT_MS / 1000 + 1)  # until the last of them has expired
    session, failed = mqkv.Session(queue, depth=2, message_bytes=4096, timeout=TIMEOUT), False
    names = [name.encode() for name in expected]
    bad = unlike(batches(session, [mqkv.get(name) for name in names]), expected)
    print(f"{len(bad)} of {len(names)} keys are not what was acknowledged", *bad[:10], sep="\n  ")
    failed |= bool(bad)
    ports = [int(url.rpartition(":")[2]) for url in urls.split(",")]
    for shard in range(int(shards)):
        said = replicas_differ(ports, f"KV_{bucket}_{shard}")
        if said:
            print(f"replicas of KV_{bucket}_{shard} differ: {said}")
            failed = True
    once_more = {name: [["again", 0]] for name in expected}
    refused = [result.name for result in batches(session, [mqkv.put(name, b"again")
                                                           for name in names]) if result.status]
    bad = unlike(batches(session, [mqkv.get(name) for name in names]), once_more)
    if bad:
        print("a leader of before may answer for a moment: not there at once:", *bad, sep="\n  ")
        time.sleep(10)
        bad = unlike(batches(session, [mqkv.get(name) for name in names]), once_more)
    print(f"{len(bad)} keys are not what was put once more, {len(refused)} puts were refused",
          *bad[:10], sep="\n  ")
    failed |= bool(bad or refused)
    gone = {name: [None] for name in expected}
    collections.deque(batches(session, [mqkv.delete(name) for name in names]), 0)
    bad = unlike(batches(session, [mqkv.get(name) for name in names]), gone)
    print(f"{len(bad)} keys are there after a delete", *bad[:10], sep="\n  ")
    return 1 if failed or bad else 0


if __name__ == "__main__":
    if sys.argv[1] == "write":
        run_writers(*sys.argv[2:])
    sys.exit(check(*sys.argv[2:]))
