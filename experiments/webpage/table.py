"""Tables, each in a box of its own that scrolls sideways where the screen is narrow."""

import re

from webpage.markup import join, tag

NUMBER = re.compile(r"[-+×(]*\s*\d[\d,.]*(e[-+]?\d+)?\s*(%|x|×)?\)?(\s*[\[(].*[\])])?$")


def table(header, body, style=None):
    """Cells are text or Markup. Columns of numbers are aligned to the right. style: a class; with
    "cards" a row becomes a block of its own on a phone, each cell under its heading."""
    right = [_is_numeric([row[i] for row in body if i < len(row)]) for i in range(len(header))]
    headings = [
        tag("th", cell, class_="number" if to_right else None, scope="col")
        for cell, to_right in zip(header, right)
    ]
    head = tag("thead", tag("tr", *headings)) if any(header) else None
    rows = [_row(header if style == "cards" else None, row, right) for row in body]
    return tag(
        "div",
        tag("table", join([head, tag("tbody", *rows)]), class_=style),
        class_="scroll",
        tabindex="0",
    )


def _row(header, cells, right):
    """header: told beside each cell; None: not."""
    return tag(
        "tr",
        *(
            tag(
                "td",
                cell,
                class_="number" if to_right else None,
                data_heading=header[i] if header else None,
            )
            for i, (cell, to_right) in enumerate(zip(cells, right))
        ),
    )


def _is_numeric(cells):
    told = [str(cell).strip() for cell in cells if str(cell).strip() not in ("", "–", "-")]
    return bool(told) and all(NUMBER.match(cell) for cell in told)
