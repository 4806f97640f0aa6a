"""What the tests of the Python package share: a daemon of their own, and clients of it.

tests/scenario/python.sh runs them within `make test`. By hand, in the top folder:

    make && make python && PYTHONPATH=build/python python3 -m pytest bridges/python/tests
"""

import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

import mqkv

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("MQKV_BUILD", ROOT / "build"))


class Server:
    """A serverk process on a queue and a directory of its own."""

    def __init__(self, queue, directory):
        self.queue = queue
        self.directory = directory
        self.process = None
        self.options = ()

    def start(self, *options):
        """Starts it and waits until it answers."""
        self.options = options
        self.directory.mkdir(exist_ok=True)
        log = open(self.directory.parent / f"{self.directory.name}.log", "ab")
        with log:
            self.process = subprocess.Popen(
                [BUILD / "serverk", "-m", self.queue, "-f", self.directory, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        with mqkv.Client(self.queue, timeout=30) as client:
            client.ping()
        return self

    def stop(self, how=signal.SIGTERM):
        """Ends it; returns its exit status."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(how)
        status = self.process.wait(60)
        self.process = None
        return status

    def pause(self):
        """SIGSTOP; returns when no thread of it runs."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")

        def is_stopped():
            states = [task.read_text().rpartition(")")[2].split()[0]
                      for task in tasks.glob("*/stat")]
            return set(states) == {"T"}

        assert wait_until(is_stopped)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        return self.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """Makes servers that are not started yet; ends them all."""
    base = os.environ.get("MQKV_TEST_QUEUE", f"/t{os.getpid()}x0")
    directory = tmp_path_factory.mktemp("stores")
    made = []

    def make():
        server = Server(f"{base}p{len(made)}", directory / str(len(made)))
        made.append(server)
        return server

    yield make
    for server in made:
        server.stop()


@pytest.fixture(scope="session")
def running(servers):
    """The server that most tests share."""
    return servers().start("--max-value", "8M", "-d", "2")


@pytest.fixture
def own_server(servers):
    """A server that a test may stop and kill."""
    server = servers()
    yield server
    server.stop()


@pytest.fixture
def queue(running, monkeypatch):
    """The queue of an empty store, which $MQKV_QUEUE names too."""
    monkeypatch.setenv("MQKV_QUEUE", running.queue)
    with mqkv.Client(running.queue) as client:
        client.delete_many(client.keys())
    return running.queue


@pytest.fixture
def client(queue):
    with mqkv.Client(queue, timeout=60) as opened:
        yield opened


def wait_until(condition, seconds=30):
    """Waits for the condition; what it was at last."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def listens(path):
    """Whether a server takes connections there: its socket has a name a moment before it does."""
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path)) == 0


# What tests/run counts: a line for each test, in the file that MQKV_TEST_REPORT names.
def pytest_runtest_logreport(report):
    path = os.environ.get("MQKV_TEST_REPORT")
    if not path or (report.when != "call" and report.outcome == "passed"):
        return
    name = report.nodeid.split("tests/")[-1]
    with open(path, "a", encoding="utf-8") as file:
        if report.skipped:
            file.write(f"skip - {name}: {report.longrepr[2].removeprefix('Skipped: ')}\n")
        else:
            file.write(f"{'ok' if report.passed else 'not ok'} - {name}\n")
