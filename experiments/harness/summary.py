"""From raw rows to one row a point: means over the repeats, bootstrap 95 % intervals, ratios.

The interval is the percentile bootstrap (Efron, 1979): the repeats of a point are drawn again with
replacement, RESAMPLES times, and the middle 95 % of the means so drawn is the interval. The draws
are seeded by the point, so the same rows always give the same interval. With few repeats it is a
little too narrow (five repeats: it covers the true mean in about 80 to 85 % of cases rather than
95 %), which the report says.
"""

import csv
import random
from dataclasses import dataclass

from harness import HarnessError

RESAMPLES = 2000
TAIL = 0.025  # on each side of a 95 % interval

NAMES = {  # metric -> (what it is called, unit)
    "ops_per_s": ("throughput", "requests/s"),
    "mean_us": ("mean response time", "µs"),
    "p50_us": ("median response time", "µs"),
    "p90_us": ("90th percentile", "µs"),
    "p99_us": ("99th percentile", "µs"),
    "p999_us": ("99.9th percentile", "µs"),
    "server_cpu_us_per_op": ("CPU of the daemon per request", "µs"),
    "server_switches_per_op": ("context switches of the daemon per request", ""),
    "client_cpu_us_per_op": ("CPU of the clients per request", "µs"),
    "client_switches_per_op": ("context switches of the clients per request", ""),
}


@dataclass(frozen=True)
class Estimate:
    mean: float
    low: float
    high: float


@dataclass
class Row:
    """One point. Published rows have ratios only: their absolute figures have other units."""

    origin: str  # "here" or "published"
    series: str
    label: str
    value: str  # of the knob
    runs: int
    seconds_per_run: float
    estimates: dict  # metric -> Estimate
    ratios: dict  # metric -> Estimate, relative to the study's base value in the same series


def summarise(study, raw_rows):
    """Rows of every series in the order of the study, then the published ones."""
    rows = []
    for series in study.series:
        of_series = [row for row in raw_rows if row["series"] == series.name]
        runs = {v: [row for row in of_series if row[study.knob] == v] for v in study.values}
        runs = {value: found for value, found in runs.items() if found}
        if runs and study.base not in runs:
            raise HarnessError(f"{series.name}: no run yet of {study.knob} = {study.base}")
        rows += _series_rows(study, series, runs)
    return rows + _published_rows(study)


def mean(numbers):
    return sum(numbers) / len(numbers)


def quantile(numbers, fraction):
    """Linear between the order statistics (type 7 of Hyndman and Fan, 1996)."""
    ordered = sorted(numbers)
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def resampled_means(numbers, seed):
    generator = random.Random(seed)
    count = len(numbers)
    return [sum(generator.choices(numbers, k=count)) / count for _ in range(RESAMPLES)]


def interval(means):
    return quantile(means, TAIL), quantile(means, 1 - TAIL)


def read_raw(path):
    try:
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise HarnessError(f"no raw rows to analyse: {error}") from error


def write(study, rows, path):
    """summary.csv: everything that the plots draw. Absent figures are empty fields."""
    header = ["origin", "series", study.knob, "runs", "seconds_per_run", "base", "label"]
    for metric in study.metrics:
        header += [
            metric + end for end in ("", "_low", "_high", "_ratio", "_ratio_low", "_ratio_high")
        ]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for row in rows:
            fields = [row.origin, row.series, row.value, row.runs, f"{row.seconds_per_run:g}"]
            fields += [study.base, row.label]
            for metric in study.metrics:
                fields += _cells(row.estimates.get(metric)) + _cells(row.ratios.get(metric))
            writer.writerow(fields)


def _series_rows(study, series, runs):
    """runs: value of the knob -> raw rows."""
    samples = {
        (value, metric): _Sample(
            _column(found, metric), f"{study.name}/{series.name}/{value}/{metric}"
        )
        for value, found in runs.items()
        for metric in study.metrics
    }
    rows = []
    for value, found in runs.items():
        seconds = round(mean(_column(found, "seconds")), 1)
        row = Row("here", series.name, series.label, value, len(found), seconds, {}, {})
        for metric in study.metrics:
            sample = samples[value, metric]
            row.estimates[metric] = Estimate(sample.mean, *interval(sample.means))
            row.ratios[metric] = _ratio(sample, samples[study.base, metric])
        rows.append(row)
    return rows


class _Sample:
    """One metric over the repeats of a point, and the means of the repeats drawn again."""

    def __init__(self, numbers, seed):
        self.mean = mean(numbers)
        self.means = resampled_means(numbers, seed)


def _ratio(sample, base):
    """Of the means; both sides are resampled. None if the base is nothing."""
    if sample is base:
        return Estimate(1.0, 1.0, 1.0)
    pairs = [own / other for own, other in zip(sample.means, base.means) if other]
    if not base.mean or not pairs:
        return None
    return Estimate(sample.mean / base.mean, *interval(pairs))


def _column(rows, metric):
    try:
        return [float(row[metric]) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise HarnessError(
            f"raw.csv: column '{metric}' is missing or holds no number: {error}"
        ) from error


def _published_rows(study):
    if not study.published:
        return []
    base = next(row for row in study.published.rows if row[study.knob] == study.base)
    rows = []
    for row in study.published.rows:
        ratios = {}
        for metric, column in study.published.column_of.items():
            ratio = float(row[column]) / float(base[column])
            ratios[metric] = Estimate(ratio, ratio, ratio)
        series = study.published.series
        rows.append(Row("published", series, "published", row[study.knob], 1, 60, {}, ratios))
    return rows


def _cells(estimate):
    if estimate is None:
        return ["", "", ""]
    return [f"{number:.6g}" for number in (estimate.mean, estimate.low, estimate.high)]
