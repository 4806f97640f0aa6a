"""Latency where a system is not driven to its limit: an open loop offers shares of what the system
reached in a closed loop just before. Latency counts from the time that an operation should have
begun, so a pause of the system is in the latency of all that should have begun in it.

Each system gets shares of what it reaches itself: who is faster is offered more.
"""

from harness import point
from judge import loads
from judge.cases import SHARES


def measure(cases, ledger):
    """A run gives the rows of the closed loop and of all shares."""
    names = {case.name for case in cases}
    works = {case.load: case for case in cases}  # one case of each work stands for it

    def run(server, options, profile, case):
        rows = _run(server, options, profile, case)
        return {name: row for name, row in rows.items() if name in names}

    loads.measure(list(works.values()), ledger, loads.Manner(run, _headline))


def _run(server, options, profile, case):
    work = case.name.split("@")[0]
    closed = _load(server, options, profile, "")
    rows = {f"{work}@reached": closed}
    for share in SHARES:
        rate = float(closed["ops_per_s"]) * share / 100
        rows[f"{work}@{share}"] = _load(server, options, profile, f"--rate {rate:.0f}")
    return rows


def _load(server, options, profile, more):
    command = server.load_command(
        f"{options} --warmup {profile.warmup_s:g} -t {profile.measure_s:g} {more}"
    )
    return point.measured_load(command, profile.measure_s, server)


def _headline(row):
    return f"{float(row['ops_per_s']):,.0f} ops/s, p99 {row['p99_us']} us, p99.9 {row['p999_us']}"
