#!/usr/bin/env python3
"""Random operations of the independent client against a model, with kill -9 and stops of the
daemon.

    test_model.py SERVERK NAME DIRECTORY LOG SECONDS SEED -- OPTION...

Every result must be that of the model, every scan give all of it. A message that was in flight when
the daemon was killed may have been executed up to any of its operations, in their order; one in
flight at a stop wholly, and then it is answered, or not at all. Exit status 1: something was wrong,
and is printed with the seed.
"""
import collections
import random
import sys
import time

from daemon import Daemon
from model import Choice, Model, Wrong, encode
from mqkv_messages import (
    APPEND,
    EXCHANGE,
    Failure,
    Message,
    OPCODE_NAMES,
    PING,
    PUT,
    REPLY,
    S,
    decode_results,
)
from mqkv_session import Reply, Session

SEGMENT_BYTES = 1 << 18
WINDOW = (SEGMENT_BYTES // 2, SEGMENT_BYTES // 2)


class Run:
    def __init__(self, daemon, rng):
        self.daemon, self.rng = daemon, rng
        self.model = Model()
        self.choice = Choice(rng, self.model)
        self.session = None
        self.counts = collections.Counter()

    def open_session(self):
        rng = self.rng
        self.session = Session(
            self.daemon.name,
            timeout=60,
            depth=rng.choice((2, 4)),
            message_bytes=rng.choice((256, 1024, 8192)),
        )
        if rng.random() < 0.5:
            reply = self.session.offer_segment(SEGMENT_BYTES)
            if reply.status:
                raise Wrong(f"SEGMENT: {reply}")

    def close_session(self, bye):
        if bye:
            self.session.bye_quietly()
        self.session.close()

    def place(self, chosen):
        """The bytes of the operations, with some values in the first half of the segment."""
        encoded, at = [], 0
        for one in chosen:
            if (
                self.session.segment
                and one.opcode in (PUT, EXCHANGE, APPEND, PING)
                and self.rng.random() < 0.5
                and at + len(one.value) <= WINDOW[0]
            ):
                self.session.segment[at : at + len(one.value)] = one.value
                encoded.append(encode(one, at))
                at += len(one.value)
            else:
                encoded.append(encode(one))
        return encoded

    def judge(self, chosen, reply):
        if reply.status or len(reply.results) != len(chosen):
            raise Wrong(f"{len(chosen)} results were expected: {reply}")
        for one, result in zip(chosen, reply.results):
            try:
                self.model.judge(one, result)
            except Wrong as wrong:
                raise Wrong(
                    f"{OPCODE_NAMES[one.opcode]} {one!r:.300}\ngave {result}\n{wrong}"
                ) from None
        self.counts["operations"] += len(chosen)

    def work(self):
        """A batch of operations, and their results."""
        self.model.expire()
        chosen = [self.choice.operation() for _ in range(self.rng.choice((1, 1, 3, 20, 60)))]
        reply = self.session.request(
            self.place(chosen), window=WINDOW if self.session.segment else (0, 0)
        )
        self.judge(chosen, reply)

    def end_daemon(self):
        """Kills or stops it with a message in flight, and starts it again."""
        self.model.expire()
        chosen = [
            one
            for one in (self.choice.operation() for _ in range(12))
            if len(one.value) < 60 and len(one.key) < 60
        ]
        kill = self.rng.random() < 0.8
        if self.rng.random() < 0.8:
            request_id = self.session.post([encode(one) for one in chosen])
            time.sleep(self.rng.choice((0, 0, 0.0002, 0.001, 0.005)))
        else:
            chosen, request_id = [], None
        if kill:
            self.daemon.kill()
        elif self.daemon.stop() != 0:
            raise Wrong(f"serverk stops with another status than 0:\n{self.daemon.log_end()}")
        self.counts["kills" if kill else "stops"] += 1
        answer = self.answer(request_id)
        self.close_session(bye=False)
        self.daemon.start(*self.daemon.options)
        self.open_session()
        if answer is not None and answer.results:
            self.judge(chosen[: len(answer.results)], answer)
        elif chosen:
            least = len(chosen) if answer else 0
            self.find_state(chosen, range(least, len(chosen) + 1 if kill or answer else 1))
            self.counts["in flight"] += 1
        self.model.judge_all(self.session)
        self.counts["scans"] += 1
        if "--ordered" in self.daemon.options:
            self.model.judge_ranges(self.session, self.rng)
            self.counts["ranges"] += 4

    def answer(self, request_id):
        """The Reply that came before the end, with the results of what was executed; without
        results if it would have been fetched in parts: then all was executed. None: no answer."""
        got = self.session.queue.receive(0) if request_id else None
        if got is None:
            return None
        message = Message(got[0])
        if message.header.kind != REPLY:
            return Reply(0, "", [])
        if message.header.status:
            raise Wrong(f"the message is refused: {message}")
        results = decode_results(message.body, message.header.count)
        executed = next(
            (at for at, result in enumerate(results) if result.status == S.OVERLOADED), len(results)
        )
        return Reply(0, "", results[:executed])

    def find_state(self, chosen, possible):
        """Which of the states between the operations the store is in; possible: numbers of
        operations executed."""
        told = {one.key: self.session.get(one.key) for one in chosen if one.key}
        state = self.model.copy()
        for done in range(len(chosen) + 1):
            if done in possible and all(
                self.fits(state, key, result) for key, result in told.items()
            ):
                self.model.entries, self.model.highest = state.entries, state.highest
                return
            if done < len(chosen):
                state.apply(chosen[done])
        raise Wrong(
            f"with these in flight, of which {possible} may have been executed:\n"
            + "\n".join(f"{one!r:.200}" for one in chosen)
            + f"\nthe store has {told}, which is none of that; before: "
            + f"{ {key: self.model.entries.get(key) for key in told} }"
        )

    def fits(self, state, key, result):
        entry = state.entries.get(key)
        if self.model.at_an_edge(key) or state.at_an_edge(key):
            return True
        if not entry:
            return result.name == "NOT_FOUND"
        version_fits = (
            result.version == entry.version
            if entry.version
            else (result.version or 0) > state.highest.get(key, 0)
        )
        return (
            result.name == "OK"
            and (result.value, result.expiry_ms) == (entry.value, entry.expiry_ms)
            and version_fits
        )

    def run(self, seconds):
        self.open_session()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(self.rng.randrange(5, 60)):
                self.work()
            self.end_daemon()
        self.close_session(bye=True)


def main():
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    program, name, directory, log, seconds, seed = sys.argv[1:at]
    options = sys.argv[at + 1 :]
    daemon = Daemon(program, name, directory, log)
    daemon.start(*options)
    run = Run(daemon, random.Random(int(seed)))
    setting = " ".join(options) or "default"
    text = f"the store is what the model says, through kills and stops: {setting}"
    try:
        run.run(float(seconds))
        status = daemon.stop()
    except (Wrong, Failure) as wrong:
        print(f"not ok - {text}\n    seed {seed}, after {dict(run.counts)}: {type(wrong).__name__}")
        print("\n".join(f"    {line:.600}" for line in str(wrong).splitlines()), flush=True)
        if run.session is not None:
            run.session.close()
        if daemon.process.poll() is None:
            daemon.stop()
        return 1
    print(f"ok - {text}" if status == 0 else f"not ok - {text}: the last stop had status {status}")
    print(
        f"# seed {seed}: " + ", ".join(f"{number} {what}" for what, number in run.counts.items()),
        flush=True,
    )
    return 0 if status == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
