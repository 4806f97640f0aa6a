#!/usr/bin/env python3
"""A client of docs/PROTOCOL.md, written from that document alone.

It shares no code with wire/ and clientk/, so that tests can send what libclientk never sends, and so
that the document is proven to be enough. Plain Python: ctypes for the calls that Python lacks, struct,
fcntl and mmap for the rest.

    from mqkv import Session, get, put
    with Session("/serverk") as session:
        reply = session.request([put(b"a", b"1"), get(b"a")])
        reply.results[1].value                       # b"1"

Each layer can be used by itself, and each field of a message can be set to anything:

    Queue                     a message queue: send, receive, attributes, locks
    header, operation         bytes of a header, of an operation, with every field
    decode_header, decode_results, decode_entries
    Session                   handshake, requests, parts, MORE, segment and window, BYE, raw messages
    flood, hello_storm        what a hostile neighbour does (also from the shell: mqkv.py --help)

Decoding is strict: what the document does not allow raises Violation. Times are seconds, unless a
name ends in _ms. A Session belongs to one thread.
"""
import argparse
import collections
import ctypes
import errno
import fcntl
import mmap
import os
import random
import secrets
import struct
import sys
import threading
import time

# Constants of the document ------------------------------------------------------------------------

MAGIC = b"MQKV"
VERSION = 1
HEADER_BYTES = 48
MAX_OPERATIONS = 4096
MAX_KEY_BYTES = 65535
PARTS_EXTRA_BYTES = 131072

HELLO, WELCOME, REFUSED, REQUEST, REPLY, BYE, SEGMENT, PART, REPLY_PART, MORE = range(1, 11)
KIND_NAMES = dict(enumerate("HELLO WELCOME REFUSED REQUEST REPLY BYE SEGMENT PART REPLY_PART MORE".split(), 1))

GET, EXISTS, PUT, DELETE, ADD, APPEND, EXCHANGE, TOUCH, SCAN, STATS, PING, SYNC = range(1, 13)
OPCODE_NAMES = dict(enumerate("GET EXISTS PUT DELETE ADD APPEND EXCHANGE TOUCH SCAN STATS PING SYNC".split(), 1))

# Flags of an operation.
HAS_EXPIRY, HAS_VERSION, IF_ABSENT, IF_PRESENT = 0x0001, 0x0002, 0x0004, 0x0008
HAS_BOUNDS, CREATE, KEEP_EXPIRY, VALUE_IN_SEGMENT = 0x0010, 0x0020, 0x0040, 0x0080
SYNC_INTERVAL, SYNC_ALWAYS, KEYS_ONLY, ATOMIC = 0x0100, 0x0200, 0x0400, 0x0800

# Flags of a result.
R_VERSION, R_EXPIRY, R_NUMBER, R_IN_SEGMENT, R_NO_VALUE, R_FOUND = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20

# Flags of WELCOME.
W_PRIORITY = 0x0001

STATUS_NAMES = dict(enumerate("""OK NOT_FOUND EXISTS VERSION_MISMATCH OUT_OF_BOUNDS NOT_A_NUMBER BAD_KEY
    VALUE_TOO_BIG BUFFER_TOO_SMALL BAD_REQUEST UNSUPPORTED DENIED USAGE NO_SPACE READ_ONLY CORRUPT IO
    NOT_DURABLE NO_MEMORY BUSY MISMATCH OVERLOADED DEADLINE TIMEOUT NO_SERVER OUTCOME_UNKNOWN LIMIT
    NO_SESSION""".split()))
S = collections.namedtuple("Statuses", STATUS_NAMES.values())(*STATUS_NAMES)

FLAGS_OF_OPERATION = {
    GET: 0, EXISTS: 0,
    PUT: HAS_EXPIRY | KEEP_EXPIRY | HAS_VERSION | IF_ABSENT | IF_PRESENT | VALUE_IN_SEGMENT | SYNC_INTERVAL | SYNC_ALWAYS,
    DELETE: HAS_VERSION | SYNC_INTERVAL | SYNC_ALWAYS,
    ADD: HAS_EXPIRY | HAS_BOUNDS | CREATE | SYNC_INTERVAL | SYNC_ALWAYS,
    APPEND: VALUE_IN_SEGMENT | SYNC_INTERVAL | SYNC_ALWAYS,
    EXCHANGE: HAS_EXPIRY | KEEP_EXPIRY | HAS_VERSION | IF_ABSENT | IF_PRESENT | VALUE_IN_SEGMENT | SYNC_INTERVAL | SYNC_ALWAYS,
    TOUCH: HAS_EXPIRY | SYNC_INTERVAL | SYNC_ALWAYS,
    SCAN: KEYS_ONLY | ATOMIC,
    STATS: 0, PING: VALUE_IN_SEGMENT, SYNC: 0,
}

WAIT_STEP = 0.1  # the longest sleep between two looks for the server


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


# Queues -------------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_librt = _libc if hasattr(_libc, "mq_open") else ctypes.CDLL("librt.so.1", use_errno=True)


class _Attributes(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_long), ("maxmsg", ctypes.c_long), ("msgsize", ctypes.c_long),
                ("curmsgs", ctypes.c_long), ("reserved", ctypes.c_long * 4)]


class _Time(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


_librt.mq_timedsend.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint, ctypes.POINTER(_Time)]
_librt.mq_send.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint]
_librt.mq_timedreceive.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint),
                                   ctypes.POINTER(_Time)]
_librt.mq_timedreceive.restype = ctypes.c_ssize_t
_librt.mq_getattr.argtypes = [ctypes.c_int, ctypes.POINTER(_Attributes)]


def _checked(value, what):
    if value < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return value


def _after(seconds):
    """The time of CLOCK_REALTIME in so many seconds, as the kernel's calls want it."""
    end = time.time() + max(seconds, 0)
    return ctypes.byref(_Time(int(end), int(end % 1 * 1e9)))


_LOCK = "hhqqi0q"  # struct flock of a 64-bit Linux


class Queue:
    """A message queue. Never open one's own reply queue twice: closing one descriptor gives up its lock."""

    def __init__(self, name, mode=os.O_WRONLY, permissions=0o600, depth=10, message_bytes=8192):
        self.name = name
        attributes = _Attributes(maxmsg=depth, msgsize=message_bytes)
        self.fd = -1
        self.fd = _checked(_librt.mq_open(name.encode(), mode | os.O_CLOEXEC, permissions,
                                          ctypes.byref(attributes) if mode & os.O_CREAT else None), f"mq_open {name}")
        self.message_bytes = self.attributes().msgsize
        self._buffer = None

    def fileno(self):
        return self.fd

    def attributes(self):
        found = _Attributes()
        _checked(_librt.mq_getattr(self.fd, ctypes.byref(found)), "mq_getattr")
        return found

    def send(self, message, priority=0, timeout=0.0):
        """Waits at most timeout for room; None: for ever. OSError with ETIMEDOUT if there is none."""
        if timeout is None:
            _checked(_librt.mq_send(self.fd, message, len(message), priority), f"mq_send {self.name}")
        else:
            _checked(_librt.mq_timedsend(self.fd, message, len(message), priority, _after(timeout)),
                     f"mq_timedsend {self.name}")

    def receive(self, timeout=0.0):
        """(message, priority), or None if nothing came in time."""
        if self._buffer is None:
            self._buffer = ctypes.create_string_buffer(self.message_bytes)
        priority = ctypes.c_uint()
        size = _librt.mq_timedreceive(self.fd, self._buffer, self.message_bytes, ctypes.byref(priority), _after(timeout))
        if size < 0 and ctypes.get_errno() in (errno.ETIMEDOUT, errno.EINTR, errno.EAGAIN):
            return None
        _checked(size, f"mq_timedreceive {self.name}")
        return self._buffer.raw[:size], priority.value

    def lock(self):
        """The write lock on the whole queue that proves this process's pid."""
        fcntl.fcntl(self.fd, fcntl.F_SETLK, struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))

    def unlock(self):
        fcntl.fcntl(self.fd, fcntl.F_SETLK, struct.pack(_LOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))

    def lock_holder(self):
        """The pid of another process that holds a lock on the queue, or None."""
        found = fcntl.fcntl(self.fd, fcntl.F_GETLK, struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        kind, _, _, _, pid = struct.unpack(_LOCK, found)
        return None if kind == fcntl.F_UNLCK else pid

    def links(self):
        return os.fstat(self.fd).st_nlink

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def unlink_queue(name):
    """False if there is none."""
    if _librt.mq_unlink(name.encode()) == 0:
        return True
    if ctypes.get_errno() == errno.ENOENT:
        return False
    return _checked(-1, f"mq_unlink {name}")


class SharedMemory:
    """A client's segment: created, sized, mapped. offset and size are for slicing: memory[a:b]."""

    def __init__(self, name, size, permissions=0o600, truncate_to=None):
        self.name = name
        self.size = size
        self.fd = _checked(_librt.shm_open(name.encode(), os.O_CREAT | os.O_EXCL | os.O_RDWR, permissions), f"shm_open {name}")
        os.ftruncate(self.fd, size if truncate_to is None else truncate_to)
        self.memory = mmap.mmap(self.fd, size) if truncate_to is None else None
        self.linked = True

    def __getitem__(self, key):
        return self.memory[key]

    def __setitem__(self, key, value):
        self.memory[key] = value

    def unlink(self):
        if self.linked:
            _librt.shm_unlink(self.name.encode())
            self.linked = False

    def close(self):
        self.unlink()
        if self.memory is not None:
            self.memory.close()
        os.close(self.fd)


# Headers ------------------------------------------------------------------------------------------

_HEADER = "<4sBBHIHHQQQII"
Header = collections.namedtuple("Header", """magic version kind status session count flags request_id secret
                                             deadline_ms window_offset window_bytes""")


def header(kind, *, magic=MAGIC, version=VERSION, status=0, session=0, count=0, flags=0, request_id=0, secret=0,
           deadline_ms=0, window=(0, 0)):
    return struct.pack(_HEADER, magic, version, kind, status, session, count, flags, request_id, secret, deadline_ms, *window)


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
        if head.flags or head.deadline_ms or head.window_offset or head.window_bytes:
            raise Violation(f"fields that are 0 in answers are not: {head}")
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

def operation(opcode, key=b"", value=b"", flags=0, *, expiry_ms=None, version=None, delta=None, bounds=None, initial=None,
              cursor=None, limit=None, segment_offset=None, key_bytes=None, value_bytes=None, reserved8=0, reserved16=0):
    """The bytes of an operation.

    A field that is given sets its flag (expiry_ms: HAS_EXPIRY, ...); flags adds others, also wrong ones, whose fields are
    then missing. segment_offset: the value is there, value_bytes tells how long it is. key_bytes, value_bytes and the
    reserved fields can be set to what does not fit.
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
    return struct.pack("<BBHHHI", opcode, reserved8, flags, len(key) if key_bytes is None else key_bytes, reserved16,
                       value_bytes) + fields + key + value


def get(key, **fields):
    return operation(GET, key, **fields)


def exists(key, **fields):
    return operation(EXISTS, key, **fields)


def put(key, value, flags=0, **fields):
    return operation(PUT, key, value, flags, **fields)


def delete(key, flags=0, **fields):
    return operation(DELETE, key, b"", flags, **fields)


def add(key, delta=1, flags=0, **fields):
    return operation(ADD, key, b"", flags, delta=delta, **fields)


def append(key, value, flags=0, **fields):
    return operation(APPEND, key, value, flags, **fields)


def exchange(key, value, flags=0, **fields):
    return operation(EXCHANGE, key, value, flags, **fields)


def touch(key, expiry_ms=None, flags=0, **fields):
    return operation(TOUCH, key, b"", flags, expiry_ms=expiry_ms, **fields)


def scan(prefix=b"", cursor=0, limit=0, flags=0, **fields):
    return operation(SCAN, prefix, b"", flags, cursor=cursor, limit=limit, **fields)


def stats(section=b"", **fields):
    return operation(STATS, section, **fields)


def ping(value=b"", **fields):
    return operation(PING, b"", value, **fields)


def sync(**fields):
    return operation(SYNC, **fields)


# Results ------------------------------------------------------------------------------------------

class Result:
    """status; version, expiry_ms and number are None where the flags do not announce them. value is None with NO_VALUE,
    b"" where there is none; value_bytes is what the result says. offset: where in the segment the value was."""

    def __init__(self, status, flags, value_bytes, version=None, expiry_ms=None, number=None, value=b"", offset=None):
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
        parts += [f"{name} {getattr(self, name)}" for name in ("version", "expiry_ms", "number", "offset")
                  if getattr(self, name) is not None]
        if self.value:
            parts.append(repr(self.value[:40]) + ("..." if len(self.value) > 40 else ""))
        return f"Result({', '.join(parts)})"


class _Reader:
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
        return self.data[self.at - size:self.at]

    def end(self):
        if self.at != len(self.data):
            raise Violation(f"{len(self.data) - self.at} bytes too many")


def decode_results(body, count, segment=None, window=(0, 0)):
    """window: that of the request; a value in the segment must lie in it, in order, at multiples of 8."""
    reader = _Reader(body)
    results = []
    free = window[0]
    for _ in range(count):
        status, flags, value_bytes = reader.fields("<HHI")
        result = Result(status, flags, value_bytes)
        if flags & ~0x3f or (flags & R_NO_VALUE and flags & R_IN_SEGMENT):
            raise Violation(f"flags {flags:#x} of a result")
        if flags & R_VERSION:
            result.version, = reader.fields("<Q")
        if flags & R_EXPIRY:
            result.expiry_ms, = reader.fields("<Q")
        if flags & R_NUMBER:
            result.number, = reader.fields("<q")
        if flags & R_NO_VALUE:
            result.value = None
        elif flags & R_IN_SEGMENT:
            result.offset, = reader.fields("<I")
            if result.offset % 8 or result.offset < free or result.offset + value_bytes > window[0] + window[1]:
                raise Violation(f"value at {result.offset}, {value_bytes} bytes, of window {window}, free from {free}")
            free = result.offset + value_bytes
            result.value = bytes(segment[result.offset:free])
        else:
            result.value = reader.bytes(value_bytes)
        results.append(result)
    reader.end()
    return results


Entry = collections.namedtuple("Entry", "key value version expiry_ms value_bytes")


def decode_entries(value, keys_only=None):
    reader = _Reader(value)
    entries = []
    while reader.at < len(value):
        key_bytes, flags, value_bytes, version = reader.fields("<HHIQ")
        if not key_bytes or flags & ~0x02 or not version:
            raise Violation(f"entry with key_bytes {key_bytes}, flags {flags:#x}, version {version}")
        expiry_ms = reader.fields("<Q")[0] if flags & 0x02 else None
        entries.append(Entry(reader.bytes(key_bytes), reader.bytes(value_bytes), version, expiry_ms, value_bytes))
    return entries


# Sessions -----------------------------------------------------------------------------------------

Welcome = collections.namedtuple("Welcome", """cookie instance max_value_bytes server_pid credits lane bulk_lane flags
                                               lane_bytes bulk_bytes rest""")
_WELCOME = "<QQQIHHHHII"


class Reply:
    """What came for a request: status and sentence of the whole, or its results. parts: messages it took;
    message_priority: with which the last one came."""

    def __init__(self, status, sentence, results, parts=1, request_id=0):
        self.status, self.sentence, self.results, self.parts, self.request_id = status, sentence, results, parts, request_id

    @property
    def name(self):
        return STATUS_NAMES.get(self.status, str(self.status))

    @property
    def statuses(self):
        """The names of the results' statuses."""
        return [result.name for result in self.results]

    def __repr__(self):
        return f"Reply({self.name}, {self.sentence!r}, {self.results})"


_numbers = iter(range(random.randrange(1 << 20), 1 << 31))
_numbers_lock = threading.Lock()


def next_number():
    with _numbers_lock:
        return next(_numbers)


def reply_queue_name(name, pid=None, number=None):
    return f"{name}.c{os.getpid() if pid is None else pid}.{next_number() if number is None else number}"


def hello_body(queue_name, nonce, *, pid=None, depth=4, threads=1, message_bytes=8192, name_bytes=None, rest=b""):
    encoded = queue_name if isinstance(queue_name, bytes) else queue_name.encode()
    return struct.pack("<QIHHIH", nonce, os.getpid() if pid is None else pid, depth, threads, message_bytes,
                       len(encoded) if name_bytes is None else name_bytes) + encoded + rest


def segment_body(name, size, *, name_bytes=None, rest=b""):
    encoded = name if isinstance(name, bytes) else name.encode()
    return struct.pack("<QH", size, len(encoded) if name_bytes is None else name_bytes) + encoded + rest


def part_body(total_bytes, offset, data):
    return struct.pack("<II", total_bytes, offset) + data


def decode_part(body):
    reader = _Reader(body)
    total_bytes, offset = reader.fields("<II")
    return total_bytes, offset, reader.bytes(len(body) - 8)


def now_ms():
    """CLOCK_MONOTONIC, for deadlines."""
    return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1000)


class Session:
    """One session with the server NAME.

    connect=False: the steps of the handshake are the caller's (open_server, create_queue, send_hello, await_welcome,
    open_lanes). pid, number, nonce, depth and message_bytes are those of the reply queue and of HELLO; hello_fields
    (see hello_body) changes what HELLO says without changing the queue. timeout: of each wait for an answer.
    """

    def __init__(self, name, *, connect=True, pid=None, number=None, nonce=None, depth=4, message_bytes=8192, timeout=10.0,
                 lock=True, keep_name=False, **hello_fields):
        self.name, self.timeout = name, timeout
        self.queue_name = reply_queue_name(name, pid, number)
        self.nonce = secrets.randbits(64) if nonce is None else nonce
        self.depth, self.message_bytes = depth, message_bytes
        self.hello_fields = dict(depth=depth, message_bytes=message_bytes) | ({} if pid is None else {"pid": pid}) | hello_fields
        self.server = self.queue = self.lane = self.bulk = self.segment = self.welcome = None
        self.session, self.next_id = 0, 1
        self.dropped = []      # messages with another secret
        self.others = {}       # messages that another request awaits, by request_id
        self.windows = {}      # of the requests in flight, by request_id
        self.linked = False
        if connect:
            try:
                self.open_server()
                self.create_queue(lock)
                self.send_hello()
                self.await_welcome()
                if not keep_name:
                    self.unlink_queue()
                self.open_lanes()
            except BaseException:
                self.close()
                raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bye_quietly()
        self.close()

    # The handshake, step by step

    def open_server(self):
        try:
            self.server = Queue(self.name)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise NoServer(self.name) from error
            raise
        if self.server.lock_holder() is None:
            self.server.close()
            raise NoServer(f"{self.name} is a leftover")

    def create_queue(self, lock=True):
        self.queue = Queue(self.queue_name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, self.depth, self.message_bytes)
        self.linked = True
        if os.fstat(self.server.fd).st_uid != os.geteuid():
            os.fchmod(self.queue.fd, 0o622)
        if lock:
            self.queue.lock()

    def hello(self, **header_fields):
        """The bytes of HELLO."""
        return header(HELLO, **({"request_id": 0} | header_fields)) + hello_body(self.queue_name, self.nonce, **self.hello_fields)

    def send_hello(self, **header_fields):
        self._send(self.server, self.hello(**header_fields), 0)

    def await_welcome(self, timeout=None):
        message = self.receive(timeout)
        if message.header.kind == REFUSED:
            raise Refused(message.header.status, message.body.decode())
        if message.header.kind != WELCOME:
            raise Violation(f"{message} instead of WELCOME")
        size = struct.calcsize(_WELCOME)
        if len(message.body) < size:
            raise Violation(f"WELCOME of {len(message.body)} bytes")
        self.welcome = Welcome(*struct.unpack_from(_WELCOME, message.body), message.body[size:])
        self.session = message.header.session
        if not 1 <= self.welcome.credits <= self.depth:
            raise Violation(f"{self.welcome.credits} credits for a queue of {self.depth}")
        return self.welcome

    def unlink_queue(self):
        if self.linked:
            unlink_queue(self.queue_name)
            self.linked = False

    def open_lanes(self):
        self.lane = Queue(f"{self.name}.l{self.welcome.lane}" if self.welcome.lane else self.name)
        if self.welcome.bulk_bytes > self.welcome.lane_bytes:
            self.bulk = Queue(f"{self.name}.b{self.welcome.bulk_lane}")

    # Messages as they are

    def header(self, kind, **fields):
        """A header of this session; fields as of the function header."""
        return header(kind, **({"session": self.session, "secret": self.welcome.cookie if self.welcome else 0} | fields))

    def new_id(self):
        self.next_id += 1
        return self.next_id - 1

    def queue_for(self, size):
        """The lane or the bulk lane; None: it must go in parts."""
        if size <= self.welcome.lane_bytes:
            return self.lane
        return self.bulk if self.bulk and size <= self.welcome.bulk_bytes else None

    def server_is_gone(self):
        queue = self.lane or self.server
        return queue.links() == 0 or queue.lock_holder() is None

    def _send(self, queue, message, priority, timeout=None):
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            try:
                return queue.send(message, priority, min(WAIT_STEP, end - time.monotonic()))
            except OSError as error:
                if error.errno not in (errno.ETIMEDOUT, errno.EINTR):
                    raise
            if self.server_is_gone():
                raise ServerGone(f"no room in {queue.name}")
            if time.monotonic() >= end:
                raise Timeout(f"no room in {queue.name}")

    def send_raw(self, message, to=None, priority=0, timeout=None):
        """Any bytes to "name", "lane", "bulk" or a Queue; None: where a message of this size belongs."""
        queue = {"name": self.server, "lane": self.lane, "bulk": self.bulk, None: None}[to] if isinstance(to, (str, type(None))) else to
        self._send(queue or self.queue_for(len(message)), message, priority, timeout)

    def receive(self, timeout=None):
        """The next Message with the session's nonce; Timeout, ServerGone."""
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            got = self.queue.receive(min(WAIT_STEP, end - time.monotonic()))
            if got is not None:
                message = Message(got[0])
                if message.header.secret != self.nonce:
                    self.dropped.append(got[0])
                    continue
                if got[1] != 0:
                    raise Violation(f"a reply with priority {got[1]}")
                if message.header.kind in (REPLY, REPLY_PART) and message.header.session != self.session:
                    raise Violation(f"session {message.header.session} in a reply to {self.session}")
                return message
            if self.server_is_gone():
                got = self.queue.attributes().curmsgs
                if got == 0:
                    raise ServerGone(self.name)
            elif time.monotonic() >= end:
                raise Timeout(f"no answer from {self.name}")

    def receive_for(self, request_id, timeout=None):
        """The next Message with this request_id; those for others are kept."""
        kept = self.others.get(request_id)
        if kept:
            return kept.pop(0)
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        while True:
            message = self.receive(max(end - time.monotonic(), 0))
            if message.header.request_id == request_id:
                return message
            self.others.setdefault(message.header.request_id, []).append(message)

    # Requests

    def whole(self, operations, *, count=None, window=(0, 0), rest=b"", **fields):
        """The bytes of a REQUEST; operations: a list of operation() or of any bytes; rest: bytes behind them."""
        if isinstance(operations, bytes):
            operations = [operations]
        return self.header(REQUEST, count=len(operations) if count is None else count, window=window, **fields) + \
            b"".join(operations) + rest

    def post(self, operations, *, priority=0, to=None, **fields):
        """Sends a REQUEST and gives its request_id; await_reply is for later. Fields as in whole()."""
        fields.setdefault("request_id", self.new_id())
        message = self.whole(operations, **fields)
        self.windows[fields["request_id"]] = fields.get("window", (0, 0))
        if to is None and self.queue_for(len(message)) is None:
            failed = self.send_parts(message, fields["request_id"], priority)
            if failed is not None:
                self.others.setdefault(fields["request_id"], []).insert(0, failed)
        else:
            self.send_raw(message, to, priority)
        return fields["request_id"]

    def request(self, operations, **fields):
        """Sends a REQUEST, in parts if need be, and gives its Reply, fetched to its end."""
        timeout = fields.pop("timeout", None)
        return self.await_reply(self.post(operations, **fields), timeout)

    def await_reply(self, request_id, timeout=None):
        message = self.receive_for(request_id, timeout)
        window = self.windows.pop(request_id, (0, 0))
        parts = 1
        if message.header.kind == REPLY_PART:
            message, parts = self._fetch(message, timeout)
        if message.header.kind != REPLY:
            raise Violation(f"{message} instead of REPLY")
        head = message.header
        if head.status:
            return Reply(head.status, message.body.decode(), [], parts, request_id)
        return Reply(0, "", decode_results(message.body, head.count, self.segment, window), parts, request_id)

    def send_part(self, total_bytes, offset, data, request_id, priority=0, **fields):
        self.send_raw(self.header(PART, **({"request_id": request_id} | fields)) + part_body(total_bytes, offset, data),
                      priority=priority)

    def send_parts(self, whole, request_id, priority=0, part_bytes=None):
        """All PARTs of a message; the answer to the last one is not awaited. Gives the Message that ended it before, if
        one did."""
        most = (self.welcome.bulk_bytes if self.bulk else self.welcome.lane_bytes) - HEADER_BYTES - 8
        size = min(part_bytes or most, most)
        for offset in range(0, len(whole), size):
            self.send_part(len(whole), offset, whole[offset:offset + size], request_id, priority)
            if offset + size < len(whole):
                answer = self.receive_for(request_id)
                if answer.header.kind != REPLY or answer.header.status or answer.header.count:
                    return answer
        return None

    def send_more(self, request_id, offset, zero=0, **fields):
        self.send_raw(self.header(MORE, **({"request_id": request_id} | fields)) + struct.pack("<II", zero, offset))

    def _fetch(self, message, timeout):
        """The whole of a reply whose first piece this is, and the number of pieces."""
        request_id = message.header.request_id
        whole, parts = b"", 0
        while True:
            total_bytes, offset, data = decode_part(message.body)
            if offset != len(whole) or not data or offset + len(data) > total_bytes or total_bytes <= HEADER_BYTES:
                raise Violation(f"piece at {offset}, {len(data)} of {total_bytes} bytes, after {len(whole)}")
            whole += data
            parts += 1
            if len(whole) == total_bytes:
                break
            self.send_more(request_id, len(whole))
            message = self.receive_for(request_id, timeout)
            if message.header.kind == REPLY:
                return message, parts + 1  # a refusal
        inner = Message(whole)
        if inner.header.secret != self.nonce or inner.header.session != self.session or inner.header.request_id != request_id:
            raise Violation(f"header inside of a reply in parts: {inner.header}")
        return inner, parts

    # The segment

    def send_segment(self, name, size, **fields):
        """Sends SEGMENT with any name and size, and gives its Reply."""
        body_fields = {key: fields.pop(key) for key in ("name_bytes", "rest") if key in fields}
        request_id = self.new_id()
        self.send_raw(self.header(SEGMENT, **({"request_id": request_id} | fields)) + segment_body(name, size, **body_fields))
        return self.await_reply(request_id)

    def segment_name(self):
        return f"{self.name}.s{os.getpid()}.{next_number()}"

    def offer_segment(self, size):
        """Makes a segment and offers it. Gives the Reply; if that is OK, self.segment is the segment."""
        segment = SharedMemory(self.segment_name(), size)
        reply = self.send_segment(segment.name, size)
        segment.unlink()
        if reply.status:
            segment.close()
        else:
            if self.segment is not None:
                self.segment.close()
            self.segment = segment
        return reply

    # The end

    def bye(self, **fields):
        self.send_raw(self.header(BYE, **fields))

    def bye_quietly(self):
        try:
            if self.session and not self.server_is_gone():
                self.bye()
        except (OSError, Failure):
            pass

    def close(self):
        self.unlink_queue()
        for thing in (self.queue, self.server, self.lane, self.bulk, self.segment):
            if thing is not None:
                thing.close()
        self.queue = self.server = self.lane = self.bulk = self.segment = None
        self.session = 0

    # One operation

    def one(self, operation_bytes, **fields):
        """The Result of one operation. A refusal of the whole message becomes one, with the sentence as its value."""
        reply = self.request([operation_bytes], **fields)
        if reply.status:
            return Result(reply.status, 0, 0, value=reply.sentence.encode())
        if len(reply.results) != 1:
            raise Violation(f"{len(reply.results)} results for one operation")
        return reply.results[0]

    def get(self, key, **fields):
        return self.one(get(key), **fields)

    def put(self, key, value, **fields):
        return self.one(put(key, value), **fields)

    def delete(self, key, **fields):
        return self.one(delete(key), **fields)

    def scan_all(self, prefix=b"", limit=0, flags=0):
        """All entries, page by page."""
        cursor = 0
        entries = []
        while True:
            page = self.one(scan(prefix, cursor, limit, flags))
            if page.status:
                raise Failure(f"scan: {page}")
            entries += [entry for entry in (decode_keys(page.value) if flags & KEYS_ONLY else page.entries)]
            cursor = page.next_cursor
            if cursor == 0:
                return entries


def decode_keys(value):
    """The entries of a page of SCAN with KEYS_ONLY."""
    return decode_entries(value)


# What a hostile neighbour does --------------------------------------------------------------------

def run_threads(count, work):
    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def flood(queue_name, message, *, threads=20, seconds=5.0, priority=0, asleep=True):
    """So many threads send the message to the queue for so long, without any session; asleep: they sleep in mq_send, so
    that the kernel hands the next free place to one of them. Gives the number of messages sent. A thread that is still
    asleep at the end goes with the process."""
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
    """A valid flood: each thread has a session and keeps as many messages in flight as it has credits. Gives
    (messages answered, messages refused, sessions that failed)."""
    end = time.monotonic() + seconds
    counts = [[0, 0, 0] for _ in range(threads)]

    def work(number):
        count = counts[number]
        while time.monotonic() < end:
            try:
                with Session(name, timeout=max(end + 1 - time.monotonic(), 0.1)) as session:
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
    """So many HELLOs, each with a new nonce; for the same reply queue, or each for one of its own, which is then kept
    open (append them to keep). Gives Counter of "welcome", status names of REFUSED, "silent"."""
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
    """What an honest client of one request at a time gets: (operations/s, failures, longest wait in seconds)."""
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
    """For ever: messages that are wrong in one way or in several: random bytes, and changed ones of those recorded (and
    of some of its own, with the session's number and cookie if it is given)."""
    fields = {"session": session.session, "secret": session.welcome.cookie} if session else {"session": 1, "secret": 2}
    sound = list(recorded) or [
        header(REQUEST, count=1, request_id=1, **fields) + put(b"key", b"value", expiry_ms=1, version=5),
        header(REQUEST, count=2, request_id=2, **fields) + add(b"n", 1, bounds=(0, 9), initial=3) + get(b"key"),
        header(REQUEST, count=1, request_id=3, **fields) + scan(b"k", 0, 10),
        header(SEGMENT, request_id=4, **fields) + segment_body("/x.s1.1", 4096),
        header(PART, request_id=5, **fields) + part_body(10000, 0, b"x" * 40),
        header(MORE, request_id=6, **fields) + struct.pack("<II", 0, 48),
        header(BYE, **fields),
        header(HELLO) + hello_body("/x.c1.1", 77),
    ]
    while True:
        message = bytearray(rng.choice(sound))
        way = rng.randrange(6)
        if way == 0:
            message = bytearray(rng.randbytes(rng.randrange(0, 1024)))
        elif way == 1:
            del message[rng.randrange(len(message) + 1):]
        elif way == 2:
            message += rng.randbytes(rng.randrange(1, 64))
        elif way == 3:
            at = rng.randrange(len(message))
            message[at:at + rng.choice((1, 2, 4, 8))] = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80", b"\x01")) * 4
        else:
            for _ in range(rng.choice((1, 1, 2, 8))):
                message[rng.randrange(len(message))] ^= 1 << rng.randrange(8)
        yield bytes(message[:1024])


# From the shell -----------------------------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser(description="the independent client as a tool for tests")
    parser.add_argument("queue", metavar="NAME", help="as in serverk -m")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("ping", help="one session, one PING")
    good = commands.add_parser("good", help="an honest client: prints operations/s, failures, longest wait (s)")
    good.add_argument("seconds", type=float)
    good.add_argument("--timeout", type=float, default=5.0)
    good.add_argument("--pause", type=float, default=0.0, help="between two operations")
    garbage = commands.add_parser("flood", help="threads asleep in mq_send with garbage; prints messages sent")
    garbage.add_argument("seconds", type=float)
    garbage.add_argument("--threads", type=int, default=20)
    garbage.add_argument("--priority", type=int, default=0)
    garbage.add_argument("--to", help="the queue, if not NAME", default=None)
    garbage.add_argument("--bytes", type=int, default=64)
    garbage.add_argument("--awake", action="store_true", help="try again instead of sleeping")
    valid = commands.add_parser("requests", help="sessions with full credits; prints answered, refused, failed")
    valid.add_argument("seconds", type=float)
    valid.add_argument("--threads", type=int, default=20)
    valid.add_argument("--batch", type=int, default=64)
    valid.add_argument("--priority", type=int, default=0)
    storm = commands.add_parser("hellos", help="HELLOs with new nonces; prints what became of them")
    storm.add_argument("count", type=int)
    storm.add_argument("--own-queues", action="store_true", help="each for a queue of its own, all kept open")
    storm.add_argument("--stay", type=float, default=0.0, help="seconds to keep them")
    wrong = commands.add_parser("malformed", help="malformed messages to the lane of a session")
    wrong.add_argument("count", type=int)
    wrong.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.command == "ping":
        with Session(options.queue) as session:
            print(session.one(ping(b"ping")).name)
    elif options.command == "good":
        print("%.0f %d %.3f" % good_client(options.queue, options.seconds, timeout=options.timeout, pause=options.pause))
    elif options.command == "flood":
        print(flood(options.to or options.queue, secrets.token_bytes(options.bytes), threads=options.threads,
                    seconds=options.seconds, priority=options.priority, asleep=not options.awake), flush=True)
        os._exit(0)  # threads may be asleep in mq_send
    elif options.command == "requests":
        operations = [put(b"flood%d" % number, b"x" * 8) for number in range(options.batch)]
        print(*request_flood(options.queue, operations, threads=options.threads, seconds=options.seconds,
                             priority=options.priority))
    elif options.command == "hellos":
        keep = [] if options.own_queues else None
        outcomes = hello_storm(options.queue, options.count, same_queue=not options.own_queues, keep=keep)
        print(*(f"{what}={number}" for what, number in sorted(outcomes.items())), flush=True)
        time.sleep(options.stay)
        for session in keep or ():
            session.close()
    else:
        rng = random.Random(options.seed)
        with Session(options.queue) as session:
            for _, message in zip(range(options.count), malformed_messages(rng, session)):
                session.send_raw(message, "lane")
                session.queue.receive(0)


if __name__ == "__main__":
    sys.exit(main())
