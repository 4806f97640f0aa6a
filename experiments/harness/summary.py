"""From raw rows to one row a point: means over the repeats, 95 % intervals, ratios.

A point has few runs, so how much they scatter is uncertain itself: the true mean lies around that
of n runs as Student's t with n - 1 degrees of freedom tells (Student: The probable error of a mean,
1908). This is taken on the logarithmic scale, because times and rates are above 0 and ratios are
what is judged; there the mean m of runs with standard deviation s has the standard error
(s / m) / sqrt(n) (the delta method). All intervals come from DRAWS such means of each point:

    of a mean       the middle 95 % of its draws: Student's interval, on that scale
    of a ratio      the middle 95 % of the ratios of both points' draws: the solution of Behrens
                    (1929) and Fisher (The fiducial argument in statistical inference, 1935) for
                    points that scatter differently
    of a crossover  harness.crossover

The draws are seeded by the point, so the same rows always give the same interval. It is assumed
that the runs of a point are independent and that their figures scatter about normally, by less than
the figures themselves. How much a single run scatters is unknown: it has no interval, and nothing
is decided by it.
"""

import csv
import math
import random
import statistics
from dataclasses import dataclass, field

from harness import HarnessError, formula, noise, theory

DRAWS = 2000
TAIL = 0.025  # on each side of a 95 % interval
FARTHEST = 300.0  # logarithm of a draw over its mean: ratios of such draws are still numbers


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
    means: dict = field(default_factory=dict)  # metric -> draws of the mean
    operations: float = math.inf  # of the run with the fewest; inf: raw.csv does not say


def find(rows, series, value):
    """Our row of a point, or None."""
    found = (r for r in rows if (r.origin, r.series, r.value) == ("here", series, value))
    return next(found, None)


def ratio(one, other, metric):
    """Estimate of one point's mean relative to another's; both sides are drawn. Without an interval
    if one of them has a single run; None if there is nothing to divide by."""
    if one is other:
        return Estimate(1.0, 1.0, 1.0)
    base_mean = other.estimates[metric].mean
    if not base_mean:
        return None
    of_means = one.estimates[metric].mean / base_mean
    if has_single_run(one, other):
        return Estimate(of_means, of_means, of_means)
    of_draws = [own / base for own, base in zip(one.means[metric], other.means[metric])]
    return Estimate(of_means, *interval(of_draws))


def has_single_run(*rows):
    """Whether one of the points was run only once: then no difference from it can be told."""
    return min(row.runs for row in rows) < 2


def runs_range(counts):
    """Of the runs of each point: "3", or "2 to 3"."""
    least, most = min(counts), max(counts)
    return str(most) if least == most else f"{least} to {most}"


def runs_told(counts, planned):
    """The same, or "2 to 3 of 6" where runs are missing."""
    told = runs_range(counts)
    return told if min(counts) >= planned else f"{told} of {planned}"


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


def drawn_means(numbers, seed):
    """Where the true mean of runs with these figures may lie. All draws are the mean itself if the
    figures are equal, if their mean is 0, or of a single run."""
    centre, count = mean(numbers), len(numbers)
    if count < 2 or centre == 0 or min(numbers) == max(numbers):
        return [centre] * DRAWS
    error = statistics.stdev(numbers) / abs(centre) / math.sqrt(count)
    generator = random.Random(seed)
    draws = (error * students_t(generator, count - 1) for _ in range(DRAWS))
    return [centre * math.exp(min(max(draw, -FARTHEST), FARTHEST)) for draw in draws]


def students_t(generator, degrees):
    """A draw of it: a standard normal one over the root of a mean square of `degrees` of them."""
    chi_squared = generator.gammavariate(degrees / 2, 2)
    return generator.gauss(0, 1) / math.sqrt(chi_squared / degrees)


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
        means = drawn_means(numbers, f"{study.name}/{series.name}/{value}/{metric}")
        row.means[metric] = means
        row.estimates[metric] = Estimate(mean(numbers), *interval(means))
    if "ops" in runs[0]:
        row.operations = min(_column(runs, "ops"))
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
        told = theory.predict(study.theory, means, row.series)
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
