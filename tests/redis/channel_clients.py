#!/usr/bin/env python3
"""channel_clients SOCKET LOG: subscribers and publishers of one kresp, which was started with
--threads 3 --buffers 96M: who gets what, in which order, and what becomes of those who do not read.
Prints a TAP-like line for each check; exit status 1 if one fails."""
import re
import sys
import threading

from replies import Peer, request, wait_until

PATH, LOG = sys.argv[1:]
failed = []


def check(holds, what, shown=""):
    print(f"{'ok' if holds else 'not ok'} - {what}")
    if not holds:
        print(f"    {shown!r:.500}")
        failed.append(what)


def bulk(*words):
    """A message as RESP2 has it."""
    return request([w if isinstance(w, bytes) else str(w).encode() for w in words])


def subscriber(*words):
    """A connection that has subscribed, and has read the replies."""
    peer = Peer(PATH)
    peer.send(bulk(*words))
    for _ in words[1:]:
        peer.reply()
    return peer


def info(peer, name):
    return int(re.search(rb"%s:(\d+)" % name.encode(), peer.call("info"))[1])


def used(peer):
    return info(peer, "kresp_buffer_bytes")


def everybody_gets_everything(admin):
    peers = [subscriber("subscribe", "all", "more") for _ in range(7)]
    peers.append(subscriber("psubscribe", "a*", "*l"))
    check(admin.call("publish", "all", "x") == b":9\r\n", "PUBLISH tells how many it reaches")
    numbers = admin.call("pubsub", "numsub", "all", "none")
    check(numbers == b"*4\r\n$3\r\nall\r\n:7\r\n$4\r\nnone\r\n:0\r\n", "NUMSUB", numbers)
    got = [peer.reply() for peer in peers]
    check(got[:7] == [bulk("message", "all", "x")] * 7, "clients of all threads get it", got)
    got = sorted([got[7], peers[7].reply()])
    check(got == sorted(bulk("pmessage", p, "all", "x") for p in ("a*", "*l")), "patterns", got)
    for peer in peers:
        peer.close()
    check(wait_until(lambda: admin.call("publish", "all", "x") == b":0\r\n"), "they leave")


def order_per_publisher():
    reader = subscriber("subscribe", "order")
    count, publishers = 2000, 4

    def publish(number):
        peer = Peer(PATH)
        for i in range(0, count, 50):
            peer.send(b"".join(bulk("publish", "order", f"{number} {i + j}") for j in range(50)))
            for _ in range(50):
                peer.reply()
        peer.close()

    threads = [threading.Thread(target=publish, args=(n,)) for n in range(publishers)]
    for thread in threads:
        thread.start()
    seen = {n: [] for n in range(publishers)}
    for _ in range(count * publishers):
        number, i = map(int, reader.reply().split(b"\r\n")[6].split())
        seen[number].append(i)
    for thread in threads:
        thread.join()
    check(all(s == list(range(count)) for s in seen.values()), "each publisher's messages in order")
    reader.close()


def transactions(admin):
    reader = subscriber("subscribe", "t")
    writer = Peer(PATH)
    script = "redis.call('set',KEYS[1],'v') return redis.call('publish','t','script')"
    check(admin.call("eval", script, 1, "ck") in (b":1\r\n",), "a script publishes")
    admin.call("watch", "ck")
    writer.call("set", "ck", 1)
    admin.call("multi")
    admin.call("publish", "t", "never")
    check(admin.call("exec") in (b"*-1\r\n",), "a transaction that is not committed")
    admin.call("multi")
    admin.call("set", "ck", 2)
    admin.call("publish", "t", "committed")
    check(admin.call("exec") == b"*2\r\n+OK\r\n:1\r\n", "a transaction publishes")
    got = [reader.reply(), reader.reply()]
    want = [bulk("message", "t", m) for m in ("script", "committed")]
    check(got == want, "what is not committed is not published", got)
    for peer in (reader, writer):
        peer.close()


def who_does_not_read(admin):
    before = used(admin)
    lazy = subscriber("subscribe", "flood")
    reader = subscriber("subscribe", "flood")
    message, sent = b"m" * 100000, 0
    while admin.call("publish", "flood", message) == b":2\r\n" and sent < 2000:
        sent += 1
        if reader.reply() != bulk("message", "flood", message):
            break
    check(300 < sent < 1000, "who does not read is closed after 32 MiB", sent)
    check(reader.reply() == bulk("message", "flood", message), "and nobody else is")
    with open(LOG, encoding="utf-8") as log:
        check("what it has not read of the channels" in log.read(), "the log says why")
    check(len(lazy.rest()) < 34 << 20, "it had no more than that")
    for peer in (lazy, reader):
        peer.close()
    check(wait_until(lambda: used(admin) <= before + 65536), "memory is given back", used(admin))


def many_channels(admin):
    before = used(admin)
    peer = Peer(PATH, 120)
    refused = count = 0
    while refused == 0 and count < 1000000:
        peer.send(bulk("subscribe", *range(count, count + 5000)))
        refused = sum(peer.reply().startswith(b"-ERR kresp: no memory") for _ in range(5000))
        count += 5000
    check(50000 < count < 1000000, "a million channels are refused for want of memory", count)
    check(used(admin) <= 96 << 20, "within --buffers")
    check(admin.call("ping") == b"+PONG\r\n", "others are served")
    peer.send(bulk("unsubscribe"))
    for _ in range(1500):
        peer.reply()
    peer.close()
    check(wait_until(lambda: used(admin) <= before + 65536), "they go with the client", used(admin))
    check(admin.call("pubsub", "channels") == b"*0\r\n", "and leave no channel")
    many = subscriber("subscribe", *(f"c{i}" for i in range(3000)))
    many.send(bulk("unsubscribe") + bulk("get", "absent"))
    names = {many.reply().split(b"\r\n")[4] for _ in range(3000)}
    check(len(names) == 3000, "UNSUBSCRIBE names each channel once", len(names))
    check(many.reply() == b"$-1\r\n", "and then commands are allowed again")
    many.close()


def patterns_that_explode(admin):
    peer = Peer(PATH, 120)
    evil = [b"a*" * 200 + b"b%d" % i for i in range(4097)]
    answers = []
    for i in range(0, len(evil), 1000):
        part = evil[i : i + 1000]
        peer.send(bulk("psubscribe", *part))
        answers += [peer.reply() for _ in part]
    check(answers[-1] == b"-ERR kresp: a user has at most 4096 patterns\r\n", "4,096 patterns")
    check(all(a.startswith(b"*3") for a in answers[:-1]), "but no fewer")
    check(admin.call("publish", b"a" * 60000, "x") == b":0\r\n", "none of them matches")
    peer.close()
    check(wait_until(lambda: admin.call("pubsub", "numpat") == b":0\r\n"), "patterns go, too")
    star = subscriber("psubscribe", "a*")
    check(admin.call("publish", b"a" * 60000, "x") == b":1\r\n", "a* matches the longest name")
    star.close()


def main():
    admin = Peer(PATH, 120)
    everybody_gets_everything(admin)
    order_per_publisher()
    transactions(admin)
    who_does_not_read(admin)
    many_channels(admin)
    patterns_that_explode(admin)
    sys.exit(1 if failed else 0)


main()
