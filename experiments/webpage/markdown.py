"""Markdown to HTML: headings, paragraphs, lists, tables, code blocks, **bold**, *emphasis*, `code`,
links, images. HTML in the source is text like any other. Links are told, not linked: the page stands
alone, and the files beside the report are not with it."""

import re

from webpage.markup import Markup, identifier, join, tag, text
from webpage.table import table

SPAN = re.compile(
    r"`(?P<code>[^`]+)`|\*\*(?P<bold>.+?)\*\*|\*(?P<emphasis>[^*\s][^*]*)\*"
    r"|!\[(?P<alt>[^\]]*)\]\([^)]*\)|\[(?P<link>[^\]]+)\]\((?P<target>[^)\s]*)\)"
)
ITEM = re.compile(r"\s*(?:[-*]|(?P<number>\d+)\.)\s+(?P<text>.*)")
BLOCK_START = re.compile(r"#{1,6} |```|\||\s*(?:[-*]|\d+\.)\s")


def render(source, top_level=2, picture=None, prefix=""):
    """The source as HTML; its `#` becomes h<top_level>. picture: Markup to stand where the first
    image is; others are left out. prefix: of the ids of headings."""
    return _Reader(source, top_level, picture, prefix).read()


def inline(source):
    """One paragraph's text."""
    parts, at = [], 0
    for found in SPAN.finditer(source):
        parts.append(text(source[at : found.start()]))
        parts.append(_span(found))
        at = found.end()
    return join([*parts, text(source[at:])])


def _span(found):
    if found["code"] is not None:
        return tag("code", found["code"])
    if found["bold"] is not None:
        return tag("strong", inline(found["bold"]))
    if found["emphasis"] is not None:
        return tag("em", inline(found["emphasis"]))
    if found["alt"] is not None:
        return Markup("")
    label, target = found["link"], found["target"]
    told = "://" in target and target != label
    return join([inline(label), f" ({target})" if told else ""])


class _Reader:
    def __init__(self, source, top_level, picture, prefix):
        self.lines = source.splitlines()
        self.at = 0
        self.top_level = top_level
        self.picture = picture
        self.prefix = prefix

    def read(self):
        blocks = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip():
                self.at += 1
            elif line.startswith("```"):
                blocks.append(self._code())
            elif re.match(r"#{1,6} ", line):
                blocks.append(self._heading())
            elif line.startswith("|"):
                blocks.append(self._table())
            elif ITEM.match(line):
                blocks.append(self._list())
            else:
                blocks.append(self._paragraph())
        return join(blocks, "\n")

    def _heading(self):
        marks, _, words = self.lines[self.at].partition(" ")
        self.at += 1
        level = min(len(marks) - 1 + self.top_level, 6)
        return tag(f"h{level}", inline(words.strip()), id=self.prefix + identifier(words))

    def _code(self):
        self.at += 1
        start = self.at
        while self.at < len(self.lines) and not self.lines[self.at].startswith("```"):
            self.at += 1
        self.at += 1
        return tag("pre", tag("code", "\n".join(self.lines[start : self.at - 1])))

    def _table(self):
        rows = []
        while self.at < len(self.lines) and self.lines[self.at].startswith("|"):
            cells = self.lines[self.at].strip().strip("|").split("|")
            self.at += 1
            if not all(re.fullmatch(r"\s*:?-+:?\s*", cell) for cell in cells):
                rows.append([inline(cell.strip()) for cell in cells])
        return table(rows[0], rows[1:]) if rows else None

    def _list(self):
        items, ordered = [], ITEM.match(self.lines[self.at])["number"] is not None
        while self.at < len(self.lines) and ITEM.match(self.lines[self.at]):
            words = [ITEM.match(self.lines[self.at])["text"]]
            self.at += 1
            words += self._continued()
            items.append(tag("li", inline(" ".join(words))))
        return tag("ol" if ordered else "ul", *items)

    def _continued(self):
        """Lines that go on with the paragraph or item before them."""
        found = []
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if not line.strip() or BLOCK_START.match(line):
                break
            found.append(line.strip())
            self.at += 1
        return found

    def _paragraph(self):
        first = self.lines[self.at].strip()
        self.at += 1
        words = " ".join([first, *self._continued()])
        has_image = re.search(r"!\[[^\]]*\]\([^)]*\)", words)
        paragraph = inline(words)
        is_lead = re.fullmatch(r"\*\*[^*]+\*\*", words)
        shown = None
        if paragraph.strip():
            shown = tag("p", paragraph, class_="lead" if is_lead else None)
        if has_image and self.picture is not None:
            shown, self.picture = join([self.picture, shown]), None
        return shown
