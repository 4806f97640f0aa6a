"""Whether one comparison of a claim (harness.claim) holds here.

Every comparison comes down to ratios of two means, with the 95 % interval of the ratio
(harness.summary):

    A > B by P %   holds if the interval lies above 1 + P/100; fails if it lies below 1, or with a P
                   below 1 + P/100; else it cannot be told
    A = B          holds if the interval lies within the tolerance of 1; fails if it lies outside;
                   else it cannot be told
    A / B ~ R      holds if A and B differ clearly to R's side and the interval meets R's tolerance;
                   in part if they differ clearly to R's side by less or more than that; fails if
                   they differ to the other side; else it cannot be told

An interval around 1 never says that two points differ, nor that they do not, unless equality is
what was claimed, with its tolerance. A point with a single run has no interval, and tells nothing.
"""

import collections
import re
from dataclasses import dataclass, field

from harness import summary

TOLD = {
    "holds": "holds",
    "part": "holds in part",
    "fails": "does not hold",
    "open": "cannot be told here",
}


@dataclass
class Finding:
    """What one metric, or one comparison, says."""

    outcome: str  # a key of verdict.HEADLINES
    text: str
    pairs: list = field(default_factory=list)  # of a comparison: the outcome of each two points


@dataclass
class _Pair:
    """Two points, one beside the other."""

    outcome: str
    text: str


def judge(study, rows, comparison):
    """The Finding on one comparison."""
    pairs = []
    for place in _places(study, rows, comparison):
        for one, other in zip(comparison.terms, comparison.terms[1:]):
            pair = _pair(study, rows, comparison, _point(one, place), _point(other, place))
            if pair:
                pairs.append(pair)
    name = study.name_of(comparison.metric)[0]
    said = _said(study, comparison)
    if not pairs:
        return Finding("open", f"{name}: '{said}' was not measured")
    outcomes = [pair.outcome for pair in pairs]
    outcome = _outcome(outcomes)
    details = "; ".join(pair.text for pair in pairs)
    return Finding(outcome, f"{name}: '{said}' {TOLD[outcome]}: {details}", outcomes)


def counts(outcomes):
    """How many pairs of points say what, to end a headline with: of many pairs one in forty holds
    by chance. Empty if all say the same."""
    if len(set(outcomes)) < 2:
        return ""
    number = collections.Counter(outcomes)
    holding = number["holds"]
    parts = [f"{holding or 'none'} of {len(outcomes)} pairs {'hold' if holding > 1 else 'holds'}"]
    if number["part"]:
        parts.append(f"{number['part']} in part")
    if number["fails"]:
        parts.append(f"{number['fails']} {'do' if number['fails'] > 1 else 'does'} not")
    if number["open"]:
        parts.append(f"{number['open']} undecided")
    return ": " + ", ".join(parts)


def _said(study, comparison):
    """The comparison as study.conf has it, with the labels of series that the picture has."""
    text = comparison.text.partition(":")[2].strip()
    if comparison.places:
        text = text.rsplit(" at ", 1)[0]
    for one in sorted(study.series, key=lambda one: -len(one.name)):
        label = study.series_label(one.name)
        if label != one.name:
            text = re.sub(rf"(?<![\w-]){re.escape(one.name)}(?![\w-])", lambda _: label, text)
    if not comparison.places:
        return text
    series = [one.name for one in study.series]
    labels = [
        study.series_label(one) if one in series else study.label_of(one)
        for one in comparison.places
    ]
    return f"{text} at {'; '.join(labels)}"


def sentence(text):
    return text[0].upper() + text[1:] + "."


def _outcome(outcomes):
    """Of the pairs that make up one comparison."""
    if len(set(outcomes)) == 1:
        return outcomes[0]
    if "holds" in outcomes or "part" in outcomes:
        return "part"
    return "open"


def _places(study, rows, comparison):
    """What the terms leave open: values, series, or nothing."""
    term = comparison.terms[0]
    if comparison.places:
        return comparison.places
    if term.series and term.value:
        return (None,)
    here = [row for row in rows if row.origin == "here"]
    if term.series:
        return [value for value in study.values if any(row.value == value for row in here)]
    return [one.name for one in study.series if any(row.series == one.name for row in here)]


def _point(term, place):
    return term.series or place, term.value or place


def _pair(study, rows, comparison, one, other):
    """None if one of the points was not measured (a series may leave out values)."""
    found = [summary.find(rows, *point) for point in (one, other)]
    if None in found:
        return None
    estimate = summary.ratio(*found, comparison.metric)
    if estimate is None:
        return None
    is_single = summary.has_single_run(*found)
    outcome = "open" if is_single else _RULES[comparison.relation](estimate, comparison)
    where, names = _words(study, comparison, one, other)
    text = f"{where}{names[0]} is ×{_ratio_text(estimate)} {names[1]}"
    published = _published(study, comparison.metric, one, other)
    if comparison.ratio or published:
        text += f" (published ×{comparison.ratio or published:.3g})"
    if is_single:
        text += ": a single run, undecided"
    elif len(comparison.terms) > 2 or comparison.relation != "~":
        text += {"fails": ": does not hold", "open": ": undecided"}.get(outcome, "")
    return _Pair(outcome, text)


def _words(study, comparison, one, other):
    """("at M = 2 ", names of the two points): what they share is said once."""
    term = comparison.terms[0]
    if term.value is None:
        labels = study.series_label(one[0]), study.series_label(other[0])
        return f"at {study.symbol} = {study.label_of(one[1])} ", labels
    values = [f"{study.symbol} = {study.label_of(point[1])}" for point in (one, other)]
    if term.series is None:
        told = f"with {study.series_label(one[0])} " if len(study.series) > 1 else ""
        return told, values
    points = zip((one, other), values)
    return "", [f"{study.series_label(point[0])} at {value}" for point, value in points]


def _published(study, metric, one, other):
    """The published ratio of two points; None if the source does not give both."""
    if not study.published or metric not in study.published.column_of:
        return None
    column = study.published.column_of[metric]
    figures = [study.published.find(study, *point) for point in (one, other)]
    if not all(row and row[column] for row in figures):
        return None
    return float(figures[0][column]) / float(figures[1][column])


def _more(ratio, comparison):
    least = 1 + comparison.percent / 100
    if ratio.low > least:
        return "holds"
    return "fails" if ratio.high < least else "open"


def _less(ratio, comparison):
    most = 1 / (1 + comparison.percent / 100)
    if ratio.high < most:
        return "holds"
    return "fails" if ratio.low > most else "open"


def _equal(ratio, comparison):
    within = 1 + comparison.percent / 100
    if 1 / within <= ratio.low and ratio.high <= within:
        return "holds"
    return "fails" if ratio.high < 1 / within or ratio.low > within else "open"


def _near(ratio, comparison):
    within = 1 + comparison.percent / 100
    wanted = comparison.ratio
    is_near = ratio.low <= wanted * within and ratio.high >= wanted / within
    if 1 / within < wanted < within:  # hardly a difference: its side does not matter
        return (
            "holds"
            if is_near and ratio.high / ratio.low < within**2
            else _equal(ratio, comparison)
        )
    is_clear = ratio.low > 1 if wanted > 1 else ratio.high < 1
    if is_clear:
        return "holds" if is_near else "part"
    is_opposite = ratio.high < 1 if wanted > 1 else ratio.low > 1
    return "fails" if is_opposite else "open"


_RULES = {">": _more, "<": _less, "=": _equal, "~": _near}


def _ratio_text(estimate):
    text = f"{estimate.mean:.3g}"
    if estimate.low == estimate.high:
        return text
    return f"{text} [{estimate.low:.3g}, {estimate.high:.3g}]"
