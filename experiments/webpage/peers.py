"""The comparison with other servers and engines: results/peers/PROFILE, as experiments/bench wrote
it."""

import pathlib
import tempfile

from harness import HarnessError, content, summary
from judge import page, provenance
from judge import table as bench_table
from judge.cases import all_cases
from judge.verdicts import Figures, judge, label, write_summary
from webpage import markdown, picture
from webpage.markup import join, tag
from webpage.measured import read_manifest
from webpage.table import table

NAME = "peers"
ANCHOR = "peers"
TITLE = "Beside other servers and engines"
UNITS = {"ops_per_s": "Operations per second", "megabytes_per_s": "Megabytes per second"}


class Peers:
    """HarnessError if the rows cannot be read."""

    def __init__(self, folder):
        self.manifest = read_manifest(folder)
        self.raw_rows = summary.read_raw(folder / "raw.csv")
        try:
            self.figures = Figures(self.raw_rows)
            present = {row["case"] for row in self.raw_rows}
        except (KeyError, ValueError) as error:
            raise HarnessError(f"{folder / 'raw.csv'}: {error}") from error
        self.cases = [case for case in all_cases() if case.name in present]
        self.verdicts = [verdict for case in self.cases for verdict in judge(case, self.figures)]

    def goals_met(self):
        return f"{sum(verdict.met for verdict in self.verdicts)} of {len(self.verdicts)} goals met"

    def section(self):
        method = markdown.render(self._method())
        parts = [tag("h2", TITLE), method, self.picture(), tag("h3", "Goals"), self._goals()]
        for name, cases in bench_table.sections(self.cases).items():
            parts += [tag("h3", name), self._table(cases)]
        parts.append(self._failures())
        return tag("section", *parts, id=ANCHOR, class_="study")

    def _method(self):
        """Markdown."""
        versions = ", ".join(self.manifest.get("peer_versions") or []) or "versions not recorded"
        profile = self.manifest.get("profile") or {}
        repeats = profile.get("repeats", 0)
        attempts = page.attempts_of(self.raw_rows)
        return "\n\n".join(
            [
                f"The systems of a work were measured in turns"
                f" (profile {profile.get('name', '?')}). Figures are medians of"
                f" {repeats or '?'} runs;"
                f" {versions}. The factors in brackets say how many times better mqkv is."
                f" docs/PERFORMANCE-TABLES.md explains what limits the missed goals.",
                page.fewer(self.cases, self.figures, repeats),
                content.noise_text(attempts, "case", "system") if attempts else "",
                provenance.told(self.raw_rows),
            ]
        )

    def _goals(self):
        body = [
            [
                verdict.case.title,
                verdict.text,
                verdict.reached,
                tag(
                    "span",
                    "met" if verdict.met else "not met",
                    class_="verdict " + ("holds" if verdict.met else "fails"),
                ),
            ]
            for verdict in self.verdicts
        ]
        return table(["work", "goal", "reached", "result"], body, "cards")

    def _table(self, cases):
        systems = bench_table.columns(cases)
        body = [
            [f"{i}. {case.title}", *(self._cell(case, system) for system in systems)]
            for i, case in enumerate(cases, 1)
        ]
        unit = UNITS.get(cases[0].column) if len({case.column for case in cases}) == 1 else None
        unit = tag("p", f"{unit}:", class_="lead") if unit else None
        return join([unit, table(["", *map(label, systems)], body)])

    def _cell(self, case, system):
        return bench_table.cell(case, system, self.figures).replace("(x", "(×")

    def picture(self):
        caption = "Medians; the error bars span all runs."
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / NAME / str(self.manifest.get("profile", {}).get("name"))
            path.mkdir(parents=True)
            write_summary(self.cases, self.figures, path / "summary.csv")
            return picture.figure(path / "summary.csv", TITLE, caption)

    def _failures(self):
        failed = self.figures.failures.items()
        if not failed:
            return None
        items = [tag("li", f"{case} {label(system)}: {why}") for (case, system), why in failed]
        return join([tag("h3", "Runs that failed"), tag("ul", *items)])
