"""Medians over the repeats, how many times better mqkv is, and whether a goal is met."""

import csv
import statistics
from dataclasses import dataclass

from harness import noise
from judge.cases import LOWER_IS_BETTER, Limit
from judge.systems import SYSTEMS

OTHER_LABELS = {
    "lmdb": "LMDB",
    "rocksdb": "RocksDB",
    "leveldb": "LevelDB",
    "mqkv-handles": "mqkv, a handle each",
    "mqkv-loop": "mqkv, optimistic loop",
    "redis-watch": "Redis, WATCH",
    "redis-script": "Redis, script",
    "sqlite-normal": "SQLite, normal",
    "sqlite-full": "SQLite, full",
    "lmdb-nosync": "LMDB, NOSYNC",
    "lmdb-sync": "LMDB, sync",
    "redis-py": "redis-py",
}
NOT_NUMBERS = ("case", "system", "started_utc", "mix", "commit", "programs")
COLUMN_NAMES = {
    "ops_per_s": "operations/s",
    "megabytes_per_s": "MB/s",
    "p99_us": "p99",
    "p999_us": "p99.9",
    "server_cpu_us_per_op": "server's CPU time",
}
LIMIT_UNITS = {"crash_start_s": "s", "server_cpu_us_per_op": "µs of the daemon's CPU"}


@dataclass(frozen=True)
class Figure:
    """One column of one system in one case."""

    median: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True)
class Advantage:
    """How many times better one figure is than another: of paired works the median of the rounds,
    and the quartiles."""

    times: float
    low: float = None
    high: float = None


@dataclass(frozen=True)
class Verdict:
    case: object
    goal: object
    text: str  # the goal in words
    reached: str  # what was reached, in the goal's own terms
    met: bool


class Figures:
    """Of the rows; of a run that was repeated the quietest attempt counts."""

    def __init__(self, raw_rows):
        self.values = {}
        self.rounds = {}  # the same by repeat
        self.failures = {
            (row["case"], row["system"]): row["failure"] for row in raw_rows if row["failure"]
        }
        measured = [row for row in raw_rows if not row["failure"]]
        for row in noise.quietest(measured, "case", "system"):
            for column, text in row.items():
                if text and column not in NOT_NUMBERS:
                    key = row["case"], row["system"], column
                    self.values.setdefault(key, []).append(float(text))
                    self.rounds.setdefault(key, {})[row["repeat"]] = float(text)

    def get(self, case_name, system, column):
        """None if there is no run that gave it."""
        numbers = self.values.get((case_name, system, column))
        if not numbers:
            return None
        return Figure(statistics.median(numbers), min(numbers), max(numbers), len(numbers))

    def failure(self, case_name, system):
        return self.failures.get((case_name, system))

    def advantage(self, case, column, system):
        """How many times better the case's subject is than the system; None without figures."""
        if case.paired:
            return self._paired_advantage(case, column, system)
        return _advantage(
            self.get(case.name, case.subject, column), self.get(case.name, system, column), column
        )

    def _paired_advantage(self, case, column, system):
        own, other = (
            self.rounds.get((case.name, name, column), {}) for name in (case.subject, system)
        )
        both = [(own[n], other[n]) for n in own.keys() & other.keys() if own[n] and other[n]]
        if not both:
            return None
        lower = column in LOWER_IS_BETTER
        times = sorted(theirs / ours if lower else ours / theirs for ours, theirs in both)
        quarter = len(times) // 4
        return Advantage(statistics.median(times), times[quarter], times[-1 - quarter])


def judge(case, figures):
    return [_judge_goal(case, goal, figures) for goal in case.goals]


def label(system):
    return SYSTEMS[system].label if system in SYSTEMS else OTHER_LABELS.get(system, system)


def write_summary(cases, figures, path):
    """Everything that the plots draw: a line a case, column and system."""
    header = "case,column,system,runs,median,low,high,advantage,label,title".split(",")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for case in cases:
            for column in dict.fromkeys((case.column, "p99_us")):
                for system in case.systems:
                    figure = figures.get(case.name, system, column)
                    if not figure:
                        continue
                    advantage = figures.advantage(case, column, system)
                    writer.writerow(
                        [case.name, column, system, figure.runs]
                        + [_cell(n) for n in (figure.median, figure.low, figure.high)]
                        + [_cell(advantage and advantage.times)]
                        + [label(system), case.title]
                    )


def _advantage(own, other, column):
    if not own or not other:
        return None
    better, worse = (other, own) if column in LOWER_IS_BETTER else (own, other)
    return Advantage(better.median / worse.median) if worse.median else None


def _judge_goal(case, goal, figures):
    own = figures.get(case.name, case.subject, goal.column)
    if isinstance(goal, Limit):
        text = f"at most {goal.most:g} {LIMIT_UNITS.get(goal.column, '')}".rstrip()
        reached = f"{own.median:g}" if own else "failed"
        return Verdict(case, goal, text, reached, _at_most(own, goal.most))
    if goal.against.startswith("mqkv:"):
        other_name = goal.name
        other = figures.get(goal.against.split(":")[1], "mqkv", goal.column)
        advantage = _advantage(own, other, goal.column)
    else:
        other_name = label(goal.against)
        advantage = figures.advantage(case, goal.column, goal.against)
    reached = "no figure" if advantage is None else _times(advantage.times, goal)
    met = advantage is not None and advantage.times >= goal.factor
    return Verdict(case, goal, _goal_text(goal, other_name), reached, met)


def _at_most(own, most):
    return own is not None and own.median <= most


def _goal_text(goal, other_name):
    lower = goal.column in LOWER_IS_BETTER
    name = COLUMN_NAMES.get(goal.column, "")
    if lower and goal.factor == 1:
        return f"{name} not above {other_name}".lstrip()
    if lower and goal.factor < 1:
        return f"{name} within {1 / goal.factor:g} × {other_name}"
    if lower:
        return f"1/{goal.factor:g} of {other_name}"
    if goal.factor < 1:
        return f"{goal.factor:g} of the {other_name}"
    return f"{goal.factor:g} × {other_name}"


def _times(advantage, goal):
    """In the sense of the goal's text: a share where it speaks of a share."""
    if goal.column in LOWER_IS_BETTER:
        return f"× {1 / advantage:.2f}" if goal.factor <= 1 else f"1/{advantage:.2f}"
    return f"{advantage:.2f}" if goal.factor < 1 else f"× {advantage:.2f}"


def _cell(number):
    return "" if number is None else f"{number:.6g}"
