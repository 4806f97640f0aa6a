"""The section of one study: its report, the picture drawn from summary.csv, and in a fold whatever
else the runs recorded."""

import math
import re

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


def section(measured):
    caption = (
        f"Profile {measured.profile}. Bars show 95 % bootstrap intervals of the means;"
        f" ratios are relative to {measured.base()}."
    )
    shown = picture.figure(measured.folder / "summary.csv", measured.title, caption)
    report = PICTURE_FILES.sub("", measured.report)
    body = markdown.render(report, 2, shown, f"{anchor(measured)}-")
    return tag("section", body, _further(measured), id=anchor(measured), class_="study")


def anchor(measured):
    return f"study-{measured.name}"


def verdict_badges(measured):
    """One for each verdict that differs; '–' if nothing was claimed."""
    outcomes = list(dict.fromkeys(measured.outcomes()))
    if not outcomes:
        return "–"
    return join([tag("span", VERDICTS[o], class_=f"verdict {o}") for o in outcomes], " ")


def key_ratio(measured):
    """The largest step of the first metric from the base, in a few words; '' if there is none."""
    for metric in dict.fromkeys(["ops_per_s", "mean_us", *measured.metrics]):
        steps = [(figure(row, f"{metric}_ratio"), row) for row in measured.rows]
        steps = [(r, row) for r, row in steps if r and r > 0 and row["origin"] == "here"]
        if len(steps) > 1:
            ratio, row = max(steps, key=lambda step: abs(math.log(step[0])))
            return _step_text(measured, metric, ratio, row)
    return ""


def _step_text(measured, metric, ratio, row):
    value = row[measured.knob]
    series = row["label"] if len({r["series"] for r in measured.rows}) > 1 else ""
    where = f"{measured.symbol} = {measured.label_of(value)}"
    where += f", {series}" if series else ""
    told = f"{measured.name_of(metric)[0]} ×{ratio:.3g} ({where}; relative to {measured.base()})"
    same = [r for r in measured.rows if r["origin"] == "published" and r[measured.knob] == value]
    same = [r for r in same if r["series"] == row["series"]]
    published = figure(same[0], f"{metric}_ratio") if same else None
    return told + (f", published ×{published:.3g}" if published else "")


def _further(measured):
    """Means of the columns of raw.csv that the report does not tell."""
    columns = [c for c in _number_columns(measured) if c not in measured.metrics]
    columns = [c for c in columns if c not in TOLD_IN_REPORT]
    if not columns:
        return None
    knob, body = measured.knob, []
    for series in dict.fromkeys(row["series"] for row in measured.raw_rows):
        for value in measured.values:
            runs = [r for r in measured.raw_rows if (r["series"], r[knob]) == (series, value)]
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
