#!/usr/bin/env python3
"""scripted_server.py [--level N] [--forgets] [--version V]: a NATS server with a JetStream of its
own, in memory, for tests without a nats-server: as much of both as the engine nats of serverk uses.
Prints its port. What a key begins with says what goes wrong with it:

    lost-       the first publish is applied, and not acknowledged
    nobody-     the first two requests meet no responders
    rival-      somebody else writes the key before the first conditional write
    full-WHO-   writes are refused: the stream, the server, the account is full
    odd-CODE-   writes are refused with that error of JetStream
    lostfull-   the first publish is applied, and not acknowledged; then the stream is full
    ignored-    the first four publishes are not applied, and not answered
    later-      the first two writes are refused for now
    shrunk-     from this write on the server takes messages of 1 KiB only; regrown-: of 1 MiB
    garbage-    answers make no sense
    silent-     there are none
    closing-    the connection is closed after the first publish was applied
    banned-     so is it, and the next three are refused

--scans slow: batches are short and come slowly; hollow: they are empty, though there is more; gaps:
some of their messages are lost the first time.
--level: of the API, as $JS.API.INFO tells it; --forgets: settings that an old server does not know
are missing in what it repeats of a stream; --version: of the server, which it tells there."""
import argparse
import base64
import itertools
import json
import socket
import threading
import time

LOCK = threading.Lock()
VERSION = {}  # what metadata tell
COUNTS = {}  # of what went wrong already, by key


class Stream:
    """One stream: the last message of each subject."""

    def __init__(self, config):
        self.config = config
        self.messages = {}  # subject: (sequence, header lines, data)
        self.ids = {}
        self.last = 0

    def info(self):
        size = sum(len(data) for _, _, data in self.messages.values())
        return {"config": dict(self.config, metadata=dict(self.config.get("metadata", {}),
                                                          **VERSION)),
                "state": {"messages": len(self.messages), "bytes": size, "last_seq": self.last}}

    def store(self, subject, headers, data):
        self.last += 1
        self.messages[subject] = (self.last, headers, data)
        return self.last


STREAMS = {}


def failure(code, err_code, description):
    return {"error": {"code": code, "err_code": err_code, "description": description}}


FULL = {"stream": failure(503, 10077, "maximum bytes exceeded"),
        "server": failure(503, 10023, "insufficient resources"),
        "account": failure(400, 10002, "resource limits exceeded for account")}


def first(key, times=1):
    """Whether this happens to the key for the first time, or the first few."""
    COUNTS[key] = COUNTS.get(key, 0) + 1
    return COUNTS[key] <= times


def publish(stream, subject, headers, data):
    """The acknowledgement of a publish."""
    message_id = headers.get("Nats-Msg-Id")
    if message_id in stream.ids:
        return {"stream": stream.config["name"], "seq": stream.ids[message_id], "duplicate": True}
    expected = headers.get("Nats-Expected-Last-Subject-Sequence")
    sequence = stream.messages.get(subject, (0,))[0]
    if expected is not None and int(expected) != sequence:
        return failure(400, 10071, f"wrong last sequence: {sequence}")
    stream.ids[message_id] = sequence = stream.store(subject, headers, data)
    return {"stream": stream.config["name"], "seq": sequence}


def header_lines(headers):
    return "NATS/1.0\r\n" + "".join(f"{name}: {headers[name]}\r\n" for name in headers) + "\r\n"


class Connection(threading.Thread):
    """One client."""

    def __init__(self, client, options):
        super().__init__(daemon=True)
        self.client = client
        self.options = options
        self.stream = client.makefile("rwb")
        self.inboxes = {}

    def send(self, text, data=b""):
        self.stream.write(text.encode() + data)
        self.stream.flush()

    def answer(self, reply, data, headers=None, status=""):
        sid = next((sid for subject, sid in self.inboxes.items()
                    if subject == reply or (subject.endswith("*") and
                                            reply.startswith(subject[:-1]))), None)
        if sid is None:
            return
        if headers is None and not status:
            self.send(f"MSG {reply} {sid} {len(data)}\r\n", data + b"\r\n")
            return
        block = header_lines(headers or {}).replace("NATS/1.0", "NATS/1.0" + status, 1).encode()
        self.send(f"HMSG {reply} {sid} {len(block)} {len(block) + len(data)}\r\n",
                  block + data + b"\r\n")

    def nobody(self, reply):
        self.answer(reply, b"", status=" 503")

    def introduce(self, max_payload=1048576):
        self.send('INFO {"server_id":"x","version":"2.12.0","headers":true,'
                  f'"max_payload":{max_payload},"jetstream":true,"proto":1}}\r\n')

    def run(self):
        self.introduce()
        try:
            while True:
                words = self.stream.readline().decode().split()
                if not words:
                    break
                self.handle(words)
        except (OSError, ValueError):
            pass
        self.client.close()

    def handle(self, words):
        verb = words[0].upper()
        if verb == "PING":
            self.send("PONG\r\n")
        elif verb == "CONNECT" and COUNTS.get("bans", 0) > 0:
            COUNTS["bans"] -= 1
            self.send("-ERR 'Authorization Violation'\r\n")
            self.client.shutdown(socket.SHUT_WR)
        elif verb == "SUB":
            self.inboxes[words[1]] = words[-1]
        elif verb in ("PUB", "HPUB"):
            size, headers = int(words[-1]), {}
            body = self.stream.read(size + 2)[:-2]
            if verb == "HPUB":
                block, body = body[:int(words[-2])].decode(), body[int(words[-2]):]
                headers = dict(line.split(": ", 1) for line in block.split("\r\n")[1:] if line)
            reply = words[2] if len(words) > (3 if verb == "PUB" else 4) else ""
            with LOCK:
                self.request(words[1], reply, headers, body)

    def request(self, subject, reply, headers, body):
        api, _, name = subject.removeprefix("$JS.API.").rpartition(".")
        if subject.startswith("$KV."):
            self.write(subject, reply, headers, body)
        elif subject == "$JS.API.INFO":
            self.say(reply, {"memory": 0, "api": {"level": self.options.level}})
        elif api == "STREAM.CREATE":
            config = json.loads(body)
            if self.options.forgets:
                config = {member: value for member, value in config.items()
                          if member not in ("allow_msg_ttl", "allow_atomic")}
            STREAMS.setdefault(name, Stream(config))
            self.say(reply, STREAMS[name].info())
        elif name not in STREAMS:
            self.say(reply, failure(404, 10059, "stream not found"))
        elif api == "STREAM.INFO":
            self.say(reply, STREAMS[name].info())
        else:
            self.read(api, STREAMS[name], reply, json.loads(body))

    def say(self, reply, answer):
        self.answer(reply, json.dumps(answer).encode())

    def spoiled(self, key, reply):
        """Whether something goes wrong with the request before it is looked at."""
        if key.startswith("nobody-") and first(key, 2):
            self.nobody(reply)
        elif key.startswith("garbage-"):
            self.answer(reply, b'{"seq":"\\')
        elif not key.startswith("silent-"):
            return False
        return True

    def write(self, subject, reply, headers, body):
        stream = STREAMS["KV_" + subject.split(".")[1]]
        key = subject.split(".", 2)[2]
        if self.spoiled(key, reply):
            return
        if key.startswith("full-"):
            self.say(reply, FULL[key.split("-")[1]])
            return
        if key.startswith("odd-"):
            self.say(reply, failure(400, int(key.split("-")[1]), "odd writes are not taken"))
            return
        if key.startswith("lostfull-") and COUNTS.get(key):
            self.say(reply, FULL["stream"])
            return
        if key.startswith(("shrunk-", "regrown-")):
            self.introduce(1024 if key.startswith("shrunk-") else 1048576)
        if key.startswith("ignored-") and first(key, 4):
            return
        if key.startswith("later-") and first(key, 2):
            self.say(reply, failure(503, 10077, "store is closed"))
            return
        conditional = "Nats-Expected-Last-Subject-Sequence" in headers
        if key.startswith("rival-") and conditional and first(key):
            stream.store(subject, {}, b"100")
        acknowledgement = publish(stream, subject, headers, body)
        if key.startswith(("lost-", "lostfull-")) and first(key):
            return
        if key.startswith("banned-") and first(key):
            COUNTS["bans"] = 3
            self.client.shutdown(socket.SHUT_RDWR)
            return
        if key.startswith("closing-") and first(key):
            self.client.shutdown(socket.SHUT_RDWR)
            return
        self.say(reply, acknowledgement)

    def read(self, api, stream, reply, asked):
        if "next_by_subj" in asked:
            self.read_batch(stream, reply, asked)
            return
        subject = asked["last_by_subj"]
        if self.spoiled(subject.split(".", 2)[2], reply):
            return
        found = stream.messages.get(subject)
        if api == "STREAM.MSG.GET":
            if not found:
                self.say(reply, failure(404, 10037, "no message found"))
                return
            message = {"subject": subject, "seq": found[0],
                       "data": base64.b64encode(found[2]).decode()}
            if found[1]:
                message["hdrs"] = base64.b64encode(header_lines(found[1]).encode()).decode()
            self.say(reply, {"message": message})
        elif found:
            self.give(stream, reply, subject, found)
        else:
            self.answer(reply, b"", status=" 404 Message Not Found")

    def give(self, stream, reply, subject, message, added=None):
        headers = dict(message[1])
        headers.update({"Nats-Stream": stream.config["name"], "Nats-Subject": subject,
                        "Nats-Sequence": message[0]}, **(added or {}))
        self.answer(reply, message[2], headers)

    def lost(self, stream, asked, count):
        """The positions of the messages of a batch that do not arrive."""
        if self.options.scans != "gaps" or not first((stream.config["name"], asked["seq"])):
            return ()
        COUNTS["gaps"] = COUNTS.get("gaps", 0) + 1
        return (range(5), range(3, 9), range(count - 5, count), range(count))[COUNTS["gaps"] % 4]

    def read_batch(self, stream, reply, asked):
        rest = sorted((message[0], subject) for subject, message in stream.messages.items()
                      if message[0] >= asked["seq"])
        if not rest:
            self.answer(reply, b"", status=" 404 No Results")
            return
        if self.options.scans == "slow":
            time.sleep(0.3)
        most = {"slow": 20, "hollow": 0}.get(self.options.scans, asked["batch"])
        shown = list(itertools.islice(rest, most))
        lost, before = self.lost(stream, asked, len(shown)), 0
        for number, (sequence, subject) in enumerate(shown):
            if number not in lost:
                self.give(stream, reply, subject, stream.messages[subject],
                          {"Nats-Num-Pending": len(rest) - number - 1,
                           "Nats-Last-Sequence": before})
            before = sequence
        self.answer(reply, b"", {"Nats-Num-Pending": len(rest) - len(shown),
                                 "Nats-Last-Sequence": before}, " 204 EOB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--level", type=int, default=2)
    parser.add_argument("--forgets", action="store_true")
    parser.add_argument("--version")
    parser.add_argument("--scans", choices=["slow", "hollow", "gaps"])
    options = parser.parse_args()
    if options.version:
        VERSION["_nats.ver"] = options.version
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            client, _ = listener.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Connection(client, options).start()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        time.sleep(0)
