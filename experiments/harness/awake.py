"""Keeps the CPUs of a virtual machine awake: keep_awake of study.conf.

A virtual CPU that has nothing to do is given back to the host, and a sleeper that wakes there waits
until the host returns it: sleeps end late. A process on each CPU that only spins, at idle priority
(SCHED_IDLE: it gives way to all others at once), leaves the host no CPU to take back.

A spinner ends when the harness does, also after kill -9. What it uses is neither the run's nor
another program's: see own_s.
"""

import ctypes
import os
import signal

from harness import machine

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


class Awake:
    """A spinner on each CPU that this process may use. A context manager: leaving it ends them.
    is_wanted: if false, there are none."""

    def __init__(self, is_wanted=True):
        self.cpus = sorted(os.sched_getaffinity(0)) if is_wanted else []
        self.pids = []

    def __enter__(self):
        for cpu in self.cpus:
            # None of the signals that end the harness may come between fork and the list.
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
            parent = os.getpid()
            pid = os.fork()
            if pid == 0:
                _spin(cpu, parent)
            self.pids.append(pid)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return self

    def __exit__(self, *_):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
        for pid in self.pids:
            os.waitpid(pid, 0)

    def cpu_s(self):
        """CPU time of all spinners so far."""
        return sum(map(_cpu_s, self.pids))


def _spin(cpu, parent):
    """Never returns. What cannot be had (a CPU that was taken away) ends the spinner alone."""
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.setsid()  # a Ctrl-C meets only the harness
        os.sched_setaffinity(0, {cpu})
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # on a busy machine it now waits
        while os.getppid() == parent:  # it may have ended before the order to end with it
            for _ in range(1_000_000):
                pass
    finally:
        os._exit(0)


def _cpu_s(pid):
    """Fields 14 and 15 of proc(5) stat, in ticks; 0 of a spinner that has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / machine.TICKS_PER_SECOND
