"""From which value of the knob on a difference holds: [crossover] of study.conf.

Each line of `compare` is METRIC: A > B by P % (or <), with A and B series. The ratio of the two is
taken at each value of the knob, and the crossover is where it passes the claimed size for good:
between the last value at which it has not and the first from which on it always has, by a straight
line through the logarithms of ratio and knob. Where the difference is there at the first value and
gone at the last, the crossover is where it ends, likewise. Its interval comes from the same
resampled means as every other (summary): the crossover is found in each draw, and the middle 95 %
are the interval.
"""

import math
from dataclasses import dataclass

from harness import claim, summary

UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))


@dataclass
class Crossover:
    comparison: claim.Comparison
    text: str  # a sentence
    at: float | None  # value of the knob; None: never, or always


def read(sections, series, values):
    """The comparisons of [crossover], which must be between series."""
    found = []
    if not sections.has("crossover"):
        return found
    for line in sections.lines("crossover", "compare"):
        try:
            one = claim.comparison(line, series, values)
            if one.relation not in "<>" or len(one.terms) != 2 or one.terms[0].value is not None:
                raise ValueError("METRIC: SERIES > SERIES [by P %] is needed")
        except ValueError as error:
            raise sections.error("crossover", "compare", f"'{line}': {error}") from error
        found.append(one)
    return found


def of(study, rows):
    return [_find(study, rows, one) for one in study.crossovers]


def _find(study, rows, comparison):
    names = [term.series for term in comparison.terms]
    points = []
    for value in study.values:
        pair = [summary.find(rows, name, value) for name in names]
        if None not in pair:
            points.append((float(value), *pair))
    labels = [study.series_label(name) for name in names]
    sign = 1 if comparison.relation == ">" else -1
    wanted = math.log(1 + comparison.percent / 100)
    metric = comparison.metric
    more = f"{comparison.percent:g} % " if comparison.percent else ""
    said = (
        f"{study.name_of(metric)[0]} with {labels[0]} is {more}"
        f"{'higher' if sign > 0 else 'lower'} than with {labels[1]}"
    )
    if len(points) < 2:
        return Crossover(comparison, f"Whether {said}: not measured.", None)
    means = [
        (at, sign * _log_ratio(one.estimates[metric].mean, two.estimates[metric].mean))
        for at, one, two in points
    ]
    ends = means[0][1] > wanted >= means[-1][1]
    find = _end if ends else _crossing
    draws = []
    for k in range(summary.RESAMPLES):
        steps = [
            (at, sign * _log_ratio(one.means[metric][k], two.means[metric][k]))
            for at, one, two in points
        ]
        draws.append(find(steps, wanted))
    at = find(means, wanted)
    low, high = (_quantile(draws, share) for share in (summary.TAIL, 1 - summary.TAIL))
    return Crossover(comparison, _sentence(study, said, points, (at, low, high), ends), at)


def _log_ratio(one, other):
    return math.log(one / other) if one > 0 and other > 0 else 0.0


def _crossing(steps, wanted):
    """Where the line passes `wanted` for good: -inf if it is above everywhere, inf if it is not
    above at the end."""
    if steps[-1][1] <= wanted:
        return math.inf
    last = None
    for i, (_, step) in enumerate(steps):
        if step <= wanted:
            last = i
    if last is None:
        return -math.inf
    return _between(steps[last], steps[last + 1], wanted)


def _end(steps, wanted):
    """Where the line falls below `wanted` for good: inf if it is not below at the end, -inf if it
    never was above."""
    if steps[-1][1] > wanted:
        return math.inf
    above = [i for i, (_, step) in enumerate(steps) if step > wanted]
    if not above:
        return -math.inf
    return _between(steps[above[-1]], steps[above[-1] + 1], wanted)


def _between(one, other, wanted):
    (x0, y0), (x1, y1) = one, other
    share = (wanted - y0) / (y1 - y0)
    return math.exp(math.log(x0) + share * (math.log(x1) - math.log(x0)))


def _quantile(numbers, share):
    """An order statistic: infinities cannot be interpolated."""
    ordered = sorted(numbers)
    return ordered[round(share * (len(ordered) - 1))]


def _sentence(study, said, points, found, ends):
    at, low, high = found
    first, last = points[0][0], points[-1][0]
    symbol = study.symbol

    def told(number):
        if number == -math.inf:
            return f"below {study.label_of(_text(study, first))}"
        if number == math.inf:
            return f"above {study.label_of(_text(study, last))}"
        return _number(study, number)

    interval = f"95 % interval: {told(low)} to {told(high)}"
    if ends:
        return f"Up to {symbol} = {told(at)} {said}, and not beyond ({interval})."
    if at == math.inf:
        until = study.label_of(_text(study, last))
        return f"Up to {symbol} = {until} it does not show that {said} ({interval})."
    if at == -math.inf:
        least = study.label_of(_text(study, first))
        return f"From {symbol} = {least} on, the least measured, {said} ({interval})."
    return f"From {symbol} = {told(at)} on, {said} ({interval})."


def _text(study, number):
    return next(value for value in study.values if float(value) == number)


def _number(study, number):
    """In the unit of the knob; microseconds as people write them."""
    if study.unit != "µs":
        return f"{_two_figures(number)} {study.unit}".strip()
    size, name = next((s, n) for s, n in (*UNITS, (0.0, "µs")) if number >= s)
    return f"{_two_figures(number / (size or 1))} {name}"


def _two_figures(number):
    if number < 100:
        return f"{number:.2g}"
    return f"{round(number, 1 - math.floor(math.log10(number))):.0f}"
