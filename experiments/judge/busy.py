"""The same works while other programs take the CPUs: as many processes as there are CPUs count for
ever, and the scheduler shares. A wait rule that polls shines on an idle machine; here whoever waits
has to get a CPU back.

What a system reaches depends on where the scheduler puts its threads, and changes from run to run.
So the runs are short and many: each round has a run of every system, in a random order, and the
figures are compared within the rounds. The CPUs are never idle: a run is not repeated for that.
"""

import os

from harness import point, processes
from judge import loads

BURNER = "sh -c 'while :; do :; done'"
WARMUP_S = 0.1  # in the load itself: connecting, and meeting the burners


def measure(cases, ledger):
    loads.measure(cases, ledger, loads.Manner(_run, _headline, burners, paired=True))


def burners():
    return processes.Beside([BURNER] * (os.cpu_count() or 1))


def _run(server, options, profile, _):
    command = server.load_command(f"{options} --warmup {WARMUP_S:g} -t {profile.pair_s:g}")
    row = point.measured_load(command, profile.pair_s, server)
    return row | {"steal_pct": "", "foreign_cpu_pct": ""}


def _headline(row):
    return f"{float(row['ops_per_s']):,.0f} ops/s, p99 {row['p99_us']} us"
