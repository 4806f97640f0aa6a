"""Ranges: YCSB's workload E (peers/range_load.c), on servers and on engines in process. Each run
has a store of its own, which is filled first."""

import contextlib
import csv
import io

from harness import processes
from judge.rows import Workplace
from judge.systems import SYSTEMS, Server

SERVERS_OF = {"mqkv": "mqkv", "mqkv-queue": "mqkv", "redis": "redis"}
VALUE_BYTES = 1000
TIMEOUT_S = 3600


def measure(cases, ledger):
    ledger.measure_each(
        cases,
        "ranges",
        lambda case, system, repeat: _run(case, system, ledger, repeat),
        lambda row: f"{float(row['ops_per_s']):,.0f} ops/s, p99 {row['p99_us']} us",
    )


def _run(case, system, ledger, repeat):
    places, profile = ledger.places, ledger.profile
    keys = profile.size(case.options["keys"])
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(Workplace(places.store_parent))
        server, address = None, place.folder
        if system in SERVERS_OF:
            product = SERVERS_OF[system]
            folder, queue = place.folder / product, place.queue()
            options = "--ordered" if product == "mqkv" else ""
            server = stack.enter_context(
                Server(SYSTEMS[product], places, folder, queue, "none", options)
            )
            server.wait_until_it_answers()
            address = server.address
        command = (
            f"{places.build}/peers/range_load {system} {address} {keys} {VALUE_BYTES}"
            f" {case.options['threads']} {profile.measure_s:g} {ledger.load_seed(repeat)}"
        )
        output, _ = processes.run_load(command, TIMEOUT_S)
    return next(csv.DictReader(io.StringIO(output))) | {"keys": keys, "value_bytes": VALUE_BYTES}
