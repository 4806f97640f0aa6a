"""Locks, semaphores, averages and decorators on a cache: mqkv.recipes."""

import multiprocessing
import pathlib
import pickle
import threading
import time

import pytest

import mqkv
from conftest import wait_until
from mqkv import home


@pytest.fixture
def cache(client):
    with mqkv.Cache(client=client) as opened:
        yield opened


def test_locks_of_threads(cache):
    inside, most = [], []

    def work(lock):
        for _ in range(5):
            with lock:
                inside.append(1)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    for lock, limit in ((mqkv.Lock(cache, "l"), 1), (mqkv.RLock(cache, "r"), 1),
                        (mqkv.BoundedSemaphore(cache, "s", 2), 2)):
        most.clear()
        threads = [threading.Thread(target=work, args=(lock,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert max(most) <= limit
    with pytest.raises(mqkv.NotOwned):
        mqkv.RLock(cache, "r").release()
    with pytest.raises(mqkv.NotOwned):
        mqkv.BoundedSemaphore(cache, "s", 2).release()


def test_throttle_and_barrier(cache):
    now = [0.0]

    @mqkv.throttle(cache, 2, 1, time_func=lambda: now[0],
                   sleep_func=lambda s: now.__setitem__(0, now[0] + s))
    def call():
        return now[0]

    assert [call() for _ in range(5)] == [0.0, 0.0, 0.5, 1.0, 1.5]

    @mqkv.barrier(cache, mqkv.Lock)
    def alone(value):
        return value

    assert alone(3) == 3


def in_thread(function):
    """What the function raises in a thread of its own; None: nothing."""
    raised = []

    def run():
        try:
            function()
        except mqkv.NotOwned as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return raised[0] if raised else None


LOCKS = [mqkv.Lock, mqkv.RLock, mqkv.BoundedSemaphore]


@pytest.mark.parametrize("kind", LOCKS)
@pytest.mark.parametrize("is_shared", [False, True])
def test_whose_time_is_over_gives_back_nothing(cache, kind, is_shared):
    late = kind(cache, "l", expire=0.05)
    late.acquire()
    after = late if is_shared else kind(cache, "l")
    if is_shared:
        late._expire = None
    assert in_thread(after.acquire) is None  # once the time is over
    with pytest.raises(mqkv.NotOwned) as raised:
        late.release()
    assert isinstance(raised.value, AssertionError)  # what diskcache raises
    others = threading.Thread(target=kind(cache, "l").acquire, daemon=True)
    others.start()
    others.join(0.2)
    assert others.is_alive()  # it is held still
    cache.delete("l")
    others.join()


@pytest.mark.parametrize("kind", LOCKS)
def test_a_block_that_took_too_long_is_told(cache, kind):
    with pytest.raises(mqkv.NotOwned):
        with kind(cache, "l", expire=0.01):
            assert wait_until(lambda: "l" not in cache)
    with pytest.raises(KeyError):  # what the block raises is what its caller has to know
        with kind(cache, "l", expire=0.01):
            assert wait_until(lambda: "l" not in cache)
            raise KeyError("x")
    kind(cache, "l").acquire()  # nobody has it


@pytest.mark.parametrize("kind", [mqkv.Lock, mqkv.BoundedSemaphore])
def test_another_thread_may_give_back(cache, kind):
    lock = kind(cache, "l")
    for _ in range(3):
        assert in_thread(lock.acquire) is None
        lock.release()
    lock.acquire()
    assert in_thread(lock.release) is None
    with pytest.raises(mqkv.NotOwned):
        lock.release()
    with lock:
        with pytest.raises(mqkv.NotOwned):
            kind(cache, "l").release()
        assert "l" in cache


def test_a_child_has_not_what_its_parent_has(cache):
    lock = mqkv.Lock(cache, "l")
    lock.acquire()
    child = multiprocessing.get_context("fork").Process(target=lock.release)
    child.start()
    child.join()
    assert child.exitcode == 1 and lock.locked()
    lock.release()


def test_holders_of_a_semaphore_end_each_for_itself(cache):
    short, long = (mqkv.BoundedSemaphore(cache, "s", 2, expire) for expire in (0.05, 60))
    short.acquire()
    long.acquire()
    long.acquire()  # in the place of the short one
    with pytest.raises(mqkv.NotOwned):
        short.release()
    for _ in range(2):
        long.release()
    assert "s" not in cache
    for _ in range(2):
        long.acquire()
    assert len(cache["s"]) == 2


def test_a_lock_can_be_pickled(tmp_path, monkeypatch):
    monkeypatch.setattr(home, "IDLE_EXIT", "300ms")
    with mqkv.Cache(tmp_path / "c") as cache:
        for kind in LOCKS:
            lock = kind(cache, kind.__name__)
            with pickle.loads(pickle.dumps(lock)):
                assert lock._key in cache
    daemon = pathlib.Path("/proc") / (tmp_path / "c/lock").read_text().strip()
    assert wait_until(lambda: not daemon.exists())


def test_those_who_only_take_it_keep_no_memory(cache):
    lock = mqkv.Lock(cache, "once", expire=0.001)
    for _ in range(40):
        lock.acquire()
    assert sum(map(len, lock._tokens.values())) <= 20


def test_a_fanout_cache_without_answers_is_no_free_lock(cache, monkeypatch):
    """get of a FanoutCache is lenient: what it could not read it must not take for free."""
    fanout = mqkv.FanoutCache(client=cache.client)
    average = mqkv.Averager(fanout, "a")
    average.add(2)
    rlock, semaphore = mqkv.RLock(fanout, "r"), mqkv.BoundedSemaphore(fanout, "s")
    assert in_thread(rlock.acquire) is None
    assert in_thread(semaphore.acquire) is None

    def fail(*_):
        raise mqkv.Timeout("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(mqkv.Transaction, "get", fail)
        for call in (rlock.acquire, semaphore.acquire, lambda: average.add(4)):
            with pytest.raises(mqkv.Timeout):
                call()
    assert average.get() == 2
