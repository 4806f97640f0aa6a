"""Whether a published claim holds here, in words made from the numbers.

Shapes: a claim says for a metric which shape it has over the published values of the knob. Two
points differ *clearly* if their 95 % intervals do not overlap; a point with a single run has no
interval and differs clearly from none. A clear difference that is less than WEAK_SHARE of the
published one (on a logarithmic scale: halving and doubling are equally large) is called weak. Where
intervals overlap nothing is decided, however narrow they are: only a clear step against the claim
says that it does not hold. Comparisons of points are judged in harness.comparison.

The *published conclusion* is spoken of only where the source has figures of what is judged: of the
series, or of a single series, which then stands for all; of both points of each pair that a
comparison has. Else it is "the claim". Comparisons of the one kind and of the other have a verdict
each. Where nearly every run was disturbed there is none.
"""

import math
from dataclasses import dataclass

from harness import comparison, summary
from harness.comparison import Finding, sentence

WEAK_SHARE = 0.25
PUBLISHED = "the published conclusion"
OWN = "the claim"
HEADLINES = {  # {} is PUBLISHED or OWN
    "holds": "{} holds",
    "part": "{} holds in part",
    "fails": "{} does not hold",
    "open": "these runs do not decide whether {} holds",
    "disturbed": "nearly all runs were disturbed, so there is no verdict on {}",
}
REMARKS = {  # on a step from one point to another, in the direction that the claim expects
    "clear": "intervals apart",
    "weak": "intervals apart, but the step is much smaller",
    "opposite": "intervals apart, in the other direction",
    "undecided": "intervals overlap: not decided",
    "single": "a single run: not decided",
}


@dataclass
class Verdict:
    outcome: str  # a key of HEADLINES
    headline: str  # a sentence
    why: str  # a guess at the mechanism, in the study's words; may be empty
    findings: list  # of sentences
    pairs: list  # of comparison.Pair


@dataclass
class Step:
    kind: str  # a key of REMARKS
    text: str  # "×1.80 that of M = 1 (published ×1.50; intervals apart)"


def headline(outcome, is_published):
    return HEADLINES[outcome].format(PUBLISHED if is_published else OWN)


def verdicts(study, rows, is_disturbed=False):
    """All verdicts on study.claim: one a series on the shapes; on the comparisons one if the source
    has figures of all or of none of them, else two. A single one without findings if nearly all
    runs were disturbed."""
    if not study.claim:
        return []
    if is_disturbed:
        told = sentence(headline("disturbed", bool(study.published)))
        return [Verdict("disturbed", told, "", [], [])]
    found = []
    if study.claim.shapes:
        measured = {row.series for row in rows if row.origin == "here"}
        found += [judge(study, rows, s) for s in study.series if s.name in measured]
    judged = [comparison.judge(study, rows, one) for one in study.claim.comparisons]
    for is_published in (True, False):
        findings = [finding for finding in judged if finding.is_published == is_published]
        if findings:
            counts = comparison.counts([one for finding in findings for one in finding.pairs])
            found.append(_verdict(study, findings, is_published, ending=counts))
    return found


def judge(study, rows, series):
    """The verdict on the claim's shapes for one series."""
    findings = []
    for metric, shape in study.claim.shapes.items():
        points = _Points(study, rows, series, metric)
        judged = _turn if shape in ("peak", "valley") else _trend
        findings.append(judged(points, shape))
    is_published = published_series(study, series) is not None
    found = _verdict(study, findings, is_published, f"With {series.label}, ")
    found.findings.append(evidence(study, rows, series))
    return found


def published_series(study, series):
    """The name of the one whose published figures stand beside this one's: itself, or the only
    one that the source has; None if it has others, or nothing."""
    names = {row["series"] for row in study.published.rows} if study.published else set()
    if series.name in names:
        return series.name
    return next(iter(names)) if len(names) == 1 else None


def _verdict(study, findings, is_published, beginning="", ending=""):
    outcome = together({finding.outcome for finding in findings})
    return Verdict(
        outcome,
        sentence(beginning + headline(outcome, is_published) + ending),
        study.claim.why[outcome],
        [sentence(finding.text) for finding in findings],
        [pair for finding in findings for pair in finding.pairs],
    )


def evidence(study, rows, series):
    """What a request cost at the two ends of the sweep: the numbers behind the reason."""
    points = [row for row in rows if row.origin == "here" and row.series == series.name]
    points = [row for row in points if row.value in (study.claim.over or study.values)]
    first, last = points[0], points[-1]
    parts = []
    for metric in ("server_cpu_us_per_op", "server_switches_per_op", "client_switches_per_op"):
        if metric in study.metrics:
            name, unit = study.name_of(metric)
            before, after = first.estimates[metric], last.estimates[metric]
            parts.append(f"{name} {_short(before.mean)} → {_short(after.mean)} {unit}".strip())
    sweep = f"From {study.symbol} = {first.value} to {last.value}: "
    return sweep + ", ".join(parts) + "." if parts else ""


class _Points:
    """One metric of one series over the published values, beside the published figures."""

    def __init__(self, study, rows, series, metric):
        self.study = study
        self.metric = metric
        self.name = study.name_of(metric)[0]
        published = [row for row in rows if row.origin == "published"]
        published = [r for r in published if r.series == series.name] or published
        within = set(study.claim.over) or {row.value for row in published}
        here = [row for row in rows if row.origin == "here" and row.series == series.name]
        self.here = [row for row in here if not within or row.value in within]
        self.beyond = here[-1] if here[-1].value != self.here[-1].value else None
        self.published = self._published_figures(series)

    def _published_figures(self, series):
        """Value of the knob -> the source's own figure. (Its ratios are no use here: those to
        another series at the same value say nothing of a step from value to value.)"""
        whose = published_series(self.study, series)
        source = self.study.published
        if whose is None or self.metric not in source.column_of:
            return {}
        column, knob = source.column_of[self.metric], self.study.knob
        rows = [row for row in source.rows if row["series"] == whose and row[column]]
        return {row[knob]: float(row[column]) for row in rows}

    def mean(self, row):
        return row.estimates[self.metric].mean

    def at(self, row):
        return f"{self.study.symbol} = {row.value}"

    def overlap(self, one, other):
        if summary.has_single_run(one, other):
            return True
        a, b = one.estimates[self.metric], other.estimates[self.metric]
        return a.low <= b.high and b.low <= a.high

    def published_best(self, sign):
        return max(self.published, key=lambda value: sign * self.published[value], default=None)

    def step(self, start, end, sign, published_start, published_end):
        """sign 1: the metric should grow from start to end; -1: it should shrink."""
        ratio = self.mean(end) / self.mean(start)
        published = None
        if published_start in self.published and published_end in self.published:
            published = self.published[published_end] / self.published[published_start]
        kind = self._kind(start, end, sign, published)
        beside = f"published ×{published:.2f}; " if published else ""
        text = f"×{ratio:.2f} that of {self.at(start)} ({beside}{REMARKS[kind]})"
        return Step(kind, text)

    def _kind(self, start, end, sign, published):
        if summary.has_single_run(start, end):
            return "single"
        if self.overlap(start, end):
            return "undecided"
        step = sign * math.log(self.mean(end) / self.mean(start))
        if step < 0:
            return "opposite"
        enough = WEAK_SHARE * abs(math.log(published)) if published else 0
        return "weak" if step < enough else "clear"


def _turn(points, shape):
    """A best value within the sweep, clearly better than both ends."""
    sign = 1 if shape == "peak" else -1
    best = max(points.here, key=lambda row: sign * points.mean(row))
    first, last = points.here[0], points.here[-1]
    published_best = points.published_best(sign)
    steps = [
        points.step(end, best, sign, end.value, published_best)
        for end in (first, last)
        if end is not best
    ]
    alike = [row for row in points.here if row is not best and points.overlap(row, best)]
    at_end = len(steps) < 2
    if at_end:  # there is no turn, if the best is clearly better than all that could be one
        is_clear = steps and steps[0].kind in ("clear", "weak")
        is_alone = not any(row in alike for row in points.here[1:-1])
        outcome = "fails" if is_clear and is_alone else "open"
    elif all(step.kind == "clear" for step in steps):
        outcome = "holds"
    else:
        outcome = "part" if any(s.kind in ("clear", "weak") for s in steps) else "open"

    most = "highest" if sign > 0 else "lowest"
    text = f"{points.name} is {most} at {points.at(best)}"
    if published_best is not None:
        text += f" (published: {published_best})"
    text += ", " + " and ".join(step.text for step in steps)
    if alike:
        values = ", ".join(row.value for row in alike)
        text += f"; no clear difference from it at {points.study.symbol} = {values}"
    return Finding(outcome, text)


def _trend(points, shape):
    """Clearly more (or less) at the end than at the start, and no clear step backwards between."""
    sign = 1 if shape == "rising" else -1
    first, last = points.here[0], points.here[-1]
    whole = points.step(first, last, sign, first.value, last.value)
    backwards = [
        after
        for before, after in zip(points.here, points.here[1:])
        if not points.overlap(before, after)
        and sign * (points.mean(after) - points.mean(before)) < 0
    ]
    outcome = {"clear": "holds", "weak": "part", "opposite": "fails"}.get(whole.kind, "open")
    if outcome == "holds" and backwards:
        outcome = "part"

    text = f"{points.name} at {points.at(last)} is {whole.text}"
    if backwards:
        text += ", with a step back to " + " and ".join(points.at(row) for row in backwards)
    if points.beyond:
        beyond = points.step(last, points.beyond, sign, None, None)
        text += f"; beyond what is judged, at {points.at(points.beyond)}, it is {beyond.text}"
    return Finding(outcome, text)


def together(outcomes):
    """Of several findings or verdicts (a set of outcomes that is not empty)."""
    if len(outcomes) == 1:
        return next(iter(outcomes))
    return "open" if outcomes == {"open", "fails"} else "part"


def _short(number):
    return f"{number:.3g}"
