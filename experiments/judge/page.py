"""docs/PERFORMANCE-TABLES.md: the template's own words, with tables made from the rows."""

import string

from harness import content, noise, report
from judge import bounds, costs, provenance, table
from judge.cases import all_cases
from judge.rows import key_of
from judge.verdicts import judge, label

NOT_YET = "(Not measured in this run.)"
BUSY = (
    "**The machine was busy with other work during many runs. Take the figures as hints, and repeat"
    " the measurement on a quiet machine.**"
)
MET = {True: "met", False: "**not met**"}


def render(template, cases, figures, raw_rows, manifest, studies, microbench):
    profile = manifest["profile"]
    verdicts = [verdict for case in cases for verdict in judge(case, figures)]
    bounded = bounds.bounds(verdicts, figures, manifest["cpus"])
    measured = table.sections(cases)
    attempts = attempts_of(raw_rows)
    busy = BUSY if content.is_busy(attempts, "case", "system") else ""
    fields = {
        _field(section): _table(measured[section], figures) if section in measured else NOT_YET
        for section in table.sections(all_cases())
    }
    return string.Template(template).substitute(
        fields,
        machine=report.machine_lines(manifest),
        noise=content.noise_text(attempts, "case", "system") if attempts else "",
        profile=profile["name"],
        repeats=profile["repeats"],
        measure_s=f"{profile['measure_s']:g}",
        pairs=profile.get("pairs", "no"),
        seed=manifest["seed"],
        fewer=fewer(cases, figures, profile["repeats"]),
        versions="\n".join(f"- {line}" for line in manifest["peer_versions"]),
        met=sum(verdict.met for verdict in verdicts),
        goals=len(verdicts),
        missed=" ".join(filter(None, [_missed(bounded), busy])),
        verdicts=_verdicts(verdicts, bounded),
        bounds=_bounds(bounded),
        costs=_costs(cases, figures),
        measured_apart=provenance.told(raw_rows),
        failures=_failures(figures),
        scaling="\n\n".join(studies) or "(Not measured yet: `make scaling`.)",
        microbench=microbench,
    )


def attempts_of(raw_rows):
    """A row of each attempt that gave figures and says how it was disturbed, also of those that
    have several rows."""
    return list(
        {
            (key_of(row), noise.attempt_of(row)): row
            for row in raw_rows
            if not row["failure"] and noise.disturbance_pct(row) is not None
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
    return table.markdown(header, body)


def _missed(bounded):
    """'The others are limited by mqkv's own work (21), ...', or nothing."""
    if not bounded:
        return ""
    counts = {}
    for bound in bounded:
        counts[bound.by] = counts.get(bound.by, 0) + len(bound.goals)
    told = ", ".join(f"{by} ({count})" for by, count in counts.items())
    return f"What limits the others: {told}."


def fewer(cases, figures, repeats):
    """Of works that were measured less often than the profile has it: the run was interrupted."""
    runs = {}
    for case in cases:
        for system in case.systems:
            figure = figures.get(case.name, system, case.column)
            if figure and figure.runs < repeats:
                runs[case.section] = min(figure.runs, runs.get(case.section, repeats))
    told = ", ".join(f"{section} ({least})" for section, least in runs.items())
    return f"**Some works have fewer runs:** {told}." if told else ""


def _verdicts(verdicts, bounded):
    by = {(bound.case.title, text): bound.by for bound in bounded for text in bound.goals}
    header = ["work", "goal", "reached", "", "limited by"]
    body = [
        [v.case.title, v.text, v.reached, MET[v.met], by.get((v.case.title, v.text), "")]
        for v in verdicts
    ]
    return table.markdown(header, body)


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
    return table.markdown(list(costs.HEADER), body) if body else NOT_YET


def _failures(figures):
    lines = [f"- {case} {label(system)}: {why}" for (case, system), why in figures.failures.items()]
    return "\n".join(["Runs that failed:", "", *lines]) if lines else ""
