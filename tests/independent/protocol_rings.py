"""Checks of PROTOCOL.md section 3.6: replies through shared memory."""
import os
import time

from checks import check, equal, section
from mqkv_messages import Refused, Timeout, get, ping, put
from mqkv_queues import Ring
from mqkv_session import Session, takes_rings

BAD_HELLO = ("operations", "dropped", "bad_hello")


def takes_none(server):
    return "--replies queue" in " ".join(server.options)


@section("3.6")
def whether_the_server_takes_rings(server):
    equal("the lock on NAME.lock shows it", not takes_none(server), takes_rings(server.name))
    session = Session(server.name, connect=False, shared=True)
    session.open_server()
    session.create_queue()
    session.send_hello()
    if takes_none(server):
        try:
            session.await_welcome()
            check("a server that takes none refuses one", False)
        except Refused as refusal:
            equal("a server that takes none refuses one", 10, refusal.status)
    else:
        session.await_welcome()
        equal("WELCOME comes in a slot, with credits for the slots", 4, session.welcome.credits)
        check("one of them", session.queue.attributes().curmsgs == 0)
    session.close()


@section("3.6")
def a_session_with_a_ring(server):
    if takes_none(server):
        return
    with server.session(shared=True) as session:
        equal("ping", b"ring", session.one(ping(b"ring")).value)
        for size in (0, 1, 4096, 8000, 100000):
            value = bytes(range(256)) * (size // 256 + 1)
            session.one(put(b"ring", value[:size]))
            equal(
                f"a value of {size} bytes comes back", value[:size], session.one(get(b"ring")).value
            )
        ids = [session.post([ping(b"%d" % n)]) for n in range(session.welcome.credits)]
        values = {session.await_reply(request_id).results[0].value for request_id in reversed(ids)}
        equal("as many replies as slots wait", {b"%d" % n for n in range(len(ids))}, values)
    for depth, size in ((1, 128), (15, 1000), (2, 131072)):
        with server.session(shared=True, depth=depth, message_bytes=size) as session:
            equal(f"{depth} slots of {size} bytes", "OK", session.one(ping()).name)


@section("3.6")
def rings_that_are_none(server):
    for text, fields in (
        ("more bytes than the ring has", {"message_bytes": 100000}),
        ("messages above 131,072 bytes", {"message_bytes": 131073}),
        ("no name of a ring", {}),
    ):
        session = Session(server.name, connect=False, shared=True)
        if not fields:
            session.queue_name = f"{server.name}.s{os.getpid()}.7"
        session.open_server()
        session.create_queue()
        session.hello_fields |= fields
        check(
            f"HELLO with {text} is dropped",
            server.is_dropped(session, session.send_hello, *BAD_HELLO),
        )
        session.close()


def fault_of(server, spoil, *reasons):
    """Whether a session ends after spoil(its ring), for one of these reasons, and says so in the
    ring, if there is any of it left."""

    def ended():
        return sum(server.counter("sessions", "ended", reason) for reason in reasons)

    before = ended()
    session = server.session(shared=True)
    session.one(ping())
    spoil(session.queue)
    try:
        session.send_raw(session.whole([ping()]), "lane", timeout=5)
    except Timeout:
        pass
    end = time.monotonic() + 10
    while ended() == before and time.monotonic() < end:
        time.sleep(0.01)
    happened = ended() > before
    told = os.fstat(session.queue.fd).st_size == 0 or session.queue.words[Ring.ENDED] != 0
    session.close()
    return happened and told


def fill(words, depth, value):
    for slot in range(depth):
        words[1 + slot] = value


@section("3.6")
def spoiled_rings(server):
    if takes_none(server):
        return

    check(
        "a ring without an empty slot ends the session, and tells so",
        fault_of(server, lambda ring: fill(ring.words, ring.depth, 1), "fault"),
    )
    check(
        "a ring that lost its bytes ends the session",
        fault_of(server, lambda ring: os.ftruncate(ring.fd, 0), "fault", "segment"),
    )
    with server.session(shared=True) as session:
        for word in range(32):
            session.queue.words[word] = 0
        session.queue.words[0] = session.queue.words[Ring.NOT_USED] = 0xFFFFFFFF
        text = "a bell of another value is rung, and the word at 64 is not read"
        equal(text, "OK", session.one(ping()).name)
    with server.session() as session:
        equal("others are served", "OK", session.one(ping()).name)
