"""A daemon under test, for the tests of this folder; only the process it started is ever
signalled."""
import os
import signal
import subprocess
import time

from checks import Server
from mqkv_messages import Failure, ping
from mqkv_session import Session


class Daemon(Server):
    """serverk on a queue name and a directory, started with options; its log is appended to
    log_path."""

    def __init__(self, program, name, directory, log_path):
        super().__init__(name)
        self.program, self.directory, self.log_path = program, directory, log_path
        self.process = None
        self.options = []

    def start(self, *options, wait=True):
        self.options = list(options)
        os.makedirs(self.directory, exist_ok=True)
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "-m", self.name, "-f", self.directory, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if wait:
            self.await_answer()

    def await_answer(self, seconds=60):
        end = time.monotonic() + seconds
        while True:
            try:
                with Session(self.name, depth=2, message_bytes=512, timeout=1) as session:
                    return session.one(ping())
            except (Failure, OSError):
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(
                        f"serverk {' '.join(self.options)} does not answer:\n{self.log_end()}"
                    ) from None
                time.sleep(0.01)

    def log_end(self, size=3000):
        with open(self.log_path, "rb") as log:
            return log.read().decode(errors="replace")[-size:]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Its exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.kill()
            return -signal.SIGKILL
