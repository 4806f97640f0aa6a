"""One row a run, in raw.csv; and the ledger that measures what is still missing there."""

import csv
import pathlib
import random
import shutil
import tempfile
import time
from dataclasses import dataclass

from harness import HarnessError

COLUMNS = (
    "case,system,repeat,started_utc,seed,ops,seconds,ops_per_s,megabytes_per_s,"
    "mean_us,p50_us,p90_us,p99_us,p999_us,max_us,errors,not_found,"
    "threads,processes,mix,batch,value_bytes,keys,"
    "server_cpu_us_per_op,server_switches_per_op,client_cpu_us_per_op,client_switches_per_op,"
    "memory_bytes_per_key,anonymous_kib,fill_s,clean_start_s,crash_start_s,stop_s,"
    "idle_cpu_us_per_s,idle_switches_per_s,compactions,"
    "steal_pct,foreign_cpu_pct,load_average,failure"
).split(",")


@dataclass(frozen=True)
class Profile:
    name: str
    repeats: int
    warmup_s: float
    measure_s: float

    def choose(self, by_profile):
        """A number that depends on the profile; `smoke` only shows that everything works."""
        if self.name == "full":
            return by_profile["full"]
        return by_profile["quick"] if self.name == "quick" else max(by_profile["quick"] // 100, 1)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("smoke", 1, 0, 0.1),
        Profile("quick", 5, 0.2, 1),
        Profile("full", 5, 1, 5),
    )
}


class Ledger:
    """Runs what is not yet in the results, in a seeded order, and keeps a row of each."""

    def __init__(self, results, profile, places, seed, progress):
        self.results = results
        self.profile = profile
        self.places = places
        self.seed = seed
        self.progress = progress
        self.done = points_done(results.raw_path)
        self.started = 0

    def missing(self, case, system, repeat):
        return (case.name, system, repeat) not in self.done

    def repeats(self):
        return range(1, self.profile.repeats + 1)

    def shuffled(self, things, *salt):
        """The same for the same seed and salt, so that a resumed run keeps its order."""
        ordered = list(things)
        random.Random(f"{self.seed}/{salt}").shuffle(ordered)
        return ordered

    def load_seed(self, repeat):
        return self.seed * 1000 + repeat

    def run(self, case, system, repeat, measure, headline):
        """Calls `measure`, which gives a dict of columns, or several as {case name: columns}. A run
        that fails becomes a row that says so: the others are measured all the same."""
        started = utc_now()
        try:
            measured = measure()
        except HarnessError as error:
            measured = {"failure": " ".join(str(error).split())[:300]}
        named = measured if all(isinstance(v, dict) for v in measured.values()) else None
        for name, figures in (named or {case.name: measured}).items():
            self._add(name, system, repeat, started, figures)
        shown = next(iter(named.values())) if named else measured
        text = shown.get("failure") or headline(shown)
        self.progress.finished(f"{case.name} {system}: {text}")

    def _add(self, case_name, system, repeat, started, figures):
        row = dict.fromkeys(COLUMNS, "") | {
            key: value for key, value in figures.items() if key in COLUMNS
        }
        row |= {
            "case": case_name,
            "system": system,
            "repeat": repeat,
            "started_utc": started,
            "seed": self.load_seed(repeat),
        }
        self.results.add(row)
        self.done.add((case_name, system, repeat))


class Workplace:
    """A temporary folder, and queue names of this run. A context manager."""

    _count = 0

    def __init__(self, parent):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mqkv-bench-", dir=parent))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def queue(self):
        Workplace._count += 1
        return f"/{self.folder.name}-{Workplace._count}"


def points_done(path):
    if not path.exists():
        return set()
    with open(path, newline="", encoding="utf-8") as file:
        return {(row["case"], row["system"], int(row["repeat"])) for row in csv.DictReader(file)}


def utc_now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
