"""The pages of a deck of slides, as SVG of 1280 x 720 pixels: words of harness.content, and
pictures as they were drawn. No letter is smaller than 24 pixels (18 pt)."""

import dataclasses
import html
import re
import textwrap

from harness import content, summary

WIDTH, HEIGHT = 1280, 720
TEXT, TITLE = 26, 38
LINE = 38
LEFT, TOP = 70, 150
COLUMNS = 84  # letters of a line at TEXT
GAP = 20  # between paragraphs
BOTTOM = 690  # of the last line of a page
CELL = 24
ROW_LETTERS = 78  # of a table's row at CELL, with GAP_LETTERS behind each column
GAP_LETTERS = 2
COLUMN_LETTERS = 26  # a column need not be wider
HEADING_LINES, CELL_LINES = 3, 2  # at most


def pages(study, told, rows, manifest, pictures):
    """rows: of summary.summarise; told: content.of them."""
    profile = manifest["profile"]
    runs = [row.runs for row in rows if row.origin == "here"]
    said = "What was published" if study.published else "Claim"
    question = [
        told.question,
        f"Source: {told.source}." if told.source else "",
        f"{said}: {told.claim}" if told.claim else "",
    ]
    deck = _words(told.title, "Question", question)
    method = [
        f"{told.fixed}." if told.fixed else "",
        f"{summary.runs_told(runs, profile['repeats'])} runs of {profile['measure_s']:g} s a point,"
        f" each with a daemon and a store of its own; profile {profile['name']}."
        " Error bars are 95 % intervals of the means (Student's t).",
        f"{manifest['cpus']} CPUs: {manifest['cpu']}. {' '.join(manifest['kernel'].split()[:2])}."
        f" Measured {manifest['started_utc'][:10]}, commit {manifest['commit'][:12]}.",
        f"Thin lines: {told.theory}." if told.theory else "",
        told.notes,
    ]
    deck += _words(told.title, "Method", method)
    deck += pictures
    for table in told.comparisons if study.published else ():  # else the pictures say it all
        deck += _table_pages(told.title, told.comparing_title, _published_rows(table))
    concluded = list(told.crossovers)
    for one in told.verdicts:
        concluded += [content.with_guess(one), *one.findings]
    if told.busy:
        concluded.append(f"Other programs kept the machine busy: {told.busy}")
    deck += _words(told.title, "Conclusion", concluded or ["There is no claim to judge."])
    return deck


def _words(title, heading, paragraphs):
    """As many pages as the paragraphs need, which stay whole where they can."""
    found, parts, y = [], [], TOP + 20
    for paragraph in filter(None, paragraphs):
        lines = _wrapped(paragraph)
        is_cut = bool(parts) and y + LINE * (len(lines) - 1) > BOTTOM
        for text in lines:
            if is_cut or y > BOTTOM:
                is_cut = False
                found.append(parts)
                parts, y = [], TOP + 20
            parts.append(_text(LEFT, y, TEXT, text))
            y += LINE
        y += GAP
    return [
        _page(title, f"{heading}, continued" if number else heading, page)
        for number, page in enumerate([*found, parts])
    ]


def _wrapped(paragraph):
    """The lines; "M = 1" stays on one."""
    kept = re.sub(r"(\S) ([=×]) (\S)", "\\1\N{NO-BREAK SPACE}\\2\N{NO-BREAK SPACE}\\3", paragraph)
    return textwrap.wrap(kept.replace("`", ""), COLUMNS)


def _published_rows(table):
    """Without the rows of which nothing was published, where there are others."""
    column = next((i for i, name in enumerate(table.header) if "published" in name), None)
    rows = [row for row in table.body if column is not None and row[column] != content.NOTHING]
    return dataclasses.replace(table, body=rows or table.body)


def _table_pages(title, heading, table):
    header, body, widths = narrow(table)
    found = []
    while body or not found:
        parts, left = _cells(header, body, widths)
        found.append(_page(title, f"{heading}: {table.title.lower()}", parts))
        body = left
    return found


def narrow(table):
    """(header, rows, widths in letters) of the columns that a page has room for: always what tells
    the points apart and the ratios of both sides, which are what is compared; absolute figures as
    they fit. Intervals are left out."""
    header = _headings(table)
    body = [[_without_interval(cell) for cell in row] for row in table.body]
    widths = [_width(header[i], [row[i] for row in body]) for i in range(len(header))]
    absolute = [i for i, name in enumerate(table.header) if _is_absolute(name)]
    keep = [i for i in range(len(header)) if i not in absolute]
    for i in absolute:
        if sum(widths[k] for k in [*keep, i]) <= ROW_LETTERS:
            keep.append(i)
    keep.sort()
    rows = [[row[i] for i in keep] for row in body]
    return [header[i] for i in keep], rows, [widths[i] for i in keep]


def _is_absolute(heading):
    """Of a column of content's comparisons: neither series nor value, and no ratio."""
    if _without_interval(heading) in ("ratio", "published ratio"):
        return False
    return "published, " in heading or heading != _without_interval(heading)


def _headings(table):
    """Without intervals. Ratios say whose they are: in content they stand beside their figure."""
    names = [_without_interval(name) for name in table.header]
    found = list(names)
    for i, name in enumerate(names):
        if name in ("ratio", "published ratio") and names.count(name) > 1:
            found[i] = f"{_owner(names[i - 1], table.title)}, {name}"
        elif name == "ratio":
            found[i] = "ours, ratio"
    return found


def _owner(heading, title):
    """The series of "SERIES, published, COLUMN" and of "SERIES, METRIC, UNIT"."""
    for behind in (", published, ", f", {title.lower()}"):
        at = heading.lower().rfind(behind)
        if at > 0:
            return heading[:at]
    return heading


def _without_interval(cell):
    return cell.partition(" [")[0]


def _width(heading, cells):
    """Letters of the narrowest column that holds them in the lines they may have, and the gap."""
    for width in range(4, COLUMN_LETTERS):
        if _fits(heading, width, HEADING_LINES) and all(_fits(c, width, CELL_LINES) for c in cells):
            return width + GAP_LETTERS
    return COLUMN_LETTERS + GAP_LETTERS


def _fits(text, width, lines):
    wrapped = textwrap.wrap(text, width, break_long_words=False)
    return len(wrapped) <= lines and all(len(line) <= width for line in wrapped)


def _cells(header, body, widths):
    """What fits on a page, and the rows that do not."""
    total = sum(widths)
    share = (WIDTH - 2 * LEFT) / total
    room = [width * max(ROW_LETTERS, total) // total - GAP_LETTERS for width in widths]
    parts, y = [], TOP + 14
    for number, row in enumerate([header, *body]):
        x = LEFT
        most = HEADING_LINES if number == 0 else CELL_LINES
        wrapped = [textwrap.wrap(cell, at)[:most] or [""] for cell, at in zip(row, room)]
        if number > 1 and y + 28 * max(map(len, wrapped)) > HEIGHT - 16:
            return parts, body[number - 1 :]
        for cell, width in zip(wrapped, widths):
            for i, text in enumerate(cell):
                parts.append(_text(x, y + 28 * i, CELL, text, bold=number == 0))
            x += width * share
        y += 28 * max(map(len, wrapped)) + 10
        if number == 0:
            parts.append(
                f'<line x1="{LEFT}" x2="{WIDTH - LEFT}" y1="{y - 24}" y2="{y - 24}" '
                'stroke="#808080"/>'
            )
            y += 8
    return parts, []


def _page(title, heading, parts):
    size = TITLE if len(title) <= 52 else 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
        f' viewBox="0 0 {WIDTH} {HEIGHT}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 62, size, title, bold=True),
        _text(LEFT, 110, 28, heading, colour="#1f5fbf"),
        *parts,
        "</svg>",
    ]
    return "\n".join(lines)


def numbered(pages_drawn):
    """The pages with their numbers, also those that gnuplot drew."""
    for number, page in enumerate(pages_drawn, 1):
        before, end, after = page.rpartition("</svg>")
        told = _text(WIDTH - 40, 110, 24, f"{number} / {len(pages_drawn)}", colour="#606060")
        yield before + told.replace("<text ", '<text text-anchor="end" ') + end + after


def _text(x, y, size, text, bold=False, colour="#000000"):
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-family="DejaVu Sans, Verdana, sans-serif"'
        f' font-size="{size}"{weight} fill="{colour}">{html.escape(text)}</text>'
    )
