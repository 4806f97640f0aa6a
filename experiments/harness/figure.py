"""The picture of a study: [plot] of study.conf, and plot.gp, which tells plots/panels.gp what to
draw from summary.csv. Words come from the study, axes from the rows, all points from
summary.csv."""

import math
import textwrap
from dataclasses import dataclass

from harness import HarnessError, summary
from harness.sections import is_number

DEFAULT_PANELS = "ops_per_s ops_per_s:ratio mean_us+p99_us mean_us:ratio"
RATIO = ":ratio"
PUBLISHED = ":published"  # the same, of the series that have published figures
PANELS_MAX = 6
KINDS = ("lines", "bars")
GROUPS_MAX = 4
LOAD_COLUMNS = 118  # letters of a line of what is fixed
TIC_COLUMNS = 72  # characters that the tics of one panel's x axis may take together
LOG_REACH = 1.5  # an axis ends at so many times the highest mean, or at such a part of the lowest
LINEAR_REACH = 1.15  # likewise; longer intervals would press the points together
SHORTEST_US = 0.001  # of a logarithmic axis of time: nothing here is told to less than a nanosecond


@dataclass
class Plot:
    kind: str  # one of KINDS
    x: str  # what the x axis of bars is: "knob" or "series"; the other is the bars side by side
    x_label: str
    panels: list  # of METRIC, METRIC+METRIC (the second thinner), METRIC:ratio or METRIC:published
    log_x: bool
    log_y: list | None  # panels with a logarithmic axis; None: where it is usual


def read(sections, values):
    numeric = all(is_number(value) for value in values)
    grouped = any(sections.get(section, "group", "") for _, section in sections.named("series"))
    kind = sections.choice("plot", "kind", KINDS, "lines" if numeric else "bars")
    if kind == "bars" and grouped:
        raise sections.error("plot", "kind", "groups of series are drawn as lines only")
    if kind == "lines" and not numeric:
        raise sections.error("plot", "kind", "lines need a knob with numbers; use bars")
    panels = sections.get("plot", "metrics", "").split()
    if len(panels) > PANELS_MAX:
        raise sections.error("plot", "metrics", f"more than {PANELS_MAX} panels")
    log_y = sections.get("plot", "log_y", "").split()
    return Plot(
        kind=kind,
        x=sections.choice("plot", "x", ("knob", "series"), "knob"),
        x_label=sections.get("plot", "x_label", ""),
        panels=panels,
        log_x=sections.choice("plot", "log_x", ("yes", "no"), "no") == "yes",
        log_y=None if not log_y else [] if log_y == ["none"] else log_y,
    )


def write(study, rows, path):
    """plot.gp: assignments for gnuplot."""
    here = [row for row in rows if row.origin == "here"]
    series = [one for one in study.series if any(row.series == one.name for row in here)]
    values = [value for value in study.values if any(row.value == value for row in here)]
    published = [s for s in series if any(_is_published(row, s.name) for row in rows)]
    groups = list(dict.fromkeys(one.group for one in series))
    if len(groups) > GROUPS_MAX:
        raise HarnessError(f"{study.name}: more than {GROUPS_MAX} groups of series")
    axes = panels(study, rows)
    x_is_series = study.plot.kind == "bars" and study.plot.x == "series"
    names = [one.name for one in series]
    labels = [one.label for one in series]
    value_labels = [study.label_of(value) for value in values]
    words = f" ({study.knob})" if study.knob != study.symbol else ""  # what the symbol stands for
    of_bars = [f"{study.symbol} = {text}{words}" for text in value_labels]
    load = _balanced(study.fixed)
    lines = [
        f"# What plots/panels.gp draws of {study.name}; written by experiments/analyse.",
        _text("kind", study.plot.kind),
        _text("heading", study.title),
        _text("load_text", "\n".join(load)),
        f"load_lines = {len(load)}",
        _text("x_label", study.plot.x_label or ("" if x_is_series else study.symbol)),
        _text("base_text", study.base_text()),
        _text("knob", study.knob),
        f"x_is_series = {x_is_series:d}",
        f"log_x = {study.plot.log_x:d}",
        _text("runs", summary.runs_range([row.runs for row in here])),
        _text("seconds", f"{here[0].seconds_per_run:g}"),
        _texts("series", names),
        _texts("series_label", labels),
        _texts("value", values),
        _texts("value_label", value_labels),
        _texts("tic_label", _tic_labels(study, labels if x_is_series else value_labels)),
        _texts("bar_label", of_bars if x_is_series else labels),
        _text("theory_label", _theory_label(study, rows)),
        _texts("published", [one.name for one in published]),
        _texts("published_label", [one.label for one in published]),
        _texts("group", groups),
        _numbers("series_group", [groups.index(one.group) + 1 for one in series]),
        _numbers("series_style", [_place_in_group(series, one) for one in series]),
        _numbers("published_group", [groups.index(one.group) + 1 for one in published] or [0]),
        _texts("panel_metric", [axis.metrics[0] + axis.ending for axis in axes]),
        _texts("panel_second", [axis.second for axis in axes]),
        _texts("panel_label", [axis.label for axis in axes]),
        _numbers("panel_scale", [axis.scale for axis in axes]),
        _numbers("panel_log", [int(axis.log) for axis in axes]),
        _numbers("panel_low", [axis.low for axis in axes]),
        _numbers("panel_high", [axis.high for axis in axes]),
        _texts("panel_tics", [_tics(axis.tics, True) for axis in axes]),
        _texts("panel_grid", [_tics(axis.tics, False) for axis in axes]),
        _numbers("panel_ratio", [int(bool(axis.ending)) for axis in axes]),
        _numbers("panel_published", [int(axis.is_published) for axis in axes]),
        _numbers("series_published", [int(one in published) for one in series]),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def panels(study, rows):
    """The picture's panels, each with its metrics and the axis: an _Axis."""
    return [_Axis(study, rows, panel) for panel in _wanted(study)]


def _wanted(study):
    if not study.plot.panels:
        wanted = [_Axis.split(panel) for panel in DEFAULT_PANELS.split()]
        known = [("+".join(m for m in ms if m in study.metrics), end) for ms, end in wanted]
        found = [metrics + end for metrics, end in known if metrics]
        return found or study.metrics[:PANELS_MAX]
    for panel in study.plot.panels:
        unknown = [m for m in _Axis.split(panel)[0] if m not in study.metrics]
        if unknown:
            raise HarnessError(
                f"{study.name}: [plot] metrics: {panel}: not among the study's metrics"
                f" ({' '.join(study.metrics)})"
            )
    return study.plot.panels


class _Axis:
    """The y axis of one panel."""

    def __init__(self, study, rows, panel):
        self.metrics, ending = self.split(panel)
        self.ending = "_ratio" if ending else ""
        self.is_published = ending == PUBLISHED
        if self.is_published:
            theirs = {row.series for row in rows if row.origin == "published"}
            rows = [row for row in rows if row.series in theirs]
        self.second = self.metrics[1] if len(self.metrics) > 1 else ""
        name, unit = study.name_of(self.metrics[0])
        estimates = [
            (row.ratios if ending else row.estimates).get(metric)
            for row in rows
            for metric in self.metrics
        ]
        estimates = [e for e in estimates if e is not None]
        usual = study.plot.log_x if ending else unit in ("µs", "ms", "s")
        usual = usual and study.plot.kind == "lines"
        self.log = usual if study.plot.log_y is None else panel in study.plot.log_y
        lowest, highest = _extremes(estimates, LOG_REACH if self.log else LINEAR_REACH)
        self.scale = 1.0
        if not ending and unit == "µs" and self.log:
            lowest = max(lowest, SHORTEST_US * 1.25)
        if not ending and unit == "µs" and highest >= 10000 and (lowest >= 1 or not self.log):
            self.scale, unit = (1e-6, "s") if highest >= 1e7 else (1e-3, "ms")
        if ending:
            self.label = f"{name}, ratio to {study.base_text()}"
            self.label += ", beside the published" if self.is_published else ""
        else:
            self.label = f"{name}, {unit}" if unit else name
        if self.second:
            self.label += f" (thin: {study.name_of(self.second)[0]})"
        self.low = self._below(lowest) if self.log else 0.0
        self.high = highest * self.scale * (1.3 if self.log else 1.06)
        self.tics = log_tics(self.low, self.high) if self.log else even_tics(self.high)

    @staticmethod
    def split(panel):
        ending = next((end for end in (RATIO, PUBLISHED) if panel.endswith(end)), "")
        return panel.removesuffix(ending).split("+", 1), ending

    def _below(self, number):
        """A round number below the lowest figure, so that a bar has a height."""
        number *= self.scale / 1.2
        power = 10.0 ** math.floor(math.log10(number))
        return max(digit * power for digit in (1, 2, 3, 5, 7) if digit * power <= number)


def _extremes(estimates, reach):
    """(lowest, highest) that an axis shows, both above 0, also where all figures are 0: gnuplot
    refuses an empty range. The interval of two or three runs may be many times as long as its mean
    is high: it then leaves the picture, with an arrow, so that the points can be told from each
    other."""
    means = [e.mean for e in estimates if e.mean > 0]
    if not means:
        return 1.0, 1.0
    lows = [e.low for e in estimates if e.low > 0]
    lowest = max(min(lows + means), min(means) / reach)
    highest = min(max([e.high for e in estimates] + means), max(means) * reach)
    return lowest, highest


def _balanced(text):
    """Lines of about the same length, as few as there have to be."""
    lines = textwrap.wrap(text, LOAD_COLUMNS) or [""]
    for width in range(LOAD_COLUMNS - 1, 0, -1):
        narrower = textwrap.wrap(text, width)
        if len(lines) == 1 or len(narrower) > len(lines):
            return lines
        lines = narrower
    return lines


def _theory_label(study, rows):
    """Of the thin lines; '' if there are none."""
    there = any(row.origin == "theory" for row in rows)
    return f"thin, theory: {study.theory.label}" if there else ""


def even_tics(high):
    """Four to eight of them from 0 on, a round number apart."""
    power = 10.0 ** math.floor(math.log10(high)) if high > 0 else 1.0
    step = next(power * part for part in (0.1, 0.2, 0.25, 0.5, 1, 2) if high / (power * part) < 8)
    return [step * k for k in range(int(high / step * 1.0001) + 1)]


def log_tics(low, high):
    """1, 2 and 5 of each decade; more of them in less than a decade, only 1 in many."""
    span = high / low
    digits = (1, 1.5, 2, 3, 5, 7) if span < 8 else (1, 2, 5) if span < 3000 else (1,)
    tics = [digit * 10.0**decade for decade in range(-9, 13) for digit in digits]
    return [tic for tic in tics if low * 0.99 <= tic <= high]


def tic_text(number, in_powers=False):
    """20000 -> 20k, 1500000 -> 1.5M, 0.00002 -> 2·10⁻⁵. in_powers: whatever is below 1."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= size * 0.9999:
            return f"{number / (1e3 if letter == 'k' else size):.4g}{letter}"
    if not 0 < number < (0.9999 if in_powers else 0.9999e-4):
        return f"{number:.4g}"
    digits, _, power = f"{number:.3e}".partition("e-")
    ten = "10⁻" + power.lstrip("0").translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return ten if float(digits) == 1 else f"{float(digits):g}·{ten}"


def _tics(numbers, named):
    """For gnuplot's `set ytics (...)`: small ones as powers if one of them must be."""
    in_powers = any(0 < n < 0.9999e-4 for n in numbers)
    return ", ".join(f'"{tic_text(n, in_powers) if named else ""}" {n:.6g}' for n in numbers)


def _place_in_group(series, one):
    """Lines of different panels that stand for the same thing look the same."""
    return [other.name for other in series if other.group == one.group].index(one.name) + 1


def _tic_labels(study, labels):
    return _wrapped(labels) if study.plot.kind == "bars" else [short(label) for label in labels]


def short(label):
    """20000 -> 20k, 10000000 -> 10M, 65536 -> 64Ki; what is no round number stays as it is."""
    if not label.isdecimal():
        return label
    number = int(label)
    for base, letters in ((1000, "kMG"), (1024, ("Ki", "Mi", "Gi"))):
        power = 0
        while number >= base and number % base == 0 and power < len(letters):
            number //= base
            power += 1
        if power:
            return f"{number}{letters[power - 1]}"
    return label


def _wrapped(labels):
    width = max(TIC_COLUMNS // max(len(labels), 1), 6)
    return [
        "\n".join(textwrap.wrap(label, width, break_on_hyphens=False)) or label for label in labels
    ]


def _is_published(row, series):
    return row.origin == "published" and row.series == series


def _quoted(text):
    """In single quotes, where gnuplot expands nothing; line ends stand between."""
    return '."\\n".'.join("'" + line.replace("'", "''") + "'" for line in text.split("\n"))


def _text(name, text):
    return f"{name} = {_quoted(text)}"


def _texts(name, texts):
    """gnuplot knows no empty array: the count stands beside."""
    elements = ", ".join(map(_quoted, texts or [""]))
    return f"array {name}[{max(len(texts), 1)}] = [{elements}]\n{name}_count = {len(texts)}"


def _numbers(name, numbers):
    return f"array {name}[{len(numbers)}] = [{', '.join(f'{n:.6g}' for n in numbers)}]"
