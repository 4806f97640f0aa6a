"""What neighbours do, hostile and honest: floods, storms of HELLO, malformed messages; for
mqkv.py."""
import collections
import errno
import os
import secrets
import struct
import threading
import time

from mqkv_messages import (
    BYE,
    Failure,
    HELLO,
    MORE,
    PART,
    REQUEST,
    Refused,
    S,
    SEGMENT,
    STATUS_NAMES,
    Timeout,
    add,
    decode_header,
    get,
    header,
    ping,
    put,
    scan,
)
from mqkv_queues import Queue
from mqkv_session import Session, hello_body, part_body, segment_body


def run_threads(count, work):
    threads = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)
    ]
    for thread in threads:
        thread.start()
    return threads


def flood(queue_name, message, *, threads=20, seconds=5.0, priority=0, asleep=True):
    """So many threads send the message to the queue for so long, without any session; asleep: they
    sleep in mq_send, so that the kernel hands the next free place to one of them. Gives the number
    of messages sent. A thread that is still asleep at the end goes with the process."""
    end = time.monotonic() + seconds
    sent = [0] * threads

    def work(number):
        queue = Queue(queue_name)
        while time.monotonic() < end:
            try:
                queue.send(message, priority, None if asleep else 0)
                sent[number] += 1
            except OSError as error:
                if error.errno not in (errno.ETIMEDOUT, errno.EINTR):
                    raise

    for thread in run_threads(threads, work):
        thread.join(max(end + 0.2 - time.monotonic(), 0))
    return sum(sent)


def request_flood(name, operations, *, threads=20, seconds=5.0, priority=0, in_flight=None):
    """A valid flood: each thread has a session and keeps as many messages in flight as it has
    credits. Gives (messages answered, messages refused, sessions that failed). Its reply queues are
    small: many fit into a user's budget.
    """
    end = time.monotonic() + seconds
    counts = [[0, 0, 0] for _ in range(threads)]

    def work(number):
        count = counts[number]
        while time.monotonic() < end:
            try:
                with Session(
                    name, depth=4, message_bytes=2048, timeout=max(end + 1 - time.monotonic(), 0.1)
                ) as session:
                    awaited = collections.deque()
                    while time.monotonic() < end:
                        while len(awaited) < (in_flight or session.welcome.credits):
                            awaited.append(session.post(operations, priority=priority))
                        count[1 if session.await_reply(awaited.popleft()).status else 0] += 1
            except (OSError, Failure):
                count[2] += 1
                time.sleep(0.01)

    for thread in run_threads(threads, work):
        thread.join()
    return tuple(sum(column) for column in zip(*counts))


def hello_storm(name, count, *, same_queue=True, keep=None):
    """So many HELLOs, each with a new nonce; for the same reply queue, or each for one of its own,
    which is then kept open (append them to keep). Gives Counter of "welcome", status names of
    REFUSED, "silent"."""
    outcomes = collections.Counter()
    session = None
    for _ in range(count):
        if session is None or not same_queue:
            session = Session(name, connect=False, depth=2, message_bytes=512)
            session.open_server()
            session.create_queue()
            if keep is not None:
                keep.append(session)
        session.nonce = secrets.randbits(64)
        session.send_hello()
        try:
            session.await_welcome(1.0)
            outcomes["welcome"] += 1
            if not same_queue:
                session.unlink_queue()
        except Refused as refused:
            outcomes[STATUS_NAMES.get(refused.status, refused.status)] += 1
        except Timeout:
            outcomes["silent"] += 1
    if keep is None and session is not None:
        session.close()
    return outcomes


def good_client(name, seconds, *, value_bytes=100, timeout=5.0, pause=0.0):
    """What an honest client of one request at a time gets: (operations/s, failures, longest wait in
    seconds)."""
    end = time.monotonic() + seconds
    done = failures = 0
    longest = 0.0
    session = None
    started = time.monotonic()
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            if session is None:
                session = Session(name, timeout=timeout, depth=2, message_bytes=4352)
            key = b"good%d.%d" % (os.getpid(), done % 100)
            reply = session.request([put(key, b"v" * value_bytes) if done % 2 else get(key)])
            if reply.status or reply.results[0].status not in (S.OK, S.NOT_FOUND):
                failures += 1
            done += 1
        except (OSError, Failure):
            failures += 1
            if session is not None:
                session.close()
            session = None
        longest = max(longest, time.monotonic() - began)
        if pause:
            time.sleep(pause)
    elapsed = time.monotonic() - started
    if session is not None:
        session.bye_quietly()
        session.close()
    return done / elapsed, failures, longest


def malformed_messages(rng, session=None, recorded=()):
    """For ever: messages that are wrong in one way or in several: random bytes, and changed ones of
    those recorded (and of some of its own, with the session's number and cookie if it is given)."""
    fields = (
        {"session": session.session, "secret": session.welcome.cookie}
        if session
        else {"session": 1, "secret": 2}
    )
    sound = list(recorded) or [
        header(REQUEST, count=1, request_id=1, **fields)
        + put(b"key", b"value", expiry_ms=1, version=5),
        header(REQUEST, count=2, request_id=2, **fields)
        + add(b"n", 1, bounds=(0, 9), initial=3)
        + get(b"key"),
        header(REQUEST, count=1, request_id=3, **fields) + scan(b"k", 0, 10),
        header(SEGMENT, request_id=4, **fields) + segment_body("/x.s1.1", 4096),
        header(PART, request_id=5, **fields) + part_body(10000, 0, b"x" * 40),
        header(MORE, request_id=6, **fields) + struct.pack("<II", 0, 48),
        header(BYE, **fields | {"secret": 3}),
        header(HELLO) + hello_body("/x.c1.1", 77),
    ]
    while True:
        message = bytearray(rng.choice(sound))
        way = rng.randrange(6)
        if way == 0:
            message = bytearray(rng.randbytes(rng.randrange(0, 1024)))
        elif way == 1:
            del message[rng.randrange(len(message) + 1) :]
        elif way == 2:
            message += rng.randbytes(rng.randrange(1, 64))
        elif way == 3:
            at = rng.randrange(len(message))
            message[at : at + rng.choice((1, 2, 4, 8))] = (
                rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"\x01")) * 4
            )
        else:
            for _ in range(rng.choice((1, 1, 2, 8))):
                message[rng.randrange(len(message))] ^= 1 << rng.randrange(8)
        yield bytes(message[:1024])


def malformed_storm(name, count, rng):
    """Sends so many malformed messages to the lane of a session, a new one whenever they ended it.
    Gives the number of sessions that took."""
    sessions = 0
    while count > 0:
        with Session(name, depth=4, message_bytes=1024) as session:
            sessions += 1
            for message in malformed_messages(rng, session):
                session.send_raw(message, "lane")
                count -= 1
                while session.queue.receive(0):
                    pass
                if count % 3 == 0 and (
                    count == 0 or not still_answers(session)
                ):  # within the credits
                    break
    return sessions


def still_answers(session):
    """Whether the server still knows the session; what else is in its queue is dropped."""
    awaited = (
        header(
            REQUEST,
            count=1,
            request_id=2**63,
            session=session.session,
            secret=session.welcome.cookie,
        )
        + ping()
    )
    session.send_raw(awaited, "lane")
    for _ in range(3):
        while got := session.queue.receive(0.05):
            if decode_header(got[0]).request_id == 2**63:
                return True
        with Session(session.name, depth=2, message_bytes=512) as other:
            other.one(
                ping()
            )  # so what was sent before has been received, unless there are several lanes
    return False
