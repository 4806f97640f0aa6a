"""Watches: of both kinds of clients."""

import asyncio
import os
import signal
import threading
import time

import pytest

import mqkv
import mqkv.aio


def told(changes):
    return [(change.kind, change.key, change.value) for change in changes]


def test_what_happens_is_told_once(client):
    client.put("user:0", "before")
    with client.watch("user:") as watch:
        client.put("user:1", "a", ttl=100)
        client.put("other", "x")
        client.append("user:1", "b")
        client.delete("user:0")
        # Those of a key in their order.
        changes = sorted((watch.next(60) for _ in range(3)), key=lambda change: change.key)
        assert told(changes) == [("delete", b"user:0", None), ("put", b"user:1", b"a"),
                                 ("put", b"user:1", b"ab")]
        changes = changes[1:]
        assert changes[0].version < changes[1].version and changes[0].expiry_ms > 0
        assert changes[0].transaction is None
        assert watch.next() is None and watch.next(0.01) is None
        client.put("user:2", "", ttl=0.05)
        assert told([watch.next(60), watch.next(60)]) == [("put", b"user:2", b""),
                                                          ("expire", b"user:2", None)]
    with pytest.raises(mqkv.UsageError):
        watch.next()
    watch.close()


def test_keys_only_and_transactions(client):
    with client.watch(keys_only=True) as watch:
        with client.transaction() as t:
            t["a"], t["b"], t["c"] = "1", "2", "3"
        found = [watch.next(60) for _ in range(3)]
        assert sorted(told(found)) == [("put", b"a", None), ("put", b"b", None),
                                       ("put", b"c", None)]
        parts = [change.transaction for change in found]
        assert any(parts) and parts[-1] is None or not parts[-1].goes_on


def test_it_waits_asleep(client):
    with client.watch() as watch:
        timer = threading.Timer(0.3, client.put, ("k", "1"))
        timer.start()
        begin = time.process_time()
        assert next(watch).key == b"k"
        assert time.process_time() - begin < 0.2
        timer.join()


def test_it_goes_on_where_it_was(client, queue):
    with client.watch("k") as watch:
        begin = watch.position
        client.put_many((f"k{number}", "") for number in range(100))
        first = [next(watch).key for _ in range(40)]
        position = watch.position
    with client.watch("k", since=position) as watch:
        rest = [next(watch).key for _ in range(60)]
        assert watch.next(0.01) is None
    assert sorted(first + rest) == sorted(f"k{number}".encode() for number in range(100))
    with mqkv.Client(queue) as other, other.watch("k", since=begin) as watch:
        other.close()  # which a watch outlives
        assert len([next(watch) for _ in range(100)]) == 100
    with pytest.raises(mqkv.UsageError, match="position"):
        client.watch(since="nothing of the kind")


def test_a_restart_is_a_pause(own_server):
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=60) as client, client.watch() as watch:
        client.put("k", "1")
        assert next(watch).value == b"1"
        own_server.kill()
        own_server.start()
        client.put("k", "2")
        assert watch.next(60).value == b"2"


def test_a_gap_is_told(client):
    with client.watch(since="w1." + "A" * 80) as watch:  # of another store
        with pytest.raises(mqkv.Missed):
            next(watch)
        client.put("after", "")
        assert next(watch).key == b"after"  # the same watch goes on


def test_without_a_server(own_server):
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=1) as client:
        own_server.stop()
        with pytest.raises(mqkv.Unavailable):
            client.watch()


def test_signals_threads_and_forks(client):
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    watch = client.watch()
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Stop):
            next(watch)
    finally:
        signal.signal(signal.SIGALRM, before)
    client.put("k", "1")
    assert next(watch).value == b"1"
    waiting = threading.Thread(target=watch.next, args=(1,))
    waiting.start()
    time.sleep(0.1)
    for call in (watch.next, watch.close):
        with pytest.raises(RuntimeError):
            call()
    waiting.join()
    child = os.fork()
    if child == 0:
        try:
            watch.next(0)
        except mqkv.UsageError:
            with client.watch() as own:
                client.put("child", "")
                os._exit(0 if next(own).key == b"child" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(watch).key == b"child"


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_asyncio(queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            found = []

            async def follow(watch):
                async for change in watch:
                    found.append(change)
                    if len(found) == 200:
                        return

            async with client.watch("k") as watch:
                follower = asyncio.create_task(follow(watch))
                await client.put_many((f"k{number}", "v") for number in range(200))
                await follower
                assert {change.key for change in found} == {f"k{i}".encode() for i in range(200)}
                assert await watch.next() is None and await watch.next(0.01) is None
                position = watch.position
                # A task that is cancelled loses nothing.
                waiting = asyncio.create_task(watch.next(None))
                await asyncio.sleep(0.01)
                with pytest.raises(RuntimeError):
                    await watch.next()
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                await client.delete("k0")
                assert (await watch.next(None)).kind == "delete"
            with pytest.raises(mqkv.UsageError):
                await watch.next()
            async for change in client.watch("k", since=position):
                assert change.kind == "delete"
                break
            watch = client.watch("k")
            with pytest.raises(mqkv.UsageError):
                print(watch.position)
            waiting = asyncio.create_task(watch.next(None))
            await asyncio.sleep(0.05)
            await watch.close()
            with pytest.raises(mqkv.UsageError, match="closed"):
                await waiting
            await watch.close()

    run(work())
