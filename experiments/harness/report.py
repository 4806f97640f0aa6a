"""REPORT.md of one study in one profile, from its summary, raw rows and manifest."""

import string

from harness import verdict
from harness.summary import NAMES, quantile

NOISY_PCT = 5.0  # of the machine's CPU stolen or used by others: then a run is called noisy
NOISY_SHARE = 0.2  # of the runs noisy: then the conclusion says so
PERCENTILES = ("mean_us", "p50_us", "p90_us", "p99_us", "p999_us")
COSTS = (
    "server_cpu_us_per_op",
    "server_switches_per_op",
    "client_cpu_us_per_op",
    "client_switches_per_op",
)


def render(template, study, rows, raw_rows, manifest, pictures):
    """The report's text: `template` with its $fields filled in. pictures: the folder of the plots,
    as seen from the report's."""
    here = [row for row in rows if row.origin == "here"]
    profile = manifest["profile"]
    return string.Template(template).substitute(
        title=study.title,
        question=study.question,
        source=_source(study),
        conclusion=_conclusion(study, rows, raw_rows),
        notes=study.notes,
        picture=f"{pictures}/{study.name}-{profile['name']}",
        comparing=_comparing(study),
        comparison=_comparison(study, rows),
        responses=_metrics_table(study, here, PERCENTILES),
        costs=_metrics_table(study, here, COSTS),
        fixed=study.fixed,
        symbol=study.symbol,
        knob=study.knob,
        base=f"{study.symbol} = {study.base}",
        points=len({(row.series, row.value) for row in here}),
        repeats=profile["repeats"],
        measure_s=f"{profile['measure_s']:g}",
        warmup_s=f"{profile['warmup_s']:g}",
        weak_share=f"{verdict.WEAK_SHARE:g}",
        seed=manifest["seed"],
        noise=noise(raw_rows),
        machine=machine_lines(manifest),
        study=study.name,
        profile=profile["name"],
    )


def _source(study):
    claim = f' Its claim: "{study.claim.text}"' if study.claim else ""
    return f"**Source.** {study.source}.{claim}" if study.source else ""


def _comparing(study):
    base = f"{study.symbol} = {study.base}"
    if not study.published:
        return f"Ratios are relative to {base}."
    return (
        "The published machine is unknown, so absolute figures are not compared: the ratios to"
        f" {base} are."
    )


def _conclusion(study, rows, raw_rows):
    if not study.claim:
        return "The study claims nothing; the figures speak."
    paragraphs = []
    for series in study.series:
        if any(row.origin == "here" and row.series == series.name for row in rows):
            paragraphs += _verdict_paragraphs(study, rows, series)
    if _noisy_runs(raw_rows) > len(raw_rows) * NOISY_SHARE:
        paragraphs.append(
            "**The machine was busy with other things meanwhile:** " + noise(raw_rows)
        )
    return "\n\n".join(paragraphs)


def _verdict_paragraphs(study, rows, series):
    """The verdict with its reason, then what it rests on."""
    judged = verdict.judge(study, rows, series)
    why = {"holds": study.claim.why_holds, "open": ""}.get(judged.outcome, study.claim.why_else)
    details = [*judged.findings, verdict.evidence(study, rows, series)]
    return [f"{judged.headline} {why}".strip(), "\n".join(f"- {text}" for text in details if text)]


def _comparison(study, rows):
    """Published and ours side by side: absolute figures, then both as ratios to the base."""
    metrics = list(study.published.column_of) if study.published else ["mean_us", "ops_per_s"]
    published = {row.value: row for row in rows if row.origin == "published"}
    source_rows = {row[study.knob]: row for row in study.published.rows} if study.published else {}
    tables = []
    for metric in metrics:
        header = [study.symbol]
        if published:
            header += [f"published, {study.published.column_of[metric]}", "published ratio"]
        for series in study.series:
            header += [f"{series.name}, {_heading(metric)} [95 %]", "ratio [95 %]"]
        body = []
        for value in study.values:
            cells = [value]
            if published:
                source = source_rows.get(value)
                cells += [source[study.published.column_of[metric]] if source else "–"]
                cells += [
                    f"{published[value].ratios[metric].mean:.2f}" if value in published else "–"
                ]
            for series in study.series:
                row = _find(rows, series.name, value)
                cells += (
                    [
                        _with_interval(row.estimates[metric], _number),
                        _with_interval(row.ratios[metric], "{:.2f}".format),
                    ]
                    if row
                    else ["–", "–"]
                )
            body.append(cells)
        tables.append(
            f"**{NAMES.get(metric, (metric,))[0].capitalize()}**\n\n" + _table(header, body)
        )
    return "\n\n".join(tables)


def _metrics_table(study, here, metrics):
    metrics = [metric for metric in metrics if metric in study.metrics]
    header = ["series", study.symbol, *map(_heading, metrics)]
    body = [
        [row.series, row.value, *(_number(row.estimates[m].mean) for m in metrics)] for row in here
    ]
    return _table(header, body)


def _disturbances_pct(raw_rows):
    return [float(row["steal_pct"]) + float(row["foreign_cpu_pct"]) for row in raw_rows]


def _noisy_runs(raw_rows):
    return sum(share > NOISY_PCT for share in _disturbances_pct(raw_rows))


def noise(raw_rows):
    disturbed = _disturbances_pct(raw_rows)
    text = (
        f"{_noisy_runs(raw_rows)} of {len(raw_rows)} runs saw more than {NOISY_PCT:g} % of the"
        f" machine's CPU stolen by the hypervisor or used by other programs (median {quantile(disturbed, 0.5):.1f} %,"
        f" worst {max(disturbed):.1f} %)."
    )
    errors = sum(float(row.get("errors") or 0) for row in raw_rows)
    return text + (
        f" **{errors:.0f} requests ended in an error.**"
        if errors
        else " No request ended in an error."
    )


def machine_lines(manifest):
    dirty = {True: ", with uncommitted changes", False: ""}.get(manifest["dirty"], "")
    lines = [
        f"{manifest['cpus']} CPUs: {manifest['cpu']}; virtualisation: {manifest['virtualisation']}",
        f"{manifest['kernel']}; {manifest['distribution']}; {manifest['libc']}",
        f"queues of {manifest['mqueue_msg_max']} messages of {manifest['mqueue_msgsize_max']}"
        f" bytes, {manifest['mqueue_queues_max']} queues, ulimit -q {manifest['ulimit_q_bytes']}",
        f"stores under {manifest['store']}",
        f"commit {manifest['commit']}{dirty}",
        f"{manifest['compiler']}: {manifest['built_with']}",
        f"measured {manifest['started_utc']} to {manifest.get('finished_utc', '(interrupted)')}",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _find(rows, series, value):
    found = (r for r in rows if r.origin == "here" and r.series == series and r.value == value)
    return next(found, None)


def _heading(metric):
    name, unit = NAMES.get(metric, (metric, ""))
    return f"{name}, {unit}" if unit else name


def _table(header, body):
    lines = [header, ["---:"] * len(header), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _with_interval(estimate, written):
    if estimate is None:
        return "–"
    if estimate.low == estimate.high:
        return written(estimate.mean)
    return f"{written(estimate.mean)} [{written(estimate.low)}, {written(estimate.high)}]"


def _number(value):
    """Three or four figures that matter: 1234567 -> 1,235,000; 0.01234 -> 0.0123."""
    if abs(value) >= 1000:
        digits = len(str(int(abs(value)))) - 4
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"
