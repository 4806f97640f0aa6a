#!/usr/bin/env python3
"""channels_across SOCKET SOCKET CLIENTK QUEUE: subscribers of one kresp hear the publishers of
another one of the same store. Prints a TAP-like line for each check; exit status 1 if one fails."""
import subprocess
import sys
import threading

from replies import Peer, request, wait_until

HERE, THERE, CLIENTK, QUEUE = sys.argv[1:]
failed = []


def check(holds, what, shown=""):
    print(f"{'ok' if holds else 'not ok'} - {what}")
    if not holds:
        print(f"    {shown!r:.500}")
        failed.append(what)


def message(channel, text):
    return request([b"message", channel.encode(), text.encode()])


def subscriber(path, *channels):
    peer = Peer(path)
    peer.send(request([b"subscribe", *(c.encode() for c in channels)]))
    for _ in channels:
        peer.reply()
    return peer


def keys():
    """All keys of the store, kresp's own among them."""
    out = subprocess.run(
        [CLIENTK, "-m", QUEUE, "scan", "--keys"], capture_output=True, text=True, check=True
    )
    return out.stdout.split()


def main():
    here, there = Peer(HERE), Peer(THERE)
    here.call("publish", "c", "to nobody")
    check(keys() == [], "without a subscriber nothing is written", keys())
    reader = subscriber(HERE, "c")
    check(here.call("publish", "c", "0") == b":1\r\n", "within one kresp")
    reader.reply()
    check(keys() == ["kresp:channels:here"], "it says that it is here, and no more", keys())
    check(here.call("dbsize") == b":0\r\n", "which DBSIZE does not count", here.call("dbsize"))
    check(there.call("keys", "*") == b"*0\r\n", "nor does KEYS show it")
    check(there.call("randomkey") == b"$-1\r\n", "nor RANDOMKEY")
    check(there.call("flushall") == b"+OK\r\n", "FLUSHALL")
    check(there.call("publish", "c", "first") == b":0\r\n", "PUBLISH counts those of its own kresp")
    check(reader.reply() == message("c", "first"), "the very first message comes")

    count, publishers = 1000, 3

    def publish(number):
        peer = Peer(THERE)
        for i in range(0, count, 20):
            peer.send(b"".join(request([b"publish", b"c", b"%d %d" % (number, i + j)])
                               for j in range(20)))
            for _ in range(20):
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
    check(all(s == list(range(count)) for s in seen.values()), "all come, each's in order")

    back = subscriber(THERE, "c", "d")
    here.call("publish", "c", "both")
    check(reader.reply() == message("c", "both"), "once where it was published")
    check(back.reply() == message("c", "both"), "and once there")
    there.call("multi")
    there.call("publish", "c", "in EXEC")
    there.call("exec")
    check((reader.reply(), back.reply()) == (message("c", "in EXEC"),) * 2, "from a transaction")
    large = "m" * 1000000
    peer = Peer(THERE)
    peer.send(b"".join(request([b"publish", b"c", large.encode()]) for _ in range(3)))
    got = [reader.reply() == message("c", large) for _ in range(3)]
    check(all(got), "large ones, which no value holds together", got)
    answer = there.call("publish", "c" * 100, b"m" * 1048500)
    check(answer.startswith(b"-ERR string exceeds"), "one that is larger than a value", answer)
    for _ in range(3):
        back.reply()
    # Whoever may write the keys can send what he likes.
    for value in ("", "x", "\x05", "\x01\x00\x00\x00\xff\xff\xff\x7fabc"):
        there.call("set", "kresp:channels:from:0000000000000000", value.encode("latin-1"))
    there.call("set", "kresp:channels:here", "nonsense\n" * 5000)
    there.call("publish", "d", "after nonsense")
    check(back.reply() == message("d", "after nonsense"), "nonsense in the keys is no message")
    wait_until(lambda: here.call("get", "kresp:channels:here").count(b" ") >= 2)
    there.call("publish", "c", "here again")
    check(reader.reply() == message("c", "here again"), "an entry that was lost is written again")
    sys.exit(1 if failed else 0)


main()
