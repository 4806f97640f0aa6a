"""Queues for jobs."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import mqkv
from conftest import BUILD
from test_processes import in_child


@pytest.fixture
def jobs(client):
    return mqkv.Queue(client, "jobs")


def test_jobs_are_put_taken_and_acknowledged(jobs):
    assert jobs.take() is None and len(jobs) == 0 and jobs and jobs.peek() is None
    first = jobs.put("first")
    jobs.put_many([b"second", bytearray(b"third")])
    jobs.put(b"\x00urgent\xff", priority=9)
    assert len(jobs) == 4 and jobs.peek().payload == b"\x00urgent\xff"
    assert jobs.take().payload == b"\x00urgent\xff"
    job = jobs.take()
    assert (job.payload, job.id, job.attempts, job.priority) == (b"first", first, 1, 0)
    assert job.until > time.time() and abs(job.put_at - time.time()) < 60
    job.ack()
    with pytest.raises(mqkv.NotFound):
        job.ack()
    assert [job.payload for job in jobs.take_many(10)] == [b"second", b"third"]
    assert jobs.lengths() == (0, 3, 0, 0)
    jobs.ack(jobs.jobs("leased"))
    assert jobs.lengths() == (0, 0, 0, 0)


def test_a_number_is_no_name(client):
    with pytest.raises(TypeError):
        mqkv.Queue(client, 5)


def test_a_block_settles_its_job(jobs):
    jobs.put("job", backoff=0.01, max_attempts=2)
    with pytest.raises(ZeroDivisionError):
        with jobs.take() as job:
            1 / 0
    assert job.settled and jobs.lengths().later == 1
    with pytest.raises(KeyboardInterrupt):
        with jobs.take(60) as job:
            assert job.attempts == 2 and job.reason == "ZeroDivisionError: division by zero"
            raise KeyboardInterrupt
    with pytest.raises(ValueError):
        with jobs.take() as job:
            assert job.attempts == 2
            raise ValueError("again")
    assert jobs.lengths().dead == 1 and jobs.jobs("dead")[0].reason == "ValueError: again"
    assert jobs.revive() == 1
    with jobs.take() as job:
        pass
    assert jobs.lengths() == (0, 0, 0, 0)
    jobs.put("job")
    with jobs.take() as job:
        job.bury("hopeless")
    assert jobs.drop("dead") == 1


def test_leases(client):
    hasty = mqkv.Queue(client, "hasty", lease=0.05)
    hasty.put("job")
    first = hasty.take()
    again = hasty.take(60)
    assert again.id == first.id and again.attempts == 2
    with pytest.raises(mqkv.VersionMismatch):
        first.ack()
    again.extend(3600)
    assert again.until > time.time() + 3000
    hasty.job_of(again.receipt).release()
    hasty.take().ack()


def test_delays(jobs):
    begin = time.time()
    jobs.put("later", delay=0.1)
    assert jobs.take() is None and jobs.lengths().later == 1
    assert jobs.take(60).payload == b"later" and time.time() >= begin + 0.1
    jobs.put("never", delay=10 ** 6)
    assert jobs.drop("later") == 1


def test_who_waits_is_woken(jobs):
    taken = []
    thread = threading.Thread(target=lambda: taken.append(jobs.take(None)))
    thread.start()
    jobs.put("now")
    thread.join(60)
    assert taken[0].payload == b"now"
    begin = time.monotonic()
    assert jobs.take(0.05) is None and time.monotonic() - begin >= 0.04


def test_threads_and_children(jobs):
    jobs.put_many(str(number) for number in range(200))
    done, lock = [], threading.Lock()

    def work():
        while (job := jobs.take(0)) is not None:
            with job, lock:
                done.append(int(job.payload))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == list(range(200))
    assert in_child(lambda: jobs.put("of the child")) == 0
    assert jobs.take().payload == b"of the child"


def test_bad_arguments(client, jobs):
    for name in ("", "a:b", "x" * 129):
        with pytest.raises(mqkv.UsageError):
            mqkv.Queue(client, name)
    for call in (lambda: jobs.put("x", priority=10), lambda: jobs.put("x", delay=-1),
                 lambda: jobs.put("x", delay=float("inf")), lambda: jobs.take_many(65),
                 lambda: jobs.put("x", max_attempts=0), lambda: jobs.job_of("1.2").ack(),
                 lambda: jobs.drop("leased"), lambda: mqkv.Queue(client, "q", lease=-1)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(TypeError):
        jobs.put(5)
    with pytest.raises(KeyError):
        jobs.jobs("lost")
    client.close()
    with pytest.raises(mqkv.UsageError):
        jobs.put("x")


def test_the_shell_shares_it(queue, jobs):
    jobs.put("of Python")
    line = subprocess.run([BUILD / "clientk", "-m", queue, "queue", "take", "jobs"], check=True,
                          capture_output=True, text=True).stdout
    receipt, _, payload = line.partition(" ")
    assert "of Python" in payload
    jobs.job_of(receipt).ack()
    assert jobs.lengths() == (0, 0, 0, 0)


def test_a_killed_worker_loses_its_job(queue, jobs):
    jobs.put("job")
    program = ("import mqkv, sys, time\n"
               "client = mqkv.Client(sys.argv[1])\n"
               "print(mqkv.Queue(client, 'jobs', lease=0.2).take(None).id, flush=True)\n"
               "time.sleep(600)\n")
    with subprocess.Popen([sys.executable, "-c", program, queue], stdout=subprocess.PIPE,
                          text=True, env=os.environ) as worker:
        taken = worker.stdout.readline().strip()
        worker.send_signal(signal.SIGKILL)
    job = jobs.take(60)
    assert job.id == taken and job.attempts == 2
