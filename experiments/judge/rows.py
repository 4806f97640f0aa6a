"""One row a run, in raw.csv; and the ledger that measures what is still missing there."""

import pathlib
import random
import shutil
import tempfile
import time
from dataclasses import dataclass

from harness import HarnessError, machine, noise, processes
from harness.progress import Progress

COLUMNS = (
    "case,system,repeat,attempt,noisy,started_utc,seed,ops,seconds,ops_per_s,megabytes_per_s,"
    "mean_us,p50_us,p90_us,p99_us,p999_us,max_us,errors,not_found,"
    "threads,processes,mix,batch,value_bytes,keys,"
    "server_cpu_us_per_op,server_switches_per_op,client_cpu_us_per_op,client_switches_per_op,"
    "memory_bytes_per_key,anonymous_kib,fill_s,clean_start_s,crash_start_s,stop_s,"
    "idle_cpu_us_per_s,idle_switches_per_s,compactions,"
    "steal_pct,foreign_cpu_pct,load_average,took_s,commit,programs,failure"
).split(",")


@dataclass(frozen=True)
class Profile:
    name: str
    repeats: int
    warmup_s: float
    measure_s: float
    pairs: int  # rounds of works that are compared round by round ...
    pair_s: float  # ... in short runs

    def size(self, number):
        """Of a work: the number itself, which is what it is judged by; of it a hundredth in the
        profile that only shows that everything works."""
        return max(number // 100, 1) if self.name == "smoke" else number

    def every(self, paired=False):
        """The numbers of the repeats, or rounds."""
        return range(1, (self.pairs if paired else self.repeats) + 1)


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("smoke", 1, 0, 0.1, 2, 0.1),
        Profile("quick", 5, 0.2, 0.8, 20, 0.3),
        Profile("full", 5, 1, 5, 40, 0.5),
    )
}


def run_key(case_name, system, repeat):
    """Of a run: cases that come out of one run have one key. What follows an @ tells the figures
    of one run apart."""
    return case_name.replace("engine-get-", "engine-put-").split("@")[0], system, int(repeat)


def key_of(row):
    return run_key(row["case"], row["system"], row["repeat"])


class Ledger:
    """Runs what is not yet in the results, in a seeded order, and keeps a row of each. cases: those
    that are to be measured; stamp: columns of all rows: the commit and the programs measured."""

    def __init__(self, cases, results, profile, places, seed, noise_limit_pct, stamp):
        self.results = results
        self.stamp = stamp
        self.profile = profile
        self.places = places
        self.seed = seed
        self.noise_limit_pct = noise_limit_pct
        runs = {
            (case.name, system, repeat): run_key(case.name, system, repeat)
            for case in cases
            for system in case.systems
            for repeat in profile.every(case.paired)
        }
        keys = set(runs.values())
        earlier = [row for row in results.rows() if key_of(row) in keys]
        self.done = {(row["case"], row["system"], int(row["repeat"])) for row in earlier}
        self.again = noise.Again(earlier, len(keys), noise_limit_pct, key_of)
        missing = {key for run, key in runs.items() if run not in self.done}
        self.progress = Progress("bench", len(missing))

    def missing(self, case, system, repeat):
        return (case.name, system, repeat) not in self.done

    def repeats(self, paired=False):
        return self.profile.every(paired)

    def shuffled(self, things, *salt):
        """The same for the same seed and salt, so that a resumed run keeps its order."""
        ordered = list(things)
        random.Random(f"{self.seed}/{salt}").shuffle(ordered)
        return ordered

    def load_seed(self, repeat):
        return self.seed * 1000 + repeat

    def has_work(self, order):
        return any(self.missing(*at) for at in order) or bool(self.again.next(_by_key(order)))

    def measure_each(self, cases, kind, run, headline):
        """Measures cases whose runs share nothing, in an order of the kind's own."""
        order = [
            (case, system, repeat)
            for repeat in self.repeats()
            for case in self.shuffled(cases, kind, repeat)
            for system in self.shuffled(case.systems, kind, repeat, case.name)
        ]
        self.measure(order, run, headline)

    def measure(self, order, run, headline):
        """Of `order`, each (case, system, repeat), what is missing; then what was disturbed once
        more, as often as noise.Again allows. run(case, system, repeat) gives a dict of columns, or
        several as {case name: columns}; headline(columns) what is told of it."""
        for at in order:
            if self.missing(*at):
                self._attempt(at, 1, run, headline)
        by_key = _by_key(order)
        while repeated := self.again.next(by_key):
            key, attempt = repeated
            self.progress.one_more()
            self._attempt(by_key[key], attempt, run, headline)

    def _attempt(self, at, attempt, run, headline):
        """A run that fails becomes a row that says so: the others are measured all the same."""
        case, system, _ = at
        started = utc_now()
        began_s = time.monotonic()
        window = machine.CpuWindow()
        own_before_s = processes.own_and_children_cpu_s()
        try:
            measured = run(*at)
        except HarnessError as error:
            measured = {"failure": " ".join(str(error).split())[:300]}
        # Of the whole run; a load has taken it more closely, with servers that live on.
        whole = machine.disturbance(window.end(), processes.own_and_children_cpu_s() - own_before_s)
        whole["took_s"] = f"{time.monotonic() - began_s:.2f}"
        named = measured if all(isinstance(v, dict) for v in measured.values()) else None
        for name, figures in (named or {case.name: measured}).items():
            row = self._add(name, at, attempt, started, whole | figures)
        shown = next(iter(named.values())) if named else measured
        text = shown.get("failure") or headline(shown)
        again = f"again, attempt {attempt}: " if attempt > 1 else ""
        noisy = " (noisy)" if row["noisy"] else ""
        self.progress.finished(f"{again}{case.name} {system}: {text}{noisy}")

    def _add(self, case_name, at, attempt, started, figures):
        _, system, repeat = at
        if "failure" in figures:  # without the columns of noise: it is not repeated
            figures = {"failure": figures["failure"]}
        row = dict.fromkeys(COLUMNS, "") | {
            key: value for key, value in figures.items() if key in COLUMNS
        }
        row |= {
            "case": case_name,
            "system": system,
            "repeat": repeat,
            "attempt": attempt,
            "noisy": int(noise.is_noisy(row, self.noise_limit_pct)),
            "started_utc": started,
            "seed": self.load_seed(repeat),
            **self.stamp,
        }
        self.results.add(row)
        self.done.add((case_name, system, repeat))
        self.again.add(row)
        return row


def _by_key(order):
    return {
        run_key(case.name, system, repeat): (case, system, repeat) for case, system, repeat in order
    }


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


def utc_now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
