"""Raw rows and manifest of one study in one profile, on disk.

raw.csv grows by one row a run and is flushed after each, so that an interrupted run loses at most
the run it was in. manifest.json says what the rows were measured with; its fingerprint decides
whether rows that are already there may be kept.
"""

import csv
import hashlib
import json
import os
import shutil

from harness.point import Point


class Results:
    def __init__(self, folder, knob):
        self.folder = folder
        self.knob = knob
        self.raw_path = folder / "raw.csv"
        self.manifest_path = folder / "manifest.json"

    def points_done(self):
        return set(map(self.point_of, self.rows()))

    def point_of(self, row):
        return Point(row["series"], row[self.knob], int(row["repeat"]))

    def rows(self):
        """The complete rows on disk, in the order in which they were measured."""
        return list(csv.DictReader(self._complete_rows().decode().splitlines()))

    def fingerprint(self):
        """Of the rows that are there; None if there are none."""
        return self.manifest().get("fingerprint")

    def keep(self, is_kept):
        """Removes the rows of which is_kept(row) is false."""
        columns = self._columns()
        if not columns:
            return
        temporary = self.raw_path.with_suffix(".tmp")
        with open(temporary, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=columns, lineterminator="\n")
            writer.writeheader()
            writer.writerows(filter(is_kept, self.rows()))
        temporary.replace(self.raw_path)

    def begin(self, manifest):
        """Before the first row of this run; of an interrupted run that goes on, what was true from
        its start is kept."""
        self.folder.mkdir(parents=True, exist_ok=True)
        earlier = self.manifest()
        if earlier:
            resumed = earlier.get("resumed_utc", []) + [manifest["started_utc"]]
            manifest = manifest | {"started_utc": earlier["started_utc"], "resumed_utc": resumed}
            manifest["commands"] = earlier.get("commands", {})
        if self.raw_path.exists():
            os.truncate(self.raw_path, len(self._complete_rows()))
        self._write_manifest(manifest)

    def add(self, row):
        """Appends one row; all rows of a file have the columns of the first."""
        columns = self._columns()
        with open(self.raw_path, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=columns or list(row), lineterminator="\n")
            if not columns:
                writer.writeheader()
            writer.writerow(row)
            file.flush()
            os.fsync(file.fileno())

    def add_to_manifest(self, **facts):
        self._write_manifest(self.manifest() | facts)

    def add_commands(self, lines_of_point):
        self.add_to_manifest(commands=self.manifest().get("commands", {}) | lines_of_point)

    def set_aside(self):
        """Moves what is there to a folder beside it, which holds one earlier generation."""
        earlier = self.folder.with_name(self.folder.name + ".earlier")
        shutil.rmtree(earlier, ignore_errors=True)
        self.folder.rename(earlier)
        return earlier

    def _complete_rows(self):
        """A kill in the middle of a write leaves a row without its newline: it does not count."""
        try:
            content = self.raw_path.read_bytes()
        except OSError:
            return b""
        return content[: content.rfind(b"\n") + 1]

    def manifest(self):
        """What is there of it; {} if nothing is."""
        try:
            return json.loads(self.manifest_path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}

    def _columns(self):
        return next(csv.reader(self._complete_rows().decode().splitlines()), None)

    def _write_manifest(self, manifest):
        temporary = self.manifest_path.with_suffix(".tmp")
        temporary.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        temporary.replace(self.manifest_path)


def fingerprint(*parts):
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
