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
    """Links to the parts of the page, which stay in sight, and to the studies, which are many."""
    links = [("opening", "Overview")]
    links += [("glance", "Studies")] if published else []
    links += [("scaling", "Scaling")] if scaling else []
    links += [("many-cpus", "Many CPUs")] if many_cpus else []
    links += [(peers.ANCHOR, "Peers")] if bench else []
    links += [("machine", "Machine")]
    studies = [(study.anchor(one), one.name) for one in [*published, *scaling]]
    rows = tag("nav", _links(links), aria_label="Contents")
    return join([rows, tag("nav", _links(studies), aria_label="Studies", class_="studies")])


def _links(links):
    return join((tag("a", name, href=f"#{anchor}") for anchor, name in links), " ")
