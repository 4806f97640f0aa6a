"""From which value of the knob on a difference holds: [crossover] of study.conf.

Each line of `compare` is METRIC: A > B by P % (or <), with A and B series. The ratio of the two is
taken at each value of the knob, and the crossover is where it passes the claimed size for good:
between the last value at which it has not and the first from which on it always has, by a straight
line through the logarithms of ratio and knob. Where the difference is there at the first value and
gone at the last, the crossover is where it ends, likewise. Its interval comes from the same draws
of the means as every other (harness.summary): the crossover is found in each, and the middle 95 %
are the interval. Where that reaches from below all values to above all, nothing is told.
"""

import math
from dataclasses import dataclass

from harness import claim, summary
from harness.sections import is_number

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
    for value in values:
        if not is_number(value) or float(value) <= 0:
            why = f"needs a knob with numbers above 0, not '{value}'"
            raise sections.error("crossover", "compare", why)
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
    points = _points(study, rows, comparison)
    said = _said(study, comparison, "is")
    if len(points) < 2:
        return Crossover(comparison, f"Whether {said}: not measured.", None)
    if any(summary.has_single_run(one, two) for _, one, two in points):
        return Crossover(comparison, f"Whether {said}: single runs do not tell.", None)
    metric = comparison.metric
    sign = 1 if comparison.relation == ">" else -1
    wanted = math.log(1 + comparison.percent / 100)

    def steps(pairs):
        """(value of the knob, logarithm of the ratio there), the figures in pairs."""
        return [(at, sign * _log_ratio(*pair)) for (at, _, _), pair in zip(points, pairs)]

    means = steps([(a.estimates[metric].mean, b.estimates[metric].mean) for _, a, b in points])
    ends = means[0][1] > wanted >= means[-1][1]
    find = _end if ends else _crossing
    at = find(means, wanted)
    drawn = zip(*(zip(one.means[metric], two.means[metric]) for _, one, two in points))
    found = [find(steps(pairs), wanted) for pairs in drawn]
    interval = _quantile(found, summary.TAIL), _quantile(found, 1 - summary.TAIL)
    values = [value for value, _, _ in points]
    return Crossover(comparison, _sentence(study, comparison, values, at, interval, ends), at)


def _points(study, rows, comparison):
    """(value of the knob, row of the one series, row of the other), where both were measured."""
    names = [term.series for term in comparison.terms]
    points = []
    for value in study.values:
        pair = [summary.find(rows, name, value) for name in names]
        if None not in pair:
            points.append((float(value), *pair))
    return points


def _log_ratio(one, other):
    """Infinite where only one of the two is 0."""
    if one > 0 and other > 0:
        return math.log(one / other)
    return math.copysign(math.inf, one - other) if one != other else 0.0


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
    if math.isinf(y0) or math.isinf(y1):  # what the line comes to as that side grows
        share = (math.isinf(y0) + math.isfinite(y1)) / 2
    else:
        share = (wanted - y0) / (y1 - y0)
    return math.exp(math.log(x0) + share * (math.log(x1) - math.log(x0)))


def _quantile(numbers, share):
    """An order statistic: infinities cannot be interpolated."""
    ordered = sorted(numbers)
    return ordered[round(share * (len(ordered) - 1))]


def _said(study, comparison, verb):
    labels = [study.series_label(term.series) for term in comparison.terms]
    more = f"at least {comparison.percent:g} % " if comparison.percent else ""
    more += "higher" if comparison.relation == ">" else "lower"
    name = study.name_of(comparison.metric)[0]
    return f"{name} with {labels[0]} {verb} {more} than with {labels[1]}"


def _sentence(study, comparison, values, at, interval, ends):
    """values: of the knob, those measured."""
    said = _said(study, comparison, "is")
    symbol = study.symbol
    low, high = interval
    if high == math.inf and -math.inf in (low, at):
        from_which = f"up to which {symbol}" if ends else f"from which {symbol} on"
        return f"These runs do not tell {from_which} {said}."
    told = _interval(study, values, low, high)
    if ends:
        no_longer = _said(study, comparison, "is no longer")
        return f"Beyond {_place(study, values, at)}, {no_longer}{told}."
    if at == math.inf:
        return f"Up to {symbol} = {_label(study, values[-1])} it does not show that {said}{told}."
    if at == -math.inf and not told:
        return f"From {symbol} = {_label(study, values[0])} on, the least measured, {said}."
    if at == -math.inf:  # the means say so, but the runs only from the interval's end on
        return f"From {_place(study, values, high)} on at the latest, {said}."
    return f"From {_place(study, values, at)} on, {said}{told}."


def _interval(study, values, low, high):
    """In brackets; empty if nearly all draws stand at the same end."""
    if low == high and math.isinf(low):
        return ""

    def told(number, is_high):
        if number == -math.inf:
            return "at or below the least measured"
        if number == math.inf:
            return f"above {_label(study, values[-1])}"
        if _is_off_the_line(study, values, number):
            return _label(study, values[is_high])
        return _number(study, number)

    return f" (95 % interval: {told(low, False)} to {told(high, True)})"


def _place(study, values, at):
    if _is_off_the_line(study, values, at):
        first, second = (_label(study, value) for value in values[:2])
        return f"some {study.symbol} between {first} and {second}"
    return f"{study.symbol} = {_number(study, at)}"


def _is_off_the_line(study, values, number):
    """Whether it lies before the second value while the first has a label of its own: that may
    stand for something else than its number, such as 1 for `off`."""
    first = _text(study, values[0])
    return number < values[1] and study.label_of(first) != first


def _label(study, number):
    return study.label_of(_text(study, number))


def _text(study, number):
    return next(value for value in study.values if float(value) == number)


def _number(study, number):
    """In the unit of the knob; microseconds as people write them."""
    if study.unit != "µs":
        return f"{_two_figures(number)} {study.unit}".strip()
    size, name = next((s, n) for s, n in (*UNITS, (0.0, "µs")) if number >= s)
    return f"{_two_figures(number / (size or 1))} {name}"


def _two_figures(number):
    if number < 99.5:
        return f"{number:.2g}"
    return f"{round(number, 1 - math.floor(math.log10(number))):.0f}"
