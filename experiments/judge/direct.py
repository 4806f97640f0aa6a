"""Reads without the daemon, beside LMDB: its database was written by another process, and each
reader keeps its transaction and renews it, which is LMDB's fastest way. `mqkv over queues` is the
same daemon, asked by messages."""

import contextlib

from harness import point, processes
from judge.cases import ENVIRONMENTS
from judge.rows import Workplace
from judge.systems import DIRECT, KEY_BYTES, QUEUES_ONLY, SYSTEMS, Embedded, Load, Server

SERVED = ("mqkv", "redis")
ENDLESS_S = 3600  # the writer's load: it is killed when the reader's is over


def measure(cases, ledger):
    for name in dict.fromkeys(case.environment for case in cases):
        of_environment = [case for case in cases if case.environment == name]
        order = [
            (case, system, repeat)
            for repeat in ledger.repeats()
            for case in ledger.shuffled(of_environment, name, repeat)
            for system in ledger.shuffled(case.systems, name, repeat, case.name)
        ]
        if ledger.has_work(order):
            _measure_environment(ENVIRONMENTS[name], order, ledger)


def _measure_environment(environment, order, ledger):
    keys = ledger.profile.size(environment.keys)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(Workplace(ledger.places.store_parent))
        loads = {}
        for name in dict.fromkeys(system for _, system, _ in order if system != "mqkv-queue"):
            load = _start(name, stack, place, ledger.places, environment, keys)
            load.fill(keys, environment.value_bytes, ledger.seed)
            loads[name] = load
        if "mqkv" in loads:
            loads["mqkv-queue"] = Load(
                SYSTEMS["mqkv-queue"], ledger.places, loads["mqkv"].address, QUEUES_ONLY
            )
            loads["mqkv"].options = DIRECT

        def run(case, system, repeat):
            load = f"-L {environment.value_bytes} --keys {keys} --key-size {KEY_BYTES}"
            load += f" --seed {ledger.load_seed(repeat)}"
            server = loads[system.removesuffix("-queue")]
            with _writer(case, loads[system], load) as writer:
                row = _measure_one(case, loads[system], load, server, ledger.profile)
                writer.check_alive()
            return row

        ledger.measure(
            order, run, lambda row: f"{float(row['ops_per_s']):,.0f} ops/s, p99 {row['p99_us']} us"
        )


def _start(name, stack, place, places, environment, keys):
    folder = place.folder / name
    if name not in SERVED:
        fields = {"value_bytes": environment.value_bytes, "keys": keys}
        return Embedded(SYSTEMS[name], places, folder, **fields)
    server = stack.enter_context(Server(SYSTEMS[name], places, folder, place.queue()))
    server.wait_until_it_answers()
    return server


def _writer(case, load, options):
    """Overwrites keys at full speed beside the reader, where the case has it."""
    wanted = case.options.get("writer")
    command = load.load_command(f"{options} -n 1 --mix put=1 -t {ENDLESS_S}")
    return processes.Beside([command] if wanted else [])


def _measure_one(case, load, options, server, profile):
    daemon = server if isinstance(server, Server) else None
    command = load.load_command(
        f"{case.load} {options} --warmup {profile.warmup_s:g} -t {profile.measure_s:g}"
    )
    row = point.measured_load(command, profile.measure_s, daemon)
    rate = float(row["ops_per_s"]) * float(row["value_bytes"]) / 1e6
    return row | {"megabytes_per_s": f"{rate:.3f}"}
