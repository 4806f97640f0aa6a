"""What folders of results hold: results/STUDY/PROFILE with manifest.json, raw.csv, and summary.csv
and REPORT.md as experiments/analyse wrote them."""

import csv
import json
import pathlib
import re
from dataclasses import dataclass

from harness import HarnessError, comparison, summary, verdict
from harness import study as studies
from harness.summary import runs_range

PROFILES = ("full", "course", "lesson", "quick")  # which one is shown, if there are several
MANY_CPUS = ("cores", "cores-short")  # likewise, and beside one of those
ORDER = (
    "workers valuesize locking clients workload threads scheduling cache compare allocator".split()
)


@dataclass
class Measured:
    """One study in one profile."""

    name: str
    profile: str
    folder: pathlib.Path
    manifest: dict
    study: studies.Study | None  # None: its definition is not here
    report: str  # REPORT.md
    rows: list  # of summary.csv, dicts of text
    raw_rows: list  # of raw.csv, likewise

    @property
    def is_of_many_cpus(self):
        return self.profile in MANY_CPUS

    @property
    def title(self):
        return self.study.title if self.study else self._told(r"# (.+)", self.name)

    @property
    def question(self):
        return self.study.question if self.study else self._told(r"\*\*Question\.\*\* (.+)", "")

    @property
    def claim(self):
        return self.study.claim.text if self.study and self.study.claim else ""

    @property
    def knob(self):
        return list(self.rows[0])[2] if self.rows else ""

    @property
    def symbol(self):
        return self.study.symbol if self.study else self.knob

    @property
    def values(self):
        """Of the knob, in the study's order."""
        there = list(dict.fromkeys(row[self.knob] for row in self.rows))
        known = [v for v in self.study.values if v in there] if self.study else []
        return known + [value for value in there if value not in known]

    @property
    def metrics(self):
        header = list(self.rows[0]) if self.rows else []
        return [name for name in header[7:] if f"{name}_low" in header]

    def base(self):
        """What ratios are relative to, in words."""
        if self.study:
            return self.study.base_text()
        base = self.rows[0]["base"] if self.rows else ""
        if any(row["series"] == base for row in self.rows):
            return self.series_label(base)
        return f"{self.symbol} = {base}" if base else ""

    def label_of(self, value):
        return self.study.label_of(value) if self.study else value

    def series_label(self, name):
        if self.study:
            return self.study.series_label(name)
        return next((row["label"] for row in self.rows if row["series"] == name), name)

    def name_of(self, metric):
        """(what it is called, unit)"""
        return self.study.name_of(metric) if self.study else (metric, "")

    def profile_text(self):
        """The profile, and how far it is if it was not finished."""
        if self.manifest.get("finished_utc"):
            return self.profile
        counts = [figure(row, "runs") for row in self.rows if row["origin"] == "here"]
        counts = [int(count) for count in counts if count]
        planned = (self.manifest.get("profile") or {}).get("repeats", "?")
        return f"{self.profile}, unfinished: {runs_range(counts or [0])} of {planned} runs a point"

    def outcomes(self):
        """(what it is on, key of verdict.HEADLINES), as the report's conclusion has them: on a
        series, or on what was published, or claimed beyond that."""
        by_phrase = {
            phrase.format(what): key
            for key, phrase in verdict.HEADLINES.items()
            for what in (verdict.PUBLISHED, verdict.OWN)
        }
        longest_first = sorted(by_phrase, key=len, reverse=True)
        pattern = r"(?:^With (.+?), )?(" + "|".join(map(re.escape, longest_first)) + ")"
        found = re.findall(pattern, self._conclusion(), flags=re.IGNORECASE | re.MULTILINE)
        lowered = {phrase.lower(): key for phrase, key in by_phrase.items()}
        return [
            (series or ("published" if verdict.PUBLISHED in phrase else "claim"), lowered[phrase])
            for series, phrase in ((series, phrase.lower()) for series, phrase in found)
        ]

    def why_undecided(self):
        """The report's first finding that is not decided; "" if there is none."""
        found = re.search(r"^- (.*?not decided\))", self._conclusion(), flags=re.MULTILINE)
        return found[1] if found else ""

    def _conclusion(self):
        return self.report.partition("\n## Conclusion\n")[2].partition("\n## ")[0]

    def claimed(self):
        """(metric, comparison.Pair) of all that the claim compares, judged from the rows."""
        if not self.study or not self.study.claim:
            return []
        rows = summary.summarise(self.study, self.raw_rows)
        return [
            (one.metric, pair)
            for one in self.study.claim.comparisons
            for pair in comparison.judge(self.study, rows, one).pairs
        ]

    def _told(self, pattern, otherwise):
        found = re.search(f"^{pattern}$", self.report, flags=re.MULTILINE)
        return found[1] if found else otherwise


def folders(results):
    """(name, profile, folder) of what there is, in the order of the page: of each study one
    profile, and one of those for many CPUs."""
    of_studies = sorted({manifest.parents[1] for manifest in results.glob("*/*/manifest.json")})
    chosen = []
    for there in map(profiles_of, of_studies):
        many = [folder for folder in there if folder.name in MANY_CPUS]
        few = [folder for folder in there if folder not in many]
        chosen += [min(profiles, key=preference) for profiles in (few, many) if profiles]
    return sorted(((f.parent.name, f.name, f) for f in chosen), key=lambda one: _place(one[0]))


def profiles_of(of_study):
    """The folders of results/STUDY that have rows, finished or not."""
    found = [manifest.parent for manifest in sorted(of_study.glob("*/manifest.json"))]
    return [f for f in found if not f.name.endswith(".earlier") and (f / "raw.csv").exists()]


def preference(folder):
    """The smallest is shown: one that was not finished only where no other is there."""
    names = PROFILES + MANY_CPUS
    known = names.index(folder.name) if folder.name in names else len(names)
    return not _is_finished(folder), known, folder.name


def _is_finished(folder):
    try:
        return bool(read_manifest(folder).get("finished_utc"))
    except HarnessError:
        return False


def _place(name):
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


def places(more):
    """Where definitions of studies are; more: folders that come first."""
    here = studies.EXPERIMENTS
    return [*more, here, *(here / room for room in studies.ROOMS)]


def study_folder(name, places):
    """The folder of its definition under one of the places, or None."""
    found = (place / name for place in places if (place / name / "study.conf").exists())
    return next(found, None)


def read_manifest(folder):
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(f"{folder / 'manifest.json'}: {error}") from error
    if not isinstance(manifest, dict):
        raise HarnessError(f"{folder / 'manifest.json'}: not an object")
    return manifest


def read(name, profile, folder, definition):
    """definition: the study's folder, or None. HarnessError if something is missing or
    malformed."""
    try:
        report = (folder / "REPORT.md").read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise HarnessError(f"{folder / 'REPORT.md'}: {error}") from error
    manifest = read_manifest(folder)
    study = studies.read(definition) if definition else None
    return Measured(
        name,
        profile,
        folder,
        manifest,
        study.in_profile(profile, manifest.get("cpus")) if study else None,
        report,
        _read_csv(folder / "summary.csv"),
        _read_csv(folder / "raw.csv"),
    )


def _read_csv(path):
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise HarnessError(f"{path}: {error}") from error
    if any(None in row or None in row.values() for row in rows):
        raise HarnessError(f"{path}: a row has another number of cells than the header")
    return rows


def figure(row, column):
    """The number in a cell, or None."""
    try:
        return float(row.get(column) or "")
    except ValueError:
        return None
