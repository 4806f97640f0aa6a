"""What a run will take, before it is made: time, disk and memory.

Times are those of a two-core virtual machine that was quiet (2026); where the works were measured
before on this machine, their rows say it better.
"""

import shutil
import statistics
from dataclasses import dataclass

from harness import HarnessError, machine, noise
from harness.progress import duration
from judge.busy import WARMUP_S as BUSY_WARMUP_S
from judge.cases import ENVIRONMENTS, RATES, SHARES
from judge.rates import SECONDS_OF
from judge.rows import key_of, run_key
from judge.stalls import SECONDS

GIB = 1 << 30

LOAD_OVERHEAD_S = 0.3  # of a run: waiting for a quiet server, starting the load twice
LARGE_LOAD_OVERHEAD_S = 0.6
ENVIRONMENT_S = 2  # starting and stopping its servers
FILL_US_PER_KEY = {"mqkv": 0.7, "kresp": 2.8, "redis": 2.8, "memcached": 3.0, "lmdb": 1.5}
FILL_SYNCED_US_PER_KEY = {"mqkv": 6, "redis": 8}
IDLE_OVERHEAD_S = 1.9
TRANSFERS_OVERHEAD_S = 0.4  # starting and stopping a server; summing up
PYTHON_OVERHEAD_S = 2.0  # diskcache takes four seconds for its bulk
REDIS_BENCHMARK_OVERHEAD_S = 0.6  # finding out how many requests fill the time
STALLS_OVERHEAD_S = {"rest": 1.2, "growth": 0.3, "compaction": 0.4, "large": 2}
POPULATION_US_PER_KEY = {"mqkv": 1.3, "redis": 5.8, "redis-aof": 5.3, "memcached": 3.0}
ENGINE_US_PER_KEY = {  # by threads: a put and a get of a key
    1: {"mqkv": 1.6, "lmdb": 4, "rocksdb": 19, "leveldb": 10.5},
    2: {"mqkv": 1.5, "lmdb": 3.8, "rocksdb": 14, "leveldb": 10.5},
}
RANGE_US_PER_KEY = {
    "mqkv": 10,
    "mqkv-queue": 12,
    "redis": 60,
    "lmdb": 8,
    "leveldb": 20,
    "rocksdb": 20,
}
SYNCED_US_PER_KEY = {"mqkv": 70, "lmdb": 370, "rocksdb": 40, "leveldb": 30}

# What a key takes on disk and in memory at the most, of the system that takes the most of it. A
# rewrite of Redis' append-only file has old and new file on disk, and may copy every page of the
# parent.
POPULATION_BYTES_PER_KEY = {"disk": 400, "memory": 400}
ENGINE_BYTES_PER_KEY = {"disk": 400, "memory": 200}
RANGE_BYTES_PER_KEY = {"disk": 4000, "memory": 2500}
ENGINE_MEMORY_BYTES = 2 * GIB  # caches of 1 GiB, and tables being written
COPIES = {"disk": 6, "memory": 4}  # of all values of an environment: its servers run together


@dataclass(frozen=True)
class Step:
    """Runs that are still to be made, of cases of one section."""

    section: str
    runs: int
    seconds: float


def steps(cases, profile, earlier_rows, done_rows):
    """earlier_rows: measured under this profile at any time, for the time they took; done_rows:
    those that need not be measured again."""
    known = _known_times(earlier_rows)
    done = {key_of(row) for row in done_rows}
    found = {}
    environments = set()
    counted = set()
    for case in cases:
        for system in case.systems:
            for repeat in profile.every(case.paired):
                key = run_key(case.name, system, repeat)
                if key in done or key in counted:
                    continue
                counted.add(key)
                seconds = known.get(key[:2]) or _run_s(case, system, profile)
                if case.environment and (case.kind, case.environment) not in environments:
                    environments.add((case.kind, case.environment))
                    seconds += _environment_s(ENVIRONMENTS[case.environment], case, profile)
                runs, total_s = found.get(case.section, (0, 0.0))
                found[case.section] = runs + 1, total_s + seconds
    return [Step(section, runs, seconds) for section, (runs, seconds) in found.items()]


def told(planned, cases, profile, folder):
    """The plan for people; folder: where temporary stores go."""
    lines = [
        f"{step.runs:5} runs  {duration(step.seconds):>12}  {step.section}" for step in planned
    ]
    seconds = sum(step.seconds for step in planned)
    runs = sum(step.runs for step in planned)
    lines.append(f"{runs:5} runs  {duration(seconds):>12}  in all, on a quiet machine;")
    lines.append(
        f"{'':25}up to {duration(seconds * noise.AGAIN_SHARE)} more where disturbed runs are "
        f"repeated"
    )
    need, have = needs(cases, profile), at_hand(folder)
    for what, where in (("disk", f" in {folder}"), ("memory", "")):
        lines.append(f"{what}: {_gib(need[what])} GiB needed, {_gib(have[what])} GiB free{where}")
    return "\n".join(lines)


def needs(cases, profile):
    """Bytes of disk and memory that are needed at once: works of different kinds, environments and
    systems run one after the other."""
    need = {"disk": 0, "memory": 0}
    for case in cases:
        for what, bytes_needed in _needs_of(case, profile).items():
            need[what] = max(need[what], bytes_needed)
    return need


def at_hand(folder):
    return {"disk": shutil.disk_usage(folder).free, "memory": machine.available_bytes()}


def check(cases, profile, folder):
    """HarnessError if there is less than is needed."""
    need, have = needs(cases, profile), at_hand(folder)
    advice = {
        "disk": f"free under {folder}: give another folder with --store",
        "memory": "of memory available: end other programs",
    }
    for what, text in advice.items():
        if have[what] < need[what]:
            raise HarnessError(
                f"these works need {_gib(need[what])} GiB, and there are {_gib(have[what])} GiB"
                f" {text}, or name works that need less (--list)"
            )


def _needs_of(case, profile):
    if case.environment:
        environment = ENVIRONMENTS[case.environment]
        values = profile.size(environment.keys) * (environment.value_bytes + 64)
        return {what: copies * values for what, copies in COPIES.items()}
    if case.kind == "population":
        keys = profile.size(case.options["keys"])
        return {what: keys * size for what, size in POPULATION_BYTES_PER_KEY.items()}
    if case.kind == "engines":
        keys = profile.size(case.options["keys"])
        need = {what: keys * size for what, size in ENGINE_BYTES_PER_KEY.items()}
        return need | {"memory": need["memory"] + ENGINE_MEMORY_BYTES}
    if case.kind == "ranges":
        keys = profile.size(case.options["keys"])
        return {what: keys * size for what, size in RANGE_BYTES_PER_KEY.items()}
    return {}


def _known_times(rows):
    """(case, system) of run_key -> seconds of a run."""
    times = {}
    for row in rows:
        if row.get("took_s") and not row["failure"]:
            times.setdefault(key_of(row)[:2], []).append(float(row["took_s"]))
    return {key: statistics.median(seconds) for key, seconds in times.items()}


def _run_s(case, system, profile):
    if case.kind == "busy":
        return BUSY_WARMUP_S + profile.pair_s + LOAD_OVERHEAD_S
    if case.kind == "offered":
        return (1 + len(SHARES)) * (profile.measure_s + LOAD_OVERHEAD_S)
    if case.kind in SECONDS_OF:
        seconds = getattr(profile, SECONDS_OF[case.kind])
        return len(RATES) * (profile.warmup_s + seconds + LOAD_OVERHEAD_S)
    if case.kind in ("loads", "direct"):
        large = ENVIRONMENTS[case.environment].value_bytes > 64
        overhead_s = LARGE_LOAD_OVERHEAD_S if large else LOAD_OVERHEAD_S
        return profile.warmup_s + profile.measure_s + overhead_s
    if case.kind == "idle":
        return profile.size(case.options["seconds"]) + IDLE_OVERHEAD_S
    if case.kind == "redis_benchmark":
        return profile.warmup_s + profile.measure_s + REDIS_BENCHMARK_OVERHEAD_S
    if case.kind == "transfers":
        return profile.warmup_s + profile.measure_s + TRANSFERS_OVERHEAD_S
    if case.kind == "python":
        return profile.measure_s + PYTHON_OVERHEAD_S
    if case.kind == "stalls":
        rounds = 2 if case.name == "compaction" else 1
        return profile.measure_s * SECONDS[case.name] * rounds + STALLS_OVERHEAD_S[case.name]
    keys = profile.size(case.options["keys"])
    if case.kind == "ranges":
        return keys * RANGE_US_PER_KEY[system] / 1e6 + profile.measure_s + TRANSFERS_OVERHEAD_S
    if case.kind == "population":
        return keys * POPULATION_US_PER_KEY[system] / 1e6 + 0.5
    if case.options["sync"]:
        return keys * SYNCED_US_PER_KEY[system] / 1e6
    return keys * ENGINE_US_PER_KEY[case.options["threads"]][system] / 1e6


def _environment_s(environment, case, profile):
    fill = FILL_SYNCED_US_PER_KEY if environment.sync == "always" else FILL_US_PER_KEY
    systems = [system for system in case.systems if system in fill]
    # What a large value takes is known less well, and matters less: there are few.
    weight = 1 + environment.value_bytes / 1024
    keys = profile.size(environment.keys)
    return ENVIRONMENT_S + sum(keys * fill[s] * weight / 1e6 for s in systems)


def _gib(number):
    return f"{number / GIB:.1f}"
