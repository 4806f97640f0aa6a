"""From raw rows to one row a point: means over the repeats, bootstrap 95 % intervals, ratios.

The interval is the percentile bootstrap (Efron, 1979): the repeats of a point are drawn again with
replacement, RESAMPLES times, and the middle 95 % of the means so drawn is the interval. The draws
are seeded by the point, so the same rows always give the same interval. With few repeats it is a
little too narrow (five repeats: it covers the true mean in about 80 to 85 % of cases rather than
95 %), which the report says.
"""

import csv
import random
from dataclasses import dataclass, field

from harness import HarnessError, formula, noise, theory

RESAMPLES = 2000
TAIL = 0.025  # on each side of a 95 % interval


@dataclass(frozen=True)
class Estimate:
    mean: float
    low: float
    high: float


@dataclass
class Row:
    """One point. Published rows have ratios only: their absolute figures have other units."""

    origin: str  # "here", "published" or "theory"
    series: str
    label: str
    value: str  # of the knob
    runs: int
    seconds_per_run: float
    estimates: dict  # metric -> Estimate
    ratios: dict  # metric -> Estimate, relative to the study's base (study.base_text())
    means: dict = field(default_factory=dict)  # metric -> the means of the runs drawn again


def find(rows, series, value):
    """Our row of a point, or None."""
    found = (r for r in rows if (r.origin, r.series, r.value) == ("here", series, value))
    return next(found, None)


def ratio(one, other, metric):
    """Estimate of one point's mean relative to another's; both sides are resampled. None if there
    is nothing to divide by."""
    if one is other:
        return Estimate(1.0, 1.0, 1.0)
    pairs = [own / base for own, base in zip(one.means[metric], other.means[metric]) if base]
    base_mean = other.estimates[metric].mean
    if not base_mean or not pairs:
        return None
    return Estimate(one.estimates[metric].mean / base_mean, *interval(pairs))


def summarise(study, raw_rows):
    """Rows of every series in the order of the study, then the published ones. Of a run that was
    repeated the quietest attempt counts."""
    kept = noise.quietest(raw_rows, "series", study.knob)
    kept = [row | computed(study, row) for row in kept]
    rows = []
    for series in study.series:
        for value in study.values:
            runs = [r for r in kept if (r["series"], r[study.knob]) == (series.name, value)]
            if runs:
                rows.append(_row(study, series, value, runs))
    for row in rows:
        base = _base_of(study, rows, row.series, row.value)
        row.ratios = {m: ratio(row, base, m) if base else None for m in study.metrics}
    return rows + _published_rows(study) + _theory_rows(study, kept, rows)


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
            fields += [study.base_series or study.base, row.label]
            for metric in study.metrics:
                fields += _cells(row.estimates.get(metric)) + _cells(row.ratios.get(metric))
            writer.writerow(fields)


def _row(study, series, value, runs):
    seconds = round(mean(_column(runs, "seconds")), 1)
    row = Row("here", series.name, series.label, value, len(runs), seconds, {}, {})
    for metric in study.metrics:
        numbers = _column(runs, metric)
        means = resampled_means(numbers, f"{study.name}/{series.name}/{value}/{metric}")
        row.means[metric] = means
        row.estimates[metric] = Estimate(mean(numbers), *interval(means))
    return row


def computed(study, row):
    """The columns of a raw row that the study computes from others."""
    return {column: formula.evaluate(text, row) for column, text in study.computed.items()}


def _base_of(study, rows, series, value):
    """The point that another is relative to; None if it was not measured."""
    if study.base_series:
        return find(rows, study.base_series, value)
    base = find(rows, series, study.base)
    if base is None:
        raise HarnessError(f"{series}: no run yet of {study.knob} = {study.base}")
    return base


def _column(rows, metric):
    try:
        return [float(row[metric]) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise HarnessError(
            f"raw.csv: column '{metric}' is missing or holds no number: {error}"
        ) from error


def _published_rows(study):
    rows = []
    for source in study.published.rows if study.published else []:
        series, value = source["series"], source[study.knob]
        base = study.published.find(
            study,
            study.base_series or series,
            value if study.base_series else study.base,
        )
        ratios = {}
        for metric, column in study.published.column_of.items():
            if base and source[column] and base[column]:
                own = float(source[column]) / float(base[column])
                ratios[metric] = Estimate(own, own, own)
        rows.append(Row("published", series, "published", value, 1, 60, {}, ratios))
    return rows


def _theory_rows(study, kept, rows):
    """What the model of [theory] says of each point, from the means of its runs."""
    predicted = []
    for row in rows if study.theory else ():
        runs = [r for r in kept if (r["series"], r[study.knob]) == (row.series, row.value)]
        means = {study.knob: row.value}
        for column in runs[0]:
            numbers = [number for number in map(_as_number, (r[column] for r in runs))]
            if None not in numbers:
                means[column] = mean(numbers)
        told = theory.predict(study.theory, means)
        exact = {m: Estimate(told[m], told[m], told[m]) for m in study.metrics if m in told}
        found = Row("theory", row.series, study.theory.label, row.value, 1, 0, exact, {})
        if exact:
            predicted.append(found)
    for row in predicted:
        base = _base_among(study, predicted, row)
        for metric, own in row.estimates.items():
            if base and metric in base.estimates:
                share = own.mean / base.estimates[metric].mean
                row.ratios[metric] = Estimate(share, share, share)
    return predicted


def _base_among(study, rows, row):
    wanted = (study.base_series, row.value) if study.base_series else (row.series, study.base)
    return next((r for r in rows if (r.series, r.value) == wanted), None)


def _as_number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _cells(estimate):
    if estimate is None:
        return ["", "", ""]
    return [f"{number:.6g}" for number in (estimate.mean, estimate.low, estimate.high)]
