"""When and from which commit each work was measured, said by the rows themselves: works that were
measured again with other programs (`experiments/bench --merge`) stand beside the others."""


def measurements(raw_rows):
    """One dict for each commit and programs measured, the earliest first: commit, programs,
    first_utc, last_utc, cases. Of rows that do not say what they were measured with: commit ''."""
    found = {}
    for row in raw_rows:
        key = row.get("commit") or "", row.get("programs") or ""
        one = found.setdefault(
            key, {"commit": key[0], "programs": key[1], "times": [], "cases": []}
        )
        one["times"].append(row["started_utc"])
        if row["case"] not in one["cases"]:
            one["cases"].append(row["case"])
    for one in found.values():
        times = one.pop("times")
        one |= {"first_utc": min(times), "last_utc": max(times)}
    return sorted(found.values(), key=lambda one: one["first_utc"])


def told(raw_rows):
    """Markdown; '' if all works were measured with the same programs."""
    found = measurements(raw_rows)
    if len(found) < 2:
        return ""
    lines = [
        "**Not all works were measured with the same programs.** The figures of a ratio were always"
        " measured together:",
        "",
    ]
    for one in found:
        names = ", ".join(one["cases"])
        commit = one["commit"] or "not recorded"
        lines.append(f"- {one['first_utc']} to {one['last_utc']}, commit {commit}: {names}")
    return "\n".join(lines)
