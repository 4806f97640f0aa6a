"""One panel as inline SVG: a metric over the values of a knob, a line or a row of bars a series, with
error bars. Values stand side by side at equal distances, whatever numbers they are: so they can be
read on a phone. Colours are classes of the style sheet, for light, dark and paper."""

import math
import textwrap
from dataclasses import dataclass

from harness.figure import short
from judge.table import number
from webpage.markup import Markup, join, single, tag

WIDTH, HEIGHT = 360, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 8, 24, 40
COLOURS = 6
TITLE_COLUMNS, TITLE_HEIGHT = 46, 15  # characters and height of a line of the title
LABEL_LINES, LINE_HEIGHT = 4, 12  # of words below the x axis
WIDE_RANGE = 25  # largest by smallest figure from which the axis is logarithmic


@dataclass
class Point:
    mean: float
    low: float
    high: float


@dataclass
class Line:
    label: str
    points: dict  # x (text) -> Point
    published: bool = False
    colour: int | None = None  # of a published line that has one of ours beside it: that one's number


@dataclass
class Panel:
    title: str
    x_label: str
    xs: list  # of text
    lines: list  # of Line
    bars: bool = False


def draw(panel):
    """The SVG; None if there is nothing to draw."""
    points = [point for line in panel.lines for point in line.points.values()]
    points = [p for p in points if all(map(math.isfinite, (p.mean, p.low, p.high)))]
    if not points or not panel.xs:
        return None
    axis = _Axis(points, panel.bars)
    words, extra = _x_axis(panel)
    shapes = [_grid(axis), words]
    drawn = _bars if panel.bars else _line
    for i, line in enumerate(panel.lines):
        shapes.append(drawn(panel, axis, line, i))
    names = ", ".join(line.label for line in panel.lines)
    title = textwrap.wrap(panel.title, TITLE_COLUMNS) or [""]
    down = (len(title) - 1) * TITLE_HEIGHT
    return tag(
        "svg",
        tag("title", f"{panel.title}: {names}"),
        *(
            tag("text", line, x=4, y=13 + i * TITLE_HEIGHT, class_="title")
            for i, line in enumerate(title)
        ),
        tag("g", *shapes, transform=f"translate(0,{down})" if down else None),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDTH} {HEIGHT + extra + down}",
        role="img",
    )


def legend(lines, bars=False):
    """What the marks, or bars, mean; HTML, so that long labels wrap."""
    return tag(
        "ul",
        *(
            tag(
                "li",
                tag(
                    "svg",
                    *_sample(line, i, bars),
                    viewBox="0 0 24 14",
                    width=24,
                    height=14,
                    aria_hidden="true",
                    xmlns="http://www.w3.org/2000/svg",
                ),
                " ",
                line.label,
            )
            for i, line in enumerate(lines)
        ),
        class_="legend",
    )


def _sample(line, i, bars):
    if bars:
        return [single("path", d="M6,1h12v12h-12z", class_=_style("bar", line, i))]
    return [
        single("line", x1=0, y1=7, x2=24, y2=7, class_=_stroke(line, i)),
        _mark(line, i, 12, 7),
    ]


class _Axis:
    """Figures to heights, and the tics."""

    def __init__(self, points, bars):
        high = max(p.high for p in points)
        low = min(p.low for p in points)
        above_zero = [p.mean for p in points if p.mean > 0]
        self.log = (
            not bars and low > 0 and bool(above_zero) and high / min(above_zero) >= WIDE_RANGE
        )
        if self.log:
            self.bottom = math.floor(math.log10(low))
            self.top = max(math.ceil(math.log10(high)), self.bottom + 1)
            every = max(1, math.ceil((self.top - self.bottom) / 5))
            self.tics = [10.0**e for e in range(self.bottom, self.top + 1, every)]
        else:
            step = _round_step(max(high, 0) - min(low, 0))
            self.bottom = math.floor(min(low, 0) / step) * step
            self.top = max(math.ceil(high / step) * step, self.bottom + step)
            count = round((self.top - self.bottom) / step)
            self.tics = [self.bottom + i * step for i in range(count + 1)]

    def y(self, value):
        if self.log:
            value = math.log10(max(value, 10.0**self.bottom))
        share = (value - self.bottom) / (self.top - self.bottom)
        return HEIGHT - BOTTOM - min(max(share, 0), 1) * (HEIGHT - TOP - BOTTOM)


def _round_step(span):
    """1, 2 or 5 times a power of ten: four to eight of them make the span."""
    raw = span / 5 if span > 0 else 1
    power = 10 ** math.floor(math.log10(raw))
    return next(m * power for m in (1, 2, 5, 10) if raw <= m * power * 1.0001)


def _tic_text(value):
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            scale = 1e3 if letter == "k" else limit
            return f"{value / scale:.3g}{letter}"
    return f"{value:.4g}"


def _grid(axis):
    lines = []
    for value in axis.tics:
        y = round(axis.y(value), 1)
        lines.append(single("line", x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y, class_="grid"))
        lines.append(tag("text", _tic_text(value), x=LEFT - 5, y=y + 4, class_="tic y"))
    return join(lines)


def _x(panel, value):
    slot = (WIDTH - LEFT - RIGHT) / len(panel.xs)
    return LEFT + (panel.xs.index(value) + 0.5) * slot


def _x_axis(panel):
    """(the tics and the name of the axis, height that they need beyond the usual). Numbers that do not
    fit side by side are thinned out, words are broken into lines."""
    slot = (WIDTH - LEFT - RIGHT) / len(panel.xs)
    longest = max(len(short(value)) for value in panel.xs)
    every = 1 if panel.bars else max(1, math.ceil(longest * 6.5 / slot))
    columns = max(3, int(slot * every / 5.6))
    texts, deepest = [], 1
    for value in panel.xs[::every]:
        lines = textwrap.wrap(short(value), columns, max_lines=LABEL_LINES, placeholder="…") or [""]
        deepest = max(deepest, len(lines))
        x, y = round(_x(panel, value), 1), HEIGHT - 24
        spans = [tag("tspan", line, x=x, y=y + i * LINE_HEIGHT) for i, line in enumerate(lines)]
        texts.append(tag("text", *spans, class_="tic x"))
    extra = (deepest - 1) * LINE_HEIGHT
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    texts.append(tag("text", panel.x_label, x=middle, y=HEIGHT - 6 + extra, class_="tic x label"))
    return join(texts), extra


def _stroke(line, i):
    return _style("line", line, i)


def _style(kind, line, i):
    """The classes of what is drawn of the i-th line."""
    number_of_colour = line.colour if line.published else i
    colour = "" if number_of_colour is None else f" c{number_of_colour % COLOURS}"
    return kind + (" published" if line.published else "") + colour


def _line(panel, axis, line, i):
    shift = (i - (len(panel.lines) - 1) / 2) * min(4, 24 / len(panel.xs))
    places = [
        (round(_x(panel, x) + shift, 1), line.points[x]) for x in panel.xs if x in line.points
    ]
    path = " ".join(f"{x},{axis.y(p.mean):.1f}" for x, p in places)
    shapes = [single("polyline", points=path, class_=_stroke(line, i))]
    for x, p in places:
        shapes.append(_error_bar(axis, x, p, _stroke(line, i)))
        shapes.append(_mark(line, i, x, round(axis.y(p.mean), 1), f"{line.label}: {_told(p)}"))
    return join(shapes)


def _bars(panel, axis, line, i):
    slot = (WIDTH - LEFT - RIGHT) / len(panel.xs)
    width = slot * 0.8 / len(panel.lines)
    shapes = []
    for x in panel.xs:
        if x not in line.points:
            continue
        p = line.points[x]
        left = _x(panel, x) - slot * 0.4 + i * width
        y = axis.y(p.mean)
        shapes.append(
            tag(
                "rect",
                tag("title", f"{line.label}, {x}: {_told(p)}"),
                x=f"{left:.1f}",
                y=f"{y:.1f}",
                width=f"{max(width - 1, 1):.1f}",
                height=f"{max(axis.y(0) - y, 0.5):.1f}",
                class_=_style("bar", line, i),
            )
        )
        shapes.append(_error_bar(axis, round(left + width / 2, 1), p, "whisker"))
    return join(shapes)


def _told(point):
    if point.low == point.high:
        return number(point.mean)
    return f"{number(point.mean)} [{number(point.low)}, {number(point.high)}]"


def _error_bar(axis, x, point, style):
    if point.low == point.high:
        return Markup("")
    low, high = round(axis.y(point.low), 1), round(axis.y(point.high), 1)
    path = f"M{x - 3:.1f},{low}h6M{x - 3:.1f},{high}h6M{x},{low}V{high}"
    return single("path", d=path, class_=style + " error")


def _mark(line, i, x, y, told=None):
    """A shape of its own for each series, so that colour is not all."""
    style = _style("mark", line, i)
    title = tag("title", told) if told else None
    kind = 0 if line.published else i % 4
    if kind == 0:
        return tag("circle", title, cx=x, cy=y, r=3.5, class_=style)
    paths = {
        1: f"M{x - 3.5},{y - 3.5}h7v7h-7z",
        2: f"M{x},{y - 4.5}l4.5,8h-9z",
        3: f"M{x},{y - 4.8}l4.8,4.8l-4.8,4.8l-4.8,-4.8z",
    }
    return tag("path", title, d=paths[kind], class_=style)
