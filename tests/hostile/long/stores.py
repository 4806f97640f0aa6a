"""Damaged stores: each opened by kvcheck, salvage, serverk --check and serverk itself. Damaged
here, or by damage_store.c, which makes checksums hold where it likes."""

import json
import os
import random
import re
import subprocess

from process import Daemon, run

MOST_KIB = 512 << 10
MOST_SECONDS = 60
EVERY_START = 8  # of how many stores one is also served
PATTERN = re.compile(rb"^(k\d+)=(\d+):((?:\1)*)$")


def value_of(key, number, length):
    """A value that tells by itself whether it was ever written."""
    return f"{key}={number}:" + key * (length // len(key))


def is_genuine(key, value):
    found = PATTERN.match(value)
    return bool(found) and found[1] == key


class Stores:
    """One damaged store at a time."""

    name = "stores"

    def __init__(self, place):
        self.place = place
        self.done = self.sound = self.refused = self.served = self.peak_kib = 0
        self.slowest_s = 0.0
        self.bases = []
        self.generator = place.build / "tests/damage_store"

    def make_bases(self):
        """Genuine stores: closed in order, killed, of one file and of several, with large
        values."""
        for number, (files, keys, longest, killed) in enumerate(
            ((1, 60, 40, False), (3, 200, 300, False), (2, 150, 100, True), (2, 40, 30000, False))
        ):
            directory = self.place.fresh_dir(f"base{number}")
            log = self.place.scratch / "base.log"
            options = ["-d", str(files), "--sync", "none"]
            with Daemon(self.place.build, self.place.queue, directory, log, options) as daemon:
                if not daemon.ready():
                    raise RuntimeError(f"no store could be made: {log.read_text()}")
                batch = "\n".join(self._lines(keys, longest)) + "\n"
                argv = [*daemon.client, "batch", "-q", "-"]
                filled = subprocess.run(
                    argv, input=batch.encode(), check=False, capture_output=True
                )
                if filled.returncode not in (0, 1):  # 1: a key to delete was not there
                    raise RuntimeError(f"no store could be filled: {filled.stderr.decode()}")
                if killed:
                    daemon.child.kill()
                    daemon.child.wait()
                elif daemon.stop() != 0:
                    raise RuntimeError(f"serverk does not stop cleanly: {log.read_text()}")
            self.place.leftovers()
            (directory / "lock").unlink(missing_ok=True)
            self.bases.append(directory)

    @staticmethod
    def _lines(keys, longest):
        rng = random.Random(keys)
        for number in range(keys * 3):
            key = f"k{rng.randrange(keys)}"
            if rng.random() < 0.15:
                yield f"DEL {key}"
            else:
                ttl = " --ttl 7d" if rng.random() < 0.1 else ""
                yield f"PUT {key} {value_of(key, number, rng.randrange(longest))}{ttl}"

    def round(self, seed):
        """Damages a store and lets all programs look at it; returns what is wrong, or ""."""
        if not self.bases:
            self.make_bases()
        rng = random.Random(seed)
        directory = self.place.fresh_dir("store")
        told, forged = self.damage(rng, directory, seed)
        wrong = self._look(directory, rng, forged)
        self.done += 1
        if not wrong:
            return ""
        kept = self.place.keep(directory, f"store-{seed}")
        return f"stores, seed {seed} ({told}): {wrong}\n  kept: {kept}"

    def damage(self, rng, directory, seed):
        """Returns what was done, and whether checksums may have been made to hold."""
        base = rng.choice(self.bases)
        copy_store(base, directory)
        if self.generator.exists() and rng.random() < 0.7:
            outcome = run([self.generator, directory, seed], self.place.scratch / "damage.log", 60)
            if outcome.status == 0:
                return outcome.output.strip(), True
        told = []
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            told.append(damage_once(rng, directory, rng.choice(self.bases)))
        return ", ".join(told), False

    def _look(self, directory, rng, forged):
        log = self.place.scratch / "look.log"
        build = self.place.build
        salvaged = self.place.fresh_dir("salvaged")
        salvaged.rmdir()
        steps = (
            ("kvcheck", [build / "kvcheck", directory], (0, 1, 4)),
            (
                "kvcheck --dump",
                [build / "kvcheck", "--dump", "--format", "json", directory],
                (0, 1, 4),
            ),
            ("kvcheck --salvage", [build / "kvcheck", "--salvage", salvaged, directory], (0, 1, 4)),
            (
                "serverk --check",
                [build / "serverk", "--check", "-m", self.place.queue, "-f", directory],
                (0, 4),
            ),
        )
        statuses = {}
        for name, argv, allowed in steps:
            outcome = run(argv, log, MOST_SECONDS)
            self.peak_kib = max(self.peak_kib, outcome.peak_kib)
            self.slowest_s = max(self.slowest_s, outcome.seconds)
            statuses[name] = outcome.status
            wrong = outcome.complaint(allowed, MOST_KIB)
            if not wrong and not forged and name == "kvcheck --dump":
                wrong = invented(outcome.output)
            if wrong:
                return f"{name}: {wrong}: {outcome.errors[-3000:]}"
        self.sound += statuses["kvcheck"] == 0
        self.refused += statuses["serverk --check"] != 0
        if statuses["kvcheck --salvage"] in (0, 1):
            outcome = run([build / "kvcheck", salvaged], log, MOST_SECONDS)
            if outcome.status != 0:
                return f"what was salvaged is not sound: {outcome.output[-2000:]}"
        if rng.randrange(EVERY_START) == 0:
            return self._serve(directory, forged)
        return ""

    def _serve(self, directory, forged):
        log = self.place.scratch / "served.log"
        log.write_bytes(b"")
        wrong = ""
        with Daemon(self.place.build, self.place.queue, directory, log) as daemon:
            if daemon.ready():
                self.served += 1
                dump = subprocess.run(
                    [*daemon.client, "--timeout", "30000", "dump", "-"],
                    capture_output=True,
                    check=False,
                    timeout=MOST_SECONDS,
                )
                wrong = "" if forged else invented_lines(dump.stdout)
                status = daemon.stop()
                wrong = wrong or ("" if status == 0 else f"serverk ends with status {status}")
            elif daemon.child.poll() != 4:
                wrong = f"serverk: neither an answer nor exit status 4, but {daemon.child.poll()}"
        self.place.leftovers()
        wrong = daemon.reports() or wrong
        return f"{wrong}: {log.read_text(errors='replace')[-2000:]}" if wrong else ""

    def summary(self):
        return (
            f"{self.done} damaged stores: {self.sound} sound to kvcheck, {self.refused} refused "
            f"by serverk, "
            f"{self.served} served; at most {self.peak_kib // 1024} MiB, {self.slowest_s:.1f} s"
        )


def copy_store(source, target):
    for path in source.iterdir():
        if path.is_file():
            copy_file(path, target / path.name)


def copy_file(source, target):
    """Holes stay holes: some files are of a TiB."""
    subprocess.run(["cp", "--sparse=always", str(source), str(target)], check=True)


def invented(output):
    """Entries of kvcheck --dump that nobody wrote."""
    for line in output.split("\n"):
        if not line.startswith("{"):
            continue
        try:
            record = json.loads(line)
        except ValueError:
            return f"no JSON: {line[:300]}"
        if record.get("value") is None or record.get("truncated"):
            continue
        if not is_genuine(str(record.get("key")).encode(), str(record["value"]).encode()):
            return f"a record that was never written: {line[:300]}"
    return ""


def invented_lines(dump):
    for line in dump.split(b"\n"):
        found = re.match(rb'^PUT "([^"]*)" "([^"]*)"', line)
        if found and not is_genuine(found[1], found[2]):
            return f"an entry that was never written: {line[:300]!r}"
    return ""


# Damage ------------------------------------------------------------------------------------------


def used_bytes(path):
    """Where the data of a file ends: behind it come zeros."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        data = file.read(min(size, 1 << 20))
    return max(len(data.rstrip(b"\0")), 1)


def damage_once(rng, directory, other_base):
    """Does one thing to one file; returns what, in words."""
    files = sorted(path for path in directory.iterdir() if path.name.startswith("data."))
    if not files:
        return "no file left"
    path = rng.choice(files)
    kind = rng.choice(KINDS)
    kind(rng, path, files, other_base)
    return f"{kind.__name__} {path.name}"


def flip_bits(rng, path, _files, _base):
    with open(path, "r+b") as file:
        for _ in range(rng.choice((1, 1, 3, 20))):
            at = rng.randrange(used_bytes(path))
            file.seek(at)
            old = file.read(1) or b"\0"
            file.seek(at)
            file.write(bytes([old[0] ^ (1 << rng.randrange(8))]))


def set_number(rng, path, _files, _base):
    width = rng.choice((2, 4, 8))
    number = rng.choice(
        (0, 1, 255, 4096, 65535, 1 << 20, (1 << 31) - 1, (1 << 32) - 1, (1 << 64) - 1)
    )
    with open(path, "r+b") as file:
        file.seek(rng.randrange(used_bytes(path)) // width * width)
        file.write((number % (1 << (8 * width))).to_bytes(width, "little"))


def header_number(rng, path, files, base):
    """Of the header page alone."""
    with open(path, "r+b") as file:
        file.seek(
            rng.choice((0, 8, 12, 16, 24, 32, 40, 512, 520, 528, 536, 1024, 1032, 1040, 1048))
        )
        file.write(rng.choice((b"\0" * 8, b"\xff" * 8, rng.randbytes(8), rng.randbytes(4))))


def overwrite(rng, path, _files, _base):
    with open(path, "r+b") as file:
        file.seek(rng.randrange(used_bytes(path)))
        file.write(rng.choice((b"\0", b"\xff", rng.randbytes(7))) * rng.choice((1, 8, 512, 4096)))


def truncate(rng, path, _files, _base):
    size = rng.choice(
        (
            rng.randrange(used_bytes(path) + 1),
            rng.randrange(path.stat().st_size + 1),
            0,
            1,
            4095,
            4096,
            4097,
        )
    )
    os.truncate(path, size)


def extend(rng, path, _files, _base):
    with open(path, "ab") as file:
        file.write(rng.choice((b"\0", rng.randbytes(64))) * rng.choice((1, 100, 5000)))


def extend_sparse(rng, path, _files, _base):
    """Up to what a data file may have, and beyond."""
    size = rng.choice((1 << 22, 1 << 30, (32 << 30) - 4096, 32 << 30, (32 << 30) + 8, 1 << 40))
    os.truncate(path, max(size, path.stat().st_size))
    if rng.random() < 0.5:
        with open(path, "r+b") as file:
            file.seek(rng.randrange(size))
            file.write(rng.randbytes(rng.choice((1, 24, 4096))))


def punch(rng, path, _files, _base):
    with open(path, "r+b") as file:
        data = file.read(1 << 20)
        start = rng.randrange(used_bytes(path))
        length = rng.choice((1, 24, 512, 4096, 65536))
        hole = data[:start] + b"\0" * min(length, len(data) - start) + data[start + length :]
        file.seek(0)
        file.write(hole)


def move_piece(rng, path, _files, _base):
    """Records where they do not belong."""
    with open(path, "r+b") as file:
        used = used_bytes(path)
        file.seek(rng.randrange(used) // 8 * 8)
        piece = file.read(rng.choice((24, 64, 512, 4096)))
        file.seek(rng.randrange(used) // 8 * 8)
        file.write(piece)


def swap(rng, path, files, _base):
    other = rng.choice(files)
    if other == path:
        return
    between = path.with_name("between")
    os.rename(path, between)
    os.rename(other, path)
    os.rename(between, other)


def replace(rng, path, _files, base):
    """By a file of another store, or of another kind."""
    others = sorted(base.glob("data.*"))
    copy_file(rng.choice(others), path)


def remove(_rng, path, _files, _base):
    path.unlink()


def add_unfinished(rng, path, _files, _base):
    """What a compaction or a checkpoint leaves that was cut off."""
    name = rng.choice(
        ("data.0000.new", "data.0000.index.tmp", "data.0001.new", "data.0009", "data.9999")
    )
    if name != path.name:
        copy_file(path, path.with_name(name))


KINDS = (
    flip_bits,
    flip_bits,
    set_number,
    set_number,
    header_number,
    overwrite,
    truncate,
    truncate,
    extend,
    extend_sparse,
    punch,
    move_piece,
    swap,
    replace,
    remove,
    add_unfinished,
)
