"""Named checks in the form that tests/run counts, for the tests of this folder.

    @section("4.1")
    def order(server):                      # server: a Server
        with server.session() as session:
            equal("results come in the order of the operations", [...], [...])

run(modules, server, wanted) runs the sections in order. An exception is a failed check with its
place.
"""
import json
import time
import traceback

from mqkv_messages import stats
from mqkv_session import Session

failed = 0
_sections = []


def check(text, holds, detail=""):
    global failed
    if holds:
        print(f"ok - {_current}: {text}", flush=True)
        return True
    failed += 1
    print(f"not ok - {_current}: {text}", flush=True)
    for line in str(detail).splitlines():
        print(f"    {line[:400]}")
    return False


def equal(text, expected, got):
    return check(text, expected == got, f"expected: {expected!r}\ngot:      {got!r}")


def statuses(text, expected, reply):
    """The statuses of a reply's results; or, for a refusal of the whole, ["whole: NAME"]. expected:
    names, one string."""
    got = reply.statuses if reply.status == 0 else [f"whole: {reply.name}"]
    return check(
        text, expected == " ".join(got), f"expected: {expected}\ngot:      {' '.join(got)}\n{reply}"
    )


def refused(text, status, reply):
    """The whole message is refused with this status and a sentence."""
    return check(
        text,
        reply.name == status and not reply.results and len(reply.sentence) > 5,
        f"expected: {status} and a sentence\ngot:      {reply}",
    )


def section(number):
    def register(function):
        _sections.append((number, function))
        return function

    return register


_current = ""


def run(server, wanted):
    """All sections, or those whose number begins with one of those wanted."""
    global _current, failed
    for number, function in _sections:
        if wanted and not any(number.startswith(prefix) for prefix in wanted):
            continue
        _current = f"{number} {function.__name__.replace('_', ' ')}"
        try:
            function(server)
        except Exception:  # pylint: disable=broad-except
            check("ends without an exception", False, traceback.format_exc())
    return 1 if failed else 0


class Server:
    """The server under test: its name, and what its statistics say."""

    def __init__(self, name):
        self.name = name

    def session(self, **fields):
        return Session(self.name, **fields)

    def stats(self, part=b""):
        with self.session() as session:
            return json.loads(session.one(stats(part)).value)

    def counter(self, *path):
        found = self.stats()
        for name in path:
            found = found[name]
        return found

    def is_dropped(self, session, send, *path, seconds=10):
        """Whether what send() sends is dropped: the counter at this path of the statistics grows,
        and the session gets no message."""
        before = self.counter(*path)
        send()
        end = time.monotonic() + seconds
        while self.counter(*path) == before:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return session.queue.receive(0.02) is None
