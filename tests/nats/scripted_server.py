#!/usr/bin/env python3
"""scripted_server.py [--level N] [--forgets] [--version V]: a NATS server with a JetStream of its
own, in memory, for tests without a nats-server: as much of both as the engine nats of serverk uses.
Prints its port, and then a line each time that a sweeper says so ("sweeper"), begins to look
through a stream ("consumer STREAM") and was shown as much as it asked for ("page STREAM"). What a
key begins with says what goes wrong with it:

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
    aged-       what is written was written two hours ago
    reborn-     somebody else writes the key before it is purged
    single-     the message of a batch is stored at once, as of a server that knows no batches
    partial-    the first batch with it is one message short
    raised-     from this write on streams have three replicas, of which only the leader has the key

--scans slow: batches are short and come slowly; empty: they are empty, though there is more; gaps:
some of their messages are lost the first time.
--purged: streams begin as if their first thousand messages had been removed.
--endless: who looks through a stream is shown its first messages again and again.
--level: of the API, as $JS.API.INFO tells it; --forgets: settings that an old server does not know
are missing in what it repeats of a stream; --version: of the server, which it tells there;
--shards: what streams say of their number, whoever makes them."""
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
BATCHES = {}  # messages that wait for the last one, by id


class Stream:
    """One stream: the last message of each subject."""

    def __init__(self, config, last):
        self.config = config
        self.messages = {}  # subject: (sequence, header lines, data)
        self.shown = {}  # by consumer: sequence of the last message
        self.ids = {}
        self.last = last

    def info(self):
        size = sum(len(data) for _, _, data in self.messages.values())
        return {"config": dict(self.config, metadata=dict(self.config.get("metadata", {}),
                                                          **VERSION)),
                "state": {"messages": len(self.messages), "bytes": size, "last_seq": self.last,
                          "first_seq": min((message[0] for message in self.messages.values()),
                                           default=self.last + 1)}}

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
    if "Nats-TTL" in headers and not stream.config.get("allow_msg_ttl"):
        return failure(400, 10166, "per-message TTL is disabled")
    if message_id in stream.ids:
        return {"stream": stream.config["name"], "seq": stream.ids[message_id], "duplicate": True}
    expected = headers.get("Nats-Expected-Last-Subject-Sequence")
    sequence = stream.messages.get(subject, (0,))[0]
    if expected is not None and int(expected) != sequence:
        return failure(400, 10071, f"wrong last sequence: {sequence}")
    stream.ids[message_id] = sequence = stream.store(subject, headers, data)
    return {"stream": stream.config["name"], "seq": sequence}


def publish_batch(stream, batch, batch_id):
    """The acknowledgement of a batch, which is stored as a whole or not at all."""
    for subject, headers, _ in batch:
        if headers["Nats-Msg-Id"] in stream.ids:
            return failure(400, 10201, "atomic publish batch contains duplicate message id")
        expected = headers.get("Nats-Expected-Last-Subject-Sequence")
        about = headers.get("Nats-Expected-Last-Subject-Sequence-Subject", subject)
        sequence = stream.messages.get(about, (0,))[0]
        if expected is not None and int(expected) != sequence:
            return failure(400, 10071, f"wrong last sequence: {sequence}")
    for subject, headers, data in batch:
        sequence = stream.store(subject, headers, data)
        stream.ids[headers["Nats-Msg-Id"]] = sequence
    return {"stream": stream.config["name"], "seq": sequence, "batch": batch_id,
            "count": len(batch)}


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

    def deliver(self, inbox, subject, reply, headers):
        """A message as a consumer shows it: with its own subject, and without its data."""
        block = header_lines(headers).encode()
        self.send(f"HMSG {subject} {self.inboxes[inbox]} {reply} {len(block)} {len(block)}\r\n",
                  block + b"\r\n")

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
        elif verb == "UNSUB":
            self.inboxes = {name: sid for name, sid in self.inboxes.items() if sid != words[1]}
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
                          if member != "allow_atomic"}
            if self.options.shards:
                config["metadata"]["mqkv-shards"] = self.options.shards
            STREAMS.setdefault(name, Stream(config, 1000 if self.options.purged else 0))
            self.say(reply, STREAMS[name].info())
        elif api.startswith("CONSUMER.MSG.NEXT."):
            self.show_next(STREAMS[api.split(".")[-1]], name, reply, json.loads(body)["batch"])
        elif api.startswith("CONSUMER.DELETE."):
            STREAMS[api.split(".")[-1]].shown.pop(name)
            self.say(reply, {"success": True})
        elif name not in STREAMS:
            self.say(reply, failure(404, 10059, "stream not found"))
        elif api == "STREAM.INFO":
            self.say(reply, STREAMS[name].info())
        elif api == "CONSUMER.CREATE":
            consumer = f"c{first('consumers', 0) or COUNTS['consumers']}"
            STREAMS[name].shown[consumer] = 0
            print("consumer", name, flush=True)
            self.say(reply, {"name": consumer,
                             "ts": time.strftime("%Y-%m-%dT%H:%M:%S.5Z", time.gmtime())})
        elif api == "STREAM.PURGE":
            self.purge(STREAMS[name], reply, json.loads(body))
        else:
            self.read(api, STREAMS[name], reply, json.loads(body))

    def show_next(self, stream, consumer, reply, most):
        """The headers of messages that the consumer has not shown yet."""
        rest = sorted((message[0], subject) for subject, message in stream.messages.items()
                      if message[0] > stream.shown[consumer])
        for number, (sequence, subject) in enumerate(rest[:most]):
            written = time.time() - (7200 if subject.split(".", 2)[2].startswith("aged-") else 0)
            self.deliver(reply, subject, f"$JS.ACK.{stream.config['name']}.{consumer}.1.{sequence}."
                         f"1.{int(written * 1e9)}.{len(rest) - number - 1}",
                         stream.messages[subject][1])
            if not self.options.endless:
                stream.shown[consumer] = sequence
        if len(rest) >= most:
            print("page", stream.config["name"], flush=True)
            time.sleep(0.1)
        else:
            self.answer(reply, b"", status=" 404 No Messages")

    def purge(self, stream, reply, asked):
        """Removes what is before a sequence."""
        subject, before = asked["filter"], asked["seq"]
        if subject.split(".", 2)[2].startswith("reborn-") and first(subject):
            stream.store(subject, {}, b"again")
        found = stream.messages.get(subject)
        purged = found is not None and found[0] < before
        if purged:
            del stream.messages[subject]
        self.say(reply, {"success": True, "purged": int(purged)})

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
        if "Nats-Batch-Id" in headers and not key.startswith("single-"):
            self.write_batch(subject, reply, headers, body)
            return
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
        if key == "=sweeper":
            print("sweeper", flush=True)
        if key.startswith("raised-"):
            for each in STREAMS.values():
                each.config["num_replicas"] = 3
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

    def write_batch(self, subject, reply, headers, body):
        """A message of a batch; what a key of it begins with happens to the batch."""
        batch_id = headers["Nats-Batch-Id"]
        batch = BATCHES.setdefault(batch_id, [])
        if int(headers["Nats-Batch-Sequence"]) != len(batch) + 1:
            del BATCHES[batch_id]
            self.say(reply, failure(400, 10176, "atomic publish batch is incomplete"))
            return
        batch.append((subject, headers, body))
        if "Nats-Batch-Commit" not in headers:
            return
        del BATCHES[batch_id]
        stream = STREAMS["KV_" + subject.split(".")[1]]
        keys = {headers.get("Nats-Expected-Last-Subject-Sequence-Subject",
                            subject).split(".", 2)[2] for subject, headers, _ in batch}

        def happens(what, times=1):
            return any(key.startswith(what) and first((what, key), times) for key in keys)

        if happens("silent-", 99) or happens("ignored-", 4):
            return
        if happens("nobody-", 2):
            self.nobody(reply)
            return
        if happens("later-", 2):
            self.say(reply, failure(503, 10077, "store is closed"))
            return
        if happens("partial-"):
            self.say(reply, failure(400, 10176, "atomic publish batch is incomplete"))
            return
        for key in keys:
            if key.startswith("odd-"):
                self.say(reply, failure(400, int(key.split("-")[1]), "odd writes are not taken"))
                return
            if key.startswith("rival-") and first(key):
                stream.store(subject.rsplit(".", 1)[0] + "." + key, {}, b"100")
        acknowledgement = publish_batch(stream, batch, batch_id)
        if happens("lost-"):
            return
        if happens("closing-"):
            self.client.shutdown(socket.SHUT_RDWR)
            return
        self.say(reply, acknowledgement)

    def read(self, api, stream, reply, asked):
        if "batch" in asked:
            self.read_batch(stream, reply, asked)
            return
        if "seq" in asked:
            subject = min((subject for subject, message in stream.messages.items()
                           if message[0] >= asked["seq"]),
                          key=lambda subject: stream.messages[subject][0], default="...")
        else:
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
        elif found and not subject.split(".", 2)[2].startswith("raised-"):
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
        most = {"slow": 20, "empty": 0}.get(self.options.scans, asked["batch"])
        shown, size = [], 0
        for sequence, subject in itertools.islice(rest, most):
            if size >= asked["max_bytes"]:
                break
            size += len(stream.messages[subject][2])
            shown.append((sequence, subject))
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
    parser.add_argument("--shards")
    parser.add_argument("--scans", choices=["slow", "empty", "gaps"])
    parser.add_argument("--purged", action="store_true")
    parser.add_argument("--endless", action="store_true")
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
