"""What a store is, as PROTOCOL.md tells it: a model for one client at a time, and random operations
for it."""
import collections
import time

from mqkv_messages import (
    ADD,
    APPEND,
    CANONICAL,
    DELETE,
    EXCHANGE,
    EXISTS,
    GET,
    IF_ABSENT,
    IF_PRESENT,
    KEEP_EXPIRY,
    OPCODE_NAMES,
    PING,
    PUT,
    RANGE_COUNT,
    SYNC,
    SYNC_ALWAYS,
    SYNC_INTERVAL,
    TOUCH,
    operation,
    ranged,
)

Entry = collections.namedtuple(
    "Entry", "value expiry_ms version"
)  # expiry_ms None: never; version None: not known
Operation = collections.namedtuple("Operation", "opcode key value flags fields")

LEAST, MOST = -(2**63), 2**63 - 1
EDGE_MS = 3000  # so near to its expiry a key is left alone: when it goes is not exact


def decimal(value):
    """The number that ADD takes the value for, or None."""
    digits = value[1:] if value[:1] == b"-" else value
    if not 1 <= len(digits) <= 19 or not digits.isdigit():
        return None
    number = int(value)
    return number if LEAST <= number <= MOST else None


class Wrong(Exception):
    """The server did what the model does not allow."""


class Model:
    """entries: what is there. highest: the highest version that was told of each key, also of those
    that are gone."""

    def __init__(self, entries=None, highest=None):
        self.entries, self.highest = entries or {}, highest or {}

    def copy(self):
        return Model(dict(self.entries), dict(self.highest))

    def expire(self):
        now_ms = time.time() * 1000
        for key in [
            key
            for key, entry in self.entries.items()
            if entry.expiry_ms and entry.expiry_ms < now_ms
        ]:
            del self.entries[key]

    def at_an_edge(self, key):
        """Whether the key expires so soon, or did so just now, that nobody can say whether it is
        there."""
        entry = self.entries.get(key)
        return entry and entry.expiry_ms and abs(entry.expiry_ms - time.time() * 1000) < EDGE_MS

    def store(self, key, value, expiry_ms):
        if expiry_ms and expiry_ms < time.time() * 1000:
            self.entries.pop(key, None)
        else:
            self.entries[key] = Entry(value, expiry_ms or None, None)

    def apply(self, operation):
        """Executes it. (status, what the result must say: value, number, found, entry)."""
        opcode, key, value, flags, fields = operation
        entry = self.entries.get(key)
        if opcode in (GET, EXISTS):
            return ("OK", {"entry": entry}) if entry else ("NOT_FOUND", {})
        if opcode == PING:
            return "OK", {"value": value}
        if opcode == SYNC:
            return "OK", {}
        refusal = self.condition(entry, flags, fields)
        if refusal:
            return refusal, {}
        return getattr(self, OPCODE_NAMES[opcode].lower())(key, entry, value, flags, fields)

    @staticmethod
    def condition(entry, flags, fields):
        if flags & IF_ABSENT and entry:
            return "EXISTS"
        if (flags & IF_PRESENT or "version" in fields) and not entry:
            return "NOT_FOUND"
        if "version" in fields and entry.version != fields["version"]:
            return "VERSION_MISMATCH"
        return None

    def put(self, key, entry, value, flags, fields):
        kept = entry.expiry_ms if entry and flags & KEEP_EXPIRY else None
        self.store(key, value, fields.get("expiry_ms") or kept)
        return "OK", {"written": True}

    def exchange(self, key, entry, value, flags, fields):
        self.put(key, entry, value, flags, fields)
        return "OK", {
            "written": True,
            "found": entry is not None,
            "value": entry.value if entry else b"",
        }

    def delete(self, key, entry, *_):
        if not entry:
            return "NOT_FOUND", {}
        del self.entries[key]
        return "OK", {"written": True}

    def add(self, key, entry, value, flags, fields):
        if not entry and "initial" not in fields:
            return "NOT_FOUND", {}
        number = decimal(entry.value) if entry else fields["initial"]
        if number is None or (entry and flags & CANONICAL and entry.value != b"%d" % number):
            return "NOT_A_NUMBER", {}
        least, most = fields.get("bounds", (LEAST, MOST))
        total = number + fields["delta"]
        if not (least <= total <= most and LEAST <= total <= MOST):
            return "OUT_OF_BOUNDS", {"number": number}
        self.store(key, b"%d" % total, entry.expiry_ms if entry else fields.get("expiry_ms"))
        return "OK", {"written": True, "number": total}

    def append(self, key, entry, value, flags, fields):
        whole = (entry.value if entry else b"") + value
        self.store(key, whole, entry.expiry_ms if entry else None)
        return "OK", {"written": True, "number": len(whole)}

    def touch(self, key, entry, value, flags, fields):
        if not entry:
            return "NOT_FOUND", {}
        self.store(key, entry.value, fields.get("expiry_ms"))
        return "OK", {"written": True}

    def judge(self, operation, result):
        """Executes the operation and compares the result; Wrong."""
        status, said = self.apply(operation)
        key = operation.key
        if result.name != status:
            raise Wrong(f"{status} was expected")
        for field in ("value", "number", "found"):
            if field in said and getattr(result, field) != said[field]:
                raise Wrong(f"{field} {said[field]!r:.100} was expected")
        if "written" in said:
            self.learn_version(key, result.version, new=True)
        elif "entry" in said:
            self.judge_entry(key, said["entry"], result, with_value=operation.opcode == GET)

    def judge_entry(self, key, entry, told, with_value=True):
        """told: a Result, or an Entry of a scan."""
        if (
            (with_value and told.value != entry.value)
            or told.value_bytes != len(entry.value)
            or told.expiry_ms != entry.expiry_ms
        ):
            raise Wrong(f"{entry!r:.300} was expected")
        if entry.version is not None and told.version != entry.version:
            raise Wrong(f"version {entry.version} was expected")
        self.learn_version(key, told.version, new=entry.version is None)

    def learn_version(self, key, version, new):
        if version is None or (new and version <= self.highest.get(key, 0)):
            raise Wrong(f"a version above {self.highest.get(key, 0)} was expected")
        self.highest[key] = version
        if key in self.entries:
            self.entries[key] = self.entries[key]._replace(version=version)

    def judge_all(self, session):
        """Compares a scan of everything."""
        self.expire()
        found = {}
        for entry in session.scan_all():
            if entry.key in found:
                raise Wrong(f"scan gives {entry.key!r} twice")
            found[entry.key] = entry
        for key, entry in found.items():
            if self.at_an_edge(key):
                continue
            if key not in self.entries:
                raise Wrong(f"scan gives {key!r:.100}, which is not there: {entry!r:.300}")
            self.judge_entry(key, self.entries[key], entry)
        missing = [key for key in self.entries if key not in found and not self.at_an_edge(key)]
        self.expire()
        missing = [key for key in missing if key in self.entries]
        if missing:
            raise Wrong(f"scan does not give {missing!r:.300}")


    def judge_ranges(self, session, rng):
        """Compares ranges, and counts of them, of a server that was started with --ordered."""
        keys = sorted(self.entries)
        for _ in range(4):
            start, to, prefix = (
                rng.choice(keys)[: rng.randrange(1, 8)] if keys and rng.random() < 0.4 else b""
                for _ in range(3)
            )
            reverse, limit = rng.random() < 0.5, rng.choice((0, 1, 7))
            self.expire()
            found = [e.key for e in session.range_all(start, to, prefix, reverse, limit)]
            counted = session.once_in_order(ranged(RANGE_COUNT, start, to=to, prefix=prefix))
            if found != sorted(found, reverse=reverse) or len(found) != len(set(found)):
                raise Wrong(f"a range is not in order: {found!r:.300}")
            self.expire()
            expected = [
                key
                for key in self.entries
                if key >= start and (not to or key < to) and key.startswith(prefix)
            ]
            wrong = [key for key in set(expected) ^ set(found) if not self.at_an_edge(key)]
            if wrong:
                raise Wrong(f"{start!r} {to!r} {prefix!r}: a range differs in {wrong!r:.300}")
            if counted.status or not any(map(self.at_an_edge, set(expected) | set(found))) and (
                counted.number != len(expected)
            ):
                raise Wrong(f"{len(expected)} keys are counted as {counted}")


class Choice:
    """Random operations for a model."""

    def __init__(self, rng, model, keys=150, longest=6000):
        self.rng, self.model, self.longest = rng, model, longest
        self.keys = [b"key%d" % number for number in range(keys - 3)] + [
            b"k" * 300,
            b"\0",
            bytes(range(256)),
        ]

    def value(self, longest=None):
        longest = longest or self.longest
        kind = self.rng.randrange(10)
        if kind < 4:
            return b"%d" % self.rng.choice((0, 1, -1, 17, MOST, LEAST, self.rng.randrange(10**6)))
        return self.rng.randbytes(self.rng.randrange(100 if kind < 9 else longest))

    def expiry_ms(self):
        now_ms = int(time.time() * 1000)
        return self.rng.choice(
            (0, 1, now_ms - 5000, now_ms + EDGE_MS + 2000, now_ms + 3600000, 2**62)
        )

    def operation(self):
        rng = self.rng
        opcode = rng.choice(
            (GET, GET, GET, EXISTS, PUT, PUT, PUT, DELETE, ADD, ADD, APPEND, EXCHANGE, TOUCH, PING)
        )
        key = rng.choice(self.keys)
        while self.model.at_an_edge(key):
            key = rng.choice(self.keys)
        flags, fields, value = 0, {}, b""
        if opcode in (PUT, EXCHANGE, APPEND, PING):
            value = self.value(100 if opcode == APPEND else None)
        if opcode in (PUT, EXCHANGE):
            flags |= rng.choice((0, 0, 0, IF_ABSENT, IF_PRESENT))
            flags |= KEEP_EXPIRY if rng.random() < 0.2 else 0
        if (
            opcode in (PUT, EXCHANGE, DELETE)
            and not flags & (IF_ABSENT | IF_PRESENT)
            and rng.random() < 0.2
        ):
            known = self.model.entries.get(key)
            fields["version"] = (
                known.version
                if known and known.version and rng.random() < 0.7
                else rng.randrange(1, 2**63)
            )
        if (
            opcode in (PUT, EXCHANGE, TOUCH, ADD)
            and not flags & KEEP_EXPIRY
            and rng.random() < 0.25
        ):
            fields["expiry_ms"] = self.expiry_ms()
        if opcode == ADD:
            fields["delta"] = rng.choice((0, 1, -1, MOST, LEAST, rng.randrange(-1000, 1000)))
            if rng.random() < 0.3:
                fields["bounds"] = tuple(
                    sorted((rng.randrange(-100, 10**6), rng.choice((0, 100, MOST))))
                )
            if rng.random() < 0.6:
                fields["initial"] = rng.randrange(-10, 10)
        if opcode not in (GET, EXISTS, PING):
            flags |= rng.choice((0, 0, 0, 0, 0, 0, 0, 0, SYNC_INTERVAL, SYNC_ALWAYS))
        return Operation(opcode, b"" if opcode == PING else key, value, flags, fields)


def encode(chosen, segment_offset=None):
    """The bytes of an Operation; its value in the segment if an offset is given."""
    fields = dict(chosen.fields)
    if segment_offset is not None:
        return operation(
            chosen.opcode,
            chosen.key,
            b"",
            chosen.flags,
            value_bytes=len(chosen.value),
            segment_offset=segment_offset,
            **fields,
        )
    return operation(chosen.opcode, chosen.key, chosen.value, chosen.flags, **fields)
