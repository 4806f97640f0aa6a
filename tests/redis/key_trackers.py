#!/usr/bin/env python3
"""key_trackers SOCKET CLIENTK QUEUE [memory | feed]: clients of kresp are told of changes of the
keys that they have read (CLIENT TRACKING), whoever changes them. The daemon has one data file, so
that changes come in their order. memory: of a kresp with --buffers 4M. feed: prints "ready", waits
for a line, after which k must have changed, and again, after which changes must have been missed.
Prints a TAP-like line for each check; exit status 1 if one fails."""
import re
import subprocess
import sys
import threading

from replies import Peer, request, wait_until

PATH, CLIENTK, QUEUE, *MODE = sys.argv[1:]
failed = []


def check(holds, what, shown=""):
    print(f"{'ok' if holds else 'not ok'} - {what}")
    if not holds:
        print(f"    {shown!r:.500}")
        failed.append(what)


def clientk(*words):
    subprocess.run([CLIENTK, "-m", QUEUE, *words], check=True, capture_output=True)


def bulk(word):
    return b"$%d\r\n%s\r\n" % (len(word), word)


EVERYTHING = b">2\r\n$10\r\ninvalidate\r\n_\r\n"


def told_of(push):
    """The keys of a push, or None: everything."""
    if push == EVERYTHING:
        return None
    head = b">2\r\n$10\r\ninvalidate\r\n*"
    assert push.startswith(head), push
    return push[len(head) :].split(b"\r\n")[2::2]


class Tracker(Peer):
    """A client of RESP3 that keeps apart what it is told without having asked."""

    def __init__(self, *options, timeout=60):
        super().__init__(PATH, timeout)
        self.told = []
        super().call("hello", 3)
        if options != ("off",):
            reply = self.call("client", "tracking", "on", *options)
            assert reply == b"+OK\r\n", reply

    def answer(self):
        """The next reply; what comes before it was told."""
        while True:
            reply = self.reply()
            if not reply.startswith(b">"):
                return reply
            if reply.startswith(b">3"):
                continue # a message
            keys = told_of(reply)
            self.told += ["everything"] if keys is None else keys

    def call(self, *arguments):
        self.send(request([a if isinstance(a, bytes) else str(a).encode() for a in arguments]))
        return self.answer()

    def waits_for(self, key):
        """Reads until it is told of the key: nothing else may come."""
        while key not in self.told:
            keys = told_of(self.reply())
            self.told += ["everything"] if keys is None else keys
        return True

    def take(self):
        """What it was told until now, of all changes that were made before."""
        fence.told.clear()
        admin.call("incr", "fence:")
        fence.waits_for(b"fence:")
        self.call("ping")
        self.call("ping")
        told, self.told = self.told, []
        return told


def errors():
    peer = Peer(PATH)
    reply = peer.call("client", "tracking", "on")
    check(reply.startswith(b"-ERR kresp: CLIENT TRACKING needs RESP3"), "RESP2 is refused", reply)
    peer = Tracker("off")
    reply = peer.call("client", "tracking", "on", "redirect", 1)
    check(reply.startswith(b"-ERR kresp: CLIENT TRACKING has no REDIRECT"), "so is REDIRECT", reply)
    # As redis-server 7.0 has them.
    for words, text in (
        ("tracking foo", "syntax error"),
        ("tracking on foo", "syntax error"),
        ("tracking off foo", "syntax error"),
        ("tracking on prefix a", "PREFIX option requires BCAST mode to be enabled"),
        ("tracking on optin optout", "You can't specify both OPTIN mode and OPTOUT mode"),
        ("tracking on bcast optin", "OPTIN and OPTOUT are not compatible with BCAST"),
        (
            "tracking on bcast prefix foo prefix f",
            "Prefix 'foo' overlaps with another provided prefix 'f'. Prefixes for a single client "
            "must not overlap.",
        ),
        (
            "caching yes",
            "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or "
            "OPTOUT mode enabled",
        ),
    ):
        reply = peer.call("client", *words.split())
        check(reply == b"-ERR %s\r\n" % text.encode(), f"CLIENT {words}", reply)
    off = b"%3\r\n" + bulk(b"flags") + b"~1\r\n" + bulk(b"off")
    off += bulk(b"redirect") + b":-1\r\n" + bulk(b"prefixes") + b"*0\r\n"
    check(peer.call("client", "trackinginfo") == off, "TRACKINGINFO tells that it is off")
    check(peer.call("client", "getredir") == b":-1\r\n", "and so does GETREDIR")
    peer.call("client", "tracking", "on", "optin", "noloop")
    info = peer.call("client", "trackinginfo")
    check(
        all(bulk(word) in info for word in (b"on", b"optin", b"noloop")) and b"~3\r\n" in info,
        "or on, and how",
        info,
    )
    for words, text in (
        ("caching foo", "syntax error"),
        ("caching no", "CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."),
        (
            "tracking on bcast",
            "You can't switch BCAST mode on/off before disabling tracking for this client, and "
            "then re-enabling it with a different mode.",
        ),
        (
            "tracking on optout",
            "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and "
            "then re-enabling it with a different mode.",
        ),
    ):
        reply = peer.call("client", *words.split())
        check(reply == b"-ERR %s\r\n" % text.encode(), f"CLIENT {words}", reply)
    check(b" flags=t " in peer.call("client", "info"), "CLIENT INFO tells, too")
    check(peer.call("reset") == b"+RESET\r\n", "RESET")
    peer.call("hello", 3)
    check(peer.call("client", "trackinginfo") == off, "turns it off")


def reads():
    peer = Tracker()
    for name, write in (
        ("SET of another client", lambda: admin.call("set", "k", 2)),
        ("its own SET", lambda: peer.call("set", "k", 3)),
        ("clientk put", lambda: clientk("put", "k", "4")),
        ("clientk delete", lambda: clientk("delete", "k")),
        ("INCR", lambda: admin.call("incr", "k")),
        ("a transaction", lambda: [admin.call(*w) for w in (["multi"], ["incr", "k"], ["exec"])]),
        ("a script", lambda: admin.call("eval", "redis.call('set',KEYS[1],1)", 1, "k")),
        ("EXPIRE", lambda: admin.call("expire", "k", 1000)),
        ("the end of its time", lambda: admin.call("psetex", "k", 1, "x")),
    ):
        peer.take()
        peer.call("get", "k")
        write()
        check(peer.waits_for(b"k"), f"told of {name}")
        told = peer.take()
        check(set(told) == {b"k"}, "and of nothing else", told)
    admin.call("psetex", "short", 300, "x")
    peer.take()
    peer.call("get", "short")
    check(peer.waits_for(b"short"), "told that a key has expired")
    admin.call("mset", *sum((["r%d" % i, "v"] for i in range(9)), []))
    peer.take()
    for words in ("exists r0", "ttl r1", "type r2", "strlen r3", "getrange r4 0 1"):
        peer.call(*words.split())
    peer.call("mget", "r5", "r6")
    peer.call("digest", "r7")
    peer.call("getex", "r8")
    admin.call("del", *("r%d" % i for i in range(9)))
    told = peer.take()
    check(sorted(told) == [b"r%d" % i for i in range(8)], "of what commands read, not write", told)
    admin.call("set", "r0", 1)
    told = peer.take()
    check(told == [], "and once, until it reads again", told)
    for words in (["multi"], ["get", "t0"], ["set", "t1", 1], ["exec"]):
        peer.call(*words)
    either = "return redis.call('get',KEYS[2]) or redis.call('get',KEYS[1])"
    peer.call("eval", either, 2, "s0", "s1")
    peer.take()
    admin.call("mset", "t0", 1, "t1", 1, "s0", 1, "s1", 1)
    told = peer.take()
    check(sorted(told) == [b"s0", b"s1", b"t0"], "what transactions and scripts read", told)
    peer.call("get", "left")
    check(peer.call("client", "tracking", "off") == b"+OK\r\n", "off")
    admin.call("set", "left", 1)
    check(peer.take() == [], "nothing is told any more")
    peer.close()


def modes():
    peer = Tracker("noloop")
    for words in (["get", "n"], ["mget", "n1", "n2"], ["get", "n3"], ["get", "n4"], ["get", "n5"]):
        peer.call(*words)
    peer.call("set", "n", 1)
    peer.call("mset", "n1", 1, "n2", 2)
    for words in (["multi"], ["incr", "n3"], ["exec"], ["append", "n4", "x"], ["del", "n"]):
        peer.call(*words)
    peer.call("eval", "return redis.call('set',KEYS[1],1)", 1, "n5")
    check(peer.take() == [], "NOLOOP: it is not told of its own changes")
    for i in range(6):
        peer.call("get", "n%d" % i)
    admin.call("set", "n1", "x")
    check(peer.take() == [b"n1"], "but of those of others")
    peer.close()

    peer = Tracker("optin")
    peer.call("get", "o1")
    peer.send(request([b"client", b"caching", b"yes"]) + request([b"get", b"o2"]))
    peer.send(request([b"get", b"o3"]))
    replies = [peer.answer() for _ in range(3)]
    check(replies == [b"+OK\r\n", b"_\r\n", b"_\r\n"], "CLIENT CACHING YES in a pipeline", replies)
    for words in (["client", "caching", "yes"], ["client", "id"], ["multi"], ["get", "o4"]):
        peer.call(*words)
    for words in (["pttl", "o5"], ["exec"], ["get", "o6"]):
        peer.call(*words)
    admin.call("mset", *sum((["o%d" % i, "v"] for i in range(1, 7)), []))
    told = peer.take()
    check(sorted(told) == [b"o2", b"o4", b"o5"], "OPTIN: only of what it has asked for", told)
    peer.close()

    peer = Tracker("optout")
    for words in (["get", "p1"], ["client", "caching", "no"], ["get", "p2"], ["get", "p3"]):
        peer.call(*words)
    admin.call("mset", "p1", 1, "p2", 2, "p3", 3)
    told = peer.take()
    check(sorted(told) == [b"p1", b"p3"], "OPTOUT: all but what it has not", told)
    peer.close()


def broadcast():
    every, some = Tracker("bcast"), Tracker("bcast", "prefix", "user:", "prefix", "cart:")
    quiet = Tracker("bcast", "noloop", "prefix", "user:")
    reply = some.call("client", "tracking", "on", "bcast", "prefix", "user:1")
    check(reply.startswith(b"-ERR Prefix 'user:1' overlaps with an existing"), "overlap", reply)
    check(some.call("client", "tracking", "on", "bcast", "prefix", "more:") == b"+OK\r\n", "more")
    many = [word for number in range(100000) for word in ("prefix", f"{number:06}:")]
    reply = some.call("client", "tracking", "on", "bcast", *many)  # all pairs would take minutes
    check(reply.startswith(b"-ERR kresp: a user has at most 1024 prefixes"), "too many", reply)
    check(b"flags=tB" in some.call("client", "info"), "CLIENT INFO")
    info = some.call("client", "trackinginfo")
    check(all(bulk(p) in info for p in (b"user:", b"cart:", b"more:")), "TRACKINGINFO", info)
    for peer in (every, some, quiet):
        peer.take()
    clientk("put", "user:1", "x")
    for key in ("user:2", "cart:3", "other", "more:4"):
        admin.call("set", key, 1)
    quiet.call("set", "user:own", 1)
    admin.call("del", "user:2")
    told = some.take()
    wanted = [b"user:1", b"user:2", b"cart:3", b"more:4", b"user:own", b"user:2"]
    check(told == wanted, "BCAST: what begins with its prefixes, in order", told)
    told = quiet.take()
    check(told == [b"user:1", b"user:2", b"user:2"], "NOLOOP, too", told)
    told = every.take()
    check([k for k in told if k != b"fence:"] == wanted[:3] + [b"other"] + wanted[3:], "all", told)
    for peer in (every, some, quiet):
        peer.close()
    check(wait_until(lambda: b"tracking_clients:1\r\n" in admin.call("info")), "they leave")
    check(b"tracking_total_prefixes:1\r\n" in admin.call("info"), "with their prefixes")


def caches_are_right():
    """A client keeps what it reads, and forgets what it is told of: what it has in the end is
    right, however its pipelines lie between the writes of others and messages to itself."""
    peer, names = Tracker("off"), [b"c%d" % i for i in range(40)]
    peer.call("client", "tracking", "on")
    peer.send(request([b"subscribe", b"itself"]))
    peer.reply()
    cache, stop, wrong = {}, threading.Event(), []

    def write():
        writer, number = Peer(PATH), 0
        while not stop.is_set():
            number += 1
            writer.send(b"".join(request([b"set", n, b"%d" % number]) for n in names[::3]))
            for _ in names[::3]:
                writer.reply()
        writer.close()

    def step():
        """Sends a pipeline, and follows what comes."""
        peer.send(request([b"mget", *names[:5]]) + request([b"publish", b"itself", b"x"]))
        peer.send(b"".join(request([b"get", n]) for n in names))
        peer.send(request([b"mget", *names, *([b"absent"] * 300)]))
        wanted = [("all", names[:5]), ("none", [])] + [("one", [n]) for n in names]
        wanted.append(("all", names))
        while wanted:
            reply = peer.reply()
            if reply.startswith(b">2\r\n$10\r\ninvalidate"):
                keys = told_of(reply)
                for key in list(cache) if keys is None else keys:
                    cache.pop(key, None)
            elif not reply.startswith(b">"):
                kind, keys = wanted.pop(0)
                values = reply.split(b"\r\n")
                for i, key in enumerate(keys):
                    cache[key] = values[1 if kind == "one" else 2 + 2 * i]

    admin.call("mset", *sum(([n, b"0"] for n in names), []))
    for _ in range(25):
        stop.clear()
        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(6):
            step()
        stop.set()
        thread.join()
        for key in peer.take():
            for gone in list(cache) if key == "everything" else [key]:
                cache.pop(gone, None)
        wrong += [(k, v) for k, v in cache.items() if bulk(v) != admin.call("get", k)]
    check(not wrong, "no cache is stale when all has been told", wrong)
    peer.close()


def who_does_not_read():
    peer, slow = Tracker(), Tracker("bcast", "prefix", "slow:")
    peer.call("get", "slow:1")
    key, writes = b"slow:" + b"k" * 1000, 200
    for _ in range(100):
        admin.send(request([b"set", key, b"v"]) * writes)
        for _ in range(writes):
            admin.reply()
    told = slow.take()
    check("everything" in told, "who does not read is told that everything has changed", told[-3:])
    check(len(told) < 100 * writes, "instead of all of it", len(told))
    check(peer.take() == [], "others are not")
    admin.call("set", "slow:1", 1)
    check(peer.waits_for(b"slow:1"), "and are told of their keys")
    check(slow.waits_for(b"slow:1"), "as it is when it reads")
    slow.close()
    check(admin.call("flushall") == b"+OK\r\n", "FLUSHALL")
    check("everything" in peer.take(), "changes everything")
    peer.close()


def memory():
    """Reads more keys than can be remembered."""

    def info(name):
        return int(re.search(rb"%s:(\d+)" % name.encode(), admin.call("info"))[1])

    before, count, peer = info("kresp_buffer_bytes"), 20000, Tracker()
    for first in range(0, count, 500):
        names = [b"key:%d" % i + b"x" * 40 for i in range(first, first + 500)]
        peer.send(b"".join(request([b"get", name]) for name in names))
        for name in names:
            peer.answer()
    peer.take()
    peer.call("get", "last")
    items, told = info("tracking_total_items"), peer.told + peer.take()
    check(items < 8000, "what is remembered of a client has a bound", items)
    check(peer.call("client", "tracking", "on") == b"+OK\r\n", "it goes on")
    check(admin.call("set", "large", b"v" * 700000) == b"+OK\r\n", "others have memory left")
    admin.call("set", b"key:%d" % (count - 1) + b"x" * 40, 1)
    told = peer.take()
    check(told == [b"key:%d" % (count - 1) + b"x" * 40], "the newest are remembered", told[:3])
    peer.call("get", "last")
    peer.close()
    check(wait_until(lambda: info("tracking_total_items") == 0), "a client that goes is forgotten")
    left = info("kresp_buffer_bytes") - before
    check(left < 100000, "with its memory", left)


def the_oldest_are_told():
    count, peer = 20000, Tracker()
    for i in range(count):
        peer.send(request([b"get", b"old:%d" % i + b"x" * 40]))
        if i % 500 == 499:
            for _ in range(500):
                peer.answer()
    peer.call("ping")
    peer.call("ping")
    items = int(re.search(rb"tracking_total_items:(\d+)", admin.call("info"))[1])
    wanted = [b"old:%d" % i + b"x" * 40 for i in range(count - items)]
    check(peer.told == wanted, "those that are forgotten are told, the oldest first", items)
    peer.close()


def feed():
    peer = Tracker()
    peer.call("get", "k")
    print("ready", flush=True)
    input()
    check(peer.waits_for(b"k"), "a change after a restart of the daemon is told")
    peer.told.clear()
    peer.call("get", "k")
    print("ready", flush=True)
    input()
    check(peer.waits_for("everything"), "where changes were missed everything has changed")
    peer.told.clear()
    peer.call("get", "new")
    clientk("put", "new", "x")
    check(peer.waits_for(b"new"), "and it goes on")


admin = Peer(PATH, 60)
if MODE == ["feed"]:
    feed()
else:
    fence = Tracker("bcast", "prefix", "fence:")
    tests = [memory, the_oldest_are_told]
    if not MODE:
        tests = [errors, reads, modes, broadcast, caches_are_right, who_does_not_read]
    for test in tests:
        test()
sys.exit(1 if failed else 0)
