"""Latency of writes by one client: at rest, while the index grows, while compaction runs, and
beside another client that puts values of 64 MiB into the same data file.

At rest: keys that exist are overwritten, so few that no file is worth compacting. Growth: every
write is a new key, so that each file's index grows all the time. Compaction: few keys are
overwritten so often that a file is always being compacted.
"""

import json
import time

from harness import point, processes
from judge.rows import Workplace
from judge.systems import SYSTEMS, Server

VALUE_BYTES = 64
NEW_KEYS = 1_000_000_000  # more than a run can write
COMPACTED_SHARE = 10  # of the keys are enough for compaction
# times the profile's measure_s
SECONDS = {"rest": 0.5, "growth": 1, "compaction": 2, "large": 1}
LARGE_OPTIONS = "-d 1 --max-value 64M"
LARGE_LOAD = f"-n 1 --mix put=1 -L {64 << 20} --keys 2 --prefix large"
LARGE_FIRST_S = 0.5  # until the first large value is on its way
LARGE_REST_S = 2  # the measured load starts and ends meanwhile


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
        server_options = LARGE_OPTIONS if case.name == "large" else ""
        with Server(
            SYSTEMS["mqkv"], ledger.places, folder, place.queue(), options=server_options
        ) as server:
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
            with _beside(case, server, seconds, seed) as others:
                time.sleep(LARGE_FIRST_S if others.commands else 0)
                row = point.measured_load(server.load_command(options), seconds, server)
                others.check_alive()
            return row | {"compactions": _compactions(server) - before}


def _beside(case, server, seconds, seed):
    seconds += LARGE_FIRST_S + LARGE_REST_S
    large = server.load_command(f"{LARGE_LOAD} --seed {seed} -t {seconds:g}")
    return processes.Beside([large] if case.name == "large" else [])


def _compactions(server):
    command = f"{server.program} -m {server.address} --format json stats"
    output, _ = processes.run_load(command, 10)
    return json.loads(output)["files"]["sum"]["compactions"]
