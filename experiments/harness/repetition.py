"""Whether rows that were measured again say what the committed ones say.

Compared is what claims compare: ratios of two points, in which the machine cancels; and, of shapes,
the verdict of each series. Absolute figures are another machine's and are not compared.
"""

from dataclasses import dataclass

from harness import comparison, content, verdict

AGREE = "agree"
CONTRADICT = "contradict"
UNDECIDED = "undecided"


@dataclass
class Check:
    """One pair of points, or one series of a shape."""

    what: str
    committed: str  # outcome, with the ratio and its interval
    again: str
    said: str  # AGREE, CONTRADICT or UNDECIDED
    is_apart: bool  # whether the two intervals of the ratio do not overlap


def checks(committed_folder, again_folder):
    """(the Checks on all that the study of the two folders of results claims, whether nearly all
    runs of one of them were disturbed: then they decide nothing)."""
    study, rows, raw_rows, _ = content.load(committed_folder)
    _, rows_again, raw_rows_again, _ = content.load(again_folder)
    disturbed = any(
        content.is_disturbed(raw, "series", study.knob) for raw in (raw_rows, raw_rows_again)
    )
    found = _of_shapes(study, rows, rows_again)
    for one in study.claim.comparisons if study.claim else ():
        found += _of_comparison(study, one, rows, rows_again)
    for check in found if disturbed else ():
        check.said = UNDECIDED
    return found, disturbed


def _of_shapes(study, rows, rows_again):
    if not study.claim or not study.claim.shapes:
        return []
    found = []
    for series in study.series:
        there = [{r.series for r in some if r.origin == "here"} for some in (rows, rows_again)]
        if all(series.name in names for names in there):
            outcomes = [verdict.judge(study, some, series).outcome for some in (rows, rows_again)]
            shapes = " ".join(f"{metric}:{shape}" for metric, shape in study.claim.shapes.items())
            told = [comparison.TOLD[outcome] for outcome in outcomes]
            found.append(Check(f"{shapes} ({series.name})", *told, said(*outcomes), False))
    return found


def _of_comparison(study, one, rows, rows_again):
    committed = {pair.name: pair for pair in comparison.judge(study, rows, one).pairs}
    again = {pair.name: pair for pair in comparison.judge(study, rows_again, one).pairs}
    found = []
    for name in [name for name in committed if name in again]:
        pairs = committed[name], again[name]
        here, there = (pair.estimate for pair in pairs)
        is_apart = here.high < there.low or there.high < here.low
        outcome = said(*(pair.outcome for pair in pairs))
        found.append(Check(name, *map(_told, pairs), outcome, is_apart))
    return found


def said(committed, again):
    """Of two outcomes: what decides nothing contradicts nothing."""
    if "open" in (committed, again):
        return UNDECIDED
    return AGREE if (committed == "fails") == (again == "fails") else CONTRADICT


def _told(pair):
    one = pair.estimate
    return f"{comparison.TOLD[pair.outcome]}: ×{one.mean:.3g} [{one.low:.3g}, {one.high:.3g}]"
