"""A study: one question, as defined by study.conf and published.csv in a folder of its own.

study.conf is an INI file; docs/STUDIES.md explains every key with examples.
"""

import csv
import hashlib
import pathlib
import re
from dataclasses import dataclass, field, replace

from harness import HarnessError, claim, crossover, figure, noise, theory
from harness.sections import Sections, is_number

DEFAULT_METRICS = (
    "ops_per_s mean_us p50_us p90_us p99_us p999_us "
    "server_cpu_us_per_op server_switches_per_op client_cpu_us_per_op client_switches_per_op"
)
EXPERIMENTS = pathlib.Path(__file__).resolve().parent.parent
PROFILE_KEYS = ("values", "repeats", "warmup_s", "measure_s", "cpus", "fixed", "notes", "why")
ROOMS = ("scaling", "lessons", "cores")  # folders of experiments/ that hold studies
NAMES = {  # metric -> (what it is called, unit)
    "ops_per_s": ("throughput", "requests/s"),
    "mean_us": ("mean response time", "µs"),
    "p50_us": ("median response time", "µs"),
    "p90_us": ("90th percentile", "µs"),
    "p99_us": ("99th percentile", "µs"),
    "p999_us": ("99.9th percentile", "µs"),
    "server_cpu_us_per_op": ("CPU of the daemon per operation", "µs"),
    "server_switches_per_op": ("context switches of the daemon per operation", ""),
    "server_peak_memory_kib": ("peak memory of the daemon", "KiB"),
    "client_cpu_us_per_op": ("CPU of the clients per operation", "µs"),
    "client_switches_per_op": ("context switches of the clients per operation", ""),
}


@dataclass
class Series:
    """One line of the plot: the same sweep with other options."""

    name: str
    label: str
    only_if: str  # if not empty, the series is measured only where this command succeeds
    group: str  # series of one group share panels of the picture; "": there are no groups
    fields: dict  # what its section gives to commands: {series_options} and fields of its own


@dataclass
class Profile:
    """How long and how often each point is run."""

    name: str
    values: list  # of the knob: those of [knob], or its own
    repeats: int
    warmup_s: float
    measure_s: float
    fields: dict  # further keys of its section, for commands
    # What follows is not part of what is measured: rows stay when it changes.
    cpus: int = field(default=1, repr=False)  # the fewest that the profile says anything on
    fixed: str = field(default="", repr=False)  # in place of the study's, if not empty
    notes: str = field(default="", repr=False)  # likewise
    why: str = field(default="", repr=False)  # likewise, of the claim's reasons


@dataclass
class Value:
    """One value of the knob that has a section of its own."""

    label: str
    fields: dict  # further keys, for commands


@dataclass
class Published:
    """The source's own figures. Units are the source's; only ratios are compared with ours."""

    column_of: dict  # our metric -> the column that corresponds to it
    rows: list  # of dicts, as in published.csv, each with its series

    def find(self, study, series, value):
        """The row of a point, or None."""
        found = (r for r in self.rows if r["series"] == series and r[study.knob] == value)
        return next(found, None)


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
    values: list  # of str, as on command lines and in CSV: all that any profile measures
    base: str  # the value that ratios are relative to
    base_series: str  # if not empty, ratios are relative to this series at the same value instead
    series: list
    value_sections: dict  # value -> Value, where study.conf says more of it
    fields: dict  # of commands, with what they are where neither series, value nor profile says it
    server_command: str
    ready_command: str  # succeeds once the server answers; empty: it is a serverk, which is pinged
    load_command: str
    prepare_options: str
    fill_command: str  # once before the warm-up
    collect_command: str
    collected: dict  # column of the raw row -> path in the JSON that collect_command prints
    computed: dict  # column of the raw row -> formula over other columns
    names: dict  # metric -> (what it is called, unit), beside NAMES
    profiles: dict
    claim: claim.Claim | None
    published: Published | None
    plot: figure.Plot
    unit: str  # of the knob, for crossovers; may be empty
    theory: theory.Theory | None
    crossovers: list  # of claim.Comparison between series, along the knob
    noise_limit: float  # percent of the machine's CPU for others: above, a run is disturbed
    keep_awake: bool  # no CPU sleeps during a run (harness.awake)

    def definition_hash(self):
        """Changes when what is measured does: rows of different definitions are never mixed. What
        is only told of them (titles, claim, plot, formulas) may change. The values are the
        profile's.
        """
        measured = (self.knob, self.fields, self.server_command, self.load_command)
        measured += (self.prepare_options, self.fill_command, self.collect_command, self.collected)
        measured += ([(one.name, one.fields) for one in self.series],)
        measured += ([(name, one.fields) for name, one in self.value_sections.items()],)
        measured += (self.ready_command,) if self.ready_command else ()
        measured += ("keep_awake",) if self.keep_awake else ()
        return hashlib.sha256(repr(measured).encode()).hexdigest()[:16]

    def programs(self, series=None):
        """What of {build} the loads are, beside serverk and clientk. series: of those alone."""
        series = self.series if series is None else series
        of_series = [text for one in series for text in one.fields.values()]
        found = re.findall(r"\{build\}/(\S+)", " ".join([self.load_command, *of_series]))
        return list(dict.fromkeys(found))

    def name_of(self, metric):
        """What a metric is called, and its unit."""
        return self.names.get(metric) or NAMES.get(metric) or (metric, "")

    def label_of(self, value):
        section = self.value_sections.get(value)
        return section.label if section else value

    def series_label(self, name):
        """A series in words: the same in tables, pictures and sentences."""
        one = next(series for series in self.series if series.name == name)
        return f"{one.group}, {one.label}" if one.group else one.label

    def base_text(self):
        """What ratios are relative to."""
        if self.base_series:
            return self.series_label(self.base_series)
        return f"{self.symbol} = {self.label_of(self.base)}"

    def in_profile(self, name, cpus):
        """The study in the words of one of its profiles: what is fixed there, its notes and its
        reason why the claim holds or not. cpus: of the machine, which the title of a profile for
        many of them tells."""
        profile = self.profiles.get(name)
        if not profile:
            return self
        title = self.title if profile.cpus == 1 else f"{self.title} ({cpus} CPUs)"
        fixed, notes = profile.fixed or self.fixed, profile.notes or self.notes
        told = self.claim
        if told and profile.why:
            told = replace(told, why=dict.fromkeys(told.why, profile.why))
        return replace(self, title=title, fixed=fixed, notes=notes, claim=told)

    def profile(self, name):
        if name not in self.profiles:
            known = ", ".join(self.profiles) or "none"
            raise HarnessError(f"{self.name}: no profile '{name}' in study.conf (there: {known})")
        return self.profiles[name]


def find(name):
    """The folder of a study: NAME of experiments/ or of a folder in there, else a path."""
    for folder in (EXPERIMENTS / name, *(EXPERIMENTS / room / name for room in ROOMS)):
        if (folder / "study.conf").exists():
            return folder
    here, there = pathlib.Path(name), EXPERIMENTS.parent / name
    return there if not here.exists() and (there / "study.conf").exists() else here


def place(found):
    """For the manifest: where the definition is, if its name does not say it."""
    folder = found.folder.resolve()
    if find(found.name).resolve() == folder:
        return {}
    repository = EXPERIMENTS.parent
    inside = folder.is_relative_to(repository)
    return {"definition_folder": str(folder.relative_to(repository) if inside else folder)}


def read(folder):
    """Reads the study in `folder`; raises HarnessError naming file, section and key."""
    folder = pathlib.Path(folder)
    path = folder / "study.conf"
    sections = Sections(path)

    knob = sections.need("knob", "name")
    values = sections.need("knob", "values").split()
    base = sections.get("knob", "base", values[0])
    profiles = _profiles(sections, values)
    if base not in values:
        raise sections.error("knob", "base", f"{base} is not among the values")
    for profile in profiles.values():
        if base not in profile.values:
            raise sections.error(f"profile {profile.name}", "values", f"the base {base} is missing")
    values = _all_values(values, profiles)
    for name, section in sections.named("value"):
        if name not in values:
            raise HarnessError(
                f"{sections.where(section)}: [{section}]: {name} is no value of [knob] nor of a"
                f" profile ({' '.join(values)})"
            )
    series = _series(sections)
    names = [one.name for one in series]
    base_series = sections.get("study", "base_series", "")
    if base_series and base_series not in names:
        raise sections.error("study", "base_series", f"{base_series} is no series")
    metrics = sections.get("study", "metrics", DEFAULT_METRICS).split()
    found = Study(
        folder=folder,
        name=folder.resolve().name,
        title=sections.need("study", "title"),
        question=sections.need("study", "question"),
        source=sections.get("study", "source", ""),
        fixed=sections.get("study", "fixed", ""),
        notes=sections.get("study", "notes", ""),
        metrics=" ".join(DEFAULT_METRICS if m == "default" else m for m in metrics).split(),
        knob=knob,
        symbol=sections.get("knob", "symbol", knob),
        values=values,
        base=base,
        base_series=base_series,
        series=series,
        value_sections={
            name: Value(
                sections.get(section, "label", name), sections.items(section, but=("label",))
            )
            for name, section in sections.named("value")
        },
        fields=sections.items("fields"),
        server_command=sections.get("server", "command", ""),
        ready_command=sections.get("server", "ready", ""),
        load_command=sections.need("load", "command"),
        prepare_options=sections.get("load", "prepare", ""),
        fill_command=sections.get("load", "fill", ""),
        collect_command=sections.get("collect", "command", ""),
        collected=sections.items("collect", but=("command",)),
        computed=sections.items("compute"),
        names={
            metric: tuple(part.strip() for part in (text + ",").split(",", 2)[:2])
            for metric, text in sections.items("names").items()
        },
        profiles=profiles,
        claim=claim.read(sections, names, values),
        published=_published(sections, folder, knob, values, names),
        plot=figure.read(sections, values),
        noise_limit=_noise_limit(sections),
        keep_awake=sections.choice("study", "keep_awake", ("yes", "no"), "no") == "yes",
        unit=sections.get("knob", "unit", ""),
        theory=theory.read(sections, names),
        crossovers=crossover.read(sections, names, values),
    )
    sections.check_all_known()
    _check_fields(sections, found)
    _check_names(sections, found)
    return found


def _noise_limit(sections):
    """Percent of the machine's CPU that others may use before a run counts as disturbed."""
    if not sections.get("study", "noise_limit", ""):
        return noise.NOISY_PCT
    return sections.number("study", "noise_limit", float, 0)


def _check_fields(sections, study):
    """A field that no command uses is a mistyped key."""
    used = set()
    templates = [study.server_command, study.load_command, study.prepare_options]
    templates += [study.fill_command, study.collect_command, study.ready_command]
    given = [("fields", study.fields)]
    given += [(f"value {name}", one.fields) for name, one in study.value_sections.items()]
    given += [(f"series {one.name}", one.fields) for one in study.series]
    given += [(f"profile {one.name}", one.fields) for one in study.profiles.values()]
    for text in [*templates, *(text for _, fields in given for text in fields.values())]:
        used |= set(re.findall(r"{(\w+)}", text))
    for section, fields in given:
        for key, text in fields.items():
            if key in used or (key == "series_options" and not text):
                continue
            key = "options" if key == "series_options" else key
            raise sections.error(
                section, key, "neither a key of this section nor a field that a command uses"
            )


def _check_names(sections, study):
    """Columns that the load prints may be named without being a metric."""
    for metric in study.published.column_of if study.published else ():
        if metric not in study.metrics:
            raise sections.error(
                "published", metric, f"not among the metrics ({' '.join(study.metrics)})"
            )
    for comparison in study.crossovers:
        if comparison.metric not in study.metrics:
            raise sections.error("crossover", "compare", f"{comparison.metric} is no metric")
    for comparison in study.claim.comparisons if study.claim else ():
        if comparison.metric not in study.metrics:
            raise sections.error(
                "claim", "compare", f"{comparison.metric} is not among [study] metrics"
            )
    for metric in study.claim.shapes if study.claim else ():
        if metric not in study.metrics:
            raise sections.error("claim", "shapes", f"{metric} is not among [study] metrics")


def _series(sections):
    series = [
        Series(
            name,
            sections.get(section, "label", name),
            sections.get(section, "only_if", ""),
            sections.get(section, "group", ""),
            {"series_options": sections.get(section, "options", "")}
            | sections.items(section, but=("label", "options", "only_if", "group")),
        )
        for name, section in sections.named("series")
    ]
    if len({bool(one.group) for one in series}) > 1:
        raise HarnessError(f"{sections.path}: either every series has a group, or none")
    return series or [Series("mqkv", "mqkv", "", "", {"series_options": ""})]


def _profiles(sections, values):
    profiles = {}
    for name, section in sections.named("profile"):
        profiles[name] = Profile(
            name,
            values=sections.get(section, "values", "").split() or values,
            repeats=sections.number(section, "repeats", int, 1),
            warmup_s=sections.number(section, "warmup_s", float, 0),
            measure_s=sections.number(section, "measure_s", float, 0.01),
            cpus=sections.number(section, "cpus", int, 1, 1),
            fixed=sections.get(section, "fixed", ""),
            notes=sections.get(section, "notes", ""),
            why=sections.get(section, "why", ""),
            fields=sections.items(section, but=PROFILE_KEYS),
        )
    return profiles


def _all_values(values, profiles):
    """Those of [knob], and what profiles have beyond them: numbers in their order."""
    of_profiles = [value for profile in profiles.values() for value in profile.values]
    more = [value for value in dict.fromkeys(of_profiles) if value not in values]
    numeric = more and all(map(is_number, values + more))
    return sorted(values + more, key=float) if numeric else values + more


def _published(sections, folder, knob, values, series):
    """The figures, each row with its series: that of a column `series`, else [published] series."""
    if not sections.has("published"):
        return None
    sections.get("published", "series", "")
    path = folder / "published.csv"
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise HarnessError(f"{sections.path}: [published] needs the figures: {error}") from error
    column_of = sections.items("published", but=("series",))
    for column in [knob, *column_of.values()]:
        if not rows or column not in rows[0]:
            raise HarnessError(f"{path}: no column '{column}'")
    if "series" not in rows[0]:
        only = sections.need("published", "series")
        rows = [row | {"series": only} for row in rows]
    for row in rows:
        if row[knob] not in values or row["series"] not in series:
            raise HarnessError(
                f"{path}: {row['series']}, {knob} {row[knob]}: not a point of the study"
            )
        for column in column_of.values():
            _check_number(path, column, row[column])
    return Published(column_of, rows)


def _check_number(path, column, text):
    """A cell may be empty: the source does not give that figure."""
    try:
        if text and float(text) <= 0:
            raise ValueError("not above 0")
    except (TypeError, ValueError) as error:
        raise HarnessError(f"{path}: {column} = {text}: {error}") from error
