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
    for repeat in ledger.repeats():
        for unit in ledger.shuffled(units, "engines", repeat):
            case = units[unit][0]
            for engine in ledger.shuffled(case.systems, "engines", repeat, unit):
                if ledger.missing(case, engine, repeat):
                    names = {other.name for other in units[unit]}
                    ledger.run(
                        case,
                        engine,
                        repeat,
                        lambda: _run(case, names, engine, ledger, repeat),
                        lambda row: f"{float(row['ops_per_s']):,.0f} puts/s",
                    )


def _run(case, names, engine, ledger, repeat):
    threads, sync = case.options["threads"], case.options["sync"]
    keys = ledger.profile.choose(case.options["keys"])
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
