#!/usr/bin/env python3
"""mqkv-redis: the strings of a Redis as a dump of clientk, and back.

    mqkv-redis dump -s /run/redis/redis.sock - | clientk load -
    clientk dump - | mqkv-redis load -s /run/redis/redis.sock -

See mqkv-redis(1). It speaks Redis' protocol itself, and needs nothing but Python and libxxhash.
Also python3 -m mqkv.redis.
"""

from __future__ import annotations

import argparse
import codecs
import ctypes
import itertools
import os
import re
import signal
import socket
import sys
import time
from typing import Any, BinaryIO, Iterable, Iterator, NoReturn, Optional, Union

DONE, NOT_ALL, USAGE, NO_SERVER, FAILED = range(5)  # exit status

MAX_KEY_BYTES = 65_535
MAX_VALUE_BYTES = 64 << 20  # the most that serverk --max-value allows
GROUP_BYTES = 4 << 20       # what is asked for at once, about
GROUP_COMMANDS = 500
MAX_BULK_BYTES = 512 << 20  # what Redis itself allows
MAX_ARRAY = 1 << 20
NAMED_KEYS = 10             # of each kind that is left out
PIECE_BYTES = 16 << 10      # escaped at once


class Failure(Exception):
    """What ends the program, with its exit status."""

    def __init__(self, text: str, status: int = FAILED) -> None:
        super().__init__(text)
        self.status = status


# Redis' protocol ---------------------------------------------------------------------------------

class ReplyError(Exception):
    """An error that Redis replied."""


Argument = Union[bytes, str, int]


class Redis:
    """A connection to a Redis, or to anything that speaks RESP2."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.name = options.socket or f"{options.host}:{options.port}"
        try:
            if options.socket:
                self.socket = socket.socket(socket.AF_UNIX)
                self.socket.settimeout(options.timeout)
                self.socket.connect(options.socket)
            else:
                self.socket = socket.create_connection((options.host, options.port),
                                                       options.timeout)
        except OSError as error:
            raise Failure(f"no Redis at {self.name}: {error.strerror or error}",
                          NO_SERVER) from None
        self.stream = self.socket.makefile("rb", 1 << 20)

    def send(self, commands: Iterable[Iterable[Argument]]) -> None:
        """Sends commands, whose replies must be few enough to wait in the socket, or read soon."""
        try:
            self.socket.sendall(b"".join(_encode(command) for command in commands))
        except OSError as error:
            raise Failure(f"{self.name}: {error}", NO_SERVER) from None

    def _read(self, size: Optional[int]) -> bytes:
        """A line, or so many bytes; both end with \\r\\n, which is left out."""
        try:
            data: bytes = self.stream.readline(1 << 16) if size is None else self.stream.read(size)
        except OSError as error:
            raise Failure(f"{self.name} does not answer: {error}", NO_SERVER) from None
        if not data.endswith(b"\r\n") or (size is not None and len(data) != size):
            raise Failure(f"{self.name} closed the connection", NO_SERVER)
        return data[:-2]

    def reply(self, depth: int = 0) -> Any:
        """The next reply: bytes, int, None, a list, or a ReplyError (returned, not raised)."""
        line = self._read(None)
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest
        if kind == b"-":
            return ReplyError(rest.decode(errors="replace"))
        if kind in (b":", b"$", b"*") and re.fullmatch(rb"-?\d{1,19}", rest):
            number = int(rest)
            if kind == b":":
                return number
            if kind == b"$" and number <= MAX_BULK_BYTES:
                return self._read(number + 2) if number >= 0 else None
            if kind == b"*" and number <= MAX_ARRAY and depth < 4:
                return [self.reply(depth + 1) for _ in range(number)] if number >= 0 else None
        raise Failure(f"{self.name} does not speak Redis' protocol: {line[:40]!r}")

    def ask(self, *command: Argument) -> Any:
        """One command; an error is raised."""
        self.send([command])
        reply = self.reply()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def surprise(self, command: str, reply: Any) -> Exception:
        """The exception for a reply that the command does not have."""
        if isinstance(reply, ReplyError):
            return reply
        return Failure(f"{self.name} answers {command} with {str(reply)[:40]}: it is no Redis")

    def ask_all(self, commands: list[list[Argument]]) -> list[Any]:
        """The replies of commands that are sent together."""
        self.send(commands)
        return [self.reply() for _ in commands]


def _encode(command: Iterable[Argument]) -> bytes:
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
    return b"".join([b"*%d\r\n" % len(parts), *(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)])


def connect(options: argparse.Namespace) -> Redis:
    """Connects, logs in, selects the database."""
    redis = Redis(options)
    try:
        if options.password_file:
            with open(options.password_file, "rb") as file:
                password = file.readline().rstrip(b"\r\n")
            login: list[Argument] = ["AUTH", password]
            if options.user:
                login.insert(1, options.user)
            redis.ask(*login)
        if options.db:
            redis.ask("SELECT", options.db)
        redis.ask("PING")
    except OSError as error:
        raise Failure(f"{options.password_file}: {error.strerror}", USAGE) from None
    except ReplyError as error:
        raise Failure(f"{redis.name}: {error}") from None
    return redis


# The format of clientk dump ----------------------------------------------------------------------

HEADER = b"# mqkv dump "
TRAILER = b"# mqkv dump end: "
_EXPIRES = re.compile(rb'" --expires-at (\d{1,19})')
_WRONG = re.compile(rb'\\(?!x[0-9a-fA-F]{2}|[nrt0"])|(?<!\\)"')
_ESCAPES = {byte: chr(byte) if 0x20 <= byte < 0x7f else f"\\x{byte:02x}" for byte in range(256)}
_ESCAPES |= {0: r"\0", 9: r"\t", 10: r"\n", 13: r"\r", 0x22: r"\"", 0x5c: r"\\"}


def _checksum_function() -> Any:
    """XXH3_64bits_withSeed(bytes, size, seed) of the library that clientk uses."""
    try:
        function = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
    except (OSError, AttributeError):
        raise Failure("libxxhash.so.0 is missing (Debian: libxxhash0)") from None
    function.restype = ctypes.c_uint64
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return function


class Checksum:
    """Of the lines of a dump, and how many they are."""

    def __init__(self) -> None:
        self._function = _checksum_function()
        self.entries = 0
        self.sum = 0

    def add(self, line: bytes) -> None:
        """One more line, without its newline."""
        self.entries += 1
        self.sum = self._function(line, len(line), self.sum)

    def trailer(self) -> bytes:
        """The last line of the dump."""
        return TRAILER + b"%d entries, checksum %016x\n" % (self.entries, self.sum)


def escape(data: bytes) -> bytes:
    """As a word of a batch line, without the quotes."""
    # In pieces: translate() enlarges what it builds again and again.
    return b"".join(data[at:at + PIECE_BYTES].decode("latin-1").translate(_ESCAPES).encode()
                    for at in range(0, len(data), PIECE_BYTES))


def unescape(word: bytes) -> bytes:
    """What stands between the quotes of a word, as it was before escape(). ValueError."""
    # Every backslash begins an escape, but for the second one of \\, which goes first.
    word = word.replace(rb"\\", rb"\x5c")
    wrong = _WRONG.search(word)
    if wrong:
        raise ValueError(f"there is no such escape: {word[wrong.start():][:4].decode('latin-1')}")
    if b"\\" not in word:
        return word
    decoded: Any = codecs.escape_decode(word.replace(rb"\0", rb"\x00"))[0]
    return bytes(decoded)


def put_line(key: bytes, value: bytes, expiry_ms: int) -> bytes:
    """One entry, without the newline."""
    expires = b" --expires-at %d" % expiry_ms if expiry_ms else b""
    return b'PUT "%s" "%s"%s' % (escape(key), escape(value), expires)


def _end_of_word(line: bytes, start: int) -> int:
    """Where the quote stands that ends the word, which begins at start, before another word."""
    at = line.find(b'" "', start)
    while at >= 0:
        before = at
        while before > start and line[before - 1] == 0x5c:
            before -= 1
        if (at - before) % 2 == 0:
            return at
        at = line.find(b'" "', at + 1)
    return -1


def read_put(line: bytes) -> tuple[bytes, bytes, int]:
    """Key, value and expiry of such a line. ValueError."""
    line = line.rstrip(b" \t\r")
    end, expiry_ms = len(line) - 1, 0
    if not line.endswith(b'"'):
        end = line.rfind(b'" --expires-at ')
        match = _EXPIRES.fullmatch(line, end) if end >= 0 else None
        expiry_ms = int(match[1]) if match else -1
    middle = _end_of_word(line, 5)
    if line[:5].upper() != b'PUT "' or expiry_ms < 0 or middle < 0 or middle + 3 > end:
        raise ValueError("this is not a line of a dump (PUT \"key\" \"value\")")
    return unescape(line[5:middle]), unescape(line[middle + 3:end]), expiry_ms


# From Redis --------------------------------------------------------------------------------------

class LeftOut:
    """What has no place in mqkv, by kind."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.names: dict[str, list[bytes]] = {}

    def add(self, kind: str, key: bytes) -> None:
        """Counts a key, and remembers the first ones."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        names = self.names.setdefault(kind, [])
        if len(names) < NAMED_KEYS:
            names.append(key)

    def report(self) -> None:
        """Says what was left out."""
        for kind, count in sorted(self.counts.items()):
            named = ", ".join('"' + escape(key[:100]).decode() + ('..."' if len(key) > 100 else '"')
                              for key in self.names[kind])
            more = f" and {count - NAMED_KEYS} more" if count > NAMED_KEYS else ""
            complain(f"left out: {count} of {kind}: {named}{more}")


Entry = tuple[bytes, bytes, int]


class Source:
    """The strings of a Redis, group by group."""

    def __init__(self, redis: Redis, options: argparse.Namespace) -> None:
        self.redis = redis
        self.options = options
        self.left_out = LeftOut()
        self.has_expiretime = True

    def keys(self) -> Iterator[bytes]:
        """All keys. One that is there all the while comes at least once."""
        cursor = b"0"
        while True:
            command: list[Argument] = ["SCAN", cursor, "COUNT", GROUP_COMMANDS]
            if self.options.match:
                command += ["MATCH", self.options.match]
            reply = self.redis.ask(*command)
            if not (isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], list) and
                    all(isinstance(word, bytes) for word in (reply[0], *reply[1]))):
                raise self.redis.surprise("SCAN", reply)
            cursor = reply[0]
            yield from reply[1]
            if cursor == b"0":
                return

    def _expiries(self, keys: list[bytes]) -> list[int]:
        """Milliseconds since 1970, 0: never, -2: the key is gone."""
        if self.has_expiretime:  # since Redis 7
            replies = self.redis.ask_all([["PEXPIRETIME", key] for key in keys])
            self.has_expiretime = not isinstance(replies[0], ReplyError)
        if not self.has_expiretime:
            replies = self.redis.ask_all([["PTTL", key] for key in keys])
        for reply in replies:
            if not isinstance(reply, int):
                raise self.redis.surprise("PTTL", reply)
        if not self.has_expiretime:
            now_ms = time.time_ns() // 1_000_000
            replies = [now_ms + left if left >= 0 else left for left in replies]
        return [0 if reply == -1 else reply for reply in replies]

    def _sizes(self, keys: list[bytes]) -> Iterator[tuple[bytes, int]]:
        """Those keys that can be taken over, and the sizes of their values."""
        commands: list[list[Argument]] = []
        for key in keys:
            commands += [["TYPE", key], ["STRLEN", key]]
        replies = self.redis.ask_all(commands)
        for key, kind, size in zip(keys, replies[::2], replies[1::2]):
            if not isinstance(kind, bytes):
                raise self.redis.surprise("TYPE", kind)
            if kind == b"none":
                continue  # gone meanwhile
            if kind != b"string" or not isinstance(size, int):
                self.left_out.add(f"type {kind.decode(errors='replace')}", key)
            elif not 1 <= len(key) <= MAX_KEY_BYTES:
                self.left_out.add(f"keys of {len(key)} bytes", key)
            elif size > self.options.max_value:
                self.left_out.add("values above --max-value", key)
            else:
                yield key, size

    def _groups(self) -> Iterator[list[bytes]]:
        """Keys whose values are small enough to be read together."""
        group: list[bytes] = []
        total = 0
        keys = self.keys()
        while chunk := list(itertools.islice(keys, GROUP_COMMANDS)):
            for key, size in self._sizes(chunk):
                if group and (total + size > GROUP_BYTES or len(group) >= GROUP_COMMANDS):
                    yield group
                    group, total = [], 0
                group.append(key)
                total += size
        if group:
            yield group

    def entries(self) -> Iterator[Entry]:
        """All strings: key, value, expiry."""
        for group in self._groups():
            expiries = self._expiries(group)
            values = self.redis.ask_all([["GET", key] for key in group])
            for key, value, expiry_ms in zip(group, values, expiries):
                if isinstance(value, ReplyError):
                    self.left_out.add("another type by now", key)
                elif isinstance(value, bytes):
                    if expiry_ms >= 0:  # else it has ended meanwhile
                        yield key, value, expiry_ms
                elif value is not None:
                    raise self.redis.surprise("GET", value)


def dump(options: argparse.Namespace) -> int:
    """Writes the dump. Its trailer is only there if it is complete."""
    redis = connect(options)
    source = Source(redis, options)
    if options.file != "-" and os.path.exists(options.file) and not options.force:
        raise Failure(f"{options.file} exists; --force replaces it")
    place = f"{options.file}.part{os.getpid()}" if options.file != "-" else "-"
    try:
        with open_output(place) as file:
            checksum = Checksum()
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            file.write(HEADER + f"1, redis {redis.name}, {now}\n".encode())
            for entry in source.entries():
                line = put_line(*entry)
                checksum.add(line)
                file.write(line + b"\n")
            file.write(checksum.trailer())
            file.flush()
            if place != "-":
                os.fsync(file.fileno())
        if place != "-":
            os.rename(place, options.file)
    except ReplyError as error:
        raise Failure(f"{redis.name}: {error}") from None
    except BrokenPipeError:
        raise Failure("the reader of the dump has gone") from None
    except OSError as error:
        raise Failure(f"{options.file}: {error.strerror}") from None
    finally:
        if place != "-" and os.path.exists(place):
            os.unlink(place)
    complain(f"{checksum.entries} entries dumped")
    source.left_out.report()
    note_other_databases(redis, options.db)
    return DONE if options.skip or not source.left_out.counts else NOT_ALL


def note_other_databases(redis: Redis, mine: int) -> None:
    """Says which other databases of this Redis have keys."""
    try:
        text = redis.ask("INFO", "keyspace").decode(errors="replace")
    except (ReplyError, AttributeError):
        return
    for number, keys in re.findall(r"^db(\d+):keys=(\d+)", text, re.M):
        if int(number) != mine:
            complain(f"database {number} has {keys} keys that were not asked for (--db {number})")


# To Redis ----------------------------------------------------------------------------------------

class Target:
    """A Redis that takes entries, many in flight."""

    def __init__(self, redis: Redis, options: argparse.Namespace) -> None:
        self.redis = redis
        self.options = options
        self.group: list[tuple[int, list[Argument]]] = []  # line number, command
        self.group_bytes = 0
        self.loaded = self.expired = self.there = self.failed = 0

    def put(self, number: int, entry: Entry) -> None:
        """Takes the entry of that line."""
        key, value, expiry_ms = entry
        left_ms = expiry_ms - time.time_ns() // 1_000_000
        if expiry_ms and left_ms <= 0:
            self.expired += 1
            return
        command: list[Argument] = ["SET", key, value]
        if expiry_ms:
            command += ["PX", left_ms] if self.options.px else ["PXAT", expiry_ms]
        if self.options.if_absent:
            command.append("NX")
        self.group.append((number, command))
        self.group_bytes += len(key) + len(value)
        if len(self.group) >= GROUP_COMMANDS or self.group_bytes > GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Sends what is waiting, and looks at the replies."""
        replies = self.redis.ask_all([command for _, command in self.group])
        for (number, _), reply in zip(self.group, replies):
            if reply == b"OK":
                self.loaded += 1
            elif reply is None:
                self.there += 1
            else:
                self.failed += 1
                complain(f"{self.options.file}:{number}: {reply}")
        self.group = []
        self.group_bytes = 0

    def report(self) -> None:
        """Says what became of the entries."""
        parts = [f"{self.loaded} entries loaded"]
        parts += [f"{count} {text}" for count, text in (
            (self.there, "were there"), (self.expired, "had expired"), (self.failed, "failed"))
            if count]
        complain(", ".join(parts))


def lines_of(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without their newlines."""
    for number, line in enumerate(file, 1):
        yield number, line.removesuffix(b"\n")


class Check:
    """Whether the lines seen so far are a sound dump."""

    def __init__(self) -> None:
        self.checksum = Checksum()
        self.header: Optional[bytes] = None
        self.trailer: Optional[bytes] = None

    def is_entry(self, line: bytes) -> bool:
        """Takes a line; false: it is the header or the trailer."""
        if line.startswith(TRAILER):
            self.trailer = line
            return False
        if line.startswith(HEADER):
            self.header = line
            return False
        self.checksum.add(line)
        return True

    def verdict(self) -> Optional[str]:
        """What is wrong; None: nothing."""
        if self.header is None:
            return "it has no header: it is not a dump"
        if not self.header.startswith(HEADER + b"1,"):
            return "its format version is not 1"
        if self.trailer is None:
            return f"it has no trailer: it was cut off after {self.checksum.entries} entries"
        if self.trailer + b"\n" != self.checksum.trailer():
            return "its checksum is wrong: it was changed"
        return None


def check_file(options: argparse.Namespace) -> None:
    """Of a file all lines are looked at before the first is loaded."""
    check = Check()
    with open(options.file, "rb") as file:
        for number, line in lines_of(file):
            if check.is_entry(line):
                read_entry(options, number, line)
    judge(options, check)


def judge(options: argparse.Namespace, check: Check) -> None:
    """Ends the program if the dump is not sound, unless forced."""
    wrong = check.verdict()
    if wrong and not options.force:
        raise Failure(f"{options.file}: {wrong} (--force loads it nevertheless)")


def read_entry(options: argparse.Namespace, number: int, line: bytes) -> Optional[Entry]:
    """The entry of a line; None of a comment."""
    if not line.strip() or line.startswith(b"#"):
        return None
    try:
        return read_put(line)
    except ValueError as error:
        if options.force:
            complain(f"{options.file}:{number}: {error}; left out")
            return None
        raise Failure(f"{options.file}:{number}: {error}") from None


def load(options: argparse.Namespace) -> int:
    """Stores the entries of a dump in Redis."""
    try:
        if options.file != "-":
            check_file(options)
        redis = connect(options)
        target = Target(redis, options)
        check = Check()
        with open_input(options.file) as file:
            for number, line in lines_of(file):
                entry = read_entry(options, number, line) if check.is_entry(line) else None
                if entry:
                    target.put(number, entry)
        target.flush()
    except OSError as error:
        raise Failure(f"{options.file}: {error.strerror}", USAGE) from None
    target.report()
    judge(options, check)
    return FAILED if target.failed else DONE


# The program -------------------------------------------------------------------------------------

def complain(text: str) -> None:
    """Says something on stderr."""
    print(f"mqkv-redis: {text}", file=sys.stderr)


def open_output(path: str) -> BinaryIO:
    """The file, or stdout."""
    if path == "-":
        return open(os.dup(1), "wb", 1 << 20)
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", 1 << 20)


def open_input(path: str) -> BinaryIO:
    """The file, or stdin."""
    return open(os.dup(0) if path == "-" else path, "rb", 1 << 20)


def size_of(text: str) -> int:
    """A number of bytes, perhaps with K, M or G."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text, re.I)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size (1000, 64K, 8M)")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="mqkv-redis", allow_abbrev=False,
        description="The strings of a Redis as a dump of clientk, and back.",
        epilog="Exit status: 0 done, 1 not everything has a place in mqkv, 2 usage, 3 no Redis, "
               "4 failed.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="dump | load")
    for name, function, text in (
            ("dump", dump, "write the strings of a Redis as a dump that clientk load reads"),
            ("load", load, "store the entries of a dump of clientk in a Redis")):
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        command.set_defaults(function=function)
        command.add_argument("file", metavar="FILE", help="the dump; - is stdout or stdin")
        command.add_argument("-s", "--socket", metavar="PATH", help="the Unix socket of Redis")
        command.add_argument("--host", default="127.0.0.1", help="else this host (%(default)s)")
        command.add_argument("-p", "--port", type=int, default=6379, help="and port (%(default)s)")
        command.add_argument("--db", type=int, default=0, metavar="N", help="database (0)")
        command.add_argument("--user", metavar="NAME", help="log in as this user")
        command.add_argument("--password-file", metavar="FILE",
                             help="log in with the password in its first line")
        command.add_argument("--timeout", type=float, default=30, metavar="SECONDS",
                             help="for each reply (%(default)s)")
        command.add_argument("--force", action="store_true",
                             help="replace the file" if name == "dump" else
                             "load a dump even if it is damaged or cut off")
        if name == "dump":
            command.add_argument("--match", metavar="PATTERN", help="only keys that match")
            command.add_argument("--max-value", type=size_of, default=MAX_VALUE_BYTES,
                                 metavar="SIZE", help="leave out larger values (64M)")
            command.add_argument("--skip", action="store_true",
                                 help="exit with 0 although something was left out")
        else:
            command.add_argument("--if-absent", action="store_true", help="skip keys that exist")
            command.add_argument("--px", action="store_true",
                                 help="for Redis before 6.2: send how long an entry has left")
    return parser


def main(arguments: Optional[list[str]] = None) -> NoReturn:
    """The program."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = make_parser().parse_args(arguments)
    try:
        status = options.function(options)
    except Failure as failure:
        complain(str(failure))
        status = failure.status
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    sys.exit(status)


if __name__ == "__main__":
    main()
