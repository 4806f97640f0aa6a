"""Redis' own load program, redis-benchmark, on kresp and on Redis: the servers stay up and take
turns."""

import contextlib
import csv
import io

from harness import HarnessError, machine, processes
from judge.rows import Workplace
from judge.systems import SYSTEMS, Server

PROBE_REQUESTS = 2000  # tell how many requests fill the time that is measured
LEAST_REQUESTS = 1000


def measure(cases, ledger):
    order = [
        (case, system, repeat)
        for repeat in ledger.repeats()
        for case in ledger.shuffled(cases, "redis-benchmark", repeat)
        for system in ledger.shuffled(case.systems, "redis-benchmark", repeat, case.name)
    ]
    if not ledger.has_work(order):
        return
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(Workplace(ledger.places.store_parent))
        servers = {}
        for name in dict.fromkeys(system for _, system, _ in order):
            server = Server(SYSTEMS[name], ledger.places, place.folder / name, place.queue())
            servers[name] = stack.enter_context(server)
            server.wait_until_it_answers()
        ledger.measure(
            order,
            lambda case, system, repeat: _run(case, servers[system], ledger.profile),
            lambda row: f"{float(row['ops_per_s']):,.0f} ops/s, p99 {row['p99_us']} us",
        )


def _run(case, server, profile):
    probe, _ = _load(case, server, PROBE_REQUESTS, profile.measure_s)
    rate = float(probe["rps"])
    if profile.warmup_s > 0:
        _load(case, server, _requests(rate, profile.warmup_s), profile.measure_s)
    requests = _requests(rate, profile.measure_s)
    before = server.cost()
    own_before_s = processes.own_cpu_s()
    load_average = machine.load_average()
    window = machine.CpuWindow()
    measured, client = _load(case, server, requests, profile.measure_s)
    ended = window.end()
    own_s = processes.own_cpu_s() - own_before_s
    server.check_alive()
    after = server.cost()
    used_s = after.cpu_s - before.cpu_s
    row = {
        "ops": requests,
        "ops_per_s": measured["rps"],
        "mean_us": _us(measured["avg_latency_ms"]),
        "p50_us": _us(measured["p50_latency_ms"]),
        "p99_us": _us(measured["p99_latency_ms"]),
        "max_us": _us(measured["max_latency_ms"]),
        "threads": case.options["clients"],
        "batch": case.options["pipeline"],
        "server_cpu_us_per_op": f"{used_s * 1e6 / requests:.4f}",
        "server_switches_per_op": f"{(after.switches - before.switches) / requests:.4f}",
        "client_cpu_us_per_op": f"{client.cpu_s * 1e6 / requests:.4f}",
        "client_switches_per_op": f"{client.switches / requests:.4f}",
        "load_average": f"{load_average:.2f}",
    }
    return row | machine.disturbance(ended, used_s + client.cpu_s + own_s)


def _requests(rate, seconds):
    return max(int(rate * seconds), LEAST_REQUESTS)


def _load(case, server, requests, expected_s):
    """The one row that redis-benchmark prints, and what it cost."""
    options = case.options
    output, cost = processes.run_load(
        f"redis-benchmark -s {server.address} --csv -t {options['test']} -c {options['clients']}"
        f" -P {options['pipeline']} -n {requests} -r 100000 -d 64",
        expected_s,
    )
    rows = list(csv.DictReader(io.StringIO(output)))
    if len(rows) != 1 or "rps" not in rows[0]:
        raise HarnessError(f"redis-benchmark printed no row: {output[:200].strip()}")
    return rows[0], cost


def _us(text):
    return f"{float(text) * 1000:.3f}"
