"""One run of one point: a fresh daemon on a fresh store, warm-up, measurement, one row."""

import csv
import io
import json
import pathlib
import shutil
import string
import tempfile
import time
from dataclasses import dataclass

from harness import HarnessError, awake, machine, processes

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
    fill: str
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
        study.knob: point.value,
    }
    nested = {}  # these may hold fields themselves
    section = study.value_sections.get(point.value)
    for given in (study.fields, profile.fields, section.fields if section else {}, series.fields):
        nested |= given

    def fill(template, **more):
        try:
            own = _resolved(nested, fields | more)
            return " ".join(template.format(**(fields | more | own)).split())
        except (KeyError, IndexError, ValueError) as error:
            known = ", ".join("{%s}" % name for name in [*fields, *nested, *more])
            raise HarnessError(
                f"{study.name}: study.conf: {error} in a command; known fields: {known}"
            ) from error

    return Commands(
        server=fill(study.server_command),
        ping=fill(study.ready_command)
        or f"{places.build / 'clientk'} -m {queue} --wait --timeout 10000 ping",
        fill=fill(study.fill_command),
        warmup=fill(
            study.load_command, seconds=_plain(profile.warmup_s), prepare=study.prepare_options
        ),
        measure=fill(study.load_command, seconds=_plain(profile.measure_s), prepare=""),
        collect=fill(study.collect_command),
    )


def _resolved(nested, known):
    """Fields that may hold other fields, which may do so in turn."""
    own = {}
    waiting = dict(nested)
    while waiting:
        ready = {
            name: text for name, text in waiting.items() if not set(_holds(text)) & set(waiting)
        }
        if not ready:
            raise KeyError(f"fields that hold each other: {', '.join(waiting)}")
        own |= {name: text.format(**(known | own)) for name, text in ready.items()}
        waiting = {name: text for name, text in waiting.items() if name not in ready}
    return own


def _holds(text):
    return [name for _, name, _, _ in string.Formatter().parse(text) if name]


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
        with awake.Awake(study.keep_awake) as spinners:
            if lines.server:
                with processes.Daemon(lines.server, queue, folder / "log") as daemon:
                    measured = _measure(study, profile, lines, daemon, spinners)
            else:
                measured = _measure(study, profile, lines, None, spinners)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    row = {"series": point.series, study.knob: point.value, "repeat": point.repeat}
    row |= {"started_utc": started, "seed": seed}
    row |= {("load_" + name if name in row else name): text for name, text in measured.items()}
    missing = [m for m in study.metrics if m not in row and m not in study.computed]
    if missing:
        raise HarnessError(f"{study.name}: the load printed no column {', '.join(missing)}")
    return row, lines


def _measure(study, profile, lines, daemon, spinners):
    """Filling, warm-up, then the measured load between two readings of every counter."""
    if daemon:
        if study.ready_command:
            daemon.wait_until_it_succeeds(lines.ping)
        else:
            daemon.wait_until_ready(lines.ping)
    if lines.fill:
        processes.run_load(lines.fill, profile.warmup_s)
    if profile.warmup_s > 0:
        processes.run_load(lines.warmup, profile.warmup_s)
    if not (daemon and lines.collect):
        return measured_load(lines.measure, profile.measure_s, daemon, spinners)
    before = _statistics(lines)
    row = measured_load(lines.measure, profile.measure_s, daemon, spinners)
    return row | _collect(study, before, _statistics(lines))


def measured_load(command, expected_s, daemon, spinners=None):
    """The row that the load prints, and what load, daemon (or None) and machine used meanwhile.
    spinners: awake.Awake, whose CPU time is nobody's."""
    before = daemon.cost() if daemon else processes.Cost(0, 0)
    own_before_s = processes.own_cpu_s() + (spinners.cpu_s() if spinners else 0)
    load_average = machine.load_average()
    window = machine.CpuWindow()

    output, client = processes.run_load(command, expected_s)

    ended = window.end()
    own_s = processes.own_cpu_s() + (spinners.cpu_s() if spinners else 0) - own_before_s
    memory_kib = 0
    after = before
    if daemon:
        daemon.check_alive()
        after = daemon.cost()
        memory_kib = daemon.peak_memory_kib()
    row = _parse_row(output, command)
    operations = max(float(row["ops"]), 1.0)
    server = processes.Cost(after.cpu_s - before.cpu_s, after.switches - before.switches)
    row["server_cpu_us_per_op"] = f"{server.cpu_s * 1e6 / operations:.4f}"
    row["server_switches_per_op"] = f"{server.switches / operations:.4f}"
    row["server_peak_memory_kib"] = memory_kib
    row["client_cpu_us_per_op"] = f"{client.cpu_s * 1e6 / operations:.4f}"
    row["client_switches_per_op"] = f"{client.switches / operations:.4f}"
    row |= machine.disturbance(ended, server.cpu_s + client.cpu_s + own_s)
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


def _statistics(lines):
    """What [collect] command prints: the daemon's own account."""
    output, _ = processes.run_load(lines.collect, 10)
    try:
        return json.loads(output)
    except ValueError as error:
        raise HarnessError(f"no JSON from: {lines.collect}: {error}") from error


def _collect(study, before, after):
    """Columns that the study takes from the daemon's statistics: what stands there after the
    measurement, (`before PATH`) what stood there before it, or (`increase PATH`) by how much it
    grew meanwhile."""
    columns = {}
    for column, path in study.collected.items():
        if path.endswith("?"):  # what is not there is 0
            path = path[:-1]
            if _is_missing(after, path.rpartition(" ")[2]):
                columns[column] = 0
                continue
        kind, _, rest = path.partition(" ")
        try:
            if kind == "increase":
                columns[column] = round(_at(after, rest) - _at(before, rest), 6)
            else:
                columns[column] = _at(before, rest) if kind == "before" else _at(after, path)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise HarnessError(
                f"{study.name}: [collect] {column} = {path}: nothing at {error}"
            ) from error
    return columns


def _is_missing(node, path):
    try:
        _at(node, path)
    except (KeyError, IndexError, ValueError, TypeError):
        return True
    return False


def _at(node, path):
    for step in path.split("."):
        node = node[int(step)] if isinstance(node, list) else node[step]
    return node


def _plain(seconds):
    return f"{seconds:g}"
