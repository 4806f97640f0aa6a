#!/usr/bin/env python3
"""ask.py URLS SUBJECT PAYLOAD: sends one request to the first NATS server that answers, prints the
answer. For tests: the protocol of clients, as docs.nats.io describes it, and no library."""
import json
import socket
import sys


def ask(port, subject, payload):
    """The answer's bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        stream = connection.makefile("rwb")
        stream.readline()  # INFO
        stream.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
                     b"SUB _INBOX.ask 1\r\n")
        stream.write(f"PUB {subject} _INBOX.ask {len(payload)}\r\n{payload}\r\n".encode())
        stream.flush()
        while True:
            words = stream.readline().split()
            if not words:
                raise OSError("the server closed the connection")
            if words[0] == b"PING":
                stream.write(b"PONG\r\n")
                stream.flush()
            elif words[0] in (b"MSG", b"HMSG"):
                body = stream.read(int(words[-1]) + 2)[:-2]
                return body[int(words[-2]):] if words[0] == b"HMSG" else body


def main():
    for url in sys.argv[1].split(","):
        try:
            answer = ask(int(url.rpartition(":")[2]), sys.argv[2], sys.argv[3])
            json.loads(answer)
        except (OSError, ValueError):
            continue
        print(answer.decode())
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
