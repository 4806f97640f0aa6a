"""Latency at a load that is the same for all: an open loop offers the same operations per second to
each system, on a quiet machine and beside programs that take the CPUs. What a user has is a load;
offered.py offers each system a share of what that system reaches.
"""

import contextlib

from harness import point
from judge import loads
from judge.busy import burners
from judge.cases import RATES

SECONDS_OF = {"rates": "measure_s", "rates-busy": "pair_s"}


def measure(cases, ledger):
    """A run gives the rows of all rates. The cases are of one kind."""
    names = {case.name for case in cases}
    works = {case.load: case for case in cases}  # one case of each work stands for it

    def run(server, options, profile, case):
        rows = _run(server, options, profile, case)
        return {name: row for name, row in rows.items() if name in names}

    is_busy = any(case.kind == "rates-busy" for case in cases)
    beside = burners if is_busy else contextlib.nullcontext
    loads.measure(list(works.values()), ledger, loads.Manner(run, _headline, beside))


def _run(server, options, profile, case):
    work = case.name.split("@")[0]
    seconds = getattr(profile, SECONDS_OF[case.kind])
    rows = {}
    for rate in RATES:
        command = server.load_command(
            f"{options} --warmup {profile.warmup_s:g} -t {seconds:g} --rate {rate}"
        )
        rows[f"{work}@{rate}"] = point.measured_load(command, seconds, server)
    return rows


def _headline(row):
    return f"{float(row['ops_per_s']):,.0f} ops/s, p99 {row['p99_us']} us, p99.9 {row['p999_us']}"
