"""Tables: what a person sees at the end of a run, each work beside the peers, and the goals; and
Markdown."""

from judge.verdicts import judge, label

MET = {True: "met", False: "NOT MET"}


def number(value):
    """Three or four figures that matter."""
    if value is None:
        return "-"
    if abs(value) >= 1000:
        digits = len(str(int(abs(value)))) - 4
        return f"{round(value, -digits):,.0f}"
    return f"{value:.3g}"


def sections(cases):
    """Section -> its cases, in order."""
    found = {}
    for case in cases:
        found.setdefault(case.section, []).append(case)
    return found


def columns(cases):
    """Systems of a section, in the order of their first appearance."""
    return list(dict.fromkeys(system for case in cases for system in case.systems))


def cell(case, system, figures):
    """A figure, and how many times better the case's subject is: "138,000 (x2.90)"; of works that
    are compared round by round "x2.90: 2.1–3.4", with the quartiles of the rounds."""
    figure = figures.get(case.name, system, case.column)
    if figure is None:
        return "failed" if figures.failure(case.name, system) else ""
    if system == case.subject:
        return number(figure.median)
    advantage = figures.advantage(case, case.column, system)
    if not advantage:
        return number(figure.median)
    spread = f": {advantage.low:.1f}–{advantage.high:.1f}" if advantage.low else ""
    return f"{number(figure.median)} (x{advantage.times:.2f}{spread})"


def markdown(header, body):
    alignment = [":---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [header, alignment, *body])


def show(cases, figures, out):
    for section, of_section in sections(cases).items():
        systems = columns(of_section)
        header = [section, *map(label, systems)]
        body = [
            [case.title, *(cell(case, system, figures) for system in systems)]
            for case in of_section
        ]
        _print_aligned([header, *body], out)
    verdicts = [verdict for case in cases for verdict in judge(case, figures)]
    lines = [["goal", "", "reached", ""]]
    lines += [[v.case.title, v.text, v.reached, MET[v.met]] for v in verdicts]
    _print_aligned(lines, out)
    met = sum(verdict.met for verdict in verdicts)
    print(f"{met} of {len(verdicts)} goals met; (xN): mqkv, or kresp, is N times better", file=out)
    for (case_name, system), text in figures.failures.items():
        print(f"failed: {case_name} {system}: {text}", file=out)


def _print_aligned(lines, out):
    widths = [max(map(len, column)) for column in zip(*lines)]
    for line in lines:
        first, *rest = (text.ljust(width) for text, width in zip(line, widths))
        print("  ".join([first, *rest]).rstrip(), file=out)
    print(file=out)
