"""Where the time of a load goes: CPU time and switches of context of server and client for an
operation, of mqkv, of the peers, and of the bare echo with the same messages."""

from dataclasses import dataclass

from judge.cases import ECHO
from judge.table import number


@dataclass(frozen=True)
class Cost:
    """Medians, for one operation; a thread that polls while it waits uses CPU time."""

    server_us: float
    client_us: float
    switches: float
    ops_per_s: float

    @property
    def cpu_us(self):
        return self.server_us + self.client_us

    @property
    def cpus(self):
        """How many CPUs were in use."""
        return self.cpu_us * self.ops_per_s / 1e6


def cost_of(figures, case_name, system):
    """None if it was not measured."""
    columns = (
        "server_cpu_us_per_op",
        "client_cpu_us_per_op",
        "server_switches_per_op",
        "client_switches_per_op",
        "ops_per_s",
    )
    found = [figures.get(case_name, system, column) for column in columns]
    if None in found:
        return None
    server_us, client_us, server_switches, client_switches, rate = (f.median for f in found)
    return Cost(server_us, client_us, server_switches + client_switches, rate)


HEADER = (
    "server + client, µs per operation",
    "mqkv",
    "raw echo",
    "mqkv beyond the echo",
    "Redis",
    "memcached",
    "CPUs in use by mqkv",
    "context switches: mqkv",
    "raw echo",
)


def lines(cases, figures):
    """The table's body, a line a load."""
    body = []
    for case in cases:
        costs = {system: cost_of(figures, case.name, system) for system in case.systems}
        own, echo = costs.get("mqkv"), costs.get(ECHO)
        if case.kind != "loads" or not own:
            continue
        body.append(
            [
                case.title,
                _split(own),
                _split(echo),
                _excess(own, echo) if echo else "",
                _split(costs.get("redis")),
                _split(costs.get("memcached")),
                f"{own.cpus:.1f}",
                number(own.switches),
                number(echo.switches) if echo else "",
            ]
        )
    return body


def _split(cost):
    return f"{number(cost.server_us)} + {number(cost.client_us)}" if cost else ""


def _excess(own, echo):
    return f"{signed(own.server_us - echo.server_us)}, {signed(own.client_us - echo.client_us)}"


def signed(value):
    return ("+" if value >= 0 else "−") + number(abs(value))
