"""Batches, pipelines, scans, and the dict."""

import collections.abc
import random
import subprocess
import sys
import threading
import time

import pytest

import mqkv
import mqkv.aio
from conftest import wait_until


def test_a_batch(client):
    batch = client.batch()
    put = batch.put("k", "1", tag="mine")
    assert not put.done and put.tag == "mine" and "not done" in repr(put)
    for read in (put.result, lambda: put.ok, lambda: put.status):
        with pytest.raises(RuntimeError):
            read()
    operations = [batch.get("k"), batch.add("k", 4), batch.append("k", "0"), batch.get("k"),
                  batch.exchange("k", "z"), batch.exists("k"), batch.exists("none"),
                  batch.touch("k", 100), batch.scan_page(keys_only=True), batch.delete("k"),
                  batch.delete("k"), batch.get("k"), batch.stats_json("server"), batch.sync()]
    assert len(batch) == 1 + len(operations)
    results = batch.execute()
    assert results == [put, *operations] and len(batch) == 0
    values = [result.result() for result in operations[:7]]
    assert values == [b"1", 5, 2, b"50", b"50", True, False]
    assert put.result() == put.version == operations[0].version
    assert operations[7].result() == operations[7].version
    entries, cursor = operations[8].result()
    assert cursor == 0 and [entry.key for entry in entries] == [b"k"] and entries[0].value is None
    assert operations[9].ok
    assert operations[10].status == "not_found" and not operations[10].ok
    with pytest.raises(mqkv.NotFound):
        operations[10].result()
    assert operations[11].result() is None and operations[11].status == "not_found"
    assert operations[12].result().startswith(b"{")
    assert operations[13].result() is None and operations[13].ok


def test_a_batch_in_a_with_statement(client):
    with client.batch() as batch:
        batch.put("k", "1")
        value = batch.get("k")
    assert value.result() == b"1"
    with pytest.raises(KeyError):
        with client.batch() as batch:
            batch.put("k", "2")
            raise KeyError
    assert client.get("k") == b"1" and len(batch) == 0
    assert batch.execute() == []


def test_failures_in_a_batch_stay_their_own(client):
    client.put("text", "x")
    with client.batch() as batch:
        results = [batch.add("text"), batch.put("", "1"), batch.put("k", bytes((8 << 20) + 1)),
                   batch.put("k", "1", if_version=5), batch.put("k", "1"), batch.get("k")]
    assert [result.status for result in results] == ["not_a_number", "bad_key", "value_too_big",
                                                     "not_found", "ok", "ok"]
    with pytest.raises(mqkv.NotANumber) as caught:
        results[0].result()
    assert caught.value.key == b"text"
    with pytest.raises(TypeError):
        batch.put("k", 5)
    assert len(batch) == 0


def test_a_large_batch(client):
    generator = random.Random(2)
    entries = {f"k{i}".encode(): generator.randbytes(generator.choice((0, 10, 300, 20_000)))
               for i in range(3000)}
    client.put_many(entries, ttl=1000)
    assert client.get_many(list(entries) + ["none"]) == entries
    assert client.ttl("k7") > 900
    assert client.delete_many(list(entries)[:1500] + ["none"]) == 1500
    assert sum(1 for _ in client.keys()) == 1500
    with pytest.raises(mqkv.BadKey):
        client.put_many([("a", "1"), ("", "2")])


def test_a_pipeline(client):
    with client.pipeline() as pipeline:
        puts = [pipeline.put(f"p{i}", str(i)) for i in range(5000)]
        gets = [pipeline.get(f"p{i}") for i in range(5000)]
        absent = pipeline.delete("none")
        assert pipeline.pending > 0
        pipeline.flush()
        assert pipeline.pending == 0
        assert all(result.ok for result in puts)
        assert [int(result.result()) for result in gets] == list(range(5000))
        assert absent.status == "not_found"
        pipeline.set_priority(4)
        late = pipeline.add("p1", 2)
    assert pipeline.closed and late.result() == 3
    pipeline.close()
    with pytest.raises(mqkv.UsageError):
        pipeline.get("p1")
    assert pipeline.pending == 0


def test_a_pipeline_of_large_values(client):
    values = [random.Random(i).randbytes(100_000 + i) for i in range(40)]
    with client.pipeline(2, 3) as pipeline:
        for i, value in enumerate(values):
            pipeline.put(f"k{i}", value)
        results = [pipeline.get(f"k{i}") for i in range(len(values))]
    assert [result.result() for result in results] == values


def test_a_pipeline_and_a_size_without_a_value(client):
    """The library still holds the small value then. Reading 8 MiB there ends a process that has as
    little memory as this one."""
    client.put("small", "x" * 10, ttl=1000)
    client.put("large", bytes(8 << 20), ttl=1000)
    program = """
import asyncio, sys, mqkv.aio
with mqkv.Client(sys.argv[1], timeout=60) as client, client.pipeline() as pipeline:
    value, large = pipeline.get("small"), pipeline.exists("large")
    pipeline.flush()
    print(value.result(), large.result(), large.number, large.value)
async def work():
    async with mqkv.aio.Client(sys.argv[1], timeout=60) as client:
        print(await client.get("small"), await client.exists("large"))
        print(0 < await client.ttl("large") <= 1000)
asyncio.run(work())
"""
    done = subprocess.run([sys.executable, "-c", program, client.queue], capture_output=True,
                          text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == (
        "b'xxxxxxxxxx' True 8388608 None\nb'xxxxxxxxxx' True\nTrue\n", "", 0)


def test_a_pipeline_is_for_one_thread(client):
    pipeline = client.pipeline()
    outcomes = []

    def work():
        for i in range(2000):
            try:
                pipeline.put(f"k{i}", "x")
                outcomes.append(True)
            except RuntimeError:
                outcomes.append(False)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipeline.close()
    assert len(outcomes) == 8000 and True in outcomes


def test_a_pipeline_outlives_its_client(queue):
    client = mqkv.Client(queue)
    pipeline = client.pipeline()
    client.close()
    result = pipeline.put("k", "1")
    pipeline.close()
    assert result.ok


def test_scan(client):
    entries = {f"a:{i}".encode(): str(i).encode() for i in range(3500)}
    client.put_many(entries)
    client.put("b:1", "x", ttl=100)
    assert {entry.key: entry.value for entry in client.scan("a:")} == entries
    assert sorted(client.keys()) == sorted([*entries, b"b:1"])
    only = list(client.scan("b:"))
    assert len(only) == 1 and only[0] == client.entry("b:1") and only[0].expiry_ms > 0
    assert len(list(client.scan(limit=10))) == 10
    assert len(list(client.scan(limit=2500))) == 2500
    assert list(client.scan(limit=0)) == []
    assert list(client.scan("none")) == []
    assert len(list(client.scan(atomic=True))) == 3501
    first, cursor = client.scan_page(limit=1000)
    rest = list(client.scan(cursor=cursor))
    assert len(first) + len(rest) == 3501
    assert {entry.key for entry in first}.isdisjoint(entry.key for entry in rest)
    assert client.delete_prefix("a:") == 3500
    with pytest.raises(ValueError):
        client.delete_prefix("")
    assert list(client.keys()) == [b"b:1"]


def test_a_damaged_entry_ends_a_scan_that_can_go_on(own_server):
    own_server.start("-d", "1")
    with mqkv.Client(own_server.queue) as client:
        for i in range(50):
            client.put(f"k{i}", f"value-{i:04}" * 10)
    own_server.stop()
    path = own_server.directory / "data.0000"
    data = path.read_bytes()
    at = data.index(b"value-0025value-0025")
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"VALUE")
    own_server.start()
    with mqkv.Client(own_server.queue) as client:
        with pytest.raises(mqkv.Corrupt) as caught:
            client.get("k25")
        assert "data.0000" in str(caught.value) or "damaged" in str(caught.value)
        seen = []
        with pytest.raises(mqkv.Corrupt) as caught:
            for entry in client.scan():
                seen.append(entry.key)
        assert caught.value.cursor >= 0 and "offset" in str(caught.value)
        if caught.value.cursor:
            seen += [entry.key for entry in client.scan(cursor=caught.value.cursor)]
        assert sorted(seen) == sorted(f"k{i}".encode() for i in range(50) if i != 25)


def test_the_mapping(client):
    client.put("other", "x")
    mapping = client.mapping("m:")
    assert not mapping and len(mapping) == 0 and list(mapping) == []
    mapping["a"] = "1"
    mapping[b"b"] = b"2"
    assert client.get("m:a") == b"1" == mapping["a"] == mapping.get("a")
    assert mapping and len(mapping) == 2
    assert "a" in mapping and "c" not in mapping and 5 not in mapping
    assert dict(mapping) == {b"a": b"1", b"b": b"2"} == dict(mapping.items())
    assert sorted(mapping.values()) == [b"1", b"2"]
    assert (b"a", b"1") in mapping.items() and (b"a", b"2") not in mapping.items()
    assert len(mapping.items()) == 2 and b"1" in mapping.values()
    with pytest.raises(KeyError):
        mapping["c"]
    with pytest.raises(KeyError):
        del mapping["c"]
    assert mapping.get("c", 5) == 5
    assert mapping.setdefault("c", "3") == b"3" == mapping.setdefault("c", "4")
    assert mapping.pop("c") == b"3" and mapping.pop("c", None) is None
    with pytest.raises(KeyError):
        mapping.pop("c")
    mapping.update({"d": "4"}, e="5")
    mapping.update([("f", "6")])
    assert {key for key, _ in mapping.items()} == {b"a", b"b", b"d", b"e", b"f"}
    del mapping["a"]
    key, value = mapping.popitem()
    assert client.get(b"m:" + key) is None and value in (b"2", b"4", b"5", b"6")
    mapping.clear()
    assert not mapping and client.get("other") == b"x"
    with pytest.raises(KeyError):
        mapping.popitem()
    assert "m:" in repr(mapping)
    assert len(client.mapping()) == 1
    short = mqkv.Mapping(client, b"s:", ttl=0.02)
    short["k"] = "1"
    assert wait_until(lambda: "k" not in short)


def test_pop_of_a_mapping_is_atomic(client):
    mapping = client.mapping("q:")
    mapping.update((f"{i}", "x") for i in range(200))
    taken = []

    def work():
        for i in range(200):
            if mapping.pop(str(i), None) is not None:
                taken.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(200))


def test_the_gil_is_released(client, running):
    """While a call waits for a server that does not answer, other threads run."""
    running.pause()
    try:
        ended = threading.Event()
        caller = threading.Thread(target=lambda: (client.put("k", "1"), ended.set()))
        caller.start()
        for _ in range(1000):
            time.sleep(0)
        assert not ended.is_set()
    finally:
        running.resume()
    caller.join(30)
    assert ended.is_set()


def test_the_gil_is_released_while_a_pipeline_gets_its_descriptor(running, queue):
    """It connects again, with a queue for the replies."""
    with mqkv.Client(queue, timeout=5, replies="shared") as client:
        pipeline = client.pipeline()
        descriptors = []
        running.pause()
        try:
            caller = threading.Thread(target=lambda: descriptors.append(pipeline.fileno()))
            began = time.monotonic()
            caller.start()
            while time.monotonic() - began < 0.3:
                time.sleep(0.01)
            assert not descriptors and time.monotonic() - began < 3
            with pytest.raises(RuntimeError):
                pipeline.set_priority(1)
        finally:
            running.resume()
        caller.join(30)
        pipeline.set_priority(1)
        pipeline.close()
    assert len(descriptors) == 1


def test_a_batch_that_grows_while_it_is_parsed(client):
    """Converting an argument may run code of the program, which may use the same batch."""
    class Sneaky:
        def __init__(self, batch):
            self.batch = batch

        def total_seconds(self):
            for i in range(40):
                self.batch.put(f"inner{i}", "x")
            return 100

    batch = client.batch()
    for i in range(15):
        batch.put(f"k{i}", "x")
    batch.put("last", "x", ttl=Sneaky(batch))
    results = batch.execute()
    assert len(results) == 56 and all(result.ok for result in results)
    assert results[-1].key == "last" and client.ttl("last") > 50


def test_very_many_puts(client):
    client.put_many(((f"k{number % 9000}", str(number)) for number in range(12_000)), ttl=100)
    found = client.get_many(f"k{number}" for number in range(9000))
    assert found == {f"k{number}".encode(): str(number + 9000 * (number < 3000)).encode()
                     for number in range(9000)}
    assert client.ttl("k0") > 0
    wrong = [(f"k{number}", "new") for number in range(8000)]
    wrong[7000] = ("", "no key")
    with pytest.raises(mqkv.BadKey):
        client.put_many(wrong)
    assert client.get("k6999") == b"new"
    with pytest.raises(TypeError):
        client.put_many((f"k{number}", 5) for number in range(8000))
    client.put_many([])


def test_what_is_read_by_key_is_not_iterated_by_number(client):
    things = [client, client.transaction(), mqkv.aio.Client(client.queue)]
    things.append(things[2].mapping())
    for thing in things:
        assert not isinstance(thing, collections.abc.Iterable)
        with pytest.raises(TypeError, match="not iterable"):
            iter(thing)
