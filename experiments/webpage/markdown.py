"""Markdown to HTML: cmark-gfm reads it, this gives its elements tags. HTML in the source is text
like any other. Links are told, not linked: the page stands alone, and the files beside the report
are not with it."""

import subprocess
from xml.etree import ElementTree

from harness import HarnessError
from webpage.markup import Markup, identifier, join, tag, visible
from webpage.table import table

COMMAND = ("cmark-gfm", "-e", "table", "-t", "xml")
TAGS = {"strong": "strong", "emph": "em", "code": "code", "item": "li", "block_quote": "blockquote"}


def render(source, top_level=2, picture=None, prefix=""):
    """The source as HTML; its `#` becomes h<top_level>. picture: Markup to stand where the first
    image is; others are left out. prefix: of the ids of headings."""
    pictures = [picture] if picture is not None else []
    return join((_block(e, top_level, pictures, prefix) for e in _parse(source)), "\n")


def _parse(source):
    """The tree of the document: elements of CommonMark's DTD, and tables."""
    try:
        done = subprocess.run(
            COMMAND, input=visible(source).encode(), stdout=subprocess.PIPE, check=True
        )
        return ElementTree.fromstring(done.stdout)
    except FileNotFoundError as error:
        raise HarnessError("no cmark-gfm here: make deps") from error
    except (subprocess.CalledProcessError, ElementTree.ParseError) as error:
        raise HarnessError(f"cmark-gfm failed: {error}") from error


def _kind(element):
    return element.tag.rpartition("}")[2]


def _block(element, top_level, pictures, prefix):
    kind = _kind(element)
    if kind == "heading":
        level = min(int(element.get("level")) - 1 + top_level, 6)
        name = identifier("".join(element.itertext()))
        return tag(f"h{level}", _inline(element), id=prefix + name)
    if kind == "paragraph":
        return _paragraph(element, pictures)
    if kind == "list":
        name = "ol" if element.get("type") == "ordered" else "ul"
        return tag(name, *(tag("li", *map(_inline, item)) for item in element))
    if kind == "table":
        rows = [[_inline(cell) for cell in row] for row in element]
        # On a phone a row of a wide table becomes a block.
        return table(rows[0], rows[1:], "cards" if len(rows[0]) > 3 else None)
    if kind == "code_block":
        return tag("pre", tag("code", element.text))
    return tag("p", "".join(element.itertext()))  # HTML, as text


def _paragraph(element, pictures):
    words = _inline(element)
    is_lead = [_kind(child) for child in element] == ["strong"]
    shown = tag("p", words, class_="lead" if is_lead else None) if words.strip() else None
    has_image = any(_kind(child) == "image" for child in element)
    return join([pictures.pop(), shown]) if has_image and pictures else shown


def _inline(element):
    """What is in the element."""
    return join(map(_span, element)) if len(element) else join([element.text])


def _span(element):
    kind = _kind(element)
    if kind == "image":
        return Markup("")
    if kind == "softbreak":
        return "\n"
    if kind == "link":
        target = element.get("destination")
        told = "://" in target and target != "".join(element.itertext())
        return join([_inline(element), f" ({target})" if told else ""])
    if kind in TAGS:
        return tag(TAGS[kind], _inline(element))
    return _inline(element)  # text, HTML as text
