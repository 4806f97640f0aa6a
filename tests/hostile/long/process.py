"""Programs under test: run to their end, or beside, with their memory, time and output."""

import os
import pathlib
import signal
import subprocess
import time
from dataclasses import dataclass

SANITIZER_EXIT = 99
REPORTS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:", "DEADLYSIGNAL")


@dataclass
class Outcome:
    argv: list
    status: int  # exit status, or minus the signal that ended it
    seconds: float
    peak_kib: int
    output: str  # on stdout
    errors: str  # on stderr
    timed_out: bool

    def complaint(self, allowed, most_kib):
        """What is wrong with it, or "". allowed: exit statuses that are right."""
        if any(report in self.errors for report in REPORTS) or self.status == SANITIZER_EXIT:
            return "a sanitizer reports"
        if self.timed_out:
            return f"no end after {self.seconds:.0f} s"
        if self.status not in allowed:
            return f"exit status {self.status}"
        if self.peak_kib > most_kib:
            return f"took {self.peak_kib // 1024} MiB"
        return ""


def environment():
    """Sanitizers end with a status of their own, and keep little of what was freed."""
    asan = f"exitcode={SANITIZER_EXIT}:detect_leaks=1:quarantine_size_mb=8:abort_on_error=0"
    return os.environ | {
        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", asan),
        "UBSAN_OPTIONS": os.environ.get(
            "UBSAN_OPTIONS", f"exitcode={SANITIZER_EXIT}:print_stacktrace=1"
        ),
    }


def as_user(uid, argv):
    """The command as that user; as it is where uid is None."""
    argv = [str(word) for word in argv]
    if uid is None:
        return argv
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *argv]


def run(argv, log, timeout_s, uid=None):
    """Runs it to its end, or kills it after timeout_s. What it prints goes through `log` and
    log.err."""
    argv = as_user(uid, argv)
    start = time.monotonic()
    errors_log = pathlib.Path(f"{log}.err")
    with open(log, "wb") as output, open(errors_log, "wb") as errors:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment()
        )
    try:
        status, usage, timed_out = _wait(child, start + timeout_s)
    except KeyboardInterrupt:
        child.kill()
        child.wait()
        raise
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    output = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")
    errors = errors_log.read_text(encoding="utf-8", errors="replace")
    return Outcome(argv, child.returncode, seconds, usage.ru_maxrss, output, errors, timed_out)


def _wait(child, until):
    """Waits for it to end, by itself or killed at `until`; its status, resources, and which it
    was."""
    timed_out, pause_s = False, 0.001
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            return status, usage, timed_out
        if time.monotonic() > until and not timed_out:
            timed_out = True
            child.kill()
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.02)


class Daemon:
    """A serverk beside. Use as a context: it is killed at the end if it was not stopped."""

    def __init__(self, build, queue, directory, log, options=(), uid=None):
        self.client = [str(build / "clientk"), "-m", queue]
        self.log = pathlib.Path(log)
        self.uid = uid
        argv = [build / "serverk", "-m", queue, "-f", directory, *options]
        with open(log, "ab") as output:
            self.child = subprocess.Popen(
                as_user(uid, argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(),
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()

    @property
    def pid(self):
        return self.child.pid

    def ready(self, timeout_s=60):
        """True when it answers; False when it has ended, or does not answer in time."""
        ping = as_user(self.uid, [*self.client, "--timeout", "500", "ping"])
        until = time.monotonic() + timeout_s
        while self.child.poll() is None and time.monotonic() < until:
            if subprocess.run(ping, capture_output=True, check=False).returncode == 0:
                return True
            time.sleep(0.01)
        return False

    def stop(self, timeout_s=120):
        """SIGTERM; the exit status, None if it had to be killed."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            return None

    def reports(self):
        """What sanitizers wrote to its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        at = min((text.find(report) for report in REPORTS if report in text), default=-1)
        return text[at : at + 4000] if at >= 0 else ""
