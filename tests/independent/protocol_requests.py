"""Checks of PROTOCOL.md section 4: order and failure, operations and results, parts, segment,
deadlines."""
import os
import time

from checks import check, equal, refused, section, statuses
from mqkv_messages import (
    ADD,
    APPEND,
    BYE,
    DELETE,
    EXCHANGE,
    EXISTS,
    FLAGS_OF_OPERATION,
    GET,
    HEADER_BYTES,
    IF_ABSENT,
    IF_PRESENT,
    KEEP_EXPIRY,
    MORE,
    OPCODE_NAMES,
    PART,
    PARTS_EXTRA_BYTES,
    PING,
    PUT,
    REPLY_PART,
    S,
    SCAN,
    STATS,
    SYNC,
    SYNC_ALWAYS,
    SYNC_INTERVAL,
    TOUCH,
    add,
    append,
    decode_results,
    delete,
    exchange,
    get,
    operation,
    ping,
    put,
)
from mqkv_queues import SharedMemory
from mqkv_session import decode_part, next_number, now_ms, part_body

EXTRA = PARTS_EXTRA_BYTES


@section("4.1")
def order_and_failure(server):
    with server.session() as session:
        key = b"order"
        reply = session.request(
            [
                put(key, b"1"),
                add(key, 4),
                get(key),
                add(b"order absent", 1),
                append(key, b"0"),
                get(key),
                delete(key),
                get(key),
            ]
        )
        statuses(
            "operations are executed in order, one that fails stops none",
            "OK OK OK NOT_FOUND OK OK OK NOT_FOUND",
            reply,
        )
        equal(
            "results are in that order",
            [b"5", b"50"],
            [reply.results[2].value, reply.results[5].value],
        )
        malformed = {
            "an empty key": (get(b""), "BAD_REQUEST"),
            "an unknown opcode": (operation(200, b"k"), "UNSUPPORTED"),
            "opcode 0": (operation(0, b"k"), "UNSUPPORTED"),
            "opcode 255": (operation(255, b"k"), "UNSUPPORTED"),
            "an unknown flag": (operation(GET, b"k", flags=0x8000), "UNSUPPORTED"),
            "bytes that are missing": (get(b"key")[:-1], "BAD_REQUEST"),
        }
        for text, (wrong, status) in malformed.items():
            refused(
                f"{text} first: the whole is refused with {status}",
                status,
                session.request([wrong], count=3),
            )
            behind = (
                [] if wrong == get(b"key")[:-1] else [put(b"not done", b"1")]
            )  # it would make it whole
            reply = session.request([put(b"done", text.encode()), wrong] + behind, count=3)
            statuses(
                f"{text} second: it and all behind it get {status}", f"OK {status} {status}", reply
            )
            equal("and those before it are executed", text.encode(), session.get(b"done").value)
        equal("none behind it is executed", "NOT_FOUND", session.get(b"not done").name)
        statuses(
            "bytes behind the last operation are not looked at",
            "OK",
            session.request([put(b"rest", b"1")], rest=put(b"not done", b"2")),
        )
        statuses("nor are 900 of them", "OK", session.request([get(b"rest")], rest=b"\xff" * 900))
        equal(
            "the message is executed as if they were not there",
            "NOT_FOUND",
            session.get(b"not done").name,
        )
        statuses(
            "a count above the operations that are there: BAD_REQUEST for those missing",
            "OK BAD_REQUEST BAD_REQUEST",
            session.request([get(b"rest")], count=3),
        )


@section("4.1")
def short_replies(server):
    with server.session() as session:
        check("WELCOME has SHORT_REPLIES", session.welcome.flags & 0x2)
        session.request([put(b"long", b"v" * 900)])
        asked = [append(b"steps", b"+"), get(b"long")] * 20
        done = messages = 0
        while done < len(asked) and messages < 100:
            reply = session.request(asked[done:], flags=0x1)
            if reply.name != "OK" or not 0 < len(reply.results) <= len(asked) - done:
                break
            done += len(reply.results)
            messages += 1
        equal("every operation is answered in the end", len(asked), done)
        equal("what was not answered was not executed", b"+" * 20, session.get(b"steps").value)
        equal(
            "one operation is always answered",
            1,
            len(session.request([get(b"long")], flags=0x1).results),
        )
        equal("without MAY_STOP each has its result", 40, len(session.request(asked).results))


@section("4.2")
def reserved_and_contradictory(server):
    with server.session() as session:
        for text, fields in (
            ("the reserved u8", {"reserved8": 1}),
            ("the reserved u16", {"reserved16": 0x100}),
        ):
            for opcode in OPCODE_NAMES:
                wrong = operation(opcode, b"k", **fields, **{"delta": 1} if opcode == ADD else {})
                refused(
                    f"{text} of {OPCODE_NAMES[opcode]} not 0: UNSUPPORTED",
                    "UNSUPPORTED",
                    session.request([wrong]),
                )
        for opcode, allowed in FLAGS_OF_OPERATION.items():
            outcomes = set()
            for bit in range(16):
                if not allowed & 1 << bit:
                    sent = operation(opcode, b"k", flags=1 << bit) + bytes(40)
                    outcomes.add(session.request([sent]).name)
            equal(
                f"{OPCODE_NAMES[opcode]} with any flag that it does not list: UNSUPPORTED",
                {"UNSUPPORTED"},
                outcomes,
            )
        for opcode in (PUT, EXCHANGE):
            for text, wrong in contradictions(opcode):
                refused(
                    f"{OPCODE_NAMES[opcode]} with {text}: BAD_REQUEST",
                    "BAD_REQUEST",
                    session.request([wrong]),
                )
        for opcode in (APPEND, ADD, TOUCH, DELETE):
            both = operation(
                opcode,
                b"k",
                flags=SYNC_INTERVAL | SYNC_ALWAYS,
                **{"delta": 1} if opcode == ADD else {},
            )
            refused(
                f"{OPCODE_NAMES[opcode]} with both SYNC flags: BAD_REQUEST",
                "BAD_REQUEST",
                session.request([both]),
            )
        refused(
            "DELETE with version 0: BAD_REQUEST",
            "BAD_REQUEST",
            session.request([delete(b"k", version=0)]),
        )
        refused(
            "ADD with min > max: BAD_REQUEST",
            "BAD_REQUEST",
            session.request([add(b"k", 1, bounds=(1, 0))]),
        )
        for opcode in (GET, EXISTS, DELETE, TOUCH, SCAN, STATS, SYNC, ADD):
            fields = {"delta": 1} if opcode == ADD else {"cursor": 0} if opcode == SCAN else {}
            wrong = operation(opcode, b"" if opcode == SYNC else b"k", b"v", **fields)
            refused(
                f"{OPCODE_NAMES[opcode]} with a value: BAD_REQUEST",
                "BAD_REQUEST",
                session.request([wrong]),
            )
        for opcode in (PING, SYNC):
            refused(
                f"{OPCODE_NAMES[opcode]} with a key: BAD_REQUEST",
                "BAD_REQUEST",
                session.request([operation(opcode, b"k")]),
            )
        for opcode in (GET, EXISTS, PUT, DELETE, ADD, APPEND, EXCHANGE, TOUCH):
            wrong = operation(opcode, b"", **{"delta": 1} if opcode == ADD else {})
            refused(
                f"{OPCODE_NAMES[opcode]} without a key: BAD_REQUEST",
                "BAD_REQUEST",
                session.request([wrong]),
            )
        whole = put(b"key", b"value", SYNC_INTERVAL, expiry_ms=2**62, version=7)
        outcomes = {session.request([whole[:size]], count=1).name for size in range(len(whole))}
        equal("an operation that is cut off at any byte: BAD_REQUEST", {"BAD_REQUEST"}, outcomes)
        refused(
            "value_bytes beyond the message: BAD_REQUEST",
            "BAD_REQUEST",
            session.request([put(b"k", b"v", value_bytes=2)]),
        )
        refused(
            "value_bytes 2^32 - 1: BAD_REQUEST",
            "BAD_REQUEST",
            session.request([put(b"k", b"v", value_bytes=2**32 - 1)]),
        )


def contradictions(opcode):
    yield "IF_ABSENT and IF_PRESENT", operation(opcode, b"k", b"v", IF_ABSENT | IF_PRESENT)
    yield "HAS_VERSION and IF_ABSENT", operation(opcode, b"k", b"v", IF_ABSENT, version=1)
    yield "HAS_VERSION and IF_PRESENT", operation(opcode, b"k", b"v", IF_PRESENT, version=1)
    yield "HAS_EXPIRY and KEEP_EXPIRY", operation(
        opcode, b"k", b"v", KEEP_EXPIRY, expiry_ms=2**62
    )
    yield "SYNC_INTERVAL and SYNC_ALWAYS", operation(
        opcode, b"k", b"v", SYNC_INTERVAL | SYNC_ALWAYS
    )
    yield "version 0", operation(opcode, b"k", b"v", version=0)


@section("4.4")
def requests_in_parts(server):
    with server.session() as session:
        value = os.urandom(50000)
        for part_bytes in (None, 1, 1000):
            size = 600 if part_bytes == 1 else 50000
            request_id = session.new_id()
            whole = session.whole(
                [put(b"parts", value[:size]), get(b"parts")], request_id=request_id
            )
            equal(
                f"PARTs are taken ({part_bytes or 'the largest'} bytes each)",
                None,
                session.send_parts(whole, request_id, part_bytes=part_bytes),
            )
            reply = session.await_reply(request_id)
            equal(
                "and answered as the REQUEST",
                value[:size],
                reply.results[1].value if reply.results else reply,
            )

        def first(size=200, offset=0, total=1000, request_id=None, **fields):
            """One PART of a REQUEST of `total` bytes; its Reply."""
            request_id = session.new_id() if request_id is None else request_id
            whole = session.whole(
                [put(b"part", b"x" * (total - HEADER_BYTES - 16))], request_id=request_id
            )
            session.send_part(
                fields.pop("total_bytes", len(whole)),
                offset,
                whole[offset : offset + size],
                request_id,
                **fields,
            )
            return session.await_reply(request_id)

        most = session.welcome.max_value_bytes + EXTRA
        statuses("a PART that is not the last: OK, count 0", "", first())
        refused(
            "one that leaves a gap: BAD_REQUEST",
            "BAD_REQUEST",
            first(offset=201, request_id=session.next_id - 1),
        )
        refused(
            "after that the right one, too: begin again",
            "BAD_REQUEST",
            first(offset=200, request_id=session.next_id - 1),
        )
        first()
        refused(
            "one that overlaps: BAD_REQUEST",
            "BAD_REQUEST",
            first(offset=199, request_id=session.next_id - 1),
        )
        first()
        refused("one with another request_id: BAD_REQUEST", "BAD_REQUEST", first(offset=200))
        first()
        refused(
            "one with another total_bytes: BAD_REQUEST",
            "BAD_REQUEST",
            first(offset=200, request_id=session.next_id - 1, total_bytes=999),
        )
        refused("one without a first: BAD_REQUEST", "BAD_REQUEST", first(offset=200))
        refused(
            "bytes beyond total_bytes: BAD_REQUEST", "BAD_REQUEST", first(size=200, total_bytes=199)
        )
        refused("no bytes: BAD_REQUEST", "BAD_REQUEST", first(size=0))
        for total in (1, 47, 48):
            refused(
                f"total_bytes {total}: BAD_REQUEST", "BAD_REQUEST", first(size=1, total_bytes=total)
            )
        statuses("total_bytes 49 is above 48", "", first(size=1, total_bytes=49))
        statuses("total_bytes max_value_bytes + 131,072 is taken", "", first(total_bytes=most))
        reply = first(total_bytes=most + 1)
        refused("one more: VALUE_TOO_BIG", "VALUE_TOO_BIG", reply)
        check(
            "and the sentence names the limit and the size",
            f"{most}" in reply.sentence and f"{most + 1}" in reply.sentence,
            reply,
        )
        reply = session.request([ping()] * 4097)
        refused("more than 4,096 operations in parts: BAD_REQUEST", "BAD_REQUEST", reply)
        check(
            "and the sentence names both numbers",
            "4096" in reply.sentence and "4097" in reply.sentence,
            reply,
        )
        refused(
            "total_bytes 2^32 - 1: VALUE_TOO_BIG", "VALUE_TOO_BIG", first(total_bytes=2**32 - 1)
        )
        statuses("offset 0 begins a new one in place of one that was not finished", "", first())
        statuses("and again", "", first())
        for text, cut in (("of 7 bytes", 7), ("without body", 0)):
            request_id = session.new_id()
            session.send_raw(
                (session.header(PART, request_id=request_id) + part_body(1000, 0, b""))[
                    : HEADER_BYTES + cut
                ]
            )
            refused(f"a PART {text}: BAD_REQUEST", "BAD_REQUEST", session.await_reply(request_id))
        whole_header_must_match(session)
        parts_have_no_deadline_of_their_own(session)


def whole_header_must_match(session):
    for text, fields in (
        ("session", {"session": session.session + 1}),
        ("secret", {"secret": 1}),
        ("request_id", {"request_id": 1}),
        ("magic", {"magic": b"MQKX"}),
        ("kind", None),
    ):
        request_id = session.new_id()
        whole = session.whole(
            [put(b"inner", b"1")], **({"request_id": request_id} | (fields or {}))
        )
        if fields is None:
            whole = session.header(BYE, request_id=request_id) + whole[HEADER_BYTES:]
        session.send_parts(whole, request_id, part_bytes=60)
        reply = session.await_reply(request_id)
        check(
            f"another {text} in the whole's header than REQUEST's: refused",
            reply.status in (S.BAD_REQUEST, S.UNSUPPORTED),
            reply,
        )
    equal("and not executed", "NOT_FOUND", session.get(b"inner").name)


def parts_have_no_deadline_of_their_own(session):
    request_id = session.new_id()
    whole = session.whole([put(b"part deadline", b"1")], request_id=request_id)
    session.send_part(
        len(whole), 0, whole[:50], request_id, deadline_ms=1, window=(2**32 - 1, 2**32 - 1)
    )
    answer = session.await_reply(request_id)
    equal("the deadline and window of a PART are not looked at", "OK", answer.name)
    session.send_part(len(whole), 50, whole[50:], request_id, deadline_ms=1, window=(1, 1))
    statuses("nor those of the last PART", "OK", session.await_reply(request_id))
    request_id = session.new_id()
    whole = session.whole([put(b"part deadline", b"2")], request_id=request_id, deadline_ms=1)
    session.send_parts(whole, request_id, part_bytes=60)
    refused("that of the whole is: DEADLINE", "DEADLINE", session.await_reply(request_id))
    equal("and it was not executed", b"1", session.get(b"part deadline").value)


@section("4.4")
def replies_in_parts(server):
    with server.session(depth=4, message_bytes=1024) as session:
        value = os.urandom(30000)
        session.one(put(b"kept", value))
        reply = session.request([get(b"kept"), ping(b"end")])
        check("a large reply comes in REPLY_PARTs", reply.parts > 1, reply)
        equal("whole", [value, b"end"], [result.value for result in reply.results])

        def keep():
            """Has the server keep a reply; its first piece is received. (request_id, bytes of the
            piece)."""
            request_id = session.post([get(b"kept")])
            piece = session.receive_for(request_id)
            equal("the first piece is a REPLY_PART", REPLY_PART, piece.header.kind)
            return request_id, decode_part(piece.body)

        def more(request_id, offset, **fields):
            session.send_more(request_id, offset, **fields)
            return session.await_reply(request_id) if fields.pop("whole", True) else None

        request_id, (total, offset, data) = keep()
        equal("it begins at 0", 0, offset)
        for text, wrong in (
            ("an offset before it", 0),
            ("an offset behind it", len(data) + 1),
            ("offset 2^32 - 1", 2**32 - 1),
        ):
            refused(f"MORE with {text}: BAD_REQUEST", "BAD_REQUEST", more(request_id, wrong))
        refused(
            "MORE for a reply that is not kept: BAD_REQUEST",
            "BAD_REQUEST",
            more(session.new_id(), len(data)),
        )
        refused(
            "MORE with a total that is not 0: BAD_REQUEST",
            "BAD_REQUEST",
            more(request_id, len(data), zero=total),
        )
        session.send_raw(session.header(MORE, request_id=request_id) + b"\0" * 7)
        refused("MORE of 7 bytes: BAD_REQUEST", "BAD_REQUEST", session.await_reply(request_id))
        session.send_raw(session.header(MORE, request_id=request_id))
        refused("MORE without a body: BAD_REQUEST", "BAD_REQUEST", session.await_reply(request_id))
        other_id, (_, _, other_data) = keep()
        refused(
            "a REQUEST whose results alone might need a third kept reply: OVERLOADED",
            "OVERLOADED",
            session.request([put(b"third", b"1")] + [ping()] * 200),
        )
        equal("it was not executed", "NOT_FOUND", next_small(server, b"third"))
        reply = session.request([put(b"fourth", b"1"), get(b"kept"), ping(b"x")])
        statuses(
            "a value that would need one: BUFFER_TOO_SMALL for its operation",
            "OK BUFFER_TOO_SMALL OK",
            reply,
        )
        for kept_id, piece in ((request_id, data), (other_id, other_data)):
            whole = piece
            while len(whole) < total:
                session.send_more(kept_id, len(whole))
                whole += decode_part(session.receive_for(kept_id).body)[2]
            equal(
                "the rest is fetched to its end",
                value,
                decode_results(whole[HEADER_BYTES:], 1)[0].value,
            )
        refused("MORE after the end: BAD_REQUEST", "BAD_REQUEST", more(request_id, total))
        equal("then there is room again", value, session.get(b"kept").value)


def next_small(server, key):
    with server.session() as session:
        return session.get(key).name


@section("4.5")
def segments(server):
    with server.session() as session:
        statuses(
            "VALUE_IN_SEGMENT without a segment: BAD_REQUEST for the operation",
            "BAD_REQUEST OK",
            session.request([put(b"s", value_bytes=5, segment_offset=0), ping()]),
        )
        statuses(
            "a window without a segment is of no use, and no error",
            "OK",
            session.request([ping(b"x")], window=(0, 4096)),
        )
        segment_errors(server, session)
        statuses("SEGMENT is answered by a REPLY without results", "", session.offer_segment(65536))
        segment_values(session)
        windows(session)
        old = session.segment
        session.segment = None
        statuses(
            "a later SEGMENT takes the place of the earlier one", "", session.offer_segment(8192)
        )
        session.segment[0:3] = b"new"
        session.request([put(b"s", value_bytes=3, segment_offset=0)])
        equal("for messages sent after its answer", b"new", session.get(b"s").value)
        statuses(
            "places of the old one are outside",
            "BAD_REQUEST",
            session.request([put(b"s", value_bytes=1, segment_offset=8192)]),
        )
        old.close()
    with server.session() as session:
        replies = [offer_when_free(session) for _ in range(40)]
        equal(
            "a segment that nothing uses gives way to the next, 40 times",
            {"OK"},
            {reply.name for reply in replies},
        )
        session.segment[0:2] = b"12"
        statuses(
            "and the last that was taken stays",
            "OK",
            session.request([put(b"s", value_bytes=2, segment_offset=0)]),
        )
    segment_that_shrinks(server)


def offer_when_free(session):
    """Offers a segment; once more after LIMIT, for a worker that has just answered may not have
    let go of the segments before."""
    reply = session.offer_segment(4096)
    if reply.name == "LIMIT":
        time.sleep(0.2)
        reply = session.offer_segment(4096)
    return reply


def segment_that_shrinks(server):
    for text, request in (
        ("a value in it", lambda: ([put(b"shrunk", value_bytes=60000, segment_offset=0)], (0, 0))),
        ("a window in it", lambda: ([get(b"large")], (0, 65536))),
    ):
        with server.session() as session:
            session.one(put(b"large", b"x" * 60000))
            session.offer_segment(65536)
            os.ftruncate(session.segment.fd, 0)
            operations, window = request()
            reply = session.request(operations, window=window)
            names = [reply.name] + [result.name for result in reply.results]
            check(
                f"a segment that was truncated, {text}: IO, or a place outside, or the value in "
                f"the message",
                names in (["IO"], ["OK", "BAD_REQUEST"], ["OK", "OK"]),
                str(names),
            )
            session.session = 0
        with server.session() as other:
            equal("and the server goes on", "OK", other.one(ping()).name)


def segment_errors(server, session):
    own = SharedMemory(session.segment_name(), 4096)
    for text, status, name, size, fields in (
        ("more bytes than the object has", "BAD_REQUEST", own.name, 4097, {}),
        ("0 bytes", "BAD_REQUEST", own.name, 0, {}),
        ("more than 4 GiB", "LIMIT", own.name, 2**32 + 1, {}),
        ("2^64 - 1 bytes", "LIMIT", own.name, 2**64 - 1, {}),
        ("name_bytes 0", "BAD_REQUEST", own.name, 4096, {"name_bytes": 0}),
        ("name_bytes beyond the message", "BAD_REQUEST", own.name, 4096, {"name_bytes": 255}),
        (
            "a name of another process",
            "BAD_REQUEST",
            own.name.replace(f"s{os.getpid()}.", f"s{os.getppid()}."),
            4096,
            {},
        ),
        ("the name of a queue", "BAD_REQUEST", session.queue_name, 4096, {}),
        ("a NUL in the name", "BAD_REQUEST", own.name.encode() + b"\0", 4096, {}),
        ("a name behind a slash", "BAD_REQUEST", own.name + "/x", 4096, {}),
    ):
        refused(
            f"SEGMENT with {text}: {status}", status, session.send_segment(name, size, **fields)
        )
    reply = session.send_segment(f"{server.name}.s{os.getpid()}.{next_number()}", 4096)
    check(
        "SEGMENT with a name that does not exist is refused",
        reply.status in (S.BAD_REQUEST, S.IO, S.DENIED),
        reply,
    )
    statuses(
        "bytes behind the fields of SEGMENT are ignored",
        "",
        session.send_segment(own.name, 4096, rest=b"later"),
    )
    own.close()


def segment_values(session):
    session.segment[100:105] = b"hello"
    for text, opcode in (("PUT", PUT), ("APPEND", APPEND), ("EXCHANGE", EXCHANGE)):
        session.one(delete(b"seg"))
        statuses(
            f"{text} takes its value from the segment",
            "OK",
            session.request([operation(opcode, b"seg", value_bytes=5, segment_offset=100)]),
        )
        equal("as it is there", b"hello", session.get(b"seg").value)
    equal("PING, too", b"hello", session.one(ping(value_bytes=5, segment_offset=100)).value)
    for offset, size, status in (
        (0, 65536, "OK"),
        (65535, 1, "OK"),
        (65536, 0, "OK"),
        (0, 0, "OK"),
        (65536, 1, "BAD_REQUEST"),
        (0, 65537, "BAD_REQUEST"),
        (2**32 - 1, 1, "BAD_REQUEST"),
        (2**32 - 1, 2**20, "BAD_REQUEST"),
        (65537, 0, "BAD_REQUEST"),
    ):
        statuses(
            f"value at {offset}, {size} bytes, of 65,536: {status}, and the next operation is "
            f"executed",
            f"{status} OK",
            session.request([put(b"seg", value_bytes=size, segment_offset=offset), ping()]),
        )


def windows(session):
    big, middle = os.urandom(5000), os.urandom(4097)
    session.request([put(b"big", big)])
    session.request([put(b"middle", middle)])
    reply = session.request([get(b"big"), get(b"middle"), ping(b"small")], window=(64, 60000))
    offsets = [result.offset for result in reply.results]
    equal(
        "values above 4,096 bytes come in the window, one behind the other at multiples of 8",
        [64, 64 + 5000, None],
        offsets,
    )
    equal("as they are", [big, middle, b"small"], [result.value for result in reply.results])
    reply = session.request([get(b"middle"), get(b"big")], window=(7, 60000))
    equal("an odd window begins at the next multiple of 8", 8, reply.results[0].offset)
    session.one(put(b"small", b"s" * 4096))
    equal(
        "one of 4,096 bytes comes in the message if it fits",
        None,
        session.one(get(b"small"), window=(0, 65536)).offset,
    )
    for window in (
        (65536, 4096),
        (65537, 1),
        (2**32 - 1, 1),
        (2**32 - 1, 2**32 - 1),
        (0, 0),
        (65536, 0),
        (40000, 0),
    ):
        before = bytes(session.segment[:])
        result = session.one(get(b"big"), window=window)
        check(
            f"a window {window} without a byte of the segment of 65,536: the value comes without "
            f"it",
            result.value == big and result.offset is None and bytes(session.segment[:]) == before,
            result,
        )
    for window in ((60000, 2**32 - 1), (0, 2**32 - 1), (0, 65537)):
        result = session.one(get(b"big"), window=window)
        check(
            f"a window {window} that goes on behind the end of the segment: its end is that of "
            f"the segment",
            result.value == big and (result.offset is None or result.offset + 5000 <= 65536),
            result,
        )
    result = session.one(get(b"big"), window=(0, 4999))
    check(
        "a window that is too small: the value comes without it",
        result.value == big and result.offset is None,
        result,
    )
    for _ in range(2):
        result = session.one(exchange(b"big", big), window=(0, 65536))
        check(
            "EXCHANGE gives the old value in the window",
            result.value == big and result.offset == 0 and result.found,
            result,
        )


@section("4.6")
def deadlines(server):
    with server.session() as session:
        refused(
            "a deadline that has passed: DEADLINE",
            "DEADLINE",
            session.request([put(b"late", b"1")], deadline_ms=1),
        )
        refused(
            "a second ago, too",
            "DEADLINE",
            session.request([put(b"late", b"1")], deadline_ms=now_ms() - 1000),
        )
        equal("and it was not executed", "NOT_FOUND", session.get(b"late").name)
        for text, deadline_ms in (
            ("0: no deadline", 0),
            ("in a minute", now_ms() + 60000),
            ("2^64 - 1", 2**64 - 1),
        ):
            statuses(
                f"deadline_ms {text}: executed",
                "OK",
                session.request([ping()], deadline_ms=deadline_ms),
            )
