"""A study: one question, as defined by study.conf and published.csv in a folder of its own.

study.conf is an INI file; experiments/README.md explains every key with examples.
"""

import configparser
import csv
import hashlib
import pathlib
from dataclasses import dataclass

from harness import HarnessError

DEFAULT_METRICS = (
    "ops_per_s mean_us p50_us p90_us p99_us p999_us "
    "server_cpu_us_per_op server_switches_per_op client_cpu_us_per_op client_switches_per_op"
)
SHAPES = ("peak", "valley", "rising", "falling")


@dataclass
class Series:
    """One line of the plot: the same sweep with other options."""

    name: str
    label: str
    options: str


@dataclass
class Profile:
    """How long and how often each point is run."""

    name: str
    repeats: int
    warmup_s: float
    measure_s: float


@dataclass
class Claim:
    """What the source concludes: a text, and for each metric the shape that it implies."""

    text: str
    shapes: dict  # metric -> one of SHAPES
    why_holds: str  # the mechanism, in words
    why_else: str  # the same if it holds in part or not


@dataclass
class Published:
    """The source's own figures. Units are the source's; only ratios are compared with ours."""

    series: str  # of ours, the one that repeats the published set-up
    column_of: dict  # our metric -> the column that corresponds to it
    rows: list  # of dicts, as in published.csv


@dataclass
class Study:
    folder: pathlib.Path
    name: str
    title: str
    question: str
    source: str
    fixed: str  # what is the same at every point, for captions
    notes: str
    metrics: list
    knob: str
    symbol: str
    values: list  # of str: as they appear on command lines and in CSV
    base: str  # the value that ratios are relative to
    series: list
    server_command: str
    load_command: str
    prepare_options: str
    collect_command: str
    collected: dict  # column of the raw row -> path in the JSON that collect_command prints
    profiles: dict
    claim: Claim | None
    published: Published | None

    def definition_hash(self):
        """Changes when the definition does: rows of different definitions are never mixed."""
        return hashlib.sha256((self.folder / "study.conf").read_bytes()).hexdigest()[:16]

    def profile(self, name):
        if name not in self.profiles:
            known = ", ".join(self.profiles) or "none"
            raise HarnessError(f"{self.name}: no profile '{name}' in study.conf (there: {known})")
        return self.profiles[name]


def read(folder):
    """Reads the study in `folder`; raises HarnessError naming file, section and key."""
    folder = pathlib.Path(folder)
    path = folder / "study.conf"
    parser = configparser.ConfigParser(
        interpolation=None, delimiters=("=",), inline_comment_prefixes=("#",)
    )
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except OSError as error:
        raise HarnessError(f"cannot read the study: {error}") from error
    except configparser.Error as error:
        raise HarnessError(f"{path}: {error}") from error
    reader = _Sections(path, parser)

    knob = reader.need("knob", "name")
    values = reader.need("knob", "values").split()
    base = reader.get("knob", "base", values[0] if values else "")
    if base not in values:
        raise HarnessError(f"{path}: [knob] base = {base} is not among its values")
    return Study(
        folder=folder,
        name=folder.resolve().name,
        title=reader.need("study", "title"),
        question=reader.need("study", "question"),
        source=reader.get("study", "source", ""),
        fixed=reader.get("study", "fixed", ""),
        notes=reader.get("study", "notes", ""),
        metrics=reader.get("study", "metrics", DEFAULT_METRICS).split(),
        knob=knob,
        symbol=reader.get("knob", "symbol", knob),
        values=values,
        base=base,
        series=_series(reader),
        server_command=reader.get("server", "command", ""),
        load_command=reader.need("load", "command"),
        prepare_options=reader.get("load", "prepare", ""),
        collect_command=reader.get("collect", "command", ""),
        collected={k: v for k, v in reader.items("collect") if k != "command"},
        profiles=_profiles(reader),
        claim=_claim(reader),
        published=_published(reader, folder, knob, values, base),
    )


class _Sections:
    """The parsed file, with errors that name it."""

    def __init__(self, path, parser):
        self.path = path
        self.parser = parser

    def get(self, section, key, default):
        text = self.parser.get(section, key, fallback=default)
        return " ".join(text.split())  # a value may be folded over several lines

    def need(self, section, key):
        text = self.get(section, key, "")
        if not text:
            raise HarnessError(f"{self.path}: [{section}] needs '{key} = ...'")
        return text

    def number(self, section, key, kind, least):
        text = self.need(section, key)
        try:
            number = kind(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise HarnessError(
                f"{self.path}: [{section}] {key} = {text}: a number >= {least} is needed"
            )
        return number

    def items(self, section):
        return self.parser.items(section) if self.parser.has_section(section) else []

    def named(self, kind):
        """Sections "[kind NAME]" as (NAME, section)."""
        prefix = kind + " "
        return [
            (s[len(prefix) :].strip(), s) for s in self.parser.sections() if s.startswith(prefix)
        ]


def _series(reader):
    series = [
        Series(name, reader.get(section, "label", name), reader.get(section, "options", ""))
        for name, section in reader.named("series")
    ]
    return series or [Series("mqkv", "mqkv", "")]


def _profiles(reader):
    profiles = {}
    for name, section in reader.named("profile"):
        profiles[name] = Profile(
            name,
            repeats=reader.number(section, "repeats", int, 1),
            warmup_s=reader.number(section, "warmup_s", float, 0),
            measure_s=reader.number(section, "measure_s", float, 0.01),
        )
    return profiles


def _claim(reader):
    if not reader.parser.has_section("claim"):
        return None
    shapes = {}
    for pair in reader.need("claim", "shapes").split():
        metric, _, shape = pair.partition(":")
        if shape not in SHAPES:
            raise HarnessError(
                f"{reader.path}: [claim] shapes: '{pair}' is not METRIC:SHAPE with SHAPE one of "
                + ", ".join(SHAPES)
            )
        shapes[metric] = shape
    return Claim(
        text=reader.need("claim", "text"),
        shapes=shapes,
        why_holds=reader.get("claim", "why_holds", ""),
        why_else=reader.get("claim", "why_else", ""),
    )


def _published(reader, folder, knob, values, base):
    if not reader.parser.has_section("published"):
        return None
    path = folder / "published.csv"
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise HarnessError(f"{reader.path}: [published] needs the figures: {error}") from error
    column_of = {key: column for key, column in reader.items("published") if key != "series"}
    for column in [knob, *column_of.values()]:
        if not rows or column not in rows[0]:
            raise HarnessError(f"{path}: no column '{column}'")
    if not any(row[knob] == base for row in rows) or any(row[knob] not in values for row in rows):
        raise HarnessError(
            f"{path}: its {knob} must be among the study's values and include {base}"
        )
    return Published(reader.need("published", "series"), column_of, rows)
