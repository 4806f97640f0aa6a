#!/usr/bin/env python3
"""Histories that are right, and such that are wrong on purpose: list_cycles.py tells them apart.

    test_list_cycles.py [FOLDER]

FOLDER: each history is also written there as Elle reads it, as right.N.json or, if it has a cycle,
wrong.N.json.
"""
import sys

from list_cycles import find_anomaly, write_elle


def call(start, end, *steps, guards=(), outcome="done", guard=0, client=0, kind="transact"):
    """A note; a step: ("r", KEY, VALUE) or ("a", KEY, ELEMENT, VERSION, SIZE)."""
    asked, results = [], []
    for step in steps:
        if step[0] == "r":
            asked.append({"call": "get", "key": step[1]})
            results.append({"status": "ok" if step[2] else "not_found", "value": step[2]})
        else:
            asked.append({"call": "append", "key": step[1], "value": f" {step[2]}"})
            results.append({"status": "ok", "version": step[3], "number": step[4]})
    note = {"client": client, "call": kind, "start_ns": start, "end_ns": end, "outcome": outcome}
    note |= {"guard": guard, "guards": list(guards), "then": asked, "else": [], "results": results}
    if outcome == "else":
        note |= {"then": [], "else": asked}
    return note


def lost(start, *steps):
    return call(start, start, *steps, outcome="unknown")


def seen(key, value):
    return {"kind": "value", "key": key, "value": value}


X1, Y1 = call(0, 1, ("a", "x", 1, 1, 2)), call(2, 3, ("a", "y", 1, 1, 2))
BOTH = call(10, 20, ("a", "x", 2, 2, 4), ("a", "y", 2, 2, 4))

RIGHT = {
    "one after the other": [X1, Y1, BOTH, call(30, 31, ("r", "x", " 1 2"), ("r", "y", " 1 2"))],
    "before or after one that is under way": [
        *(X1, Y1, BOTH),
        call(11, 12, ("r", "x", " 1"), ("r", "y", " 1")),
        call(13, 14, ("r", "x", " 1 2"), ("r", "y", " 1 2")),
    ],
    "nothing is there": [call(0, 1, ("r", "x", "")), call(2, 3, ("a", "x", 1, 1, 2))],
    "a lost answer: done, or never done": [
        *(X1, lost(2, ("a", "x", 3, 0, 0)), lost(3, ("a", "x", 4, 0, 0))),
        call(30, 31, ("r", "x", " 1")),
        call(32, 33, ("r", "x", " 1 4")),
    ],
    "a lost answer that nobody has read": [
        *(X1, lost(2, ("a", "x", 3, 0, 0)), call(4, 5, ("a", "x", 5, 7, 6)))
    ],
    "a guard that held": [X1, call(4, 5, ("a", "y", 1, 1, 2), guards=[seen("x", " 1")])],
    "a guard that did not": [
        *(X1, call(4, 5, ("a", "y", 1, 1, 2), guards=[seen("x", "")], outcome="else"))
    ],
    "a batch in its order": [
        *(X1, Y1, BOTH, call(9, 21, ("r", "x", " 1"), kind="batch")),
        call(9, 21, ("r", "y", " 1 2"), kind="batch"),
    ],
}

# What is found, and the history.
WRONG = {
    "write skew": (
        "G2-item",
        [
            call(0, 9, ("r", "x", ""), ("r", "y", ""), ("a", "x", 1, 1, 2), client=1),
            call(0, 9, ("r", "x", ""), ("r", "y", ""), ("a", "y", 2, 1, 2), client=2),
            call(10, 11, ("r", "x", " 1"), ("r", "y", " 2")),
        ],
    ),
    "write skew behind guards": (
        "G2-item",
        [
            call(0, 9, ("a", "x", 1, 1, 2), guards=[seen("y", "")], client=1),
            call(0, 9, ("a", "y", 2, 1, 2), guards=[seen("x", "")], client=2),
            call(10, 11, ("r", "x", " 1"), ("r", "y", " 2")),
        ],
    ),
    "torn read": ("G2-item", [X1, Y1, BOTH, call(11, 19, ("r", "x", " 1 2"), ("r", "y", " 1"))]),
    "torn for two who look at one key each": (
        "G2-item",
        [
            *(X1, Y1, BOTH, call(11, 12, ("r", "x", " 1 2"), client=1)),
            call(13, 14, ("r", "y", " 1"), client=2),
        ],
    ),
    "half of a lost transaction": (
        "G2-item",
        [
            *(X1, Y1, lost(5, ("a", "x", 2, 0, 0), ("a", "y", 2, 0, 0))),
            call(30, 31, ("r", "x", " 1 2"), ("r", "y", " 1")),
            call(32, 33, ("a", "y", 3, 9, 4)),
            call(34, 35, ("r", "y", " 1 3 2")),
        ],
    ),
    "long fork": (
        "G2-item",
        [
            *(call(0, 9, ("a", "x", 1, 1, 2)), call(0, 9, ("a", "y", 2, 1, 2), client=1)),
            call(0, 9, ("r", "x", " 1"), ("r", "y", ""), client=2),
            call(0, 9, ("r", "x", ""), ("r", "y", " 2"), client=3),
        ],
    ),
    "appends in the order of neither": (
        "G0",
        [
            call(0, 9, ("a", "x", 1, 1, 2), ("a", "y", 1, 2, 4), client=1),
            call(0, 9, ("a", "x", 2, 2, 4), ("a", "y", 2, 1, 2), client=2),
            call(10, 11, ("r", "x", " 1 2"), ("r", "y", " 2 1")),
        ],
    ),
    "each reads what the other appends": (
        "G1c",
        [
            call(0, 9, ("a", "x", 1, 1, 2), ("r", "y", " 2"), client=1),
            call(0, 9, ("a", "y", 2, 1, 2), ("r", "x", " 1"), client=2),
        ],
    ),
    "a stale read": ("G2-item-realtime", [X1, call(4, 5, ("r", "x", ""))]),
    "an append that was answered first comes second": (
        "G0-realtime",
        [
            *(call(0, 1, ("a", "x", 1, 2, 4)), call(2, 3, ("a", "x", 2, 1, 2), client=1)),
            call(4, 5, ("r", "x", " 2 1")),
        ],
    ),
    "an append that is read before it was sent": (
        "G1c-realtime",
        [call(0, 1, ("r", "x", " 1")), call(2, 3, ("a", "x", 1, 1, 2))],
    ),
}

# The same, for what has no cycle, or which others would not see.
OTHERWISE_WRONG = {
    "lost update": (
        "lost update",
        [
            call(0, 9, ("r", "x", ""), ("a", "x", 1, 1, 2), client=1),
            call(0, 9, ("r", "x", ""), ("a", "x", 2, 2, 4), client=2),
            call(10, 11, ("r", "x", " 1 2")),
        ],
    ),
    "an acknowledged append is gone": (
        "incompatible order",
        [
            *(X1, call(2, 3, ("r", "x", " 1")), call(4, 5, ("a", "x", 2, 2, 2))),
            call(6, 7, ("r", "x", " 2")),
        ],
    ),
    "the answer tells another size": (
        "lost update",
        [X1, call(2, 3, ("a", "x", 2, 2, 2)), call(4, 5, ("r", "x", " 1 2"))],
    ),
    "versions fall": (
        "versions",
        [X1, call(2, 3, ("a", "x", 2, 1, 4)), call(4, 5, ("r", "x", " 1 2"))],
    ),
    "the list that was not done": (
        "G1a",
        [
            call(0, 1, outcome="else") | {"then": [{"call": "append", "key": "x", "value": " 1"}]},
            call(2, 3, ("r", "x", " 1")),
        ],
    ),
    "nobody wrote it": ("nobody", [call(0, 1, ("r", "x", " 1"))]),
    "two moments": ("internal", [X1, call(4, 5, ("r", "x", " 1"), guards=[seen("x", "")])]),
    "a batch against its order": (
        "G2-item-realtime",
        [
            *(X1, Y1, BOTH, call(9, 21, ("r", "x", " 1 2"), kind="batch")),
            call(9, 21, ("r", "y", " 1"), kind="batch"),
        ],
    ),
}


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    failed = 0
    for name, notes in RIGHT.items():
        found = find_anomaly(notes)
        if found:
            print(f"{name}: not accepted: {found}")
            failed += 1
    for name, (kind, notes) in (WRONG | OTHERWISE_WRONG).items():
        found = find_anomaly(notes) or "nothing"
        if kind not in found.split("\n")[0]:
            print(f"{name}: {kind} is not found, but {found}")
            failed += 1
    for word, histories in (
        ("right", RIGHT.values()),
        ("wrong", (notes for _, notes in WRONG.values())),
    ):
        for number, notes in enumerate(histories):
            if folder:
                write_elle(f"{folder}/{word}.{number}.json", notes)
    wrong = len(WRONG) + len(OTHERWISE_WRONG)
    print(f"{len(RIGHT)} right and {wrong} wrong histories, {failed} misjudged")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
