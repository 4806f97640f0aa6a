#!/usr/bin/env python3
"""A client of docs/PROTOCOL.md, written from that document alone.

It shares no code with wire/ and clientk/, so that tests can send what libclientk never sends, and
so that the document is proven to be enough. Plain Python: ctypes for the calls that Python lacks,
struct, fcntl and mmap for the rest.

    from mqkv import Session, get, put
    with Session("/serverk") as session:
        reply = session.request([put(b"a", b"1"), get(b"a")])
        reply.results[1].value                       # b"1"

Each layer can be used by itself, and each field of a message can be set to anything:

    Queue                     a message queue: send, receive, attributes, locks
    header, operation         bytes of a header, of an operation, with every field
    decode_header, decode_results, decode_entries
    Session                   handshake, requests, parts, MORE, segment, window, BYE, raw messages
    flood, hello_storm        what a hostile neighbour does (also from the shell: mqkv.py --help)

Decoding is strict: what the document does not allow raises Violation. Times are seconds, unless a
name ends in _ms. A Session belongs to one thread.
"""
import argparse
import os
import random
import secrets
import sys
import time

import mqkv_messages
import mqkv_neighbours
import mqkv_queues
import mqkv_session
from mqkv_messages import ping, put
from mqkv_neighbours import flood, good_client, hello_storm, malformed_storm, request_flood
from mqkv_session import Session

for part in (mqkv_messages, mqkv_queues, mqkv_session, mqkv_neighbours):
    globals().update({name: value for name, value in vars(part).items() if name[0] != "_"})


def main():
    parser = argparse.ArgumentParser(description="the independent client as a tool for tests")
    parser.add_argument("queue", metavar="NAME", help="as in serverk -m")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("ping", help="one session, one PING")
    good = commands.add_parser(
        "good", help="an honest client: prints operations/s, failures, longest wait (s)"
    )
    good.add_argument("seconds", type=float)
    good.add_argument("--timeout", type=float, default=5.0)
    good.add_argument("--pause", type=float, default=0.0, help="between two operations")
    garbage = commands.add_parser(
        "flood", help="threads asleep in mq_send with garbage; prints messages sent"
    )
    garbage.add_argument("seconds", type=float)
    garbage.add_argument("--threads", type=int, default=20)
    garbage.add_argument("--priority", type=int, default=0)
    garbage.add_argument("--to", help="the queue, if not NAME", default=None)
    garbage.add_argument("--bytes", type=int, default=64)
    garbage.add_argument("--awake", action="store_true", help="try again instead of sleeping")
    valid = commands.add_parser(
        "requests", help="sessions with full credits; prints answered, refused, failed"
    )
    valid.add_argument("seconds", type=float)
    valid.add_argument("--threads", type=int, default=20)
    valid.add_argument("--batch", type=int, default=64)
    valid.add_argument("--priority", type=int, default=0)
    storm = commands.add_parser("hellos", help="HELLOs with new nonces; prints what became of them")
    storm.add_argument("count", type=int)
    storm.add_argument(
        "--own-queues", action="store_true", help="each for a queue of its own, all kept open"
    )
    storm.add_argument("--stay", type=float, default=0.0, help="seconds to keep them")
    wrong = commands.add_parser("malformed", help="malformed messages to the lane of a session")
    wrong.add_argument("count", type=int)
    wrong.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.command == "ping":
        with Session(options.queue) as session:
            print(session.one(ping(b"ping")).name)
    elif options.command == "good":
        print(
            "%.0f %d %.3f"
            % good_client(
                options.queue, options.seconds, timeout=options.timeout, pause=options.pause
            )
        )
    elif options.command == "flood":
        print(
            flood(
                options.to or options.queue,
                secrets.token_bytes(options.bytes),
                threads=options.threads,
                seconds=options.seconds,
                priority=options.priority,
                asleep=not options.awake,
            ),
            flush=True,
        )
        os._exit(0)  # threads may be asleep in mq_send
    elif options.command == "requests":
        operations = [put(b"flood%d" % number, b"x" * 8) for number in range(options.batch)]
        print(
            *request_flood(
                options.queue,
                operations,
                threads=options.threads,
                seconds=options.seconds,
                priority=options.priority,
            )
        )
    elif options.command == "hellos":
        keep = [] if options.own_queues else None
        outcomes = hello_storm(
            options.queue, options.count, same_queue=not options.own_queues, keep=keep
        )
        print(*(f"{what}={number}" for what, number in sorted(outcomes.items())), flush=True)
        time.sleep(options.stay)
        for session in keep or ():
            session.close()
    else:
        print(
            "%d sessions"
            % malformed_storm(options.queue, options.count, random.Random(options.seed))
        )


if __name__ == "__main__":
    sys.exit(main())
