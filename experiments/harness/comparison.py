"""Whether one comparison of a claim (harness.claim) holds here.

Every comparison comes down to ratios of two means, with the 95 % interval of the ratio
(harness.summary):

    A > B by P %   holds if the interval lies above 1 + P/100; fails if it lies below 1, or with a P
                   below 1 + P/100; else it cannot be told
    A / B ~ R      holds if the interval lies within the tolerance of R; fails if it lies outside;
                   else it cannot be told
    A = B          the same with R = 1

What a ratio "about R" does not say, that A is more than B, is a comparison of its own. An interval
around 1 never says that two points differ, nor that they do not, unless equality is
what was claimed, with its tolerance. A point with a single run has no interval, and tells nothing.
"""

import collections
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
    pairs: list = field(default_factory=list)  # of a comparison: a Pair for each two points
    is_published: bool = False  # of a comparison: the source has figures of all its pairs


@dataclass
class Pair:
    """Two points, one beside the other."""

    outcome: str
    text: str  # ratio_text, and what it says of the comparison
    ratio_text: str  # "at N = 5 A is ×2 [1.9, 2.1] B (published ×3)"
    name: str  # the metric and the two points: the same in all rows of the study
    estimate: summary.Estimate  # of the ratio
    is_told: bool  # whether its interval says that they differ
    is_published: bool


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
        return Finding("open", f"{name}: whether {said} was not measured")
    outcomes = [pair.outcome for pair in pairs]
    outcome = _outcome(outcomes)
    details = "; ".join(pair.text for pair in pairs)
    is_published = all(pair.is_published for pair in pairs)
    return Finding(outcome, f"{name}: that {said} {TOLD[outcome]}: {details}", pairs, is_published)


def counts(pairs):
    """How many pairs of points say what, to end a headline with: of many pairs one in forty holds
    by chance. Empty if all say the same."""
    outcomes = [pair.outcome for pair in pairs]
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
    """The comparison in words, with the labels that the picture has: "A is at least 10 % more than
    B at N = 1 and 5"."""
    names = [_term_text(study, term) for term in comparison.terms]
    percent = f"{comparison.percent:g} %"
    if comparison.relation == "~":
        text = f"{names[0]} is ×{comparison.ratio:g} {names[1]}, within {percent},"
    elif comparison.relation == "=":
        text = f"{' and '.join(names)} differ by {percent} at most"
    else:
        least = f"at least {percent} " if comparison.percent else ""
        more = "more" if comparison.relation == ">" else "less"
        text = f"{names[0]} is {least}{more} than {', and that than '.join(names[1:])}"
    if not comparison.places:
        return text
    if comparison.terms[0].value is None:
        places = f"{study.symbol} = " + _listed([study.label_of(v) for v in comparison.places])
        return f"{text} at {places}"
    return f"{text} with {_listed([study.series_label(name) for name in comparison.places])}"


def _term_text(study, term):
    value = f"{study.symbol} = {study.label_of(term.value)}" if term.value else ""
    label = study.series_label(term.series) if term.series else ""
    return " at ".join(filter(None, (label, value)))


def _listed(labels):
    return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


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
    is_told = not is_single and not estimate.low <= 1 <= estimate.high
    outcome = "open" if is_single else _RULES[comparison.relation](estimate, comparison)
    where, names = _words(study, comparison, one, other)
    text = f"{where}{names[0]} is ×{_ratio_text(estimate)} {names[1]}"
    published = _published(study, comparison.metric, one, other)
    if comparison.ratio or published:
        text += f" (published ×{comparison.ratio or published:.3g})"
    ratio_text = text
    if is_single:
        text += ": a single run, undecided"
    else:
        text += {"fails": ": does not hold", "open": ": undecided"}.get(outcome, "")
    name = f"{comparison.text.partition(':')[0]}: {'@'.join(one)} / {'@'.join(other)}"
    is_published = bool(comparison.ratio or published)
    return Pair(outcome, text, ratio_text, name, estimate, is_told, is_published)


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


def _about(ratio, comparison):
    within = 1 + comparison.percent / 100
    wanted = comparison.ratio or 1.0
    if wanted / within <= ratio.low and ratio.high <= wanted * within:
        return "holds"
    return "fails" if ratio.high < wanted / within or ratio.low > wanted * within else "open"


_RULES = {">": _more, "<": _less, "=": _about, "~": _about}


def _ratio_text(estimate):
    text = f"{estimate.mean:.3g}"
    if estimate.low == estimate.high:
        return text
    return f"{text} [{estimate.low:.3g}, {estimate.high:.3g}]"
