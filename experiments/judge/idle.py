"""What a server uses while its clients are connected and ask for nothing."""

import pathlib
import shlex
import subprocess
import time

from harness import HarnessError
from judge.rows import Workplace
from judge.systems import SYSTEMS, Server

CONNECT_S = 1.5
CLIENTS_A_PROCESS = 5


def measure(cases, ledger):
    for case in cases:
        order = [
            (case, system, repeat)
            for repeat in ledger.repeats("idle")
            for system in ledger.shuffled(case.systems, "idle", repeat)
        ]
        ledger.measure(
            order,
            lambda case, system, repeat: _run(case, system, ledger),
            lambda row: f"{row['idle_cpu_us_per_s']} us of CPU a second",
        )


def _run(case, system, ledger):
    clients = case.options["clients"]
    seconds = ledger.profile.size(case.options["seconds"])
    with Workplace(ledger.places.store_parent) as place:
        folder = place.folder / system
        with Server(SYSTEMS[system], ledger.places, folder, place.queue()) as server:
            server.wait_until_it_answers()
            # An operation a day: the clients connect, and wait for their turn.
            options = f"-n {clients} --processes {clients // CLIENTS_A_PROCESS} --rate 0.00001 -t 1"
            crowd = subprocess.Popen(
                shlex.split(server.load_command(options)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                time.sleep(CONNECT_S)
                before_us, switches = _cpu_us(server), server.cost().switches
                time.sleep(seconds)
                used_us = _cpu_us(server) - before_us
                switches = server.cost().switches - switches
                if crowd.poll() is not None:
                    raise HarnessError("the idle clients did not stay connected")
            finally:
                crowd.kill()
                crowd.wait()
            return {
                "threads": clients,
                "seconds": seconds,
                "idle_cpu_us_per_s": f"{used_us / seconds:.1f}",
                "idle_switches_per_s": f"{switches / seconds:.1f}",
            }


def _cpu_us(server):
    """From the scheduler's own nanoseconds: a tick of /proc/PID/stat would be too coarse."""
    tasks = pathlib.Path(f"/proc/{server.process.pid}/task").glob("*/schedstat")
    return sum(int(path.read_text(encoding="ascii").split()[0]) for path in tasks) / 1000
