"""Latency of writes by one client: at rest, while the index grows, while compaction runs.

At rest: keys that exist are overwritten, so few that no file is worth compacting. Growth: every
write is a new key, so that each file's index grows all the time. Compaction: few keys are
overwritten so often that a file is always being compacted.
"""

import json

from harness import point, processes
from judge.rows import Workplace
from judge.systems import SYSTEMS, Server

VALUE_BYTES = 64
NEW_KEYS = 1_000_000_000  # more than a run can write
COMPACTED_SHARE = 10  # of the keys are enough for compaction
SECONDS = {"rest": 0.5, "growth": 1, "compaction": 2}  # times the profile's measure_s


def measure(cases, ledger):
    order = [
        (case, "mqkv", repeat)
        for repeat in ledger.repeats()
        for case in ledger.shuffled(cases, "stalls", repeat)
    ]
    ledger.measure(
        order,
        lambda case, system, repeat: _run(case, ledger, repeat),
        lambda row: f"p99.9 {row['p999_us']} us, {row['compactions']} compactions",
    )


def _run(case, ledger, repeat):
    keys = ledger.profile.size(case.options["keys"])
    if case.name == "compaction":
        keys = max(keys // COMPACTED_SHARE, 1)
    seconds = ledger.profile.measure_s * SECONDS[case.name]
    with Workplace(ledger.places.store_parent) as place:
        folder = place.folder / "mqkv"
        with Server(SYSTEMS["mqkv"], ledger.places, folder, place.queue()) as server:
            server.wait_until_it_answers()
            seed = ledger.load_seed(repeat)
            options = f"-n 1 --mix put=1 -L {VALUE_BYTES} --seed {seed} -t {seconds:g}"
            if case.name == "growth":
                options += f" --keys {NEW_KEYS} --dist sequential"
            else:
                server.fill(keys, VALUE_BYTES, seed)
                options += f" --keys {keys}"
            if case.name == "compaction":
                processes.run_load(server.load_command(options), seconds)  # until it has begun
            before = _compactions(server)
            row = point.measured_load(server.load_command(options), seconds, server)
            return row | {"compactions": _compactions(server) - before}


def _compactions(server):
    command = f"{server.program} -m {server.address} --format json stats"
    output, _ = processes.run_load(command, 10)
    return json.loads(output)["files"]["sum"]["compactions"]
