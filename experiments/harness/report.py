"""REPORT.md of one study in one profile: harness.content as Markdown."""

import shlex
import string

from harness import content as contents, summary, verdict


def render(template, study, rows, raw_rows, manifest, pictures):
    """The report's text: `template` with its $fields filled in. pictures: the folder of the plots,
    as seen from the report's."""
    profile = manifest["profile"]
    content = contents.of(study, rows, raw_rows, manifest)
    here = [row for row in rows if row.origin == "here"]
    return string.Template(template).substitute(
        title=content.title,
        question=content.question,
        source=_source(content),
        conclusion=_conclusion(content),
        notes=content.notes,
        picture=f"{pictures}/{study.name}-{profile['name']}",
        comparing=content.comparing,
        comparing_title=content.comparing_title,
        comparison="\n\n".join(
            f"**{table.title}**\n\n{_table(table)}" for table in content.comparisons
        ),
        tables="\n\n".join(map(_section, _tables(content))),
        fixed=content.fixed,
        base=study.base_text(),
        points=len({(row.series, row.value) for row in here}),
        repeats=summary.runs_told([row.runs for row in here], profile["repeats"]),
        measure_s=f"{profile['measure_s']:g}",
        warmup_s=f"{profile['warmup_s']:g}",
        weak_share=f"{verdict.WEAK_SHARE:g}",
        seed=manifest["seed"],
        noise=content.noise,
        machine=machine_lines(manifest),
        power=content.power,
        repeat=repeat_command(study, manifest),
        profile=profile["name"],
    )


def machine_lines(manifest):
    return "\n".join(f"- {line}" for line in contents.machine_lines(manifest))


def repeat_command(study, manifest):
    """What measures the same again: by the study's name where it is one of experiments/, else by
    the folder of its definition."""
    name = manifest.get("definition_folder") or study.name
    profile, seed = manifest["profile"]["name"], manifest["seed"]
    more = f" --seed {seed}" if str(seed) != "1" else ""
    return f"experiments/run --profile {profile}{more} --fresh {shlex.quote(str(name))}"


def _source(content):
    if not content.source:
        return f"**Claim.** {content.claim}" if content.claim else ""
    claim = f' Its claim: "{content.claim}"' if content.claim else ""
    return f"**Source.** {content.source}.{claim}"


def _conclusion(content):
    paragraphs = ["\n".join(f"- **{text}**" for text in content.crossovers)]
    if not content.verdicts:
        paragraphs[0] = paragraphs[0] or ("" if content.notes else "There is no claim to judge.")
    for one in content.verdicts:
        paragraphs.append(contents.with_guess(one))
        paragraphs.append("\n".join(f"- {text}" for text in one.findings if text))
    if content.busy:
        lead = "**Other programs kept the machine busy during the runs:** "
        paragraphs.append(lead + content.busy)
    if content.theory:
        paragraphs.append(f"Thin lines without markers: {content.theory}.")
    return "\n\n".join(filter(None, paragraphs))


def _tables(content):
    return [t for t in (content.evidence, content.responses, content.costs) if t]


def _section(table):
    remark = "Means over the runs"
    if any("percentile" in name for name in table.header):
        remark += "; percentiles are taken per run and averaged"
    return f"## {table.title}\n\n{remark}.\n\n{_table(table)}"


def _table(table):
    lines = [table.header, ["---:"] * len(table.header), *table.body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
