"""What PROTOCOL.md says about bytes: constants, headers, operations, results. See mqkv.py."""
import collections
import struct

# Constants of the document ------------------------------------------------------------------------

MAGIC = b"MQKV"
VERSION = 1
HEADER_BYTES = 48
MAX_OPERATIONS = 4096
MAX_KEY_BYTES = 65535
PARTS_EXTRA_BYTES = 131072

HELLO, WELCOME, REFUSED, REQUEST, REPLY, BYE, SEGMENT, PART, REPLY_PART, MORE = range(1, 11)
KIND_NAMES = dict(
    enumerate("HELLO WELCOME REFUSED REQUEST REPLY BYE SEGMENT PART REPLY_PART MORE".split(), 1)
)

GET, EXISTS, PUT, DELETE, ADD, APPEND, EXCHANGE, TOUCH, SCAN, STATS, PING, SYNC = range(1, 13)
OPCODE_NAMES = dict(
    enumerate("GET EXISTS PUT DELETE ADD APPEND EXCHANGE TOUCH SCAN STATS PING SYNC".split(), 1)
)
WATCH, TRANSACT = 15, 16
RANGE, RANGE_COUNT, RANGE_DELETE = 17, 18, 19
REVERSE, BEHIND = 0x0001, 0x0002  # ways of a range

# Flags of an operation.
HAS_EXPIRY, HAS_VERSION, IF_ABSENT, IF_PRESENT = 0x0001, 0x0002, 0x0004, 0x0008
HAS_BOUNDS, CREATE, KEEP_EXPIRY, VALUE_IN_SEGMENT = 0x0010, 0x0020, 0x0040, 0x0080
SYNC_INTERVAL, SYNC_ALWAYS, KEYS_ONLY, ATOMIC = 0x0100, 0x0200, 0x0400, 0x0800
CANONICAL, GIVE_VERSION, TELL_TRANSACTIONS = 0x1000, 0x2000, 0x4000

# Flags of a result.
R_VERSION, R_EXPIRY, R_NUMBER, R_IN_SEGMENT, R_NO_VALUE, R_FOUND = (
    0x01,
    0x02,
    0x04,
    0x08,
    0x10,
    0x20,
)

W_PRIORITY = 0x0001  # flag of WELCOME
GUEST_LANES = 0x0001  # ability in HELLO
MOVED = 0x0001  # flag of a REPLY's header: begin another session, which gets another lane
FIRST_PRIORITY = (
    32767  # of a message that nobody is to overtake: HELLO, and what goes to a guest lane
)

STATUS_NAMES = dict(
    enumerate(
        """OK NOT_FOUND EXISTS VERSION_MISMATCH OUT_OF_BOUNDS NOT_A_NUMBER BAD_KEY
    VALUE_TOO_BIG BUFFER_TOO_SMALL BAD_REQUEST UNSUPPORTED DENIED USAGE NO_SPACE READ_ONLY CORRUPT
    IO NOT_DURABLE NO_MEMORY BUSY MISMATCH OVERLOADED DEADLINE TIMEOUT NO_SERVER OUTCOME_UNKNOWN
    LIMIT NO_SESSION CROWDED FULL QUOTA MISSED APART""".split()
    )
)
S = collections.namedtuple("Statuses", STATUS_NAMES.values())(*STATUS_NAMES)

FLAGS_OF_OPERATION = {
    GET: 0,
    EXISTS: 0,
    PUT: HAS_EXPIRY
    | KEEP_EXPIRY
    | HAS_VERSION
    | IF_ABSENT
    | IF_PRESENT
    | VALUE_IN_SEGMENT
    | SYNC_INTERVAL
    | SYNC_ALWAYS
    | GIVE_VERSION,
    DELETE: HAS_VERSION | SYNC_INTERVAL | SYNC_ALWAYS,
    ADD: HAS_EXPIRY | HAS_BOUNDS | CREATE | CANONICAL | SYNC_INTERVAL | SYNC_ALWAYS,
    APPEND: VALUE_IN_SEGMENT | SYNC_INTERVAL | SYNC_ALWAYS,
    EXCHANGE: HAS_EXPIRY
    | KEEP_EXPIRY
    | HAS_VERSION
    | IF_ABSENT
    | IF_PRESENT
    | VALUE_IN_SEGMENT
    | SYNC_INTERVAL
    | SYNC_ALWAYS,
    TOUCH: HAS_EXPIRY | SYNC_INTERVAL | SYNC_ALWAYS,
    SCAN: KEYS_ONLY | ATOMIC,
    STATS: 0,
    PING: VALUE_IN_SEGMENT,
    SYNC: 0,
}


# Failures -----------------------------------------------------------------------------------------


class Failure(Exception):
    """Of a session; the subclasses tell which."""


class Violation(Failure):
    """The server sent what the document does not allow."""


class NoServer(Failure):
    """Nobody serves the name."""


class ServerGone(Failure):
    """The server died or stopped: what became of requests in flight is unknown."""


class Timeout(Failure):
    """No answer, or no room, in time."""


class Refused(Failure):
    """REFUSED came instead of WELCOME."""

    def __init__(self, status, sentence):
        super().__init__(f"{STATUS_NAMES.get(status, status)}: {sentence}")
        self.status = status
        self.sentence = sentence


# Headers ------------------------------------------------------------------------------------------

_HEADER = "<4sBBHIHHQQQII"
Header = collections.namedtuple(
    "Header",
    """magic version kind status session count flags request_id secret
                                             deadline_ms window_offset window_bytes""",
)


def header(
    kind,
    *,
    magic=MAGIC,
    version=VERSION,
    status=0,
    session=0,
    count=0,
    flags=0,
    request_id=0,
    secret=0,
    deadline_ms=0,
    window=(0, 0),
):
    return struct.pack(
        _HEADER,
        magic,
        version,
        kind,
        status,
        session,
        count,
        flags,
        request_id,
        secret,
        deadline_ms,
        *window,
    )


def decode_header(message):
    """Only cuts it up; Message checks."""
    if len(message) < HEADER_BYTES:
        raise Violation(f"a message of {len(message)} bytes has no header")
    return Header(*struct.unpack_from(_HEADER, message))


class Message:
    """A message of the server, its header checked."""

    def __init__(self, message):
        self.header = decode_header(message)
        self.body = message[HEADER_BYTES:]
        head = self.header
        if head.magic != MAGIC or head.version != VERSION:
            raise Violation(f"magic {head.magic!r}, version {head.version}")
        if head.kind not in (WELCOME, REFUSED, REPLY, REPLY_PART):
            raise Violation(f"kind {head.kind} from the server")
        if head.deadline_ms or head.window_offset or head.window_bytes:
            raise Violation(f"fields that are 0 in answers are not: {head}")
        if head.flags & ~(MOVED if head.kind == REPLY else 0):
            raise Violation(f"flags {head.flags:#x} in {KIND_NAMES[head.kind]}")
        if head.status and head.kind not in (REFUSED, REPLY):
            raise Violation(f"status {head.status} in {KIND_NAMES[head.kind]}")
        if head.count and (head.kind != REPLY or head.status):
            raise Violation(f"count {head.count} in {KIND_NAMES[head.kind]}, status {head.status}")
        if head.count > MAX_OPERATIONS:
            raise Violation(f"count {head.count}")
        if head.kind == REFUSED and (head.session or not head.status):
            raise Violation(f"REFUSED with session {head.session}, status {head.status}")

    def __repr__(self):
        return f"{KIND_NAMES[self.header.kind]} {self.header} {self.body!r}"


# Operations ---------------------------------------------------------------------------------------


def operation(
    opcode,
    key=b"",
    value=b"",
    flags=0,
    *,
    expiry_ms=None,
    version=None,
    delta=None,
    bounds=None,
    initial=None,
    cursor=None,
    limit=None,
    segment_offset=None,
    key_bytes=None,
    value_bytes=None,
    reserved8=0,
    reserved16=0,
):
    """The bytes of an operation.

    A field that is given sets its flag (expiry_ms: HAS_EXPIRY, ...); flags adds others, also wrong
    ones, whose fields are then missing. segment_offset: the value is there, value_bytes tells how
    long it is. key_bytes, value_bytes and the reserved fields can be set to what does not fit.
    """
    fields = b""
    if expiry_ms is not None:
        flags |= HAS_EXPIRY
        fields += struct.pack("<Q", expiry_ms)
    if version is not None:
        flags |= HAS_VERSION
        fields += struct.pack("<Q", version)
    if delta is not None:
        fields += struct.pack("<q", delta)
    if bounds is not None:
        flags |= HAS_BOUNDS
        fields += struct.pack("<qq", *bounds)
    if initial is not None:
        flags |= CREATE
        fields += struct.pack("<q", initial)
    if cursor is not None:
        fields += struct.pack("<QI", cursor, limit or 0)
    if segment_offset is not None:
        flags |= VALUE_IN_SEGMENT
        value = struct.pack("<I", segment_offset)
    elif value_bytes is None:
        value_bytes = len(value)
    return (
        struct.pack(
            "<BBHHHI",
            opcode,
            reserved8,
            flags,
            len(key) if key_bytes is None else key_bytes,
            reserved16,
            value_bytes,
        )
        + fields
        + key
        + value
    )


def get(key, **fields):
    return operation(GET, key, **fields)


def exists(key, **fields):
    return operation(EXISTS, key, **fields)


def put(key, value=b"", flags=0, **fields):
    return operation(PUT, key, value, flags, **fields)


def delete(key, flags=0, **fields):
    return operation(DELETE, key, b"", flags, **fields)


def add(key, delta=1, flags=0, **fields):
    return operation(ADD, key, b"", flags, delta=delta, **fields)


def append(key, value=b"", flags=0, **fields):
    return operation(APPEND, key, value, flags, **fields)


def exchange(key, value=b"", flags=0, **fields):
    return operation(EXCHANGE, key, value, flags, **fields)


def touch(key, expiry_ms=None, flags=0, **fields):
    return operation(TOUCH, key, b"", flags, expiry_ms=expiry_ms, **fields)


def scan(prefix=b"", cursor=0, limit=0, flags=0, **fields):
    return operation(SCAN, prefix, b"", flags, cursor=cursor, limit=limit, **fields)


def watch(positions=b"", prefix=b"", first=0, wait_ms=0, flags=0, **fields):
    return operation(WATCH, prefix, positions, flags, cursor=first, limit=wait_ms, **fields)


def bounds(to=b"", prefix=b"", limit=0, way=0, reserved=0):
    """The value of RANGE, RANGE_COUNT and RANGE_DELETE."""
    return struct.pack("<IHHHH", limit, way, len(to), len(prefix), reserved) + to + prefix


def ranged(opcode, start=b"", flags=0, **fields):
    """fields: those of bounds."""
    return operation(opcode, start, bounds(**fields), flags)


def guard(kind, key, value=b"", version=None, reserved=0):
    """kind: 1 VERSION, 2 PRESENT, 3 ABSENT, 4 VALUE."""
    field = b"" if version is None else struct.pack("<Q", version)
    return struct.pack("<BBHI", kind, reserved, len(key), len(value)) + field + key + value


def transaction(guards=(), then=(), otherwise=(), counts=None, reserved=0):
    """The value of a TRANSACT."""
    lists = [guards, then, otherwise]
    head = struct.pack("<HHHH", *(counts or [len(steps) for steps in lists]), reserved)
    return head + b"".join(b"".join(steps) for steps in lists)


def transact(guards=(), then=(), otherwise=(), flags=0, **fields):
    return operation(TRANSACT, b"", transaction(guards, then, otherwise), flags, **fields)


def stats(section=b"", **fields):
    return operation(STATS, section, **fields)


def ping(value=b"", **fields):
    return operation(PING, b"", value, **fields)


def sync(**fields):
    return operation(SYNC, **fields)


# Results ------------------------------------------------------------------------------------------


class Result:
    """status; version, expiry_ms and number are None where the flags do not announce them. value is
    None with NO_VALUE, b"" where there is none; value_bytes is what the result says. offset: where
    in the segment the value was.
    """

    def __init__(
        self,
        status,
        flags,
        value_bytes,
        version=None,
        expiry_ms=None,
        number=None,
        value=b"",
        offset=None,
    ):
        self.status, self.flags, self.value_bytes = status, flags, value_bytes
        self.version, self.expiry_ms, self.number = version, expiry_ms, number
        self.value, self.offset = value, offset

    @property
    def found(self):
        return bool(self.flags & R_FOUND)

    @property
    def name(self):
        return STATUS_NAMES.get(self.status, str(self.status))

    @property
    def next_cursor(self):
        return None if self.number is None else self.number % 2**64

    @property
    def entries(self):
        return decode_entries(self.value or b"")

    def __repr__(self):
        parts = [self.name, f"flags {self.flags:#x}", f"value_bytes {self.value_bytes}"]
        parts += [
            f"{name} {getattr(self, name)}"
            for name in ("version", "expiry_ms", "number", "offset")
            if getattr(self, name) is not None
        ]
        if self.value:
            parts.append(repr(self.value[:40]) + ("..." if len(self.value) > 40 else ""))
        return f"Result({', '.join(parts)})"


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def fields(self, layout):
        size = struct.calcsize(layout)
        if self.at + size > len(self.data):
            raise Violation(f"cut off at byte {len(self.data)}")
        found = struct.unpack_from(layout, self.data, self.at)
        self.at += size
        return found

    def bytes(self, size):
        if self.at + size > len(self.data):
            raise Violation(f"cut off at byte {len(self.data)}")
        self.at += size
        return self.data[self.at - size : self.at]

    def end(self):
        if self.at != len(self.data):
            raise Violation(f"{len(self.data) - self.at} bytes too many")


def decode_results(body, count, segment=None, window=(0, 0)):
    """window: that of the request; a value in the segment must lie in it, in order, at multiples of
    8."""
    reader = Reader(body)
    results = []
    free = window[0]
    for _ in range(count):
        status, flags, value_bytes = reader.fields("<HHI")
        result = Result(status, flags, value_bytes)
        if flags & ~0x3F or (flags & R_NO_VALUE and flags & R_IN_SEGMENT):
            raise Violation(f"flags {flags:#x} of a result")
        if flags & R_VERSION:
            (result.version,) = reader.fields("<Q")
        if flags & R_EXPIRY:
            (result.expiry_ms,) = reader.fields("<Q")
        if flags & R_NUMBER:
            (result.number,) = reader.fields("<q")
        if flags & R_NO_VALUE:
            result.value = None
        elif flags & R_IN_SEGMENT:
            (result.offset,) = reader.fields("<I")
            if (
                result.offset % 8
                or result.offset < free
                or result.offset + value_bytes > window[0] + window[1]
            ):
                raise Violation(
                    f"value at {result.offset}, {value_bytes} bytes, of window {window}, free "
                    f"from {free}"
                )
            free = result.offset + value_bytes
            result.value = bytes(segment[result.offset : free])
        else:
            result.value = reader.bytes(value_bytes)
        results.append(result)
    reader.end()
    return results


Entry = collections.namedtuple("Entry", "key value version expiry_ms value_bytes")


def decode_entries(value, keys_only=None):
    reader = Reader(value)
    entries = []
    while reader.at < len(value):
        key_bytes, flags, value_bytes, version = reader.fields("<HHIQ")
        passed = flags & 0x01 and flags == 0x01 and not version and not value_bytes
        if not key_bytes or not passed and (flags & ~0x02 or not version):
            raise Violation(
                f"entry with key_bytes {key_bytes}, flags {flags:#x}, version {version}"
            )
        expiry_ms = reader.fields("<Q")[0] if flags & 0x02 else None
        entries.append(
            Entry(
                reader.bytes(key_bytes), reader.bytes(value_bytes), version, expiry_ms, value_bytes
            )
        )
    return entries


Outcome = collections.namedtuple("Outcome", "list about at guard results")


def decode_outcome(value):
    """What the value of the result of a TRANSACT says."""
    reader = Reader(value)
    which, about, at, guard_at, count = reader.fields("<BBHHH")
    results = decode_results(value[reader.at :], count)
    if any(result.offset is not None for result in results):
        raise Violation("a value of a step is in the segment")
    return Outcome(which, about, at, guard_at, results)


POSITION_BYTES = 20
Change = collections.namedtuple(
    "Change", "kind key value version expiry_ms position goes_on transaction parts"
)


def decode_page(value):
    """The position behind the page of a WATCH, and its changes."""
    reader = Reader(value)
    end = reader.bytes(POSITION_BYTES)
    changes = []
    kinds = {0: "put", 0x40: "delete", 0x80: "expire"}
    while reader.at < len(value):
        key_bytes, flags, value_bytes, version, place = reader.fields("<HHIQI")
        kind = flags & ~0x0302
        if not key_bytes or kind not in kinds or not version:
            raise Violation(f"change with key_bytes {key_bytes}, flags {flags:#x}")
        expiry_ms = reader.fields("<Q")[0] if flags & 0x02 else None
        transaction, parts = reader.fields("<QI") if flags & 0x0200 else (0, 0)
        if flags & 0x0200 and not transaction:
            raise Violation("a part of transaction 0")
        position = end[:8] + struct.pack("<QI", version, place)
        key, value_found = reader.bytes(key_bytes), reader.bytes(value_bytes)
        changes.append(
            Change(
                kinds[kind],
                key,
                value_found,
                version,
                expiry_ms,
                position,
                bool(flags & 0x0100),
                transaction,
                parts,
            )
        )
    return end, changes
