"""replies: requests, and replies as bytes, for those that compare kresp with redis-server."""
import os
import re
import socket
import time

ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "a": "\a"}


def words(line):
    """The arguments of a line as redis-cli takes it: blanks separate, "quotes\\x00" and 'quotes'
    hold together."""
    found, at = [], 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        word = ""
        while at < len(line) and not line[at].isspace():
            quote = line[at]
            if quote not in "\"'":
                word += quote
                at += 1
                continue
            at += 1
            while line[at] != quote:
                if line[at] == "\\" and quote == '"':
                    if re.match(r"x[0-9a-fA-F]{2}", line[at + 1 : at + 4]):
                        word += chr(int(line[at + 2 : at + 4], 16))
                        at += 4
                        continue
                    word += ESCAPES.get(line[at + 1], line[at + 1])
                    at += 2
                    continue
                word += line[at]
                at += 1
            at += 1
        found.append(word.encode("latin-1"))
    return found


def wait_until(holds, seconds=20):
    """Whether it holds within these seconds, which are those of tests/counted_time: less each where
    more is to be done than there are CPUs."""
    counted, at = 0.0, time.monotonic()
    while not holds() and counted < seconds:
        time.sleep(0.02)
        now, cpus = time.monotonic(), os.cpu_count()
        counted += (now - at) * cpus / max(os.getloadavg()[0], cpus)
        at = now
    return holds()


def request(arguments):
    """The arguments as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        parts.append(b"$%d\r\n%s\r\n" % (len(argument), argument))
    return b"".join(parts)


class Peer:
    """A connection to a Unix socket that reads replies as the bytes they are."""

    def __init__(self, path, timeout=30):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        """The bytes of one reply; b"" at the end of the connection."""
        line = self.file.readline()
        if not line or line[:1] in b"+-:_#,(":
            return line
        size = int(line[1:])
        if line[:1] in b"$=!":
            return line if size < 0 else line + self.file.read(size + 2)
        count = {b"*": 1, b"~": 1, b">": 1, b"%": 2}[line[:1]] * max(size, 0)
        return line + b"".join(self.reply() for _ in range(count))

    def call(self, *arguments):
        self.send(request([a if isinstance(a, bytes) else str(a).encode() for a in arguments]))
        return self.reply()

    def rest(self):
        """Everything until the peer closes."""
        try:
            return self.file.read()
        except ConnectionResetError:
            return b""
