#!/usr/bin/env python3
"""key_events SOCKET CLIENTK QUEUE: clients of kresp are told of changed keys, whoever changes them.
Prints a TAP-like line for each check; exit status 1 if one fails."""
import subprocess
import sys

from replies import Peer, request

PATH, CLIENTK, QUEUE = sys.argv[1:]
failed = []


def check(holds, what, shown=""):
    print(f"{'ok' if holds else 'not ok'} - {what}")
    if not holds:
        print(f"    {shown!r:.500}")
        failed.append(what)


def event(pattern, channel, text):
    return request([w.encode() for w in ("pmessage", pattern, channel, text)])


def clientk(*words):
    subprocess.run([CLIENTK, "-m", QUEUE, *words], check=True, capture_output=True)


def main():
    admin, reader = Peer(PATH), Peer(PATH, 60)
    reader.call("psubscribe", "__key*")

    def told(*events):
        got = [reader.reply() for _ in events]
        return got == [event("__key*", channel, text) for channel, text in events], got

    admin.call("set", "before", "x")
    check(admin.call("config", "set", "notify-keyspace-events", "KEA") == b"+OK\r\n", "CONFIG SET")
    admin.call("set", "a", "1")
    check(*told(("__keyspace@0__:a", "set"), ("__keyevent@0__:set", "a"))[:1], "SET")
    admin.call("incr", "a")
    check(*told(("__keyspace@0__:a", "set"), ("__keyevent@0__:set", "a"))[:1], "INCR is a set")
    admin.call("del", "a")
    check(*told(("__keyspace@0__:a", "del"), ("__keyevent@0__:del", "a"))[:1], "DEL")
    clientk("put", "b", "by clientk")
    check(*told(("__keyspace@0__:b", "set"), ("__keyevent@0__:set", "b"))[:1], "clientk put")
    check(admin.call("config", "set", "notify-keyspace-events", "Ex") == b"+OK\r\n", "only expired")
    admin.call("set", "b", "2")
    admin.call("psetex", "c", 50, "x")
    check(*told(("__keyevent@0__:expired", "c"))[:1], "a key has expired")
    admin.call("config", "set", "notify-keyspace-events", "")
    admin.call("psetex", "d", 50, "x")
    admin.call("config", "set", "notify-keyspace-events", "Kg")
    admin.call("del", "b")
    check(*told(("__keyspace@0__:b", "del"))[:1], "off, and on again")
    sys.exit(1 if failed else 0)


main()
