"""Forks, signals, and servers that end."""

import contextlib
import itertools
import multiprocessing
import operator
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import mqkv
from conftest import wait_until


def in_child(work):
    """Forks, runs work there; its exit status is 0 if it raised nothing."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextlib.contextmanager
def program_signalled_in_a_call(program, running, number):
    """Runs the program up to its line "ready"; sends it the signal while the call that it makes at
    the next line of its input waits for the server. Killed if it hangs."""
    with subprocess.Popen([sys.executable, "-c", program, running.queue], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        hangs = threading.Timer(40, child.kill)
        hangs.start()
        assert child.stdout.readline() == "ready\n"
        running.pause()
        try:
            tell(child)
            time.sleep(0.3)
            child.send_signal(number)
            yield child
        finally:
            running.resume()
            hangs.cancel()


def tell(child):
    child.stdin.write("\n")
    child.stdin.flush()


def test_a_child_uses_the_client(client):
    client.put("parent", "1")
    pipeline = client.pipeline()
    pipeline.put("p", "1")

    def work():
        assert client.get("parent") == b"1"
        client.put("child", "2")
        assert in_child(lambda: client.put("grandchild", "3")) == 0
        with pytest.raises(mqkv.UsageError):
            pipeline.put("p", "2")
        with client.pipeline() as own:
            own.put("own", "4")

    assert in_child(work) == 0
    assert client.get_many(["child", "grandchild", "own"]) == {
        b"child": b"2", b"grandchild": b"3", b"own": b"4"}
    pipeline.flush()
    assert client.get("p") == b"1"
    pipeline.close()
    assert in_child(client.close) == 0
    assert client.get("child") == b"2"


def test_a_child_of_a_busy_parent(client):
    """Other threads are in calls while a thread forks."""
    stop = threading.Event()
    failures = []

    def work(number):
        try:
            while not stop.is_set():
                client.put(f"k{number}", "x")
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for i in range(10):
            assert in_child(lambda: client.put(f"child{i}", "1")) == 0
            assert in_child(client.close) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert len(list(client.keys("child"))) == 10


def _count(queue, key, times):
    with mqkv.Client(queue) as client:
        for _ in range(times):
            client.add(key)


def test_multiprocessing(client, queue):
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        workers = [context.Process(target=_count, args=(queue, method, 50)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
        assert client.get(method) == b"150"


def test_ctrl_c_ends_a_call(running):
    program = """
import sys, mqkv
client = mqkv.Client(sys.argv[1], timeout=60)
client.put("k", "1")
print("ready", flush=True)
sys.stdin.readline()
try:
    client.put("k", "2")
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.readline()
print(client.get("k") in (b"1", b"2"), flush=True)
"""
    with program_signalled_in_a_call(program, running, signal.SIGINT) as child:
        assert child.stdout.readline() == "interrupted\n"
        running.resume()
        tell(child)
        assert child.stdout.readline() == "True\n"


def test_signal_handlers_run_while_a_call_waits(running, client):
    seen = []
    previous = signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic()))
    try:
        running.pause()
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
        resume = threading.Timer(1.0, running.resume)
        timer.start()
        resume.start()
        client.put("k", "1")
        ended = time.monotonic()
        resume.join()
    finally:
        running.resume()
        signal.signal(signal.SIGUSR1, previous)
    assert len(seen) == 1 and seen[0] < ended


def test_a_signal_handler_and_the_client_in_whose_call_it_runs(running, client):
    program = """
import signal, sys, mqkv
client = mqkv.Client(sys.argv[1], timeout=60)
other = mqkv.Client(sys.argv[1], timeout=60)
def handler(*_):
    try:
        client.put("k", "of the handler")
    except RuntimeError as error:
        print(error, flush=True)
    other.put("handled", "1")
signal.signal(signal.SIGUSR1, handler)
client.put("k", "0")
print("ready", flush=True)
sys.stdin.readline()
client.put("k", "1")
print(client.get("k"), client.get("handled"), flush=True)
signal.raise_signal(signal.SIGUSR1)
print(client.get("k"), flush=True)
"""
    with program_signalled_in_a_call(program, running, signal.SIGUSR1) as child:
        assert "a client of its own" in child.stdout.readline()
        running.resume()
        assert child.stdout.readline() == "b'1' b'1'\n"
        assert child.stdout.readline() == "b'of the handler'\n"  # outside of any call
    assert client.get("handled") == b"1"


def test_a_server_that_comes_back(own_server):
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=30) as client:
        client.put("k", "1")
        own_server.stop()
        starter = threading.Timer(0.3, own_server.start)
        starter.start()
        assert client.get("k") == b"1"
        starter.join()
        assert client.info()["reconnects"] >= 1


def test_a_server_that_does_not(own_server):
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=0.2) as client, \
            mqkv.Client(own_server.queue, fail_fast=True) as hasty:
        pipeline = client.pipeline()
        own_server.kill()
        with pytest.raises((mqkv.Unavailable, mqkv.UnknownOutcome)):
            client.put("k", "1")
        with pytest.raises(mqkv.Error):
            hasty.get("k")
        with pytest.raises((mqkv.Unavailable, mqkv.UnknownOutcome)):
            client.batch().execute() or client.put_many({"a": "1"})
        result = pipeline.put("k", "1")
        with pytest.raises(mqkv.Error):
            pipeline.flush()
        assert not result.ok
        pipeline.close()
        with pytest.raises(mqkv.Error):
            for _ in client.scan():
                pass
    own_server.start()


def test_a_write_whose_fate_is_unknown(own_server):
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=20) as client:
        own_server.pause()
        outcome = []

        def call():
            try:
                outcome.append(client.add("n"))
            except mqkv.Error as error:
                outcome.append(error)

        caller = threading.Thread(target=call)
        caller.start()
        time.sleep(0.3)
        own_server.kill()
        own_server.start()
        caller.join(60)
        # Killed before it received the message, or after.
        assert isinstance(outcome[0], (int, mqkv.OutcomeUnknown, mqkv.Timeout))


def kill_under(server, client, writes, is_enough):
    """Kills the server and starts it again, up to ten times, while a thread for each of the writes
    calls it with 1, 2, ...; returns how many answers each got, and what each raised."""
    answered, raised, ending = [0] * len(writes), [[] for _ in writes], threading.Event()

    def work(number):
        for count in itertools.count(1):
            if ending.is_set():
                return
            try:
                writes[number](client, count)
                answered[number] += 1
            except mqkv.Error as error:
                raised[number].append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(writes))]
    for thread in threads:
        thread.start()
    try:
        for kills in range(1, 11):
            goal = [count + 20 for count in answered]
            assert wait_until(lambda: all(map(operator.ge, answered, goal)), 60)
            server.kill()
            server.start()
            if is_enough(kills, raised):
                break
    finally:
        ending.set()
        for thread in threads:
            thread.join(90)
    return answered, raised


def test_writes_without_a_condition_are_repeated(own_server):
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=60) as client:
        client.put("touched", "1")
        writes = [lambda c, n: c.put("a", str(n)), lambda c, n: c.put("b", str(n), ttl=600),
                  lambda c, n: c.put("gone", "1") and c.delete("gone"),
                  lambda c, n: c.touch("touched", 600),
                  lambda c, n: c.put_many({"d": str(n), "e": str(n)})]
        answered, raised = kill_under(own_server, client, writes, lambda kills, _: kills == 4)
        assert raised == [[]] * len(writes)
        assert client.get_many(["a", "b", "d", "e", "gone"]) == {
            key: str(count).encode() for key, count in
            zip((b"a", b"b", b"d", b"e"), (*answered[:2], answered[4], answered[4]))}


@pytest.mark.parametrize("repeats", [True, False])
def test_what_may_not_be_done_twice_is_not_repeated(own_server, repeats):
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=60, repeat_writes=repeats) as client:
        writes = [lambda c, n: c.add("n"), lambda c, n: c.append("text", "x"),
                  lambda c, n: c.put(f"k{n}", "", if_absent=True)]
        if not repeats:
            writes.append(lambda c, n: c.put("a", str(n)))
        answered, raised = kill_under(own_server, client, writes, lambda _, raised: all(raised))
        assert {type(error) for errors in raised for error in errors} == {mqkv.OutcomeUnknown}
        assert all(raised)
        for number, count in ((0, int(client.get("n"))), (1, len(client.get("text")))):
            assert answered[number] <= count <= answered[number] + len(raised[number])


def test_close_while_others_are_in_a_call(running, queue):
    client = mqkv.Client(queue)
    running.pause()
    try:
        outcomes = []
        callers = [threading.Thread(target=lambda: outcomes.append(client.put("k", "1")))
                   for _ in range(3)]
        for caller in callers:
            caller.start()
        time.sleep(0.2)
        client.close()
        assert client.closed
        with pytest.raises(mqkv.UsageError):
            client.get("k")
    finally:
        running.resume()
    for caller in callers:
        caller.join(30)
    assert len(outcomes) == 3


def test_the_program_ends_with_open_clients(queue):
    program = """
import sys, threading, mqkv
client = mqkv.Client(sys.argv[1])
other = mqkv.Client(sys.argv[1])
pipeline = client.pipeline()
def work():
    while True:
        other.get("k")
threading.Thread(target=work, daemon=True).start()
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", program, queue], timeout=60,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stderr == "", done
