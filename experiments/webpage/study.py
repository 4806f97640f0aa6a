"""The section of one study: its report, the picture drawn from summary.csv, and in a fold whatever
else the runs recorded."""

import math
import re

from harness import noise
from judge.table import number
from webpage import markdown, picture
from webpage.markup import join, tag
from webpage.measured import figure
from webpage.table import table

PICTURE_FILES = re.compile(r"^\(\[PNG\].*$", re.MULTILINE)  # they are not with the page
VERDICTS = {
    "holds": "holds",
    "part": "in part",
    "fails": "does not hold",
    "open": "undecided",
    "disturbed": "disturbed",
}
TOLD_IN_REPORT = ("ops", "seconds", "repeat", "seed", "attempt", "steal_pct", "foreign_cpu_pct")


def shown(measured):
    """Its picture."""
    caption = (
        f"Profile {measured.profile_text()}. Bars show 95 % intervals of the means (Student's t),"
        f" an arrow that one goes on; ratios are relative to {measured.base()}."
    )
    return picture.figure(measured.folder / "summary.csv", measured.title, caption)


def is_decided(measured):
    """Whether its claim holds here, all of it."""
    return {outcome for _, outcome in measured.outcomes()} == {"holds"}


def section(measured):
    report = PICTURE_FILES.sub("", measured.report)
    body = markdown.render(report, 2, shown(measured), f"{anchor(measured)}-")
    return tag("section", body, _further(measured), id=anchor(measured), class_="study")


def anchor(measured):
    ending = "-many-cpus" if measured.is_of_many_cpus else ""
    return f"study-{measured.name}{ending}"


def verdict_badges(measured):
    """One for all verdicts if they agree, else one each, which says what it is on; '–' if nothing
    was claimed."""
    found = measured.outcomes()
    if not found:
        return "–"
    if len({outcome for _, outcome in found}) == 1:
        return tag("span", VERDICTS[found[0][1]], class_=f"verdict {found[0][1]}")
    return join(
        [tag("span", f"{on}: {VERDICTS[one]}", class_=f"verdict {one}") for on, one in found], " "
    )


def key_ratio(measured):
    """The largest difference that these runs can tell from none, in a few words: among what the
    claim compares; if there is none, of the first metric that has one, as a step from the base. ''
    if there is nothing to tell."""
    if any(outcome == "disturbed" for _, outcome in measured.outcomes()):
        return ""
    claimed = measured.claimed()
    told = [(metric, pair) for metric, pair in claimed if pair.is_told]
    if told:
        metric, pair = max(told, key=lambda one: abs(math.log(one[1].estimate.mean)))
        return f"{measured.name_of(metric)[0]}: {pair.ratio_text}"
    beside = "of what is claimed none that these runs can tell; beside it " if claimed else ""
    is_any = False
    for metric in dict.fromkeys(["ops_per_s", "mean_us", *measured.metrics]):
        here = [row for row in measured.rows if row["origin"] == "here"]
        steps = [row for row in here if (figure(row, f"{metric}_ratio") or 0) > 0]
        if len(steps) > 1:
            steps = [row for row in steps if _is_told(row, metric)]
            is_any = True
            if steps:
                far = max(steps, key=lambda row: _distance(row, metric))
                return beside + _step_text(measured, metric, far)
    return "none that these runs can tell" if is_any else ""


def _is_told(row, metric):
    """Whether the ratio's interval excludes 1; a single run has none."""
    low, high = _interval(row, metric)
    return low is not None and high is not None and figure(row, "runs") > 1 and not low <= 1 <= high


def _interval(row, metric):
    return figure(row, f"{metric}_ratio_low"), figure(row, f"{metric}_ratio_high")


def _distance(row, metric):
    return abs(math.log(figure(row, f"{metric}_ratio")))


def _step_text(measured, metric, row):
    value = row[measured.knob]
    series = row["label"] if len({r["series"] for r in measured.rows}) > 1 else ""
    where = f"{measured.symbol} = {measured.label_of(value)}"
    where += f", {series}" if series else ""
    low, high = _interval(row, metric)
    within = f" [{low:.3g}, {high:.3g}]" if low != high else ""
    told = f"{measured.name_of(metric)[0]} ×{figure(row, f'{metric}_ratio'):.3g}{within}"
    told += f" ({where}; relative to {measured.base()})"
    same = [r for r in measured.rows if r["origin"] == "published" and r[measured.knob] == value]
    same = [r for r in same if r["series"] == row["series"]]
    published = figure(same[0], f"{metric}_ratio") if same else None
    return told + (f", published ×{published:.3g}" if published else "")


def _further(measured):
    """Means of the columns of raw.csv that the report does not tell, of the attempts that count."""
    columns = [c for c in _number_columns(measured) if c not in measured.metrics]
    columns = [c for c in columns if c not in TOLD_IN_REPORT]
    if not columns:
        return None
    knob, body = measured.knob, []
    kept = noise.quietest(measured.raw_rows, "series", knob)
    for series in dict.fromkeys(row["series"] for row in kept):
        for value in measured.values:
            runs = [r for r in kept if (r["series"], r[knob]) == (series, value)]
            if runs:
                told = [measured.series_label(series), measured.label_of(value)]
                body.append([*told, *(_mean(runs, c) for c in columns)])
    summary = tag("summary", "Further columns of raw.csv, means over the runs")
    return tag("details", summary, table(["series", measured.symbol, *columns], body))


def _number_columns(measured):
    rows = measured.raw_rows
    names = [name for name in rows[0] if name not in ("series", measured.knob)] if rows else []
    return [name for name in names if any(figure(row, name) is not None for row in rows)]


def _mean(runs, column):
    found = [figure(run, column) for run in runs]
    found = [one for one in found if one is not None and math.isfinite(one)]
    return number(sum(found) / len(found)) if found else "–"
