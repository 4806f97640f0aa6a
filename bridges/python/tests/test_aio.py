"""The client for asyncio."""

import asyncio
import threading

import pytest

import mqkv
import mqkv.aio
from mqkv import home


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_operations(queue):
    async def work():
        async with mqkv.aio.Client() as client:
            version = await client.put("k", "1", ttl=100)
            assert await client.get("k") == b"1" and await client.get("none") is None
            assert await client.get("none", 5) == 5 and await client.get("k", 5) == b"1"
            entry = await client.entry("k")
            assert entry.key == b"k" and entry.value == b"1" and entry.version == version
            assert 90 < await client.ttl("k") <= 100
            await client.persist("k")
            assert await client.ttl("k") is None
            assert await client.add("k", 5) == 6
            assert await client.append("k", "0") == 2
            assert await client.exchange("k", "x") == b"60"
            assert await client.exists("k") and not await client.exists("none")
            await client.touch("k", 10)
            await client.delete("k")
            assert await client.discard("k") is False
            for failing in (client.delete("k"), client.entry("k"), client.ttl("k")):
                with pytest.raises(mqkv.NotFound):
                    await failing
            await client.put("k", "1")
            with pytest.raises(mqkv.Exists):
                await client.put("k", "2", if_absent=True)
            assert await client.discard("k") is True
            with pytest.raises(TypeError):
                client.put("k", 5)
            with pytest.raises(mqkv.BadKey):
                await client.get("")
            await client.sync()
            assert "server" in await client.stats("server")
        assert client.closed
        with pytest.raises(mqkv.UsageError):
            client.get("k")
        with pytest.raises(mqkv.UsageError):
            await client.entry("k")
        await client.close()

    run(work())


def test_many(queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            entries = {f"k{i}".encode(): bytes(i) for i in range(3000)}
            await client.put_many(entries)
            assert await client.get_many([*entries, "none"]) == entries
            assert {e.key: e.value async for e in client.scan()} == entries
            assert len([e async for e in client.scan(limit=1500, keys_only=True)]) == 1500
            assert [e async for e in client.scan(limit=0)] == []
            sums = await asyncio.gather(*[client.add("n") for _ in range(500)])
            assert sorted(sums) == list(range(1, 501))
            large = [bytes([i]) * 200_000 for i in range(20)]
            await asyncio.gather(*[client.put(f"l{i}", v) for i, v in enumerate(large)])
            assert list((await client.get_many(f"l{i}" for i in range(20))).values()) == large

    run(work())


def test_deleting_and_keys(queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            await client.put_many((f"k{i}", b"") for i in range(1500))
            await client.put("other", "1")
            assert await client["other"] == b"1"
            with pytest.raises(KeyError):
                await client["none"]
            assert len([key async for key in client.keys("k", limit=7)]) == 7
            assert await client.delete_many(["k0", "k1", "none"]) == 2
            assert await client.delete_prefix("k") == 1498
            assert [key async for key in client.keys()] == [b"other"]
            with pytest.raises(ValueError):
                await client.delete_prefix("")
            with pytest.raises(mqkv.BadKey):
                await client.delete_many(["other", ""])

    run(work())


def test_a_directory_has_a_daemon(tmp_path, monkeypatch):
    monkeypatch.setattr(home, "IDLE_EXIT", "200ms")

    async def work():
        async with mqkv.aio.Client(tmp_path / "store") as client:
            await client.put("k", "1")
            assert await client.get("k") == b"1"

    run(work())


def test_operations_are_coroutines(queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            await client.put("k", "1")
            assert await asyncio.create_task(client.get("k")) == b"1"
            assert await asyncio.create_task(client.get("none", b"-")) == b"-"
            assert asyncio.iscoroutine(client.get("k"))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(client.add("n")) for _ in range(100)]
                tasks.append(group.create_task(client.entry("k")))
            assert sorted(task.result() for task in tasks[:-1]) == list(range(1, 101))
            assert tasks[-1].result().value == b"1"
            with pytest.raises(mqkv.NotFound):
                await asyncio.create_task(client.delete("none"))
            task = asyncio.create_task(client.put("late", "x"))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            client.put("nobody waits", "x")  # under way all the same
            while client.pending:
                await asyncio.sleep(0.001)
            assert await client.get("nobody waits") == await client.get("late") == b"x"

    run(work())


def test_the_loop_goes_on_while_the_server_sleeps(running, queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            running.pause()
            try:
                pending = asyncio.ensure_future(client.put("k", "1"))
                for _ in range(50):
                    await asyncio.sleep(0.001)
                assert not pending.done() and client.pending == 1
            finally:
                running.resume()
            await pending

    run(work())


def test_a_cancelled_task_waits_no_longer(running, queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            running.pause()
            try:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(client.put("k", "1"), 0.05)
            finally:
                running.resume()
            while client.pending:
                await asyncio.sleep(0.01)
            assert await client.get("k") == b"1"

    run(work())


def test_a_server_that_restarts(own_server):
    own_server.start()

    async def work():
        loop = asyncio.get_running_loop()
        async with mqkv.aio.Client(own_server.queue, timeout=30) as client:
            await client.put("k", "1")
            await loop.run_in_executor(None, own_server.stop)
            starting = loop.run_in_executor(None, own_server.start)
            assert await client.get("k") == b"1"
            await starting

    run(work())


def test_a_server_that_does_not_answer(own_server):
    own_server.start()

    async def work():
        async with mqkv.aio.Client(own_server.queue, timeout=0.2) as client:
            await asyncio.get_running_loop().run_in_executor(None, own_server.kill)
            with pytest.raises((mqkv.Unavailable, mqkv.UnknownOutcome)):
                await client.put("k", "1")

    run(work())
    own_server.start()


def test_what_is_under_way_is_done_when_it_closes(queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            for i in range(100):
                client.put(f"k{i}", "x")
        with mqkv.Client(queue) as reader:
            assert len(list(reader.keys())) == 100

    run(work())


class Recorded(mqkv.Client):
    """A client of which is known whether it was closed, and in which thread it was handed over."""

    made = []

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        Recorded.made.append(self)
        self.handed_over_by = None

    def pipeline(self, window=0, batch=0):
        owner = self

        class Pipeline(mqkv.Pipeline):
            def fileno(self):
                owner.handed_over_by = threading.current_thread()
                return super().fileno()

        return Pipeline(self, window, batch)


@pytest.fixture
def recorded(monkeypatch):
    """The clients behind those of mqkv.aio."""
    monkeypatch.setattr(mqkv.aio, "_Client", Recorded)
    monkeypatch.setattr(Recorded, "made", [])
    return Recorded.made


def test_who_asks_while_it_closes_is_told(queue):
    async def work():
        client = await mqkv.aio.Client(queue).connect()
        asked = 0

        async def ask():
            nonlocal asked
            while True:
                await client.get("k")
                asked += 1

        tasks = [asyncio.ensure_future(ask()) for _ in range(5)]
        while asked < 100:
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.gather(client.close(), client.close()), 20)
        assert client.closed
        outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)
        assert {type(outcome) for outcome in outcomes} == {mqkv.UsageError}

    run(work())


def test_closing_waits_and_takes_nothing_more(running, queue, recorded):
    async def work():
        client = await mqkv.aio.Client(queue, timeout=60).connect()
        running.pause()
        try:
            pending = client.put("k", "1")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.close(), 0.05)
            assert client.closed and client.pending == 1 and not pending.done()
            with pytest.raises(mqkv.UsageError):
                client.get("k")
            again = asyncio.ensure_future(client.connect())
            await asyncio.sleep(0.05)
        finally:
            running.resume()
        assert await pending > 0
        await again
        assert await client.get("k") == b"1"
        await client.close()
        while not recorded[0].closed:
            await asyncio.sleep(0.01)
        assert len(recorded) == 2 and recorded[1].closed

    run(work())


def test_connecting_twice_at_once_opens_one_client(queue, recorded):
    async def work():
        client = mqkv.aio.Client(queue)
        assert await asyncio.gather(client.connect(), client.connect()) == [client, client]
        assert await client.connect() is client and len(recorded) == 1
        assert recorded[0].handed_over_by is not threading.current_thread()
        await client.put("k", "1")
        await client.close()
        assert recorded[0].closed

    run(work())


def test_one_of_two_that_connect_is_cancelled(running, queue, recorded):
    async def work():
        client = mqkv.aio.Client(queue, timeout=60)
        running.pause()
        try:
            tasks = [asyncio.ensure_future(client.connect()) for _ in range(2)]
            await asyncio.sleep(0.05)
            tasks[0].cancel()
            await asyncio.sleep(0.05)
        finally:
            running.resume()
        assert await tasks[1] is client and tasks[0].cancelled() and len(recorded) == 1
        await client.put("k", "1")
        await client.close()

    run(work())


def test_what_nobody_waits_for_any_more_is_closed(running, queue, recorded):
    async def work():
        client = mqkv.aio.Client(queue, timeout=60)
        running.pause()
        try:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.gather(client.connect(), client.connect()), 0.1)
        finally:
            running.resume()
        while not recorded or not recorded[0].closed:
            await asyncio.sleep(0.01)
        assert client.closed and len(recorded) == 1

    run(work())


def test_no_server():
    async def work():
        with pytest.raises(mqkv.NoServer):
            await mqkv.aio.Client("/nobody-is-here", fail_fast=True).connect()

    run(work())


def test_connecting_may_be_cancelled():
    async def work():
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(mqkv.aio.Client("/nobody-is-here", timeout=1).connect(), 0.05)

    run(work())


def test_two_clients_in_a_loop(queue):
    async def work():
        async with mqkv.aio.Client(queue) as one, mqkv.aio.Client(queue) as two:
            await asyncio.gather(*[c.add("n") for c in (one, two) for _ in range(50)])
            assert await one.get("n") == b"100"

    run(work())


def test_batches_mappings_and_facts(queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            async with client.batch() as batch:
                batch.put("k", "1")
                name, missing = batch.get("k"), batch.get("none")
                total = batch.add("k", 4)
            assert name.result() == b"1" and missing.result() is None
            assert total.result() == 5 and total.version
            with pytest.raises(ZeroDivisionError):
                async with client.batch() as batch:
                    batch.put("k", "9")
                    print(1 / 0)
            assert await client.get("k") == b"5"
            assert await client.add("k", 1, with_version=True) == (
                6, (await client.stat("k")).version)
            assert await client.append("k", "0", with_version=True) == (
                2, (await client.stat("k")).version)
            old, version = await client.exchange("k", "x", with_version=True)
            assert (old, (await client.stat("k")).version) == (b"60", version)
            assert (await client.stat("k")).size == 1
            with pytest.raises(mqkv.NotFound):
                await client.stat("none")
            await client.touch("k", expiry_ms=4_000_000_000_000)
            assert (await client.entry("k")).expiry_ms == 4_000_000_000_000
            with pytest.raises(TypeError):
                await client.touch("k")

            sessions = client.mapping("s:", ttl=100)
            assert await sessions.length() == 0 and await sessions.get("a") is None
            await sessions.put("a", "1")
            await sessions.update({"b": b"2"})
            await sessions.update((f"n{number}", "") for number in range(1500))
            assert await client.ttl("s:b") > 90
            assert await sessions["a"] == b"1" and await sessions.get("none", 5) == 5
            assert await sessions.setdefault("a", "9") == b"1"
            assert await sessions.setdefault("c", "3") == b"3"
            assert await sessions.pop("c") == b"3" and await sessions.pop("c", None) is None
            assert await sessions.exists("b") and not await sessions.exists("c")
            for failing in (sessions["none"], sessions.pop("none"), sessions.delete("none")):
                with pytest.raises(KeyError):
                    await failing
            await sessions.delete("b")
            found = {key: value async for key, value in sessions.items()}
            assert len(found) == 1501 and found[b"a"] == b"1"
            assert len([value async for value in sessions.values()]) == 1501
            assert {key async for key in sessions} == set(found)
            await sessions.clear()
            assert await sessions.length() == 0 and await client.exists("k")

            assert client.queue == queue and client.info()["server_pid"] > 0
            assert 0 < await client.ping() < 60
            client.set_priority(1)
            with pytest.raises(mqkv.UsageError):
                client.set_priority(99)

    run(work())


def test_a_cancelled_write_says_that_its_outcome_is_unknown(running, queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            await client.put("other", "1")
            running.pause()
            try:
                async with asyncio.timeout(0.05):
                    await client.put("k", "1")
                assert False
            except TimeoutError as error:
                assert "unknown" in str(error.__context__)

            async def write():
                async with client.transaction() as t:
                    t["k"] = "2"

            for call in (client.put_many({"a": "1", "b": "2"}), client.entry("other"), write()):
                task = asyncio.create_task(call)
                await asyncio.sleep(0.05)
                task.cancel("stop")
                with pytest.raises(asyncio.CancelledError) as told:
                    await task
                is_write = call.__name__ != "entry"
                assert ("unknown" in str(told.value)) == is_write, call
                assert "stop" in str(told.value)
            running.resume()
            await client.sync()
            assert await client.get("a") == b"1"

    try:
        run(work())
    finally:
        running.resume()


def test_queues_for_jobs(queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            async with mqkv.aio.Queue(client, "mail", lease=30) as jobs:
                assert await jobs.take() is None
                await jobs.put("later", delay=1000)
                first, second = await jobs.put_many(["a", "b"])
                assert (await jobs.lengths())[:3] == (2, 0, 1)
                assert (await jobs.peek()).id == first
                async with await jobs.take() as job:
                    assert (job.payload, job.id, job.attempts) == (b"a", first, 1)
                with pytest.raises(ValueError):
                    async with await jobs.take() as job:
                        raise ValueError("bad")
                assert job.settled and job.id == second
                retried = await jobs.take(60)
                assert retried.reason == "ValueError: bad" and retried.attempts == 2
                before = retried.until
                await retried.extend(500)
                assert retried.until > before
                await (await jobs.job_of(retried.receipt)).ack()
                with pytest.raises(mqkv.ConditionFailed):
                    await retried.ack()

                # Whoever waits gets what comes; a task that is cancelled gives it back.
                waiting = asyncio.create_task(jobs.take(None))
                await asyncio.sleep(0.05)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await jobs.put("c")
                taken = await jobs.take(60)
                assert taken.payload == b"c"
                await taken.release()
                async for job in jobs:
                    await job.bury("no")
                    break
                assert [job.payload for job in await jobs.jobs("dead")] == [b"c"]
                assert await jobs.revive() == 1 and await jobs.drop("ready") == 1
                await jobs.put_many(str(number) for number in range(100))
                done = []

                async def worker():
                    while (job := await jobs.take()) is not None:
                        async with job:
                            done.append(job.payload)

                await asyncio.gather(*[worker() for _ in range(4)])
                assert len(done) == len(set(done)) == 100
                waiting = asyncio.create_task(anext(jobs))
                await asyncio.sleep(0.05)
            with pytest.raises(mqkv.UsageError):
                await waiting
            with pytest.raises(mqkv.UsageError):
                await jobs.put("x")

    run(work())


def test_a_client_that_closes_ends_those_who_wait_for_jobs(queue):
    async def work():
        async with mqkv.aio.Client(queue) as client:
            jobs = mqkv.aio.Queue(client, "mail")
            waiting = asyncio.create_task(anext(jobs))
            await asyncio.sleep(0.05)
        with pytest.raises(mqkv.UsageError):
            await waiting
        await jobs.close()

    run(work())
