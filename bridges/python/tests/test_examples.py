"""The examples do what they say."""

import importlib.util
import pathlib
import re
import subprocess
import sys
import threading

import pytest

import mqkv
from conftest import wait_until

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
PRINTS = {
    "lock": "counted to 200\nthe token has grown: True\n"
            "the slow one has lost its lock, and deletes nobody else's\n",
    "rate_limiter": "allowed: 5 refused: 5\nthe other client: True 4\n",
    "web_sessions": "one browser: visit 3\nanother: visit 1\nends in half an hour: True\n",
    "work_queue": "workers that died: 1\nall squares are there: True\n",
}


@pytest.mark.parametrize("name", PRINTS)
def test_example(queue, name):
    done = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, text=True,
                          timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (PRINTS[name], "", 0)


def load(name):
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_lock_that_is_lost_stays_lost(client):
    example = load("lock")
    lost = example.Lock(client, "l", seconds=0.05).acquire()
    assert wait_until(lambda: client.get("l") is None)
    other = example.Lock(client, "l").acquire()
    never = example.Lock(client, "l")
    for call in (lost.extend, lost.extend, lost.release, never.extend, never.release):
        with pytest.raises(example.LockLost):
            call()
        assert client.entry("l").version == other.version
    other.extend()
    other.release()
    with pytest.raises(example.LockLost):
        other.release()


def emptied_queue(client):
    """Of one job, which is done; and its class."""
    work_queue = load("work_queue").WorkQueue
    worker = work_queue(client, "q")
    assert worker.put("a") == 1
    number, _, version = worker.take()
    assert worker.done(number, version)
    return work_queue, worker


def test_a_worker_comes_before_a_job_is_written(client, queue):
    work_queue, worker = emptied_queue(client)

    class Interrupted(mqkv.Client):
        """A worker looks for the job when it has a number and is not written."""

        def put(self, key, *arguments, **options):
            if key == "q:job:2":
                assert worker.take() is None
                assert client.get("q:first") == b"3"
            return super().put(key, *arguments, **options)

    with Interrupted(queue) as interrupted:
        assert work_queue(interrupted, "q").put("b") == 2
    number, work, version = worker.take()
    assert (number, work) == (2, "b")
    assert worker.done(number, version) and worker.is_empty() and worker.take() is None


def test_a_worker_that_looked_before_a_job_was_written(client, queue):
    """It wants to move on when the producer has announced the job, and returned."""
    work_queue, watcher = emptied_queue(client)
    looked, announced = threading.Event(), threading.Event()

    class Producing(mqkv.Client):
        """Writes its job when somebody has looked for it."""

        def put(self, key, *arguments, **options):
            assert key != "q:job:2" or looked.wait(20)
            return super().put(key, *arguments, **options)

    class Looking(mqkv.Client):
        """Has looked for a job, and goes on when that has been announced."""

        def entry(self, key):
            try:
                return super().entry(key)
            except mqkv.NotFound:
                if key == "q:job:2":
                    looked.set()
                    assert announced.wait(20)
                raise

    def produce():
        with Producing(queue) as producing:
            work_queue(producing, "q").put("b")
        announced.set()

    producer = threading.Thread(target=produce)
    producer.start()
    assert wait_until(lambda: client.get("q:last") == b"2")
    with Looking(queue) as looking:
        assert work_queue(looking, "q").take() is None
    producer.join()
    assert watcher.take()[:2] == (2, "b")


def test_a_producer_that_died_before_it_announced_its_job(client):
    queue = load("work_queue").WorkQueue(client, "q")
    client.put_many({"q:last": "2", "q:first": "3", "q:job:2": '{"work": "b", "until": 0}'})
    assert queue.take() is None and not queue.is_empty()
    assert queue.take()[:2] == (2, "b")


def test_all_examples_are_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTS)


def test_the_page_names_what_there_is(client):
    """The calls of python/README.md's table exist."""
    page = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    names = re.findall(r"^\| .*?`(\w+)\(.*\|", page, re.M)
    assert len(names) > 8
    for name in names:
        assert hasattr(client, name) or name in vars(mqkv.Queue), name
