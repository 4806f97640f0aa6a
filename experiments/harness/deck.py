"""The pages of a deck of slides, as SVG of 1280 x 720 pixels: words of harness.content, and
pictures as they were drawn. No letter is smaller than 24 pixels (18 pt)."""

import dataclasses
import html
import re
import textwrap

from harness import content

WIDTH, HEIGHT = 1280, 720
TEXT, TITLE = 26, 38
LINE = 38
LEFT, TOP = 70, 150
COLUMNS = 84  # letters of a line at TEXT
GAP = 20  # between paragraphs
BOTTOM = 690  # of the last line of a page
CELL = 24


def pages(study, told, manifest, pictures):
    profile = manifest["profile"]
    said = "What was published" if study.published else "Claim"
    question = [
        told.question,
        f"Source: {told.source}." if told.source else "",
        f"{said}: {told.claim}" if told.claim else "",
    ]
    deck = _words(told.title, "Question", question)
    method = [
        f"{told.fixed}." if told.fixed else "",
        f"{profile['repeats']} runs of {profile['measure_s']:g} s a point, "
        "each with a daemon and a store"
        f" of its own; profile {profile['name']}."
        " Error bars are 95 % bootstrap intervals of the means.",
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
        concluded += [f"{one.headline} {one.why}".strip(), *one.findings]
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
    header, body = _narrow(table)
    found = []
    while body or not found:
        parts, left = _cells(header, body)
        found.append(_page(title, f"{heading}: {table.title.lower()}", parts))
        body = left
    return found


def _narrow(table):
    """Of wide tables the columns that fit, each point with its interval left out."""
    short = [[cell.partition(" [")[0] for cell in row] for row in [table.header, *table.body]]
    widths = [max(len(row[i]) for row in short) for i in range(len(short[0]))]
    keep, used = [], 0
    for i, width in enumerate(widths):
        width = min(width, 26) + 2
        if used + width <= 78:
            keep.append(i)
            used += width
    return [short[0][i] for i in keep], [[row[i] for i in keep] for row in short[1:]]


def _cells(header, body):
    """What fits on a page, and the rows that do not."""
    rows = [header, *body]
    widths = [min(max(len(row[i]) for row in rows), 26) + 2 for i in range(len(header))]
    share = (WIDTH - 2 * LEFT) / sum(widths)
    parts, y = [], TOP + 14
    for number, row in enumerate(rows):
        x = LEFT
        most = 3 if number == 0 else 2  # lines
        wrapped = [textwrap.wrap(cell, 26)[:most] or [""] for cell in row]
        if number > 1 and y + 28 * max(map(len, wrapped)) > HEIGHT - 16:
            return parts, rows[number:]
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


def _text(x, y, size, text, bold=False, colour="#000000"):
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" font-family="DejaVu Sans, Verdana, sans-serif"'
        f' font-size="{size}"{weight} fill="{colour}">{html.escape(text)}</text>'
    )
