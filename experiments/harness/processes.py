"""The daemon and the load program of one run: started, counted, and ended by pid, come what may."""

import ctypes
import os
import pathlib
import resource
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass

from harness import HarnessError, machine

STOP_TIMEOUT_S = 15
PING_S = 10
POLL_S = 0.005
# Beyond the stated time of a load, which may fill many keys first: then it hangs.
LOAD_GRACE_S = 300
QUEUES_MAX = 256  # of an IPC namespace at the kernel's default
PR_SET_PDEATHSIG = 1
ENDING_SIGNALS = {signal.SIGINT, signal.SIGTERM}
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Cost:
    """What a process has used so far."""

    cpu_s: float
    switches: int  # context switches, voluntary and not, of its living threads


class Daemon:
    """A serverk with its own queue name. A context manager: leaving it ends the daemon."""

    def __init__(self, command, queue, log_path):
        self.queue = queue
        self.log_path = pathlib.Path(log_path)
        with open(self.log_path, "wb") as log:
            self.process = _start(command, stdout=log, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        clean = self._stop()
        if kind is not None:
            _unlink_memory(self.queue)
        if not clean:
            _unlink_queues(self.queue)
            if kind is None:
                raise HarnessError(f"the daemon did not stop in an orderly way{self._last_words()}")

    def wait_until_ready(self, ping_command):
        """ping_command ends as soon as the daemon answers."""
        try:
            run_load(ping_command, PING_S)
        except HarnessError:
            self.check_alive()  # if it is gone, its own words say more
            raise

    def wait_until_it_succeeds(self, command):
        """command is run again and again: it fails until the server answers."""
        deadline = time.monotonic() + PING_S
        while not succeeds(command):
            self.check_alive()
            if time.monotonic() > deadline:
                raise HarnessError(f"no success within {PING_S} s from: {command}")
            time.sleep(POLL_S)

    def check_alive(self):
        if self.process.poll() is not None:
            raise HarnessError(f"the daemon ended by itself{self._last_words()}")

    def cost(self):
        """Of the daemon, and of the children it has waited for."""
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        # Fields 16 and 17 of proc(5) stat; the command name before may hold spaces. They count
        # ticks of 10 ms, too coarse for the daemon itself under a small load.
        ticks = (folder / "stat").read_text().rsplit(")", 1)[1].split()[13:15]
        switches = 0
        for status in folder.glob("task/*/status"):
            try:
                lines = status.read_text().splitlines()
            except OSError:
                continue  # a thread that has just ended
            switches += sum(int(l.split()[1]) for l in lines if "ctxt_switches" in l)
        children_s = sum(map(int, ticks)) / machine.TICKS_PER_SECOND
        return Cost(_process_cpu_s(self.process.pid) + children_s, switches)

    def peak_memory_kib(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
        return 0

    def _stop(self):
        """True if it ended, by SIGTERM, with status 0."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(STOP_TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # it leads a session; its children too
            self.process.wait()
            return False

    def _last_words(self):
        status = self.process.poll()
        lines = self.log_path.read_text(errors="replace").splitlines()[-5:]
        return f" (status {status}); its last log lines:\n  " + "\n  ".join(lines or ["(none)"])


class Beside:
    """Programs that run beside a load and are killed when it is over. A context manager."""

    def __init__(self, commands):
        self.commands = commands
        self.processes = []

    def __enter__(self):
        for command in self.commands:
            self.processes.append(_start(command, subprocess.DEVNULL, subprocess.DEVNULL))
        return self

    def __exit__(self, *_):
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)  # it leads a session; its children too
            process.wait()

    def check_alive(self):
        for process, command in zip(self.processes, self.commands):
            if process.poll() is not None:
                raise HarnessError(f"status {process.returncode} from: {command}")


def succeeds(command):
    """Whether a short command that only looks at something can be run and ends with status 0."""
    try:
        return subprocess.run(shlex.split(command), capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def run_load(command, expected_s):
    """Runs a load program to its end: (its standard output, Cost)."""
    before = children_cost()
    # A signal that came while the program starts would end the harness before it knows of it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    process = None
    try:
        process = _start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        output, errors = process.communicate(timeout=expected_s + LOAD_GRACE_S)
    except subprocess.TimeoutExpired as error:
        raise HarnessError(f"no end after {expected_s + LOAD_GRACE_S:.0f} s: {command}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if process and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # it leads a session; its children too
            process.wait()
    if process.returncode != 0:
        text = (errors.strip() or output.strip()).decode(errors="replace")[-1000:]
        raise HarnessError(f"status {process.returncode} from: {command}\n  {text}")
    after = children_cost()
    cost = Cost(after.cpu_s - before.cpu_s, after.switches - before.switches)
    return output.decode(errors="replace"), cost


def _process_cpu_s(pid):
    """Of all threads of a process, also those that have ended: clock_getcpuclockid(3),
    nanoseconds."""
    clock = ctypes.c_int()
    error = _libc.clock_getcpuclockid(pid, ctypes.byref(clock))
    if error:
        raise HarnessError(f"no CPU clock of process {pid}: {os.strerror(error)}")
    return time.clock_gettime(clock.value)


def own_cpu_s():
    times = os.times()
    return times.user + times.system


def own_and_children_cpu_s():
    return own_cpu_s() + children_cost().cpu_s


def children_cost():
    """Of all children that have ended and been waited for; the daemon of a run lives longer than
    its loads, so a difference of two is the loads' alone."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_nvcsw + usage.ru_nivcsw)


def _start(command, stdout, stderr):
    """In a session of its own, so that a Ctrl-C meets only the harness, which then ends it; and
    with the order to end if the harness itself is killed."""
    arguments = shlex.split(command)
    try:
        return subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=_prepare_child,
        )
    except OSError as error:
        raise HarnessError(
            f"cannot start {arguments[0]}: {error.strerror}; was it built?"
        ) from error


def _prepare_child():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)


def _unlink_queues(queue):
    """After a daemon that could not clean up. The names are those of wire/queue.h."""
    names = [queue, queue + ".lock"]
    names += [f"{queue}.{kind}{number}" for kind in "lb" for number in range(QUEUES_MAX)]
    for name in names:
        _libc.mq_unlink(name.encode())  # most do not exist: the result does not matter


def _unlink_memory(queue):
    """Of clients that were ended in their handshake: reply rings."""
    for path in pathlib.Path("/dev/shm").glob(f"{queue[1:]}.r*"):
        path.unlink(missing_ok=True)
