"""The pictures that plots/draw makes of a summary CSV, as parts of the page: data URIs of SVG,
which load nothing and cannot run anything."""

import pathlib
import subprocess
import tempfile
import urllib.parse

from harness import HarnessError
from webpage.markup import single, tag

DRAW = pathlib.Path(__file__).resolve().parents[2] / "plots" / "draw"
KEPT = " =:/,;()'\n<>"  # what a data URI within quotes can hold as it is


def figure(summary, words, caption):
    """summary: the CSV, in a folder STUDY/PROFILE. words: for who cannot see it."""
    source = "data:image/svg+xml," + urllib.parse.quote(_draw(summary), safe=KEPT)
    shown = tag("div", single("img", src=source, alt=words), class_="picture")
    return tag("figure", shown, tag("figcaption", caption))


def _draw(summary):
    """The SVG, a text."""
    with tempfile.TemporaryDirectory() as folder:
        command = [DRAW, "--svg", "-o", folder, summary]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise HarnessError(done.stderr.strip() or "plots/draw failed")
        return pathlib.Path(done.stdout.strip()).read_text(encoding="utf-8")
