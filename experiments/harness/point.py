"""One run of one point: a fresh daemon on a fresh store, warm-up, measurement, one row."""

import csv
import io
import json
import pathlib
import shutil
import tempfile
import time
from dataclasses import dataclass

from harness import HarnessError, machine, processes

_runs_started = 0


@dataclass(frozen=True)
class Point:
    series: str
    value: str
    repeat: int


@dataclass
class Commands:
    """The full command lines of one run."""

    server: str
    ping: str
    warmup: str
    measure: str
    collect: str


def commands(study, profile, point, places, queue, store, seed):
    """Fills the study's templates. `places` has the folder of the programs."""
    series = next(s for s in study.series if s.name == point.series)
    fields = {
        "serverk": places.build / "serverk",
        "clientk": places.build / "clientk",
        "build": places.build,
        "queue": queue,
        "store": store,
        "seed": seed,
        "series_options": series.options,
        study.knob: point.value,
    }

    def fill(template, **more):
        try:
            return " ".join(template.format(**fields, **more).split())
        except (KeyError, IndexError, ValueError) as error:
            known = ", ".join("{%s}" % name for name in [*fields, *more])
            raise HarnessError(
                f"{study.name}: study.conf: {error} in a command; known fields: {known}"
            ) from error

    return Commands(
        server=fill(study.server_command),
        ping=f"{places.build / 'clientk'} -m {queue} --wait --timeout 10000 ping",
        warmup=fill(
            study.load_command, seconds=_plain(profile.warmup_s), prepare=study.prepare_options
        ),
        measure=fill(study.load_command, seconds=_plain(profile.measure_s), prepare=""),
        collect=fill(study.collect_command),
    )


def run(study, profile, point, places, seed):
    """Runs the point once; (row as a dict, Commands). Leaves no process, queue or file behind."""
    global _runs_started
    _runs_started += 1
    queue = f"{places.queue}-{_runs_started}"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mqkv-study-", dir=places.store_parent))
    try:
        lines = commands(study, profile, point, places, queue, folder / "store", seed)
        (folder / "store").mkdir()
        started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if lines.server:
            with processes.Daemon(lines.server, queue, folder / "log") as daemon:
                measured = _measure(profile, lines, daemon)
                measured.update(_collect(study, lines))
        else:
            measured = _measure(profile, lines, None)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    row = {"series": point.series, study.knob: point.value, "repeat": point.repeat}
    row |= {"started_utc": started, "seed": seed}
    row |= {("load_" + name if name in row else name): text for name, text in measured.items()}
    missing = [name for name in study.metrics if name not in row]
    if missing:
        raise HarnessError(f"{study.name}: the load printed no column {', '.join(missing)}")
    return row, lines


def _measure(profile, lines, daemon):
    """Warm-up, then the measured load between two readings of every counter."""
    if daemon:
        daemon.wait_until_ready(lines.ping)
    if profile.warmup_s > 0:
        processes.run_load(lines.warmup, profile.warmup_s)
    return measured_load(lines.measure, profile.measure_s, daemon)


def measured_load(command, expected_s, daemon):
    """The row that the load prints, and what load, daemon (or None) and machine used meanwhile."""
    before = daemon.cost() if daemon else processes.Cost(0, 0)
    own_before_s = processes.own_cpu_s()
    load_average = machine.load_average()
    window = machine.CpuWindow()

    output, client = processes.run_load(command, expected_s)

    busy_s, stolen_s, total_s = window.end()
    own_s = processes.own_cpu_s() - own_before_s
    memory_kib = 0
    after = before
    if daemon:
        daemon.check_alive()
        after = daemon.cost()
        memory_kib = daemon.peak_memory_kib()
    row = _parse_row(output, command)
    operations = max(float(row["ops"]), 1.0)
    server = processes.Cost(after.cpu_s - before.cpu_s, after.switches - before.switches)
    foreign_s = max(busy_s - server.cpu_s - client.cpu_s - own_s, 0.0)
    row["server_cpu_us_per_op"] = f"{server.cpu_s * 1e6 / operations:.4f}"
    row["server_switches_per_op"] = f"{server.switches / operations:.4f}"
    row["server_peak_memory_kib"] = memory_kib
    row["client_cpu_us_per_op"] = f"{client.cpu_s * 1e6 / operations:.4f}"
    row["client_switches_per_op"] = f"{client.switches / operations:.4f}"
    row["steal_pct"] = f"{100 * stolen_s / max(total_s, 1e-9):.2f}"
    row["foreign_cpu_pct"] = f"{100 * foreign_s / max(total_s, 1e-9):.2f}"
    row["load_average"] = f"{load_average:.2f}"
    return row


def _parse_row(output, command):
    """The one row after the header line."""
    rows = list(csv.DictReader(io.StringIO(output)))
    if len(rows) != 1 or "ops" not in rows[0] or None in rows[0]:
        raise HarnessError(
            f"a CSV header with a column 'ops' and one row were expected from: {command}\n  got: "
            + output[:200].strip()
        )
    return rows[0]


def _collect(study, lines):
    """Columns that the study takes from the daemon's statistics after the measurement."""
    if not lines.collect:
        return {}
    output, _ = processes.run_load(lines.collect, 10)
    columns = {}
    for column, path in study.collected.items():
        node = json.loads(output)
        for step in path.split("."):
            try:
                node = node[int(step)] if isinstance(node, list) else node[step]
            except (KeyError, IndexError, ValueError, TypeError) as error:
                raise HarnessError(
                    f"{study.name}: [collect] {column} = {path}: nothing at '{step}'"
                ) from error
        columns[column] = node
    return columns


def _plain(seconds):
    return f"{seconds:g}"
