"""The rows of experiments/microbench on disk, and as a section of docs/PERFORMANCE-TABLES.md."""

import csv
import json

from judge import table

NOT_YET = "(Not measured yet: `make microbench KEEP=1`.)"


def write(folder, rows, facts):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "raw.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    (folder / "manifest.json").write_text(text, encoding="utf-8")


def section(folder):
    """A table of what was kept, and what it was measured with; NOT_YET if there is nothing."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        with open(folder / "raw.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError):
        return NOT_YET
    lines = ["| layer | call | instructions | ns of CPU |", "| :--- | :--- | ---: | ---: |"]
    for row in rows:
        instructions = row["instructions_per_call"]
        told = table.number(float(instructions)) if instructions else "–"
        nanoseconds = table.number(float(row["cpu_ns_per_call"]))
        lines.append(f"| {row['layer']} | {row['piece']} | {told} | {nanoseconds} |")
    source = manifest["instructions_from"] or "not available"
    told = (
        f"Instructions: {source}. Nanoseconds: the smallest of {manifest['repeats']} runs. Commit"
        f" {manifest['commit'][:12]}, {manifest['cpu']}, {manifest['finished_utc'][:10]}."
    )
    return "\n".join(lines) + "\n\n" + told
