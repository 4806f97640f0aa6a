"""Programs in Python, one thread: tests/bench/python_cache on the Python package of mqkv and on
others, each run with a store of its own. The others come from PyPI, into build/check-python/bench.
"""

import contextlib
import csv
import io
import pathlib
import subprocess
import sys

from harness import HarnessError, processes
from judge.rows import Workplace
from judge.systems import SYSTEMS, Server

PACKAGES = ("diskcache==5.6.3", "redis==8.1.0", "lmdb==1.6.2")
PROGRAM = pathlib.Path(__file__).resolve().parents[2] / "tests" / "bench" / "python_cache"
# The names of the systems that the load program has others for.
LOADS = {"redis-py": "redis", "lmdb-nosync": "lmdb"}


def _environment(build):
    """The Python that has the packages; makes it, once."""
    folder = build / "check-python" / "bench"
    python, complete = folder / "bin" / "python", folder / "complete"
    if complete.exists() and complete.read_text(encoding="utf-8") == " ".join(PACKAGES):
        return python
    for command in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", *PACKAGES],
    ):
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            raise HarnessError(f"{' '.join(PACKAGES)} cannot be installed (PyPI)")
    complete.write_text(" ".join(PACKAGES), encoding="utf-8")
    return python


def measure(cases, ledger):
    ledger.measure_each(
        cases,
        "pythons",
        lambda case, system, repeat: _run(case, system, ledger),
        lambda row: f"{float(row['ops_per_s']):,.0f} ops/s",
    )


def _run(case, system, ledger):
    places, seconds = ledger.places, ledger.profile.measure_s
    python = _environment(places.build)
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(Workplace(places.store_parent))
        address = place.folder / "store"
        if system == "redis-py":
            server = Server(SYSTEMS["redis"], places, place.folder / "redis", place.queue())
            stack.enter_context(server).wait_until_it_answers()
            address = server.address
        output, _ = processes.run_load(
            f"env MQKV_BUILD={places.build} MQKV_SERVERK={places.build}/serverk {python}"
            f" {PROGRAM} {LOADS.get(system, system)} {case.options['work']}"
            f" {address} {seconds:g}",
            seconds + 60,
        )
    return next(csv.DictReader(io.StringIO(output)))
