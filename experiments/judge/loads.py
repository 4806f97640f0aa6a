"""Throughput and latency under a load: the servers of an environment stay up, filled with the same
keys, and take turns. busy.py and offered.py say what else can be done with servers that are up."""

import contextlib
import time
from dataclasses import dataclass

from harness import point, processes
from judge.cases import ENVIRONMENTS
from judge.rows import Workplace
from judge.systems import ECHOES, KEY_BYTES, SYSTEMS, Server

QUIET_WINDOW_S = 0.1
QUIET_CPU_S = 0.02
QUIET_TIMEOUT_S = 3


@dataclass(frozen=True)
class Manner:
    """How a work is measured while its servers are up."""

    run: object  # of (server, options of the load, profile, case): a row, or rows by case name
    headline: object  # of such a row
    beside: object = contextlib.nullcontext  # a context while they are measured
    paired: bool = False


def measure(cases, ledger, manner=None):
    manner = manner or Manner(_measure_one, _headline)
    for name in dict.fromkeys(case.environment for case in cases):
        of_environment = [case for case in cases if case.environment == name]
        order = [
            (case, system, repeat)
            for repeat in ledger.repeats(manner.paired)
            for case in ledger.shuffled(of_environment, name, repeat)
            for system in ledger.shuffled(case.systems, name, repeat, case.name)
        ]
        if ledger.has_work(order):
            _measure_environment(ENVIRONMENTS[name], order, ledger, manner)


def _headline(row):
    return f"{float(row['ops_per_s']):,.0f} ops/s, p99 {row['p99_us']} us"


def _measure_environment(environment, order, ledger, manner):
    keys = ledger.profile.size(environment.keys)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(Workplace(ledger.places.store_parent))
        servers = {}
        for name in dict.fromkeys(system for _, system, _ in order if system not in ECHOES):
            server = Server(
                SYSTEMS[name],
                ledger.places,
                place.folder / name,
                place.queue(),
                environment.sync,
                environment.options,
            )
            servers[name] = stack.enter_context(server)
            server.wait_until_it_answers()
            server.fill(keys, environment.value_bytes, ledger.seed)

        def run(case, system, repeat):
            _wait_until_quiet(servers.values())
            options = (
                f"{case.load} -L {environment.value_bytes} --keys {keys} --key-size {KEY_BYTES}"
                f" --seed {ledger.load_seed(repeat)}"
            )
            with _server_of(case, system, servers, place, ledger) as server:
                return manner.run(server, options, ledger.profile, case)

        with manner.beside():
            ledger.measure(order, run, manner.headline)


@contextlib.contextmanager
def _server_of(case, system, servers, place, ledger):
    """One that is up; the echo, which is as the case has it, is up for a run."""
    if system in servers:
        yield servers[system]
        return
    with Server(
        SYSTEMS[system],
        ledger.places,
        place.folder / system,
        place.queue(),
        echo=case.echo,
    ) as server:
        server.wait_until_it_answers()
        yield server


def _measure_one(server, options, profile, _):
    if profile.warmup_s > 0:
        warm_up = server.load_command(f"{options} -t {profile.warmup_s:g}")
        processes.run_load(warm_up, profile.warmup_s)
    command = server.load_command(f"{options} -t {profile.measure_s:g}")
    row = point.measured_load(command, profile.measure_s, server)
    rate = float(row["ops_per_s"]) * float(row["value_bytes"]) / 1e6
    return row | {"megabytes_per_s": f"{rate:.3f}"}


def _wait_until_quiet(servers):
    """What one server does after its load, like compaction, must not burden the next one's."""
    deadline = time.monotonic() + QUIET_TIMEOUT_S
    used_s = None
    while time.monotonic() < deadline:
        now_s = sum(server.cost().cpu_s for server in servers)
        if used_s is not None and now_s - used_s < QUIET_CPU_S:
            return
        used_s = now_s
        time.sleep(QUIET_WINDOW_S)
