"""docs/PERFORMANCE.md: the template's own words, with tables made from the rows."""

import json
import string

from harness import content, noise, report, summary
from judge import bounds, costs, provenance, table
from judge.cases import all_cases
from judge.rows import key_of
from judge.verdicts import judge, label

NOT_YET = "(Not measured in this run.)"
BUSY = (
    "**The machine was busy with other work during many runs: no figure here is more than a hint; make"
    " them again on a quiet machine.**"
)
MET = {True: "met", False: "**not met**"}


def render(template, cases, figures, raw_rows, manifest, studies, microbench):
    profile = manifest["profile"]
    verdicts = [verdict for case in cases for verdict in judge(case, figures)]
    bounded = bounds.bounds(verdicts, figures, manifest["cpus"])
    measured = table.sections(cases)
    attempts = _attempts(raw_rows)
    fields = {
        _field(section): _table(measured[section], figures) if section in measured else NOT_YET
        for section in table.sections(all_cases())
    }
    return string.Template(template).substitute(
        fields,
        machine=report.machine_lines(manifest),
        noise=content.noise_text(attempts, "case", "system") if attempts else "",
        busy=BUSY if content.is_busy(attempts, "case", "system") else "",
        profile=profile["name"],
        repeats=profile["repeats"],
        slow_repeats=profile["slow_repeats"],
        measure_s=f"{profile['measure_s']:g}",
        seed=manifest["seed"],
        versions="\n".join(f"- {line}" for line in manifest["peer_versions"]),
        met=sum(verdict.met for verdict in verdicts),
        goals=len(verdicts),
        missed=_missed(bounded),
        verdicts=_verdicts(verdicts, bounded),
        bounds=_bounds(bounded),
        costs=_costs(cases, figures),
        measured_apart=provenance.told(raw_rows),
        failures=_failures(figures),
        scaling="\n\n".join(studies) or "(Not measured yet: `make scaling`.)",
        microbench=microbench,
    )


def study_section(folder, study, picture):
    """A scaling study as a section: question, figures, picture. None: it was not measured."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        raw_rows = summary.read_raw(folder / "raw.csv")
    except (OSError, ValueError):
        return None
    rows = summary.summarise(study, raw_rows)
    lines = [f"### {study.title}", study.question, f"![{study.title}]({picture})"]
    body = [
        [row.label, row.value]
        + [table.number(row.estimates[m].mean) for m in ("ops_per_s", "mean_us", "p99_us")]
        for row in rows
    ]
    header = ["", f"{study.symbol}", "operations/s", "mean, µs", "p99, µs"]
    lines += [_markdown(header, body), f"{study.fixed}. {study.notes}".strip()]
    lines += [f"Means of {manifest['profile']['repeats']} runs."]
    return "\n\n".join(lines)


def _attempts(raw_rows):
    """A row of each attempt that gave figures, also of those that have several rows."""
    return list(
        {
            (key_of(row), noise.attempt_of(row)): row for row in raw_rows if not row["failure"]
        }.values()
    )


def _field(section):
    """The name of the template's field for a section of the tables."""
    return "table_" + section.lower().replace(" ", "_")


def _table(cases, figures):
    systems = table.columns(cases)
    header = ["", *map(label, systems)]
    body = [
        [case.title, *(table.cell(case, system, figures) for system in systems)] for case in cases
    ]
    return _markdown(header, body)


def _missed(bounded):
    """'Of the others 12 are bounded by the kernel's queues, ...', or nothing."""
    if not bounded:
        return ""
    counts = {}
    for bound in bounded:
        counts[bound.by] = counts.get(bound.by, 0) + len(bound.goals)
    told = ", ".join(f"{count} by {by}" for by, count in counts.items())
    return f"What bounds the others: {told}."


def _verdicts(verdicts, bounded):
    by = {(bound.case.title, text): bound.by for bound in bounded for text in bound.goals}
    header = ["work", "goal", "reached", "", "bounded by"]
    body = [
        [v.case.title, v.text, v.reached, MET[v.met], by.get((v.case.title, v.text), "")]
        for v in verdicts
    ]
    return _markdown(header, body)


def _bounds(bounded):
    if not bounded:
        return "(Every goal is met.)"
    lines = [
        f"- {bound.case.title} ({'; '.join(bound.asked)}): **{bound.by}.** {bound.why}"
        for bound in bounded
    ]
    return "\n".join(lines)


def _costs(cases, figures):
    body = costs.lines(cases, figures)
    return _markdown(list(costs.HEADER), body) if body else NOT_YET


def _failures(figures):
    lines = [f"- {case} {label(system)}: {why}" for (case, system), why in figures.failures.items()]
    return "\n".join(["Runs that failed:", "", *lines]) if lines else ""


def _markdown(header, body):
    alignment = [":---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, alignment, *body])
