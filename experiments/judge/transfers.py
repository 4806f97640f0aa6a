"""Transactions: money moves between 1,000 accounts (peers/transfer_load.c), which sums up all
balances at its end. A system is PRODUCT or PRODUCT-MANNER; each run has a server and a store of its
own."""

import contextlib

from harness import point, processes
from judge.rows import Workplace
from judge.systems import SYSTEMS, Server

SERVED = ("mqkv", "redis")


def measure(cases, ledger):
    ledger.measure_each(
        cases,
        "transfers",
        lambda case, system, repeat: _run(case, system, ledger, repeat),
        lambda row: f"{float(row['ops_per_s']):,.0f} transfers/s, p99 {row['p99_us']} us",
    )


def _run(case, system, ledger, repeat):
    places, profile = ledger.places, ledger.profile
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(Workplace(places.store_parent))
        server, address = None, place.folder
        product = system.split("-")[0]
        if product in SERVED:
            folder, queue = place.folder / product, place.queue()
            server = stack.enter_context(
                Server(SYSTEMS[product], places, folder, queue, case.options["sync"])
            )
            server.wait_until_it_answers()
            address = server.address

        def command(seconds):
            return (
                f"{places.build}/peers/transfer_load {system} {address} {case.options['threads']}"
                f" {seconds:g} {ledger.load_seed(repeat)}"
            )

        if profile.warmup_s > 0:
            processes.run_load(command(profile.warmup_s), profile.warmup_s)
        return point.measured_load(command(profile.measure_s), profile.measure_s, server)
