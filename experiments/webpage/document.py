"""The whole page."""

import pathlib

from webpage import opening, peers, study
from webpage.markup import Markup, join, tag

STYLE = pathlib.Path(__file__).with_name("style.css")


def render(learned, published, scaling, many_cpus, bench):
    """The HTML, a text. Arguments as opening.section."""
    sections = [opening.section(learned, published, scaling, many_cpus, bench)]
    sections += [study.section(one) for one in [*published, *scaling, *many_cpus]]
    if bench:
        sections.append(bench.section())
    head = join(
        [
            Markup('<meta charset="utf-8"/>'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1"/>'),
            Markup('<meta name="color-scheme" content="light dark"/>'),
            tag("title", opening.TITLE),
            Markup(f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>"),
        ],
        "\n",
    )
    body = tag("body", _contents(published, scaling, many_cpus, bench), tag("main", *sections))
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n{body}\n</html>\n'


def _contents(published, scaling, many_cpus, bench):
    links = [("opening", "Overview")]
    links += [(study.anchor(one), one.name) for one in [*published, *scaling]]
    links += [("many-cpus", "many CPUs")] if many_cpus else []
    links += [(peers.ANCHOR, "peers")] if bench else []
    items = [tag("a", name, href=f"#{anchor}") for anchor, name in links]
    return tag("nav", join(items, " "), aria_label="Contents")
