"""What a source concludes, in a form that rows can be held against: [claim] of study.conf.

A shape says how a metric runs over the knob. A comparison stands on a line of its own:

    METRIC: A > B [> C] [by P %] [at PLACE...]     every term clearly more than the next
    METRIC: A < B [< C] [by P %] [at PLACE...]     clearly less
    METRIC: A = B [= C] [within P %] [at PLACE...] no difference larger than P % (default 5)
    METRIC: A / B ~ RATIO [within P %] [at PLACE...]  the ratio, to P % (default 10)

A term is a series, a value of the knob, or both: SERIES@VALUE. A place is what the terms leave
open: values where the terms are series, series where they are values; without places, all. Shapes
are judged over the values of `over`; by default over the published ones, or all.
"""

import re
from dataclasses import dataclass

SHAPES = ("peak", "valley", "rising", "falling")
EQUAL_WITHIN_PCT = 5.0
RATIO_WITHIN_PCT = 10.0
_TAIL = re.compile(r"(?: (by|within) ([0-9.]+) ?%)?(?: at (.+))?$")


@dataclass(frozen=True)
class Term:
    series: str | None
    value: str | None


@dataclass(frozen=True)
class Comparison:
    text: str  # as written in study.conf
    metric: str
    relation: str  # one of > < = ~
    terms: tuple
    ratio: float | None  # of the first term to the second, for ~
    percent: float  # the least difference for > and <, the largest for =, the tolerance for ~
    places: tuple  # of str; empty: wherever there are rows


@dataclass
class Claim:
    """What the source concludes, and our reasons why that holds here or does not."""

    text: str
    shapes: dict  # metric -> one of SHAPES
    comparisons: list
    why: dict  # outcome (harness.verdict) -> a guess at the mechanism, in words
    over: tuple  # values of the knob that shapes are judged over; empty: the published ones, or all


def read(sections, series, values):
    """The section [claim], or None. series, values: the names that terms may use."""
    if not sections.has("claim"):
        return None
    shapes = dict(_shape(sections, pair) for pair in sections.get("claim", "shapes", "").split())
    comparisons = []
    for line in sections.lines("claim", "compare"):
        try:
            comparisons.append(comparison(line, series, values))
        except ValueError as error:
            raise sections.error("claim", "compare", f"'{line}': {error}") from error
    if not shapes and not comparisons:
        raise sections.error("claim", "shapes", "needs 'shapes = ...' or 'compare = ...'")
    why_else = sections.get("claim", "why_else", "")
    why = {
        "holds": sections.get("claim", "why_holds", ""),
        "part": sections.get("claim", "why_part", why_else),
        "fails": sections.get("claim", "why_fails", why_else),
        "open": sections.get("claim", "why_open", ""),
    }
    over = tuple(sections.get("claim", "over", "").split())
    for value in over:
        if value not in values:
            raise sections.error("claim", "over", f"{value} is no value of the knob")
    if over and (len(over) < 2 or not shapes):
        raise sections.error("claim", "over", "needs shapes, and two values or more")
    return Claim(sections.need("claim", "text"), shapes, comparisons, why, over)


def comparison(line, series, values):
    """One line of `compare`; ValueError says what is wrong with it."""
    metric, colon, rest = line.partition(":")
    if not colon:
        raise ValueError("METRIC: comes first")
    tail = _TAIL.search(rest)
    body = rest[: tail.start()].split()
    bound, percent, places = tail.groups()
    operators = set(body[1::2])
    if len(body) == 5 and body[1::2] == ["/", "~"]:
        relation, names = "~", body[0:3:2]
    elif len(body) >= 3 and len(body) % 2 and operators in ({">"}, {"<"}, {"="}):
        relation, names = operators.pop(), body[::2]
    else:
        raise ValueError("not A > B, A < B, A = B or A / B ~ RATIO")
    needed = "by" if relation in "<>" else "within"
    if bound not in (None, needed):
        raise ValueError(f"'{bound}' does not go with {relation}: '{needed} P %' does")
    default = {"=": EQUAL_WITHIN_PCT, "~": RATIO_WITHIN_PCT}.get(relation, 0.0)
    terms = tuple(_term(name, series, values) for name in names)
    if len({(term.series is None, term.value is None) for term in terms}) > 1:
        raise ValueError("all terms must be series, or all values, or all SERIES@VALUE")
    found = tuple(places.split()) if places else ()
    known = values if terms[0].value is None else series if terms[0].series is None else ()
    for place in found:
        if place not in known:
            raise ValueError(f"at {place}: known here: {' '.join(known) or 'nothing'}")
    return Comparison(
        text=line,
        metric=metric.strip(),
        relation=relation,
        terms=terms,
        ratio=_positive(body[4]) if relation == "~" else None,
        percent=float(percent) if percent else default,
        places=found,
    )


def _shape(sections, pair):
    metric, _, shape = pair.partition(":")
    if shape not in SHAPES:
        raise sections.error(
            "claim",
            "shapes",
            f"'{pair}' is not METRIC:SHAPE with SHAPE one of " + ", ".join(SHAPES),
        )
    return metric, shape


def _term(name, series, values):
    first, at, second = name.partition("@")
    if at and first in series and second in values:
        return Term(first, second)
    if not at and name in series:
        return Term(name, None)
    if not at and name in values:
        return Term(None, name)
    raise ValueError(
        f"'{name}' is no series ({' '.join(series)}), no value ({' '.join(values)})"
        " and no SERIES@VALUE"
    )


def _positive(text):
    number = float(text)
    if number <= 0:
        raise ValueError(f"the ratio {text} must be above 0")
    return number
