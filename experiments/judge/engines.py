"""The engines alone, in process: peers/engine_load.c puts all keys in random order, then gets as
many."""

import csv
import io

from harness import processes
from judge.rows import Workplace

VALUE_BYTES = 64
TIMEOUT_S = 3600


def measure(cases, ledger):
    """A run gives a row of puts and one of gets: cases that differ in nothing else share it."""
    units = {}
    for case in cases:
        units.setdefault((case.options["threads"], case.options["sync"]), []).append(case)
    order = []
    for repeat in ledger.repeats():
        for unit in ledger.shuffled(units, "engines", repeat):
            for engine in ledger.shuffled(units[unit][0].systems, "engines", repeat, unit):
                missing = [case for case in units[unit] if ledger.missing(case, engine, repeat)]
                order.append(((missing or units[unit])[0], engine, repeat))
    names = {case.name for case in cases}
    ledger.measure(
        order,
        lambda case, engine, repeat: _run(case, names, engine, ledger, repeat),
        lambda row: f"{float(row['ops_per_s']):,.0f} {row['phase']}s/s",
    )


def _run(case, names, engine, ledger, repeat):
    """names: of the cases whose rows are wanted."""
    threads, sync = case.options["threads"], case.options["sync"]
    keys = ledger.profile.size(case.options["keys"])
    with Workplace(ledger.places.store_parent) as place:
        command = (
            f"{ledger.places.build}/peers/engine_load {engine} {place.folder} {keys} {VALUE_BYTES}"
            f" {threads} {ledger.load_seed(repeat)}{' sync' if sync else ''}"
        )
        output, _ = processes.run_load(command, TIMEOUT_S)
    rows = {}
    for row in csv.DictReader(io.StringIO(output)):
        name = f"engine-{row['phase']}-{'sync-' if sync else ''}{threads}"
        if name in names:
            rows[name] = row | {"keys": keys}
    return rows
