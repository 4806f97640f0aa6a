"""A scaling study (experiments/scaling) as a section of docs/PERFORMANCE-TABLES.md: question,
picture, figures, what bounds them, and what they were measured with."""

import json

from harness import content, summary
from judge import table

CPUS_US = 1e6  # CPU time in a second of one CPU


def section(folder, study, picture):
    """folder: of its results. None: it was not measured."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        raw_rows = summary.read_raw(folder / "raw.csv")
    except (OSError, ValueError):
        return None
    rows = [row for row in summary.summarise(study, raw_rows) if row.origin == "here"]
    grouped = any(one.group for one in study.series)
    lines = [
        f"### {study.title}",
        study.question,
        f"![{study.title}]({picture})",
        _by_group(study, rows) if grouped else _by_series(study, rows),
        f"{study.fixed}. {study.notes}".strip(),
        _source(folder, study, manifest, raw_rows),
    ]
    return "\n\n".join(lines)


def _by_series(study, rows):
    """A line a point."""
    header = ["", study.symbol, "operations/s", "mean, µs", "p99, µs"]
    header += ["CPU, server + client, µs per operation", "CPUs in use"]
    body = [
        [row.label, _value(row.value)]
        + [table.number(row.estimates[m].mean) for m in ("ops_per_s", "mean_us", "p99_us")]
        + [" + ".join(table.number(us) for us in _cpu_us(row)), f"{_cpus(row):.1f}"]
        for row in rows
    ]
    return table.markdown(header, body)


def _by_group(study, rows):
    """A line for a group and a value of the knob, series side by side."""
    labels = list(dict.fromkeys(one.label for one in study.series))
    cells = {}
    groups = {one.name: one.group for one in study.series}
    for row in rows:
        times = [table.number(row.estimates[m].mean) for m in ("p50_us", "p99_us")]
        text = f"{' / '.join(times)}; {_cpus(row):.2f}"
        cells.setdefault((groups[row.series], row.value), {})[row.label] = text
    header = ["", study.symbol, *labels]
    body = [
        [group, _value(value), *(of_point.get(label, "") for label in labels)]
        for (group, value), of_point in sorted(
            cells.items(), key=lambda cell: _order(study, groups, *cell[0])
        )
    ]
    remark = "Each cell: median / 99th percentile of the response time in µs; CPUs in use."
    return f"{table.markdown(header, body)}\n\n{remark}"


def _order(study, groups, group, value):
    return list(groups.values()).index(group), study.values.index(value)


def _cpu_us(row):
    """Of server and client, an operation."""
    return [row.estimates[f"{side}_cpu_us_per_op"].mean for side in ("server", "client")]


def _cpus(row):
    return sum(_cpu_us(row)) * row.estimates["ops_per_s"].mean / CPUS_US


def _value(text):
    return f"{int(text):,}" if text.isdecimal() else text


def _source(folder, study, manifest, raw_rows):
    profile = manifest["profile"]
    results = f"../experiments/results/{folder.parent.name}/{folder.name}"
    return (
        f"Means of {profile['repeats']} runs of {profile['measure_s']:g} s, commit"
        f" {manifest['commit'][:12]}{' with changes' if manifest['dirty'] is True else ''},"
        f" {manifest['started_utc'][:10]}, store under"
        f" {manifest['store'].split(':')[0]};"
        f" [with intervals]({results}/REPORT.md)."
        f" {content.noise_text(raw_rows, 'series', study.knob)}"
    )
