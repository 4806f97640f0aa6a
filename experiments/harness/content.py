"""What the report of one study says, as data: report.py makes Markdown of it, others what they
like.

    study, rows, raw_rows, manifest = content.load(folder)
    content.of(study, rows, raw_rows, manifest)
"""

import json
from dataclasses import dataclass

from harness import HarnessError, crossover, noise, power, summary, verdict
from harness import study as studies

NOTHING = "–"  # in a cell: there is no such figure
NOISY_SHARE = 0.2  # of the runs that count noisy: then the conclusion says so
DISTURBED_SHARE = 0.9  # then there is no conclusion, whatever noise the study bears
GUESS = "A guess at why:"  # before a study's reasons: no run measures them
RESPONSES = ("mean_us", "p50_us", "p90_us", "p99_us", "p999_us")
BEYOND = {"p50_us": 0.5, "p90_us": 0.1, "p99_us": 0.01, "p999_us": 0.001}  # part of the operations
LEAST_BEYOND = 10  # operations of a run: with fewer, a percentile is the chance of single ones
COSTS = (
    "server_cpu_us_per_op",
    "server_switches_per_op",
    "client_cpu_us_per_op",
    "client_switches_per_op",
)


@dataclass
class Table:
    title: str
    header: list  # of str
    body: list  # of lists of str


@dataclass
class Content:
    title: str
    question: str
    source: str  # may be empty, like claim and notes
    claim: str
    verdicts: list  # of verdict.Verdict
    outcome: str  # of all verdicts together: a key of verdict.HEADLINES; "" without a claim
    busy: str  # empty, or that the machine was too busy to trust the conclusion
    crossovers: list  # of sentences: from which value of the knob on a difference holds
    theory: str  # the model that is drawn beside, and its source; may be empty
    notes: str
    comparing: str  # what ratios are relative to
    comparing_title: str
    comparisons: list  # of Table: published and ours side by side
    evidence: Table | None  # what explains the conclusion: lock wait, queue depth, memory, ...
    responses: Table | None
    costs: Table | None
    fixed: str
    noise: str  # how many runs were disturbed, repeated, and remained so
    power: str  # which difference could have been told
    machine: list  # of str


def load(folder, study_folder=None):
    """(study, summary rows, raw rows, manifest) of results in `folder`. study_folder: of the
    definition; by default the manifest says it."""
    path = folder / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise HarnessError(f"{path}: {error}") from error
    if study_folder is None:
        study_folder = studies.find(manifest.get("definition_folder") or manifest["study"])
    found = studies.read(study_folder)
    found = found.in_profile(manifest["profile"]["name"], manifest["cpus"])
    raw_rows = summary.read_raw(folder / "raw.csv")
    return found, summary.summarise(found, raw_rows), raw_rows, manifest


def of(study, rows, raw_rows, manifest):
    here = [row for row in rows if row.origin == "here"]
    disturbed = is_disturbed(raw_rows, "series", study.knob)
    verdicts = verdict.verdicts(study, rows, disturbed)
    told = {one for table in (RESPONSES, COSTS) for one in table} | {"ops_per_s"}
    return Content(
        title=study.title,
        question=study.question,
        source=study.source,
        claim=study.claim.text if study.claim else "",
        verdicts=verdicts,
        outcome=verdict.together({one.outcome for one in verdicts}) if verdicts else "",
        busy=_busy(study, raw_rows) if study.claim or study.crossovers else "",
        crossovers=[] if disturbed else [one.text for one in crossover.of(study, rows)],
        theory=study.theory.source if study.theory else "",
        notes=study.notes,
        comparing=_comparing(study),
        comparing_title="Beside the published figures" if study.published else "Figures",
        comparisons=_comparisons(study, rows),
        evidence=_metrics_table(
            study, here, "Evidence", [m for m in study.metrics if m not in told]
        ),
        responses=_metrics_table(study, here, "Response times", RESPONSES),
        costs=_metrics_table(study, here, "What an operation costs", COSTS),
        fixed=study.fixed,
        noise=noise_text(raw_rows, "series", study.knob, limit_pct=study.noise_limit),
        power=power_text(study, raw_rows),
        machine=machine_lines(manifest),
    )


def with_guess(verdict_on):
    """The headline of a verdict, and why that may be."""
    guess = f" {GUESS} {verdict_on.why}" if verdict_on.why else ""
    return verdict_on.headline + guess


def heading(study, metric):
    name, unit = study.name_of(metric)
    return f"{name}, {unit}" if unit else name


def noise_text(raw_rows, *columns, limit_pct=noise.NOISY_PCT):
    """columns: those that, with the repeat, tell one run from another."""
    kept = noise.quietest(raw_rows, *columns)
    disturbed = [noise.disturbance_pct(row) or 0.0 for row in kept]
    if limit_pct >= noise.BEARS_ALL_PCT:
        text = "Each run counts, with whatever part"
    else:
        noisy = sum(noise.is_noisy(row, limit_pct) for row in kept)
        text = f"{noisy} of {len(kept)} runs saw more than {limit_pct:g} %"
    text += (
        " of the machine's CPU stolen by the hypervisor or used by other programs"
        f" (median {summary.quantile(disturbed, 0.5):.1f} %, worst {max(disturbed):.1f} %)."
    )
    again = len(raw_rows) - len(kept)
    if again:
        text += (
            f" Such runs were repeated: {again} more"
            f" {'attempt was' if again == 1 else 'attempts were'} made. The quietest attempt of a"
            " run counts; raw.csv has all of them."
        )
    errors = sum(float(row.get("errors") or 0) for row in raw_rows)
    return text + (
        f" **{errors:.0f} requests ended in an error.**"
        if errors
        else " No request ended in an error."
    )


def is_busy(raw_rows, *columns, limit_pct=noise.NOISY_PCT):
    """Whether so many runs were disturbed that what is concluded from them needs the warning."""
    kept = noise.quietest(raw_rows, *columns)
    return sum(noise.is_noisy(row, limit_pct) for row in kept) > len(kept) * NOISY_SHARE


def is_disturbed(raw_rows, *columns):
    """Whether so many runs were disturbed that nothing is concluded from them."""
    kept = noise.quietest(raw_rows, *columns)
    return bool(kept) and sum(map(noise.is_noisy, kept)) >= len(kept) * DISTURBED_SHARE


def power_text(study, raw_rows):
    """The least ratio of two points that these runs would have told from chance, a metric each."""
    kept = noise.quietest(raw_rows, "series", study.knob)
    told = dict.fromkeys([*(study.published.column_of if study.published else ()), *_judged(study)])
    notes = []
    for metric in list(told) or study.metrics[:1]:
        points = {}
        for row in kept:
            known = row | summary.computed(study, row)
            points.setdefault((row["series"], row[study.knob]), []).append(float(known[metric]))
        is_of_ratio = bool(study.claim) and metric not in study.claim.shapes
        notes.append(power.sentence(study.name_of(metric)[0], list(points.values()), is_of_ratio))
    return (
        "With so many runs and this spread, two points that differ by at least so much would have"
        f" been told apart four times of five: {'; '.join(notes)}."
    )


def _judged(study):
    if not study.claim:
        return [m for m in ("ops_per_s", "mean_us") if m in study.metrics]
    return [*study.claim.shapes, *(one.metric for one in study.claim.comparisons)]


def machine_lines(manifest):
    dirty = {True: ", with uncommitted changes", False: ""}.get(manifest["dirty"], "")
    told_by = f" (from {manifest['commit_from']})" if "commit_from" in manifest else ""
    return [
        f"{manifest['cpus']} CPUs: {manifest['cpu']}; virtualisation: {manifest['virtualisation']}",
        f"{manifest['kernel']}; {manifest['distribution']}; {manifest['libc']}",
        f"queues of {manifest['mqueue_msg_max']} messages of {manifest['mqueue_msgsize_max']}"
        f" bytes, {manifest['mqueue_queues_max']} queues, ulimit -q {manifest['ulimit_q_bytes']}",
        f"stores under {manifest['store']}",
        f"commit {manifest['commit']}{dirty}{told_by}",
        f"{manifest['compiler']}: {manifest['built_with']}",
        f"measured {manifest['started_utc']} to {manifest.get('finished_utc', '(interrupted)')}",
    ]


def number(value):
    """Three or four figures that matter: 1234567 -> 1,235,000; 0.01234 -> 0.0123."""
    if abs(value) >= 1000:
        digits = len(str(int(abs(value)))) - 4
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def _busy(study, raw_rows):
    """By the usual limit: what a study bears disturbs its figures all the same."""
    is_warned = is_busy(raw_rows, "series", study.knob)
    return noise_text(raw_rows, "series", study.knob) if is_warned else ""


def _comparing(study):
    if not study.published:
        return f"Ratios are relative to {study.base_text()}."
    return (
        "The published machine is unknown, so ratios are compared, not absolute figures. Ratios are"
        f" relative to {study.base_text()}."
    )


def _comparisons(study, rows):
    """Published and ours side by side: absolute figures, then both as ratios to the base."""
    metrics = list(study.published.column_of) if study.published else ["mean_us", "ops_per_s"]
    metrics = [m for m in metrics if m in study.metrics] or study.metrics[:1]
    with_series = [s for s in study.series if any(r.series == s.name for r in rows)]
    if len(with_series) > 2:
        return [_long_comparison(study, rows, with_series, metric) for metric in metrics]
    return [_wide_comparison(study, rows, with_series, metric) for metric in metrics]


def _wide_comparison(study, rows, series, metric):
    """A line for each value of the knob, columns for each series."""
    header = [study.symbol]
    for one in series:
        if _is_published(study, one, metric):
            column = study.published.column_of[metric]
            of = f"{study.series_label(one.name)}, " if len(series) > 1 else ""
            header += [f"{of}published, {column}", "published ratio"]
        label = study.series_label(one.name)
        header += [f"{label}, {heading(study, metric)} [95 %]", "ratio [95 %]"]
    body = []
    for value in study.values:
        cells = [study.label_of(value)]
        for one in series:
            if _is_published(study, one, metric):
                cells += _published_cells(study, rows, one.name, value, metric)
            cells += _our_cells(rows, one.name, value, metric)
        if any(cell != NOTHING for cell in cells[1:]):
            body.append(cells)
    return Table(study.name_of(metric)[0].capitalize(), header, body)


def _long_comparison(study, rows, series, metric):
    """A line for each point: for more series than fit side by side."""
    is_published = any(_is_published(study, one, metric) for one in series)
    header = ["series", study.symbol]
    if is_published:
        header += [f"published, {study.published.column_of[metric]}", "published ratio"]
    header += [f"{heading(study, metric)} [95 %]", "ratio [95 %]"]
    body = []
    for one in series:
        for value in study.values:
            ours = _our_cells(rows, one.name, value, metric)
            cells = [study.series_label(one.name), study.label_of(value)]
            if is_published:
                cells += _published_cells(study, rows, one.name, value, metric)
            if any(cell != NOTHING for cell in cells[2:] + ours):
                body.append(cells + ours)
    return Table(study.name_of(metric)[0].capitalize(), header, body)


def _is_published(study, series, metric):
    published = study.published
    return bool(published) and any(
        row["series"] == series.name and row[published.column_of[metric]] for row in published.rows
    )


def _published_cells(study, rows, series, value, metric):
    source = study.published.find(study, series, value)
    text = source[study.published.column_of[metric]] if source else ""
    ratios = [
        row.ratios[metric].mean
        for row in rows
        if (row.origin, row.series, row.value) == ("published", series, value)
        and metric in row.ratios
    ]
    return [text or NOTHING, f"{ratios[0]:.2f}" if ratios else NOTHING]


def _our_cells(rows, series, value, metric):
    row = summary.find(rows, series, value)
    if row is None:
        return [NOTHING, NOTHING]
    return [
        _with_interval(row.estimates[metric], number),
        _with_interval(row.ratios[metric], _ratio),
    ]


def _metrics_table(study, here, title, metrics):
    metrics = [metric for metric in metrics if metric in study.metrics]
    if not metrics:
        return None
    header = ["series", study.symbol, *(heading(study, metric) for metric in metrics)]
    body = [
        [study.series_label(row.series), study.label_of(row.value)]
        + [_mean(row, metric) for metric in metrics]
        for row in here
    ]
    return Table(title, header, body)


def _mean(row, metric):
    """Of the runs of a point; a percentile only with operations enough beyond it."""
    if metric in BEYOND and row.operations * BEYOND[metric] < LEAST_BEYOND:
        return NOTHING
    return number(row.estimates[metric].mean)


def _ratio(value):
    return number(value) if value >= 100 else f"{value:.2f}"


def _with_interval(estimate, written):
    if estimate is None:
        return NOTHING
    if estimate.low == estimate.high:
        return written(estimate.mean)
    return f"{written(estimate.mean)} [{written(estimate.low)}, {written(estimate.high)}]"
