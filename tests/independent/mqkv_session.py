"""Sessions: handshake, requests, parts, segment. See mqkv.py."""
import collections
import errno
import os
import random
import secrets
import struct
import threading
import time

from mqkv_messages import (
    BEHIND,
    BYE,
    FIRST_PRIORITY,
    Failure,
    HEADER_BYTES,
    HELLO,
    KEYS_ONLY,
    MORE,
    MOVED,
    Message,
    NoServer,
    PART,
    RANGE,
    REFUSED,
    REPLY,
    REPLY_PART,
    REQUEST,
    REVERSE,
    Reader,
    Refused,
    Result,
    S,
    SEGMENT,
    STATUS_NAMES,
    ServerGone,
    Timeout,
    Violation,
    WELCOME,
    W_PRIORITY,
    decode_entries,
    decode_results,
    delete,
    get,
    header,
    put,
    ranged,
    scan,
)
from mqkv_queues import Queue, Ring, SharedMemory, unlink_queue

WAIT_STEP = 0.1  # the longest sleep between two looks for the server
REPLY_QUEUES = (
    (4, 8192),
    (2, 4352),
    (2, 512),
)  # depth and message size that are tried one after the other

Welcome = collections.namedtuple(
    "Welcome",
    """cookie instance max_value_bytes server_pid credits lane bulk_lane flags
                                               lane_bytes bulk_bytes lane_family rest""",
)
_WELCOME = "<QQQIHHHHII"


class Reply:
    """What came for a request: status and sentence of the whole, or its results. parts: messages it
    took; message_priority: with which the last one came."""

    def __init__(self, status, sentence, results, parts=1, request_id=0):
        self.status, self.sentence, self.results, self.parts, self.request_id = (
            status,
            sentence,
            results,
            parts,
            request_id,
        )

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


def reply_queue_name(name, pid=None, number=None, letter="c"):
    pid = os.getpid() if pid is None else pid
    return f"{name}.{letter}{pid}.{next_number() if number is None else number}"


def takes_rings(name):
    """Whether the server of that name takes rings that this process can make."""
    try:
        claim = Queue(f"{name}.lock")
    except OSError:
        return False
    shown = claim.shown_number()
    claim.close()
    return shown != 0 and shown - 1 == os.stat("/dev/shm").st_dev


def hello_body(
    queue_name,
    nonce,
    *,
    pid=None,
    depth=4,
    threads=1,
    message_bytes=8192,
    name_bytes=None,
    abilities=None,
    rest=b"",
):
    """abilities None: the field is left out."""
    encoded = queue_name if isinstance(queue_name, bytes) else queue_name.encode()
    return (
        struct.pack(
            "<QIHHIH",
            nonce,
            os.getpid() if pid is None else pid,
            depth,
            threads,
            message_bytes,
            len(encoded) if name_bytes is None else name_bytes,
        )
        + encoded
        + (b"" if abilities is None else struct.pack("<H", abilities))
        + rest
    )


def segment_body(name, size, *, name_bytes=None, rest=b""):
    encoded = name if isinstance(name, bytes) else name.encode()
    return (
        struct.pack("<QH", size, len(encoded) if name_bytes is None else name_bytes)
        + encoded
        + rest
    )


def part_body(total_bytes, offset, data):
    return struct.pack("<II", total_bytes, offset) + data


def decode_part(body):
    reader = Reader(body)
    total_bytes, offset = reader.fields("<II")
    return total_bytes, offset, reader.bytes(len(body) - 8)


def now_ms():
    """CLOCK_MONOTONIC, for deadlines."""
    return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1000)


class Session:
    """One session with the server NAME.

    connect=False: the steps of the handshake are the caller's (open_server, create_queue,
    send_hello, await_welcome, open_lanes). pid, number, nonce, depth and message_bytes are those of
    the reply queue and of HELLO; hello_fields (see hello_body; abilities=GUEST_LANES) changes what
    HELLO says without changing the queue. Without depth and message_bytes the queue is the largest
    of REPLY_QUEUES that the kernel grants. shared: replies come through a ring; by default as
    MQKV_REPLIES in the environment says. timeout: of each wait for an answer.
    """

    def __init__(
        self,
        name,
        *,
        connect=True,
        pid=None,
        number=None,
        nonce=None,
        depth=None,
        message_bytes=None,
        timeout=10.0,
        lock=True,
        keep_name=False,
        shared=None,
        **hello_fields,
    ):
        self.name, self.timeout = name, timeout
        self.shared = os.environ.get("MQKV_REPLIES") == "shared" if shared is None else shared
        self.queue_name = reply_queue_name(name, pid, number, "r" if self.shared else "c")
        self.nonce = secrets.randbits(64) if nonce is None else nonce
        self.depth, self.message_bytes = depth, message_bytes
        self.hello_fields = ({} if pid is None else {"pid": pid}) | hello_fields
        self.server = self.queue = self.lane = self.bulk = self.segment = self.welcome = None
        self.session, self.next_id = 0, 1
        self.dropped = []  # messages with another secret
        self.others = {}  # messages that another request awaits, by request_id
        self.windows = {}  # of the requests in flight, by request_id
        self.linked = False
        self.guest = False  # in a lane of its uid, where messages go with FIRST_PRIORITY
        self.moved = False  # a REPLY said so
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
        wanted = (
            [(self.depth or 4, self.message_bytes or 8192)]
            if self.depth or self.message_bytes
            else REPLY_QUEUES
        )
        if self.shared:
            self.depth, self.message_bytes = wanted[0]
            self.queue = Ring(self.queue_name, self.depth, self.message_bytes)
            wanted = ()
        for self.depth, self.message_bytes in wanted:
            try:
                self.queue = Queue(
                    self.queue_name,
                    os.O_CREAT | os.O_EXCL | os.O_RDWR,
                    0o600,
                    self.depth,
                    self.message_bytes,
                )
                break
            except OSError as error:
                if (
                    error.errno not in (errno.EMFILE, errno.ENOSPC)
                    or (self.depth, self.message_bytes) == wanted[-1]
                ):
                    raise
        self.linked = True
        self.hello_fields = (
            dict(depth=self.depth, message_bytes=self.message_bytes) | self.hello_fields
        )
        self.let_server_send()
        if lock:
            self.queue.lock()

    def let_server_send(self):
        server = os.fstat(self.server.fd)
        if self.shared or server.st_uid in (os.geteuid(), 0):
            return
        try:
            os.fchown(self.queue.fd, -1, server.st_gid)
            os.fchmod(self.queue.fd, 0o620)
        except PermissionError:  # no member of that group
            os.fchmod(self.queue.fd, 0o622)

    def hello(self, **header_fields):
        """The bytes of HELLO."""
        return header(HELLO, **({"request_id": 0} | header_fields)) + hello_body(
            self.queue_name, self.nonce, **self.hello_fields
        )

    def send_hello(self, **header_fields):
        self._send(self.server, self.hello(**header_fields), FIRST_PRIORITY)

    def await_welcome(self, timeout=None):
        message = self.receive(timeout)
        if message.header.kind == REFUSED:
            raise Refused(message.header.status, message.body.decode())
        if message.header.kind != WELCOME:
            raise Violation(f"{message} instead of WELCOME")
        size = struct.calcsize(_WELCOME)
        if len(message.body) < size:
            raise Violation(f"WELCOME of {len(message.body)} bytes")
        later = message.body[size:]
        family = struct.unpack_from("<H", later)[0] if len(later) >= 2 else 0
        self.welcome = Welcome(*struct.unpack_from(_WELCOME, message.body), family, later[2:])
        self.session = message.header.session
        if not 1 <= self.welcome.credits <= self.depth:
            raise Violation(f"{self.welcome.credits} credits for a queue of {self.depth}")
        return self.welcome

    def unlink_queue(self):
        if self.linked and self.shared:
            self.queue.unlink()
        elif self.linked:
            unlink_queue(self.queue_name)
        self.linked = False

    def open_lanes(self):
        guest = self.welcome.lane_family == 1
        self.lane = Queue(
            f"{self.name}.{'g' if guest else 'l'}{self.welcome.lane}"
            if guest or self.welcome.lane
            else self.name
        )
        self.guest = guest and not self.welcome.flags & W_PRIORITY
        if self.welcome.bulk_bytes > self.welcome.lane_bytes:
            self.bulk = Queue(f"{self.name}.b{self.welcome.bulk_lane}")

    # Messages as they are

    def header(self, kind, **fields):
        """A header of this session; fields as of the function header."""
        return header(
            kind,
            **(
                {"session": self.session, "secret": self.welcome.cookie if self.welcome else 0}
                | fields
            ),
        )

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
        """Any bytes to "name", "lane", "bulk" or a Queue; None: where a message of this size
        belongs."""
        queue = (
            {"name": self.server, "lane": self.lane, "bulk": self.bulk, None: None}[to]
            if isinstance(to, (str, type(None)))
            else to
        )
        queue = queue or self.queue_for(len(message))
        self._send(
            queue,
            message,
            FIRST_PRIORITY if self.guest and queue is self.lane else priority,
            timeout,
        )

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
                self.moved = self.moved or bool(message.header.flags & MOVED)
                if (
                    message.header.kind in (REPLY, REPLY_PART)
                    and message.header.session != self.session
                ):
                    raise Violation(
                        f"session {message.header.session} in a reply to {self.session}"
                    )
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
        """The bytes of a REQUEST; operations: a list of operation() or of any bytes; rest: bytes
        behind them."""
        if isinstance(operations, bytes):
            operations = [operations]
        return (
            self.header(
                REQUEST, count=len(operations) if count is None else count, window=window, **fields
            )
            + b"".join(operations)
            + rest
        )

    def post(self, operations, *, priority=0, to=None, **fields):
        """Sends a REQUEST and gives its request_id; await_reply is for later. Fields as in
        whole()."""
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

    def request(self, operations, *, again=True, **fields):
        """Sends a REQUEST, in parts if need be, and gives its Reply, fetched to its end. again:
        operations for which the message had no time left, which got OVERLOADED, are sent again in a
        message of their own (section 4.6).
        """
        timeout = fields.pop("timeout", None)
        reply = self.await_reply(self.post(operations, **fields), timeout)
        done = next(
            (at for at, result in enumerate(reply.results) if result.status == S.OVERLOADED), 0
        )
        if not again or done == 0 or "count" in fields or "request_id" in fields:
            return reply
        if any(result.status != S.OVERLOADED for result in reply.results[done:]):
            raise Violation(f"operations behind one that was not executed: {reply}")
        rest = self.request(operations[done:], timeout=timeout, **fields)
        if rest.status:
            raise Violation(f"the rest of a message is refused: {rest}")
        return Reply(
            0, "", reply.results[:done] + rest.results, reply.parts + rest.parts, reply.request_id
        )

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
        return Reply(
            0, "", decode_results(message.body, head.count, self.segment, window), parts, request_id
        )

    def send_part(self, total_bytes, offset, data, request_id, priority=0, **fields):
        self.send_raw(
            self.header(PART, **({"request_id": request_id} | fields))
            + part_body(total_bytes, offset, data),
            priority=priority,
        )

    def send_parts(self, whole, request_id, priority=0, part_bytes=None):
        """All PARTs of a message; the answer to the last one is not awaited. Gives the Message that
        ended it before, if one did."""
        most = (
            (self.welcome.bulk_bytes if self.bulk else self.welcome.lane_bytes) - HEADER_BYTES - 8
        )
        size = min(part_bytes or most, most)
        for offset in range(0, len(whole), size):
            self.send_part(len(whole), offset, whole[offset : offset + size], request_id, priority)
            if offset + size < len(whole):
                answer = self.receive_for(request_id)
                if answer.header.kind != REPLY or answer.header.status or answer.header.count:
                    return answer
        return None

    def send_more(self, request_id, offset, zero=0, **fields):
        self.send_raw(
            self.header(MORE, **({"request_id": request_id} | fields))
            + struct.pack("<II", zero, offset)
        )

    def _fetch(self, message, timeout):
        """The whole of a reply whose first piece this is, and the number of pieces."""
        request_id = message.header.request_id
        whole, parts = b"", 0
        while True:
            total_bytes, offset, data = decode_part(message.body)
            if (
                offset != len(whole)
                or not data
                or offset + len(data) > total_bytes
                or total_bytes <= HEADER_BYTES
            ):
                raise Violation(
                    f"piece at {offset}, {len(data)} of {total_bytes} bytes, after {len(whole)}"
                )
            whole += data
            parts += 1
            if len(whole) == total_bytes:
                break
            self.send_more(request_id, len(whole))
            message = self.receive_for(request_id, timeout)
            if message.header.kind == REPLY:
                return message, parts + 1  # a refusal
        inner = Message(whole)
        if (
            inner.header.secret != self.nonce
            or inner.header.session != self.session
            or inner.header.request_id != request_id
        ):
            raise Violation(f"header inside of a reply in parts: {inner.header}")
        return inner, parts

    # The segment

    def send_segment(self, name, size, **fields):
        """Sends SEGMENT with any name and size, and gives its Reply."""
        body_fields = {key: fields.pop(key) for key in ("name_bytes", "rest") if key in fields}
        request_id = self.new_id()
        self.send_raw(
            self.header(SEGMENT, **({"request_id": request_id} | fields))
            + segment_body(name, size, **body_fields)
        )
        return self.await_reply(request_id)

    def segment_name(self):
        return f"{self.name}.s{os.getpid()}.{next_number()}"

    def offer_segment(self, size):
        """Makes a segment and offers it. Gives the Reply; if that is OK, self.segment is the
        segment."""
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
        """The Result of one operation. A refusal of the whole message becomes one, with the
        sentence as its value."""
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
            entries += [
                entry for entry in (decode_keys(page.value) if flags & KEYS_ONLY else page.entries)
            ]
            cursor = page.next_cursor
            if cursor == 0:
                return entries

    def once_in_order(self, operation_bytes):
        """The Result, when the server has built its order."""
        until = time.monotonic() + 60
        while True:
            result = self.one(operation_bytes)
            if result.status != S.BUSY or time.monotonic() > until:
                return result
            time.sleep(0.002)

    def range_all(self, start=b"", to=b"", prefix=b"", reverse=False, limit=0, flags=0):
        """All entries of a range, page by page."""
        way = REVERSE if reverse else 0
        entries = []
        while True:
            page = self.once_in_order(
                ranged(RANGE, start, flags, to=to, prefix=prefix, limit=limit, way=way)
            )
            if page.status:
                raise Failure(f"range: {page}")
            found = page.entries
            if found and reverse:
                to = found[-1].key
            elif found:
                start, way = found[-1].key, way | BEHIND
            entries += [entry for entry in found if entry.version]
            if page.number == 0:
                return entries


def decode_keys(value):
    """The entries of a page of SCAN with KEYS_ONLY."""
    return decode_entries(value)
