"""What a server uses while its clients are connected and ask for nothing."""

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
            for repeat in ledger.repeats()
            for system in ledger.shuffled(case.systems, "idle", repeat)
        ]
        ledger.measure(
            order,
            lambda case, system, repeat: _run(case, system, ledger),
            lambda row: f"{row['idle_cpu_us_per_s']} us of CPU per second",
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
                before = server.cost()
                time.sleep(seconds)
                after = server.cost()
                if crowd.poll() is not None:
                    raise HarnessError("the idle clients did not stay connected")
            finally:
                crowd.kill()
                crowd.wait()
            return {
                "threads": clients,
                "seconds": seconds,
                "idle_cpu_us_per_s": f"{(after.cpu_s - before.cpu_s) * 1e6 / seconds:.1f}",
                "idle_switches_per_s": f"{(after.switches - before.switches) / seconds:.1f}",
            }
