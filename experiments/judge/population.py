"""Many keys: filling with batches, memory, a clean restart, a restart after kill -9.

Redis as such keeps an RDB file, which is written before a clean stop and read by either restart;
with its append-only file it has nothing to write, and reads that file.
"""

import pathlib
import time

from judge.rows import Workplace
from judge.systems import SYSTEMS, Server

VALUE_BYTES = 64
FIRST_KEY = "k" + "0" * 15
RESTARTING = ("mqkv", "redis", "redis-aof")


def measure(cases, ledger):
    if not cases:
        return
    systems = list(dict.fromkeys(system for case in cases for system in case.systems))
    case = cases[0]
    keys = ledger.profile.size(case.options["keys"])
    order = [
        (case, system, repeat)
        for repeat in ledger.repeats()
        for system in ledger.shuffled(systems, "population", repeat)
    ]
    ledger.measure(
        order, lambda case, system, repeat: _run(system, keys, ledger, repeat), _headline
    )


def _headline(row):
    return f"{row['keys']:,} keys in {row['fill_s']} s, {row['memory_bytes_per_key']} bytes a key"


def _run(system, keys, ledger, repeat):
    with Workplace(ledger.places.store_parent) as place:
        queue = place.queue()

        def start():
            return Server(SYSTEMS[system], ledger.places, place.folder / system, queue)

        with start() as server:
            server.wait_until_it_answers()
            fill_s = server.fill(keys, VALUE_BYTES, ledger.load_seed(repeat))
            anonymous_kib = _anonymous_kib(server.process.pid)
            row = {
                "keys": keys,
                "value_bytes": VALUE_BYTES,
                "fill_s": f"{fill_s:.3f}",
                "anonymous_kib": anonymous_kib,
                "memory_bytes_per_key": f"{anonymous_kib * 1024 / keys:.1f}",
            }
            if system not in RESTARTING:
                return row
            row["stop_s"] = f"{server.stop():.3f}"
        row["clean_start_s"], server = _timed_start(start)
        with server:
            server.crash()
        row["crash_start_s"], server = _timed_start(start)
        with server:
            return row


def _timed_start(start):
    """From the start of the program to the first value that it answers with."""
    began = time.monotonic()
    server = start()
    try:
        server.wait_until_it_answers(FIRST_KEY, known=True)
    except BaseException:
        server.crash()
        raise
    return f"{time.monotonic() - began:.4f}", server


def _anonymous_kib(pid):
    """Memory that is the process' own: no page of a file, which the kernel can drop."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    sizes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    return int(sizes["RssAnon"]) + int(sizes["RssShmem"])
