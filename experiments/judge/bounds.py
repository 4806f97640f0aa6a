"""What bounds a goal that is not met: the kernel's queues, or mqkv's own work.

The rule: the bare echo moves the same messages and does nothing else. Where a goal asks for more
than CEILING_SHARE of what the echo reaches itself, the queues are the bound: nothing over them
could meet it without being nearer to the echo than the ceiling's own goal demands. Else what is
missing is mqkv's, and the CPU time beyond the echo's says whether the server or the client spends
it. Works without an echo have no message, or wait for the disk unless the CPUs are full.
"""

from dataclasses import dataclass

from judge import costs
from judge.cases import CEILING, ECHO, ENVIRONMENTS, LOWER_IS_BETTER, Limit
from judge.table import number
from judge.verdicts import COLUMN_NAMES, label

CEILING_SHARE = CEILING.factor
FULL_SHARE = 0.9  # of the CPUs in use: called full

QUEUES = "the kernel's queues"
OWN = "mqkv's own work"
WAITING = "waiting for the disk"
SHARING = "sharing the CPUs"

# Of works that have no echo, by kind or by name.
WORDS = {
    "engine-get": (
        OWN,
        "The engine runs in process, without queues. A lookup misses the CPU's caches once in the"
        " index and once in the file, and verifies the record's checksum. LMDB compares keys in"
        " sorted pages, keeps the upper ones in the caches, and verifies nothing.",
    ),
    "engines": (OWN, "The engine runs in process, without queues: it spends all of the time."),
    "population": (OWN, "The queues do not limit this: mqkv decides what it writes and reads."),
    "direct": (
        OWN,
        "No message is sent: the reader finds the key in the shared index and copies the value out"
        " of the data file.",
    ),
    "offered": (
        OWN,
        "Each system is offered shares of what it reaches itself, so mqkv is offered more; a share"
        " is met by threads that sleep, and each operation begins with a wake-up.",
    ),
    "rates-busy": (
        OWN,
        "Client and server both have to get a CPU back from programs that never give one up.",
    ),
    "rates": (OWN, "The system is far from its limit: who sleeps has to be given a CPU first."),
    "transfers": (
        OWN,
        "A transaction is one message, and changes two data files under their locks. The script of"
        " Redis is one message, too; SQLite and LMDB are called in process, and sync for each"
        " transaction, where mqkv syncs for all that wait.",
    ),
    "ranges": (
        OWN,
        "mqkv reads in place: the order has neither keys nor values, so that each entry is looked"
        " up in the index and read in its data file, as a GET is. The engines in process keep the"
        " entries of a range side by side.",
    ),
    "python": (
        OWN,
        "Reads go in place, so Python's own work is most of a call; a put is a message, and waits"
        " for the daemon to get a CPU. diskcache runs a transaction of SQLite for each.",
    ),
    "stalls": (
        OWN,
        "Growing an index, copying a file and copying large values need CPU time beside the"
        " measured server and client, and large values the disk.",
    ),
    "idle": (OWN, "No message arrives, so every wake-up is mqkv's own."),
}


@dataclass(frozen=True)
class Bound:
    case: object
    goals: tuple  # the texts of the goals that it explains ...
    asked: tuple  # ... and what they ask for in figures
    by: str
    why: str


def bounds(verdicts, figures, cpus):
    """One Bound for the goals of a work that have the same explanation, in their order."""
    found = {}
    for verdict in verdicts:
        if not verdict.met:
            by, why = explain(verdict, figures, cpus)
            key = verdict.case.title, by, why
            found.setdefault(key, []).append(verdict)
    return [
        Bound(
            of_work[0].case,
            tuple(verdict.text for verdict in of_work),
            tuple(_asked_text(verdict, figures) for verdict in of_work),
            by,
            why,
        )
        for (_, by, why), of_work in found.items()
    ]


def explain(verdict, figures, cpus):
    """(by, why) of a goal that is not met. cpus: how many the machine has."""
    case, goal = verdict.case, verdict.goal
    if figures.get(case.name, case.subject, case.column) is None:
        return "no figure", figures.failure(case.name, case.subject) or "It was not measured."
    asked = _asked(case, goal, figures)
    if asked is None and _compares_systems(goal):
        return "no figure", f"{label(goal.against)} was not measured."
    own = costs.cost_of(figures, case.name, case.subject)
    if case.kind == "busy" and own is not None:
        return _beside_burners(case, goal, own, figures)
    if case.kind not in ("loads", "redis_benchmark") or own is None:
        return _words(case)
    echo = costs.cost_of(figures, case.name, ECHO)
    if echo is None:
        return _beside_peer(case, goal, own, figures, cpus)
    shortfall = _shortfall(own, echo, cpus)
    if goal.against == ECHO:
        return OWN, shortfall
    reached = figures.get(case.name, ECHO, goal.column).median
    share = reached / asked if goal.column in LOWER_IS_BETTER else asked / reached
    told = f"{number(reached)} {_unit(goal)}"
    if share > CEILING_SHARE:
        return QUEUES, f"The raw echo only moves the same messages, and reaches {told}."
    return OWN, f"The queues would allow it: the raw echo reaches {told}. {shortfall}"


def _compares_systems(goal):
    return not isinstance(goal, Limit) and ":" not in goal.against


def _asked(case, goal, figures):
    """The figure that meets the goal; None: it does not compare systems, or the other was not
    measured."""
    if not _compares_systems(goal):
        return None
    other = figures.get(case.name, goal.against, goal.column)
    if other is None:
        return None
    lower = goal.column in LOWER_IS_BETTER
    return other.median / goal.factor if lower else other.median * goal.factor


def _asked_text(verdict, figures):
    asked = _asked(verdict.case, verdict.goal, figures)
    if asked is None:
        return verdict.text
    return f"{verdict.text}: {number(asked)} {_unit(verdict.goal)}".rstrip()


def _unit(goal):
    return "µs" if goal.column.endswith("_us") else COLUMN_NAMES.get(goal.column, "")


def _shortfall(own, echo, cpus):
    """What mqkv spends beyond the echo."""
    text = (
        f"CPU time per operation beyond the echo's:"
        f" {costs.signed(own.server_us - echo.server_us)} µs in the server,"
        f" {costs.signed(own.client_us - echo.client_us)} µs in the client"
    )
    if own.switches > 2 * echo.switches + 0.1:
        text += f"; {number(own.switches)} context switches against {number(echo.switches)}"
    if own.cpus >= FULL_SHARE * cpus:
        return text + "; the CPUs are full."
    return text + f"; {own.cpus:.1f} of {cpus} CPUs are in use: the sides wait for each other."


def _beside_peer(case, goal, own, figures, cpus):
    """Of a work without an echo."""
    text = (
        f"CPU time per operation, server + client: {number(own.server_us)} +"
        f" {number(own.client_us)} µs, with {number(own.switches)} context switches"
    )
    other = costs.cost_of(figures, case.name, goal.against)
    if other:
        text += (
            f"; {label(goal.against)}: {number(other.server_us)} +"
            f" {number(other.client_us)} µs, with {number(other.switches)}"
        )
    if own.cpus >= FULL_SHARE * cpus:
        return OWN, text + "; the CPUs are full."
    if case.subject == "kresp":
        return OWN, text + "."
    by = OWN if ENVIRONMENTS[case.environment].sync == "none" else WAITING
    return by, text + f"; {own.cpus:.1f} of {cpus} CPUs are in use."


def _beside_burners(case, goal, own, figures):
    """Where others take what they can, the scheduler's share of the CPUs is all there is."""
    text = (
        f"Both CPUs are shared with programs that never wait. CPU time per operation, server +"
        f" client: {number(own.server_us)} + {number(own.client_us)} µs in {own.cpus:.1f} CPUs"
    )
    for system in (goal.against, ECHO):
        other = costs.cost_of(figures, case.name, system)
        if other:
            text += (
                f"; {label(system)}: {number(other.server_us)} + {number(other.client_us)} µs in"
                f" {other.cpus:.1f}"
            )
    return SHARING, text + "."


def _words(case):
    for name, words in WORDS.items():
        if case.name.startswith(name) or case.kind == name:
            return words
    return OWN, "This work sends no message."
