"""What folders of results hold: results/STUDY/PROFILE with manifest.json, raw.csv, and summary.csv
and REPORT.md as experiments/analyse wrote them."""

import csv
import json
import pathlib
import re
from dataclasses import dataclass

from harness import HarnessError, verdict
from harness import study as studies

PROFILES = ("full", "course", "lesson", "quick")  # which one is shown, if there are several
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
        return f"{self.symbol} = {self.rows[0]['base']}" if self.rows else ""

    def label_of(self, value):
        return self.study.label_of(value) if self.study else value

    def series_label(self, name):
        return self.study.series_label(name) if self.study else name

    def name_of(self, metric):
        """(what it is called, unit)"""
        return self.study.name_of(metric) if self.study else (metric, "")

    def outcomes(self):
        """Keys of verdict.HEADLINES, as the report's conclusion has them."""
        conclusion = self.report.partition("\n## Conclusion\n")[2].partition("\n## ")[0]
        by_phrase = {
            phrase.format(what): key
            for key, phrase in verdict.HEADLINES.items()
            for what in (verdict.PUBLISHED, verdict.OWN)
        }
        longest_first = sorted(by_phrase, key=len, reverse=True)
        pattern = "|".join(map(re.escape, longest_first))
        found = re.findall(pattern, conclusion, flags=re.IGNORECASE)
        lowered = {phrase.lower(): key for phrase, key in by_phrase.items()}
        return [lowered[phrase.lower()] for phrase in found]

    def _told(self, pattern, otherwise):
        found = re.search(f"^{pattern}$", self.report, flags=re.MULTILINE)
        return found[1] if found else otherwise


def folders(results):
    """(name, profile, folder) of what there is, one profile a study, in the order of the page."""
    found = {}
    for manifest in sorted(results.glob("*/*/manifest.json")):
        folder = manifest.parent
        if not folder.name.endswith(".earlier") and (folder / "raw.csv").exists():
            found.setdefault(folder.parent.name, []).append(folder)
    chosen = [min(of_study, key=preference) for of_study in found.values()]
    return sorted(((f.parent.name, f.name, f) for f in chosen), key=lambda one: _place(one[0]))


def preference(folder):
    known = PROFILES.index(folder.name) if folder.name in PROFILES else len(PROFILES)
    return known, folder.name


def _place(name):
    return (ORDER.index(name) if name in ORDER else len(ORDER)), name


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
    return Measured(
        name,
        profile,
        folder,
        read_manifest(folder),
        studies.read(definition) if definition else None,
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
