"""Checks of PROTOCOL.md sections 2.1, 2.4, 6 and 7: versions, limits, and each operation."""
import json
import os
import time

from checks import check, equal, section, statuses
from mqkv_messages import (
    ATOMIC,
    CANONICAL,
    EXCHANGE,
    IF_ABSENT,
    IF_PRESENT,
    KEEP_EXPIRY,
    KEYS_ONLY,
    MAX_KEY_BYTES,
    POSITION_BYTES,
    OPCODE_NAMES,
    PUT,
    R_EXPIRY,
    R_FOUND,
    R_NO_VALUE,
    R_NUMBER,
    R_VERSION,
    SYNC_ALWAYS,
    TELL_TRANSACTIONS,
    SYNC_INTERVAL,
    TRANSACT,
    add,
    append,
    decode_outcome,
    decode_page,
    delete,
    exchange,
    exists,
    get,
    guard,
    operation,
    ping,
    put,
    scan,
    stats,
    sync,
    touch,
    transact,
    transaction,
    watch,
)

LATER_MS = 4102444800000  # 2100-01-01


def fresh(session, *keys):
    session.request([delete(key) for key in keys])


def shape(text, result, status, flags, **fields):
    """A result with exactly these flags and fields."""
    got = {name: getattr(result, name) for name in fields}
    check(
        text,
        (result.name, result.flags) == (status, flags) and got == fields,
        f"expected: {status}, flags {flags:#x}, {fields}\ngot:      {result!r}",
    )


@section("2.1")
def versions(server):
    with server.session() as session:
        seen = []
        key = b"versions"
        seen += [
            session.one(write).version
            for write in (
                put(key, b"1"),
                add(key, 1),
                append(key, b"0"),
                exchange(key, b"7"),
                touch(key, LATER_MS),
                touch(key),
                delete(key),
                put(key, b"2"),
                put(key, b"gone", expiry_ms=1),
            )
        ]
        equal("an entry that expires at once is gone", "NOT_FOUND", session.get(key).name)
        seen.append(session.one(put(key, b"3")).version)
        equal(
            "GET and EXISTS tell the entry's",
            [seen[-1]] * 2,
            [session.get(key).version, session.one(exists(key)).version],
        )
        if hasattr(server, "kill"):
            server.kill()
            server.start(*server.options)
            session.session = 0
    with server.session() as session:
        seen += [
            session.one(write).version for write in (put(key, b"4"), delete(key), put(key, b"5"))
        ]
        check(
            "versions of a key grow: over deletion, expiry and kill -9",
            seen == sorted(set(seen)) and seen[0] > 0,
            seen,
        )
        numbers = []
        for at in range(0, 2000, 100):
            reply = session.request([put(b"v%d" % number, b"x") for number in range(at, at + 100)])
            numbers += [result.version for result in reply.results]
        check("they are 1 .. 2^63 - 1", 1 <= min(numbers) and max(numbers) < 2**63, numbers)
        check(
            "they are not consecutive per key", session.one(put(key, b"6")).version > seen[-1] + 1
        )
        if not server.options:  # with several data files
            check("and not unique among keys", len(set(numbers)) < len(numbers), len(numbers))


@section("2.4")
def limits(server):
    with server.session() as session:
        most = session.welcome.max_value_bytes
        long_key = b"k" * MAX_KEY_BYTES
        equal("a key of 65,535 bytes", "OK", session.put(long_key, b"1").name)
        equal("is found", b"1", session.get(long_key).value)
        session.delete(long_key)
        for size in (0, 1, 4096, 4097, most - 1, most):
            value = os.urandom(size)
            equal(
                f"a value of {size:,} bytes",
                ["OK", value],
                [session.put(b"size", value).name, session.get(b"size").value],
            )
        equal(
            "a value of max_value_bytes + 1: VALUE_TOO_BIG",
            "VALUE_TOO_BIG",
            session.put(b"size", bytes(most + 1)).name,
        )
        equal("which changed nothing", most, session.one(exists(b"size")).value_bytes)
        equal(
            "PING of as much: VALUE_TOO_BIG",
            "VALUE_TOO_BIG",
            session.one(ping(bytes(most + 1))).name,
        )
        equal(
            "APPEND beyond it: VALUE_TOO_BIG",
            "VALUE_TOO_BIG",
            session.one(append(b"size", b"1")).name,
        )
        equal(
            "EXCHANGE beyond it: VALUE_TOO_BIG",
            "VALUE_TOO_BIG",
            session.one(exchange(b"size", bytes(most + 1))).name,
        )
        fresh(session, b"size")


@section("7.1")
def get_and_exists(server):
    with server.session() as session:
        fresh(session, b"g")
        shape("GET of no entry", session.get(b"g"), "NOT_FOUND", 0, value=b"")
        shape("EXISTS of no entry", session.one(exists(b"g")), "NOT_FOUND", 0, value=b"")
        version = session.put(b"g", b"value").version
        shape(
            "GET: v and the value",
            session.get(b"g"),
            "OK",
            R_VERSION,
            version=version,
            value=b"value",
        )
        shape(
            "EXISTS: v, NO_VALUE and the size",
            session.one(exists(b"g")),
            "OK",
            R_VERSION | R_NO_VALUE,
            version=version,
            value_bytes=5,
        )
        version = session.one(put(b"g", b"", expiry_ms=LATER_MS)).version
        shape(
            "GET of an entry that expires: v, e, the value",
            session.get(b"g"),
            "OK",
            R_VERSION | R_EXPIRY,
            version=version,
            expiry_ms=LATER_MS,
            value=b"",
        )
        shape(
            "EXISTS of it: v, e, NO_VALUE",
            session.one(exists(b"g")),
            "OK",
            R_VERSION | R_EXPIRY | R_NO_VALUE,
            expiry_ms=LATER_MS,
            value_bytes=0,
        )
        key = bytes(range(256))
        session.put(key, key)
        equal("keys and values are any bytes", key, session.get(key).value)
    with server.session(depth=1, message_bytes=128) as session:
        session.put(b"g2", b"w" * 5000)
        equal(
            "a value larger than the reply queue's messages comes in parts",
            b"w" * 5000,
            session.get(b"g2").value,
        )


@section("7.3")
def put_conditions(server):
    with server.session() as session:
        for opcode, call in ((PUT, put), (EXCHANGE, exchange)):
            name = OPCODE_NAMES[opcode]
            fresh(session, b"p")
            outcome = [
                session.one(call(b"p", b"1", IF_PRESENT)).name,
                session.one(call(b"p", b"1", version=5)).name,
            ]
            equal(
                f"{name} with IF_PRESENT, with HAS_VERSION, and no entry: NOT_FOUND",
                ["NOT_FOUND"] * 2,
                outcome,
            )
            first = session.one(call(b"p", b"1", IF_ABSENT))
            equal("with IF_ABSENT and no entry: OK", "OK", first.name)
            shape(
                "with IF_ABSENT and an entry: EXISTS",
                session.one(call(b"p", b"2", IF_ABSENT)),
                "EXISTS",
                0,
            )
            equal(
                "with IF_PRESENT and an entry: OK",
                "OK",
                session.one(call(b"p", b"3", IF_PRESENT)).name,
            )
            equal(
                "with another version: VERSION_MISMATCH",
                "VERSION_MISMATCH",
                session.one(call(b"p", b"4", version=first.version)).name,
            )
            equal("which changed nothing", b"3", session.get(b"p").value)
            equal(
                "with its version: OK",
                "OK",
                session.one(call(b"p", b"5", version=session.get(b"p").version)).name,
            )
            for version in (1 << 63, 2**64 - 1):
                equal(
                    f"with version {version}: VERSION_MISMATCH",
                    "VERSION_MISMATCH",
                    session.one(call(b"p", b"6", version=version)).name,
                )
            session.one(call(b"p", b"7", expiry_ms=LATER_MS))
            session.one(call(b"p", b"8", KEEP_EXPIRY))
            equal("KEEP_EXPIRY keeps it", LATER_MS, session.get(b"p").expiry_ms)
            session.one(call(b"p", b"9", expiry_ms=0))
            equal("expiry_ms 0: never", None, session.get(b"p").expiry_ms)
            session.one(call(b"p", b"9", expiry_ms=LATER_MS))
            session.one(call(b"p", b"9"))
            equal("without both the entry never expires", None, session.get(b"p").expiry_ms)
            equal(
                "a time that has passed: OK",
                "OK",
                session.one(call(b"p", b"9", expiry_ms=1000)).name,
            )
            equal("and the entry is gone at once", "NOT_FOUND", session.get(b"p").name)
            equal("so IF_ABSENT holds", "OK", session.one(call(b"p", b"9", IF_ABSENT)).name)
            for flag in (SYNC_INTERVAL, SYNC_ALWAYS):
                shape(
                    f"with flag {flag:#x}: v",
                    session.one(call(b"p", b"9", flag)),
                    "OK",
                    R_VERSION | (R_FOUND if opcode == EXCHANGE else 0),
                    value=b"9" if opcode == EXCHANGE else b"",
                )
        soon = int(time.time() * 1000) + 150
        session.one(put(b"p", b"soon", expiry_ms=soon))
        before = session.get(b"p").name
        check(
            "an entry is there until its time", before == "OK" or time.time() * 1000 >= soon, before
        )
        time.sleep(max(soon / 1000 - time.time(), 0) + 0.05)
        equal("and gone then", "NOT_FOUND", session.get(b"p").name)


@section("7.4")
def delete_operation(server):
    with server.session() as session:
        fresh(session, b"d")
        shape("no entry", session.delete(b"d"), "NOT_FOUND", 0)
        version = session.put(b"d", b"1").version
        equal(
            "another version: VERSION_MISMATCH",
            "VERSION_MISMATCH",
            session.one(delete(b"d", version=version + 1)).name,
        )
        result = session.one(delete(b"d", SYNC_ALWAYS, version=version))
        check(
            "OK: v, the version of the deletion, above that of the entry",
            result.name == "OK" and result.flags == R_VERSION and result.version > version,
            result,
        )
        equal(
            "with HAS_VERSION and no entry: NOT_FOUND",
            "NOT_FOUND",
            session.one(delete(b"d", version=version)).name,
        )


@section("7.5")
def add_operation(server):
    least, most = -(2**63), 2**63 - 1
    with server.session() as session:
        fresh(session, b"n")
        shape("no entry, no CREATE", session.one(add(b"n", 1)), "NOT_FOUND", 0)
        result = session.one(add(b"n", -3, initial=10))
        shape(
            "CREATE: an absent key counts as initial", result, "OK", R_VERSION | R_NUMBER, number=7
        )
        equal("the sum is stored as a decimal", b"7", session.get(b"n").value)
        equal(
            "with an entry initial is not looked at",
            8,
            session.one(add(b"n", 1, initial=100)).number,
        )
        for delta, bounds, status, number in (
            (5, (0, 13), "OK", 13),
            (1, (0, 13), "OUT_OF_BOUNDS", 13),
            (-14, (0, 13), "OUT_OF_BOUNDS", 13),
            (0, (14, 20), "OUT_OF_BOUNDS", 13),
            (0, (13, 13), "OK", 13),
        ):
            result = session.one(add(b"n", delta, bounds=bounds))
            check(
                f"13 or less + {delta} within {bounds}: {status}",
                (result.name, result.number) == (status, number),
                result,
            )
        for start, delta, status, number in (
            (most, 1, "OUT_OF_BOUNDS", most),
            (least, -1, "OUT_OF_BOUNDS", least),
            (most - 1, 1, "OK", most),
            (least + 1, -1, "OK", least),
            (most, least, "OK", -1),
            (0, least, "OK", least),
        ):
            session.put(b"n", b"%d" % start)
            result = session.one(add(b"n", delta))
            check(
                f"{start} + {delta}: {status}, {number}",
                (result.name, result.number) == (status, number),
                result,
            )
        for text in (
            b"",
            b"-",
            b"+1",
            b" 1",
            b"1 ",
            b"1.0",
            b"0x1",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"1" * 20,
            b"a",
            b"1\0",
            b"--1",
            b"0" * 19 + b"1",
            b"-" + b"0" * 19 + b"1",
        ):
            session.put(b"n", text)
            result = session.one(add(b"n", 1))
            check(
                f"the value {text!r}: NOT_A_NUMBER",
                (result.name, result.flags) == ("NOT_A_NUMBER", 0),
                result,
            )
        for text, sum_ in (
            (b"-17", -16),
            (b"0", 1),
            (b"007", 8),
            (b"-0", 1),
            (b"0" * 18 + b"1", 2),
            (b"-" + b"0" * 18 + b"1", 0),
            (b"9223372036854775806", most),
            (b"-9223372036854775808", least + 1),
        ):
            session.put(b"n", text)
            result = session.one(add(b"n", 1))
            check(
                f"the value {text!r} + 1: {sum_}",
                (result.name, result.number) == ("OK", sum_),
                result,
            )
        for text, status in (
            (b"0", "OK"),
            (b"-1", "OK"),
            (b"10", "OK"),
            (b"-9223372036854775808", "OK"),
            (b"00", "NOT_A_NUMBER"),
            (b"007", "NOT_A_NUMBER"),
            (b"-0", "NOT_A_NUMBER"),
            (b"-01", "NOT_A_NUMBER"),
            (b"-", "NOT_A_NUMBER"),
            (b"", "NOT_A_NUMBER"),
        ):
            session.put(b"n", text)
            result = session.one(add(b"n", 1, CANONICAL))
            equal(f"CANONICAL, the value {text!r}: {status}", status, result.name)
        session.one(put(b"n", b"1", expiry_ms=LATER_MS))
        session.one(add(b"n", 1, expiry_ms=LATER_MS + 1))
        equal("the entry keeps its expiry", LATER_MS, session.get(b"n").expiry_ms)
        fresh(session, b"n")
        session.one(add(b"n", 1, expiry_ms=LATER_MS, initial=0))
        equal("HAS_EXPIRY is for one that CREATE makes", LATER_MS, session.get(b"n").expiry_ms)
        fresh(session, b"n")
        equal(
            "CREATE out of the bounds: OUT_OF_BOUNDS",
            "OUT_OF_BOUNDS",
            session.one(add(b"n", 5, bounds=(0, 3), initial=0)).name,
        )
        equal("and nothing is made", "NOT_FOUND", session.get(b"n").name)


@section("7.6")
def append_operation(server):
    with server.session() as session:
        fresh(session, b"ap")
        shape(
            "an absent key counts as empty",
            session.one(append(b"ap", b"abc")),
            "OK",
            R_VERSION | R_NUMBER,
            number=3,
        )
        shape(
            "number: the new size",
            session.one(append(b"ap", b"de", SYNC_INTERVAL)),
            "OK",
            R_VERSION | R_NUMBER,
            number=5,
        )
        shape(
            "0 bytes are appended",
            session.one(append(b"ap", b"")),
            "OK",
            R_VERSION | R_NUMBER,
            number=5,
        )
        equal("the value", b"abcde", session.get(b"ap").value)
        session.one(touch(b"ap", LATER_MS))
        session.one(append(b"ap", b"f"))
        equal("the entry keeps its expiry", LATER_MS, session.get(b"ap").expiry_ms)


@section("7.7")
def exchange_operation(server):
    with server.session() as session:
        fresh(session, b"x")
        shape(
            "an absent key is created, without FOUND",
            session.one(exchange(b"x", b"1")),
            "OK",
            R_VERSION,
            value=b"",
        )
        version = session.get(b"x").version
        result = session.one(exchange(b"x", b"2"))
        shape("then: v, FOUND, the old value", result, "OK", R_VERSION | R_FOUND, value=b"1")
        check(
            "v is the new version",
            result.version > version and result.version == session.get(b"x").version,
            result,
        )
        session.put(b"x", b"")
        shape(
            "an old value of 0 bytes has FOUND",
            session.one(exchange(b"x", b"3")),
            "OK",
            R_VERSION | R_FOUND,
            value=b"",
        )
        value = os.urandom(20000)
        session.put(b"x", value)
        equal("a large old value comes whole", value, session.one(exchange(b"x", b"4")).value)
        equal("and the new one is there", b"4", session.get(b"x").value)


@section("7.8")
def touch_operation(server):
    with server.session() as session:
        fresh(session, b"t")
        shape("no entry", session.one(touch(b"t", LATER_MS)), "NOT_FOUND", 0)
        version = session.put(b"t", b"1").version
        result = session.one(touch(b"t", LATER_MS))
        check(
            "OK: v, the new version",
            result.name == "OK" and result.flags == R_VERSION and result.version > version,
            result,
        )
        equal("the expiry is set", LATER_MS, session.get(b"t").expiry_ms)
        session.one(touch(b"t"))
        equal("without HAS_EXPIRY: never", None, session.get(b"t").expiry_ms)
        session.one(touch(b"t", LATER_MS))
        session.one(touch(b"t", 0))
        equal("with 0: never", None, session.get(b"t").expiry_ms)
        equal("the value stays", b"1", session.get(b"t").value)
        equal(
            "a time that has passed",
            ["OK", "NOT_FOUND"],
            [session.one(touch(b"t", 1)).name, session.get(b"t").name],
        )


@section("7.9")
def scan_operation(server):
    with server.session() as session:
        keys = {b"scan:%03d" % number: b"v%d" % number for number in range(300)}
        for at in range(0, 300, 50):
            session.request([put(key, value) for key, value in list(keys.items())[at : at + 50]])
        session.one(put(b"scan:000", b"v0", expiry_ms=LATER_MS))
        for limit in (0, 1, 7, 300, 2**32 - 1):
            entries = session.scan_all(b"scan:", limit)
            equal(
                f"all entries come exactly once, limit {limit}",
                sorted(keys.items()),
                sorted((entry.key, entry.value) for entry in entries),
            )
        equal(
            "entries tell version and expiry",
            [LATER_MS],
            [entry.expiry_ms for entry in entries if entry.expiry_ms],
        )
        check(
            "the version is that of GET",
            all(entry.version == session.get(entry.key).version for entry in entries[:10]),
        )
        only = session.scan_all(b"scan:", 0, KEYS_ONLY)
        equal(
            "KEYS_ONLY leaves values out",
            (set(keys), {0}),
            ({entry.key for entry in only}, {entry.value_bytes for entry in only}),
        )
        equal(
            "ATOMIC gives the same entries",
            set(keys),
            {entry.key for entry in session.scan_all(b"scan:", 0, ATOMIC)},
        )
        equal("a prefix that nothing has", [], session.scan_all(b"scan:x"))
        equal(
            "the empty prefix is for all",
            True,
            set(keys) <= {entry.key for entry in session.scan_all()},
        )
        scan_cursors(session, len(keys))
    with server.session(depth=1, message_bytes=128) as session:
        equal(
            "pages fit small reply queues, too",
            set(keys),
            {
                entry.key
                for entry in session.scan_all(b"scan:0")
                + session.scan_all(b"scan:1")
                + session.scan_all(b"scan:2")
            },
        )


def scan_cursors(session, count):
    page = session.one(scan(b"scan:", 0, 10))
    shape("a page has number, the cursor, and the entries", page, "OK", R_NUMBER)
    check("at most limit entries", len(page.entries) <= 10, page)
    again = session.one(scan(b"scan:", page.next_cursor, 10))
    equal(
        "a cursor is valid again",
        again.value,
        session.one(scan(b"scan:", page.next_cursor, 10)).value,
    )
    shape(
        "a cursor behind the last data file: BAD_REQUEST",
        session.one(scan(b"", 2**64 - 1)),
        "BAD_REQUEST",
        0,
    )
    wrong = [session.one(scan(b"", 0x123456789ABCD * number)).name for number in range(1, 100)]
    check(
        "most cursors that no scan gave are refused, none does harm",
        wrong.count("BAD_REQUEST") > 50 and set(wrong) <= {"OK", "BAD_REQUEST"},
        wrong,
    )
    seen, cursor = [], 0
    while True:
        page = session.one(scan(b"scan:", cursor, 0, ATOMIC))
        seen += [entry.key for entry in page.entries]
        if page.status or not page.next_cursor:
            break
        cursor = page.next_cursor
    equal("ATOMIC from cursor to cursor", (0, count), (page.status, len(set(seen))))
    first = session.one(scan(b"scan:", 0, 1))
    inside = session.one(scan(b"scan:", first.next_cursor, 0, ATOMIC))
    shape("ATOMIC with a cursor inside of a file: BAD_REQUEST", inside, "BAD_REQUEST", 0)


@section("7.10")
def stats_operation(server):
    with server.session() as session:
        result = session.one(stats())
        everything = json.loads(result.value)
        equal("one JSON object", (dict, 0), (type(everything), result.flags))
        for name in everything:
            part = session.one(stats(name.encode()))
            equal(f"section {name}", ("OK", dict), (part.name, type(json.loads(part.value))))
        for name in (b"no such section", b"\xff\xfe", b"s" * 60000):
            shape(f"section {name[:20]!r}: NOT_FOUND", session.one(stats(name)), "NOT_FOUND", 0)


@section("7.11")
def ping_and_sync(server):
    with server.session() as session:
        for size in (0, 1, 4096, 100000):
            value = os.urandom(size)
            shape(f"PING gives back {size} bytes", session.one(ping(value)), "OK", 0, value=value)
        session.put(b"sync", b"1")
        shape("SYNC", session.one(sync()), "OK", 0, value=b"")
        statuses(
            "writes and SYNC in one message",
            "OK OK OK",
            session.request([put(b"sync", b"2", SYNC_ALWAYS), sync(), get(b"sync")]),
        )


def watched(session, positions, enough, prefix=b"watch:", flags=0):
    """Changes until `enough` says so, and the positions behind them."""
    changes = []
    until = time.monotonic() + 30
    while not enough(changes) and time.monotonic() < until:
        result = session.one(watch(positions, prefix, wait_ms=1000, flags=flags), timeout=30)
        if result.status:
            raise RuntimeError(f"watch: {result!r}")
        if result.number == 0:
            positions = result.value
            continue
        end, page = decode_page(result.value)
        at = (result.number - 1) * POSITION_BYTES
        positions = positions[:at] + end + positions[at + POSITION_BYTES :]
        changes += page
    return changes, positions


@section("7.15")
def watch_operation(server):
    with server.session() as session, server.session() as other:
        begin = session.one(watch()).value
        check("no positions: those of now", begin and len(begin) % POSITION_BYTES == 0, begin)
        shape("nothing since", session.one(watch(begin)), "OK", R_NUMBER, number=0, value=begin)
        other.request([put(b"watch:a", b"1"), put(b"else", b"x"), put(b"watch:a", b"2")])
        other.one(put(b"watch:b", b"3", expiry_ms=int(time.time() * 1000) + 50))
        other.one(delete(b"watch:a"))
        changes, positions = watched(session, begin, lambda found: len(found) >= 5)
        equal(
            "each change comes once, those of a key in their order",
            [("put", b"1"), ("put", b"2"), ("delete", b"")],
            [(change.kind, change.value) for change in changes if change.key == b"watch:a"],
        )
        equal(
            "what has expired comes as expired",
            ["put", "expire"],
            [change.kind for change in changes if change.key == b"watch:b"],
        )
        check(
            "versions of a key ascend",
            all(
                first.version < then.version
                for first in changes
                for then in changes[changes.index(first) + 1 :]
                if first.key == then.key
            ),
        )
        waiting = session.post([watch(positions, b"watch:", wait_ms=20000)])
        time.sleep(0.1)
        other.one(put(b"watch:c", b"4"))
        answer = session.await_reply(waiting, 30)
        page = decode_page(answer.results[0].value)[1]
        equal("a request that waits is answered", [b"watch:c"], [change.key for change in page])
        equal(
            "KEYS_ONLY leaves values out",
            {b""},
            {
                change.value
                for change in decode_page(session.one(watch(begin, flags=KEYS_ONLY)).value)[1]
            },
        )
        wrong = session.request([watch(begin[:-1]), watch(bytes(len(begin))), watch(begin + begin)])
        statuses("positions that are none", "BAD_REQUEST MISSED MISSED", wrong)
        begin = session.one(watch()).value
        keys = [b"watch:t%d" % i for i in range(12)]
        other.one(transact([], [put(key, b"1") for key in keys]))
        other.one(put(keys[0], b"2"))
        for flags in (TELL_TRANSACTIONS, 0):
            changes = watched(session, begin, lambda found: len(found) >= 13, flags=flags)[0]
            alone = [change for change in changes if change.value == b"2"]
            check(
                "a change of its own belongs to no transaction",
                [(change.goes_on, change.transaction) for change in alone] == [(False, 0)],
                alone,
            )
            parts = [change for change in changes if change not in alone]
            told = sorted(change.key for change in parts)
            equal("each change of a transaction comes once", sorted(keys), told)
            ends = sum(not change.goes_on for change in parts)
            if not flags:
                equal("nobody is told who has not asked", 12, ends)
                continue
            files = len(begin) // POSITION_BYTES
            check("a transaction has a part in a data file at most", 1 <= ends <= files, ends)
            check(
                "parts in several files have one number, and know how many they are",
                {(change.transaction > 0, change.parts) for change in parts}
                == {(ends > 1, ends if ends > 1 else 0)}
                and len({change.transaction for change in parts}) == 1,
                parts,
            )


VERSION_GUARD, PRESENT, ABSENT, VALUE_GUARD = 1, 2, 3, 4


def tried(session, *lists, **fields):
    """The result of a TRANSACT, and its outcome."""
    result = session.one(transact(*lists, **fields))
    return result, decode_outcome(result.value)


@section("7.16")
def transact_operation(server):
    with server.session() as session:
        fresh(session, b"t:a", b"t:b", b"t:n", b"t:none")
        version = session.one(put(b"t:a", b"1")).version
        result, outcome = tried(
            session,
            [
                guard(VERSION_GUARD, b"t:a", version=version),
                guard(VERSION_GUARD, b"t:none", version=0),
                guard(PRESENT, b"t:a"),
                guard(ABSENT, b"t:b"),
                guard(VALUE_GUARD, b"t:a", b"1"),
            ],
            [
                put(b"t:b", b"2"),
                add(b"t:n", 5, initial=1, bounds=(0, 10)),
                append(b"t:a", b"0"),
                get(b"t:a"),
                exists(b"t:a"),
                get(b"t:b"),
                touch(b"t:none"),
                delete(b"t:none2"),
            ],
            [put(b"t:otherwise")],
            flags=SYNC_ALWAYS,
        )
        equal("the list then is done", (0, 0, 0), (result.status, outcome.list, outcome.about))
        steps = outcome.results
        equal(
            "each step has its result",
            "OK OK OK OK OK NOT_FOUND NOT_FOUND NOT_FOUND",
            " ".join(step.name for step in steps),
        )
        equal("with numbers", [6, 2], [steps[1].number, steps[2].number])
        shape("reads see what was before", steps[3], "OK", R_VERSION, version=version, value=b"1")
        shape("EXISTS, too", steps[4], "OK", R_VERSION | R_NO_VALUE, value_bytes=1)
        equal("the writes are there", b"10", session.one(get(b"t:a")).value)
        equal("the others not", 1, session.one(get(b"t:otherwise")).status)

        result, outcome = tried(
            session,
            [guard(PRESENT, b"t:a"), guard(ABSENT, b"t:a")],
            [put(b"t:then")],
            [get(b"t:a"), delete(b"t:b")],
        )
        found = (result.status, outcome.list, outcome.guard)
        equal("the second guard does not hold", (0, 1, 1), found)
        equal("so otherwise is done", ["OK", "OK"], [step.name for step in outcome.results])
        result, outcome = tried(session)
        found = (result.status, outcome.list, outcome.results)
        equal("nothing is a transaction, too", (0, 0, []), found)

        result, outcome = tried(
            session, [], [put(b"t:then"), add(b"t:n", 5, bounds=(0, 10))], [get(b"t:a")]
        )
        equal(
            "a bound that does not hold is named",
            ("OUT_OF_BOUNDS", 0, 2, 1, 6),
            (result.name, outcome.list, outcome.about, outcome.at, outcome.results[0].number),
        )
        result, outcome = tried(session, [], [], [put(b"t:then"), put(b"t:then")])
        equal(
            "a key is written once, in the list that is not done, too",
            ("USAGE", 1, 2, 1),
            (result.name, outcome.list, outcome.about, outcome.at),
        )
        equal("nothing has changed", 1, session.one(get(b"t:then")).status)

        wrong = [
            ("an unknown kind", transaction([guard(5, b"k")]), "UNSUPPORTED", 1),
            ("a reserved byte", transaction([guard(2, b"k", reserved=1)]), "UNSUPPORTED", 1),
            ("a guard without a key", transaction([guard(2, b"")]), "BAD_REQUEST", 1),
            ("a value that no kind has", transaction([guard(2, b"k", b"v")]), "BAD_REQUEST", 1),
            ("a condition", transaction([], [put(b"k", b"v", IF_ABSENT)]), "UNSUPPORTED", 2),
            ("a durability", transaction([], [put(b"k", b"v", SYNC_ALWAYS)]), "UNSUPPORTED", 2),
            ("an operation that is no step", transaction([], [exchange(b"k")]), "UNSUPPORTED", 2),
            ("a step that is cut off", transaction([], [get(b"k")[:-1]]), "BAD_REQUEST", 2),
            ("reserved bytes", transaction(reserved=1), "UNSUPPORTED", 0),
            ("too many steps", transaction([], [get(b"k")] * 129), "BAD_REQUEST", 0),
            ("bytes behind the last", transaction([], [get(b"k")]) + b"x", "BAD_REQUEST", 0),
        ]
        for text, value, status, about in wrong:
            result = session.one(operation(TRANSACT, b"", value))
            found = (result.name, decode_outcome(result.value).about)
            equal(text + " is refused", (status, about), found)
        result, outcome = tried(session, [], [get(b"k")] * 128)
        equal("128 are not too many", (0, 128), (result.status, len(outcome.results)))
