"""Tags and text. Attributes and text are escaped; what is markup already is of type Markup."""

import html
import unicodedata


class Markup(str):
    """Text that is HTML and must not be escaped again."""


def visible(words):
    """Control characters, which neither HTML nor XML can hold, become U+FFFD."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs") else "\ufffd" for c in words
    )


def text(value):
    """Escaped, and visible."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(visible(str(value)), quote=True))


def tag(name, *children, **attributes):
    """tag("td", "a < b", class_="number"): '_' at the end or inside a name stands for '-' or
    none."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def single(name, **attributes):
    """An element without content, closed as XML wants it: for SVG."""
    return Markup(tag(name, **attributes).replace(f"></{name}>", "/>"))


def join(children, between=""):
    return Markup(between.join(text(child) for child in children if child is not None))


def identifier(words):
    """For id attributes: letters, digits and dashes only."""
    kept = [c if c.isascii() and c.isalnum() else "-" for c in str(words).lower()]
    return "".join(kept).strip("-") or "section"
