"""Checks of PROTOCOL.md sections 2, 3, 5 and 9: names, headers, handshake, credits, BYE, death."""
import os
import subprocess
import sys
import time

from checks import check, equal, refused, section, statuses
from mqkv_messages import (
    GUEST_LANES,
    HEADER_BYTES,
    HELLO,
    Message,
    NoServer,
    REFUSED,
    REPLY,
    REPLY_PART,
    Refused,
    S,
    STATUS_NAMES,
    ServerGone,
    Timeout,
    WELCOME,
    get,
    header,
    ping,
    put,
    sync,
)
from mqkv_session import Session, hello_body, next_number

MALFORMED = ("operations", "dropped", "malformed")
UNKNOWN = ("operations", "dropped", "unknown_session")
BAD_HELLO = ("operations", "dropped", "bad_hello")


@section("2.2")
def names(server):
    for text, fields in (
        ("a name of another form", {"name_bytes": 3}),
        ("pid 0", {"pid": 0}),
        ("pid 2^31", {"pid": 2**31}),
        ("name_bytes 0", {"name_bytes": 0}),
        ("name_bytes 256", {"name_bytes": 256}),
        ("name_bytes beyond the message", {"name_bytes": 255}),
    ):
        hello_is_dropped(server, text, **fields)
    for text, form in (
        ("a pid with a leading zero", "{name}.c0{pid}.{n}"),
        ("a number with a leading zero", "{name}.c{pid}.0{n}"),
        ("a number of 2^32", "{name}.c{pid}.4294967296"),
        ("a letter behind the number", "{name}.c{pid}.{n}x"),
        ("the name of a segment", "{name}.s{pid}.{n}"),
        ("a sign", "{name}.c{pid}.+{n}"),
        ("another NAME", "{name}x.c{pid}.{n}"),
    ):
        hello_is_dropped(
            server,
            f"{text} in the queue's name",
            form.format(name=server.name, pid=os.getpid(), n=next_number()),
        )
    with server.session(number=0) as session:
        equal("n may be 0", "OK", session.one(ping()).name)
    with server.session(number=2**32 - 1) as session:
        equal("n may be 2^32 - 1", "OK", session.one(ping()).name)


@section("3.1")
def proof_of_the_pid(server):
    session = half_open(server)
    session.hello_fields["pid"] = os.getppid()
    check(
        "HELLO with a pid that is not the one in the name is dropped",
        server.is_dropped(session, session.send_hello, *BAD_HELLO),
    )
    session.close()
    session = half_open(server, pid=os.getppid())  # in the name as well
    hello_is_refused(session, "the pid of another process than the lock's", S.DENIED)


def hello_is_refused(session, text, status, **header_fields):
    session.send_hello(**header_fields)
    try:
        session.await_welcome(5)
        check(f"HELLO with {text} is refused", False, session.welcome)
    except Refused as refusal:
        check(
            f"HELLO with {text} gets REFUSED, {STATUS_NAMES[status]} and a sentence",
            refusal.status == status and len(refusal.sentence) > 10,
            refusal,
        )
    except Timeout:
        check(f"HELLO with {text} gets REFUSED", False, "no answer")
    session.close()
    return session


def half_open(server, queue_name=None, **fields):
    """A session before its HELLO."""
    session = Session(server.name, connect=False, **fields)
    if queue_name:
        session.queue_name = queue_name
    session.open_server()
    session.create_queue(fields.get("lock", True))
    return session


def hello_is_dropped(server, text, queue_name=None, **fields):
    session = half_open(server, queue_name, **fields)
    check(
        f"HELLO with {text} is dropped", server.is_dropped(session, session.send_hello, *BAD_HELLO)
    )
    session.close()


@section("2.3")
def header_of_requests(server):
    with server.session() as session:

        def answer(**fields):
            return session.request([ping(b"x")], **fields)

        for version in (0, 2, 255):
            refused(f"version {version} gets UNSUPPORTED", "UNSUPPORTED", answer(version=version))
        for flags in (2, 0x8000, 0xFFFF):
            refused(f"flags {flags:#x} get UNSUPPORTED", "UNSUPPORTED", answer(flags=flags))
        for kind in (0, WELCOME, REFUSED, REPLY, REPLY_PART, 11, 255):
            request_id = session.new_id()
            session.send_raw(session.header(kind, request_id=request_id))
            refused(f"kind {kind} gets UNSUPPORTED", "UNSUPPORTED", session.await_reply(request_id))
        statuses("status of a REQUEST is not looked at", "OK", answer(status=0xFFFF))
        reply = session.request([])
        check(
            "count 0 gets a reply without results", reply.status == 0 and reply.results == [], reply
        )
        reply = session.request([ping(b"x")], count=0)
        check(
            "count 0 with an operation behind the header, too",
            reply.status == 0 and reply.results == [],
            reply,
        )
        statuses(
            "4,096 operations are executed",
            " ".join(["OK"] * 4096),
            session.request([ping()] * 4096),
        )
        for count in (4097, 65535):
            refused(
                f"count {count} gets BAD_REQUEST",
                "BAD_REQUEST",
                session.request([sync()] * 10, count=count),
            )
        request_id = 2**64 - 1
        equal("request_id may be any number", request_id, answer(request_id=request_id).request_id)
        for priority in (1, 31, 32, 32767):
            statuses(
                f"priority {priority} is taken, replies come with 0",
                "OK",
                answer(priority=priority),
            )


@section("2.3")
def dropped_messages(server):
    with server.session() as session:
        sound = session.whole([ping()], request_id=9)
        for text, message, counter in (
            ("of 0 bytes", b"", MALFORMED),
            ("of 47 bytes", sound[:47], MALFORMED),
            ("with another magic", b"MQKW" + sound[4:], MALFORMED),
            (
                "with a wrong cookie",
                session.whole([ping()], secret=session.welcome.cookie ^ 1),
                UNKNOWN,
            ),
            ("with cookie 0", session.whole([ping()], secret=0), UNKNOWN),
            ("with the nonce as cookie", session.whole([ping()], secret=session.nonce), UNKNOWN),
            ("of session 0", session.whole([ping()], session=0), MALFORMED),
            ("of the next session", session.whole([ping()], session=session.session + 1), UNKNOWN),
            ("of session 2^32 - 1", session.whole([ping()], session=2**32 - 1), UNKNOWN),
        ):
            check(
                f"a message {text} is dropped and counted",
                server.is_dropped(
                    session, lambda sent=message: session.send_raw(sent, "lane"), *counter
                ),
            )
        equal("the session goes on", "OK", session.one(ping()).name)


@section("3.1")
def handshake(server):
    session = half_open(server)
    session.send_hello(request_id=77)
    got = session.queue.receive(10)
    check("WELCOME comes", got is not None)
    message = Message(got[0])
    equal("with the request_id of HELLO", 77, message.header.request_id)
    equal("with the nonce as its secret", session.nonce, message.header.secret)
    check(
        "with a session's number in its header",
        message.header.kind == WELCOME and message.header.session != 0,
        message,
    )
    session.send_hello(request_id=78)
    again = session.await_welcome()
    equal(
        "a HELLO that comes twice gets the same WELCOME", message.body, again_bytes(session, server)
    )
    check("and the same session", session.session == message.header.session, again)
    first = session.session
    session.nonce ^= 1
    session.send_hello()
    session.await_welcome()
    check(
        "a HELLO with another nonce begins another session",
        session.session != first,
        session.welcome,
    )
    session.unlink_queue()
    session.open_lanes()
    equal("requests work after the name was unlinked", "OK", session.one(ping()).name)
    welcome = session.welcome
    check("1 <= credits <= depth", 1 <= welcome.credits <= 4, welcome)
    equal(
        "server_pid is the holder of the lane's lock",
        session.lane.lock_holder(),
        welcome.server_pid,
    )
    check("max_value_bytes is at most 67,108,864", 0 < welcome.max_value_bytes <= 67108864, welcome)
    equal("lane_bytes is that of the lane", session.lane.message_bytes, welcome.lane_bytes)
    if session.bulk:
        equal("bulk_bytes is that of the bulk lane", session.bulk.message_bytes, welcome.bulk_bytes)
    with server.session() as other:
        equal("instance is the same for all", welcome.instance, other.welcome.instance)
        check(
            "cookies and sessions are not",
            welcome.cookie != other.welcome.cookie and session.session != other.session,
        )
    session.bye()
    session.close()


def again_bytes(session, server):
    """The body of WELCOME for another HELLO with the same nonce."""
    session.send_hello(request_id=79)
    return Message(session.queue.receive(10)[0]).body


@section("3.1")
def hello_fields(server):
    with server.session() as session:
        equal("abilities may be left out", "OK", session.one(ping()).name)
    for text, abilities in (("none", 0), ("GUEST_LANES", GUEST_LANES), ("unknown ones", 0xFFFE)):
        with server.session(abilities=abilities) as session:
            equal(
                f"abilities: {text}; a client of the server's uid gets a lane of its family 0",
                ("OK", 0),
                (session.one(ping()).name, session.welcome.lane_family),
            )
    with server.session(abilities=0, rest=b"later fields") as session:
        equal("bytes behind abilities are ignored", "OK", session.one(ping()).name)
    with server.session(threads=65535) as session:
        equal("threads is for statistics only", "OK", session.one(ping()).name)
    with server.session(depth=1, message_bytes=128) as session:
        equal("1 message of 128 bytes is enough", "OK", session.one(put(b"small queue", b"1")).name)
        check("and gives 1 credit", session.welcome.credits == 1, session.welcome)
    with server.session(depth=8, message_bytes=512) as session:
        check("credits do not exceed the depth", session.welcome.credits <= 8, session.welcome)
    for text, fields, queue in (
        ("reply_bytes 127", {"message_bytes": 127}, {}),
        ("reply_bytes 0", {"message_bytes": 0}, {}),
        ("reply_depth 0", {"depth": 0}, {}),
        ("a queue of 127 bytes", {}, {"message_bytes": 127}),
    ):
        session = half_open(server, shared=False, **queue)
        session.hello_fields |= fields
        hello_is_refused(session, text, S.BAD_REQUEST)
    session = half_open(server, shared=False, depth=2, message_bytes=512)
    session.hello_fields |= {"depth": 10, "message_bytes": 8192}  # more than the queue has
    session.send_hello()
    check(
        "HELLO that promises more than the queue holds gets no more",
        session.await_welcome().credits <= 2,
        session.welcome,
    )
    session.open_lanes()
    result = session.one(ping(b"x" * 900))
    check("and replies that fit the queue", result.value == b"x" * 900, result)
    session.close()


@section("3.1")
def hello_without_proof(server):
    hello_is_dropped(server, "a queue that is not locked", lock=False)
    session = Session(server.name, connect=False)
    session.open_server()
    session.nonce = 5
    session.hello_fields = dict(depth=4, message_bytes=8192)
    check(
        "HELLO for a queue that does not exist is dropped", dropped_without_queue(server, session)
    )
    session.close()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-B",
            "-c",
            f"""
import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
from mqkv_session import Session
session = Session({server.name!r}, connect=False)
session.open_server(); session.create_queue()
print(session.queue_name, flush=True); sys.stdin.read(); session.close()""",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    name = holder.stdout.readline().strip()
    session = half_open(server)
    for text, pid in (("its own pid", os.getpid()), ("that process's pid", holder.pid)):
        stolen = header(HELLO) + hello_body(name, session.nonce, pid=pid)
        check(
            f"HELLO for another process's queue with {text} is dropped, or welcomed there only",
            not_welcomed(session, lambda message=stolen: session.send_raw(message, "name")),
        )
    session.close()
    holder.communicate("")


def dropped_without_queue(server, session):
    before = server.counter(*BAD_HELLO)
    session.send_hello()
    end = time.monotonic() + 10
    while server.counter(*BAD_HELLO) == before and time.monotonic() < end:
        time.sleep(0.01)
    return server.counter(*BAD_HELLO) > before


def not_welcomed(session, send):
    send()
    return session.queue.receive(0.2) is None


@section("3.2")
def credits_bound_messages_in_flight(server):
    with server.session(depth=4) as session:
        ids = [session.post([ping(b"%d" % number)]) for number in range(session.welcome.credits)]
        values = {session.await_reply(request_id).results[0].value for request_id in reversed(ids)}
        equal(
            "as many messages as credits may be unanswered",
            {b"%d" % number for number in range(len(ids))},
            values,
        )
    with server.session(depth=2, message_bytes=512) as session:
        before = server.counter("sessions", "ended", "fault")
        try:
            for _ in range(64):
                session.send_raw(session.whole([ping()]), "lane", timeout=5)
        except Timeout:
            pass
        end = time.monotonic() + 10
        while server.counter("sessions", "ended", "fault") == before and time.monotonic() < end:
            time.sleep(0.01)
        check(
            "a full reply queue ends the session",
            server.counter("sessions", "ended", "fault") > before,
        )
        while session.queue.receive(0.1):
            pass
        check(
            "its messages are dropped from then on",
            server.is_dropped(
                session, lambda: session.send_raw(session.whole([ping()]), "lane"), *UNKNOWN
            ),
        )


@section("3.3")
def which_queue(server):
    with server.session() as session:
        message = session.whole([ping()], request_id=1)
        if session.bulk:
            session.send_raw(message, "bulk")
            statuses(
                "the server takes small messages from the bulk lane, too",
                "OK",
                session.await_reply(1),
            )
        most = session.welcome.lane_bytes - HEADER_BYTES - len(ping())
        for text, size in (
            ("of lane_bytes", most),
            ("of lane_bytes + 1", most + 1),
            ("of bulk_bytes", session.welcome.bulk_bytes - HEADER_BYTES - 12),
            ("of bulk_bytes + 1", session.welcome.bulk_bytes - HEADER_BYTES - 11),
        ):
            equal(f"a message {text} arrives", b"z" * size, session.one(ping(b"z" * size)).value)
    body = len(hello_body("/" + "x" * 127, 1)) + HEADER_BYTES
    with server.session() as session:
        check(
            "HELLO with a name of 128 bytes fits NAME", body <= session.server.message_bytes, body
        )


@section("3.4")
def goodbye(server):
    requests_before_bye(server)
    session = server.session()
    session.bye()
    session.queue.receive(
        0.1
    )  # with several workers, what is sent at the same time may still be answered
    for _ in range(20):
        dropped = server.is_dropped(
            session, lambda: session.send_raw(session.whole([ping()]), "lane"), *UNKNOWN, seconds=1
        )
        if dropped:
            break
        session.queue.receive(0)
    check("a session after its BYE is unknown", dropped)
    session.close()
    with server.session() as session:
        session.bye(secret=1)
        equal("BYE with a wrong cookie ends nothing", "OK", session.one(ping()).name)


def requests_before_bye(server):
    for round_number in range(20):
        with server.session() as session:
            keys = [b"bye %d %d" % (round_number, number) for number in range(3)]
            for key in keys:
                session.send_raw(session.whole([put(key, b"before")]), "lane")
            session.bye()
            session.session = 0
        with server.session() as session:
            end = time.monotonic() + 5
            while (found := session.request([get(key) for key in keys]).statuses) != [
                "OK"
            ] * 3 and time.monotonic() < end:
                time.sleep(0.01)
        if found != ["OK"] * 3:
            break
    equal("requests before BYE in the same queue are executed", ["OK"] * 3, found)


@section("9")
def versions_of_hello(server):
    for version in (0, 2, 200):
        session = half_open(server)
        session.send_hello(version=version, request_id=5)
        try:
            session.await_welcome(5)
            check(f"version {version} is refused", False, session.welcome)
        except Refused as refusal:
            check(
                f"HELLO of version {version} gets UNSUPPORTED and the server's version",
                refusal.status == S.UNSUPPORTED and "version 1" in refusal.sentence,
                refusal,
            )
        session.close()
    hello_is_refused(half_open(server), "flags", S.UNSUPPORTED, flags=4)


@section("5")
def death_and_restart(server):
    session = server.session()
    session.one(put(b"before", b"1"), timeout=10)
    waiting = server.session()
    server.kill()
    check(
        "after kill -9 the lock on the lane is free, its name is still there",
        session.lane.lock_holder() is None and session.lane.links() == 1,
    )
    try:
        session.one(ping())
        check("a client finds out that the server died", False)
    except ServerGone:
        check("a client finds out that the server died", True)
    try:
        server.session()
        check("a new client finds no server", False)
    except NoServer:
        check("a new client finds no server", True)
    server.start(*server.options)
    check("the new server has unlinked the queues of the old one", session.lane.links() == 0)
    with server.session() as later:
        check("another instance after a start", later.welcome.instance != session.welcome.instance)
        equal("what was acknowledged is there", b"1", later.get(b"before").value)
        old = waiting.whole([ping()], request_id=1)
        check(
            "a message of a session of the old server is dropped",
            server.is_dropped(later, lambda: later.send_raw(old, "lane"), *UNKNOWN),
        )
    for old in (session, waiting):
        old.session = 0
        old.close()
    session = server.session()
    equal("the server stops in order", 0, server.stop())
    check("and has unlinked its queues", session.lane.links() == 0)
    session.session = 0
    session.close()
    server.start(*server.options)
