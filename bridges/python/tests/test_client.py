"""Single calls: what they take, return and raise."""

import gc
import os
import random
import sys
import threading
import time
from datetime import timedelta

import pytest

import mqkv
from conftest import wait_until


def test_put_and_get(client):
    version = client.put("name", "Ada")
    assert version > 0
    assert client.get("name") == b"Ada"
    assert client.put(b"name", b"Bob") > version
    assert client.get(bytearray(b"name")) == b"Bob"
    assert client.get(memoryview(b"name")) == b"Bob"


def test_get_of_an_absent_key(client):
    assert client.get("none") is None
    assert client.get("none", b"x") == b"x"
    assert client.get(key="none", default=7) == 7
    assert client.get("none", default=None) is None


def test_keys_and_values_are_any_bytes(client):
    generator = random.Random(1)
    entries = {generator.randbytes(size): generator.randbytes(3 * size)
               for size in (1, 2, 7, 255, 256, 4000, 9000, 65535)}
    for key, value in entries.items():
        client.put(key, value)
    for key, value in entries.items():
        assert client.get(key) == value
    client.put("ğ\0ü", "\0")
    assert client.get("ğ\0ü".encode()) == b"\0"
    client.put("empty", b"")
    assert client.get("empty") == b""


@pytest.mark.parametrize("size", [1, 1000, 8000, 8192, 100_000, 1 << 20, 8 << 20])
def test_values_of_every_size(client, size):
    value = random.Random(size).randbytes(size)
    client.put("value", value)
    assert client.get("value") == value
    assert client.stat("value").size == size


def test_mutable_buffers_are_copied(client):
    value = bytearray(b"first")
    client.put("k", value)
    value[:] = b"other"
    assert client.get("k") == b"first"
    batch = client.batch()
    batch.put("k", value)
    value[:] = b"third"
    batch.execute()
    assert client.get("k") == b"other"


@pytest.mark.parametrize("call, error", [
    (lambda c: c.get(1), TypeError),
    (lambda c: c.get(), TypeError),
    (lambda c: c.get("a", "b", "c"), TypeError),
    (lambda c: c.get("a", fallback=1), TypeError),
    (lambda c: c.get("a", key="b"), TypeError),
    (lambda c: c.get("\udcff"), UnicodeEncodeError),
    (lambda c: c.put("a"), TypeError),
    (lambda c: c.put("a", 1), TypeError),
    (lambda c: c.put("a", None), TypeError),
    (lambda c: c.put("a", [1, 2]), TypeError),
    (lambda c: c.put("a", "b", "c"), TypeError),
    (lambda c: c.put("a", "b", value="c"), TypeError),
    (lambda c: c.put("a", "b", bogus=1), TypeError),
    (lambda c: c.put("a", "b", tag=1), TypeError),
    (lambda c: c.put("a", "b", ttl=0), ValueError),
    (lambda c: c.put("a", "b", ttl=-1), ValueError),
    (lambda c: c.put("a", "b", ttl=float("nan")), ValueError),
    (lambda c: c.put("a", "b", ttl=float("inf")), ValueError),
    (lambda c: c.put("a", "b", ttl="1"), TypeError),
    (lambda c: c.put("a", "b", ttl=1, expiry_ms=1), TypeError),
    (lambda c: c.put("a", "b", expiry_ms=-1), OverflowError),
    (lambda c: c.put("a", "b", expiry_ms=1.5), TypeError),
    (lambda c: c.put("a", "b", if_version=0), ValueError),
    (lambda c: c.put("a", "b", if_version=2 ** 64), OverflowError),
    (lambda c: c.put("a", "b", durability="never"), ValueError),
    (lambda c: c.put("a", "b", durability=1), ValueError),
    (lambda c: c.put("a", "b", if_absent=True, if_present=True), mqkv.UsageError),
    (lambda c: c.put("a", "b", if_absent=True, if_version=1), mqkv.UsageError),
    (lambda c: c.delete("a", ttl=1), TypeError),
    (lambda c: c.add("a", 1.5), TypeError),
    (lambda c: c.add("a", 2 ** 63), OverflowError),
    (lambda c: c.add("a", 1, if_absent=True), TypeError),
    (lambda c: c.append("a", "b", if_absent=True), TypeError),
    (lambda c: c.touch("a"), TypeError),
    (lambda c: c.touch("a", 1, expiry_ms=1), TypeError),
    (lambda c: c.get(""), mqkv.BadKey),
    (lambda c: c.put("", "x"), mqkv.BadKey),
    (lambda c: c.get(b"x" * 65536), mqkv.BadKey),
    (lambda c: c.put("a", bytes((8 << 20) + 1)), mqkv.ValueTooBig),
    (lambda c: c.set_priority(32), mqkv.UsageError),
    (lambda c: c.set_priority(-1), OverflowError),
    (lambda c: c.scan_page(limit=-1), OverflowError),
])
def test_wrong_arguments(client, call, error):
    with pytest.raises(error) as caught:
        call(client)
    assert str(caught.value)
    assert client.get("a") is None


def test_conditions(client):
    version = client.put("k", "1", if_absent=True)
    with pytest.raises(mqkv.Exists):
        client.put("k", "2", if_absent=True)
    assert client.put("k", "2", if_present=True) > version
    with pytest.raises(mqkv.NotFound):
        client.put("other", "2", if_present=True)
    with pytest.raises(mqkv.VersionMismatch) as caught:
        client.put("k", "3", if_version=version)
    assert caught.value.key == b"k" and caught.value.status == "version_mismatch"
    entry = client.entry("k")
    assert entry == (b"k", b"2", entry.version, 0)
    assert client.put("k", "3", if_version=entry.version) > entry.version
    with pytest.raises(mqkv.NotFound):
        client.put("other", "3", if_version=1)
    with pytest.raises(mqkv.ConditionFailed):
        client.delete("k", if_version=entry.version)
    client.delete("k", if_version=client.stat("k").version)
    assert client.get("k") is None


def test_delete(client):
    version = client.put("k", "1")
    assert client.delete("k") > version
    with pytest.raises(mqkv.NotFound):
        client.delete("k")
    assert client.discard("k") is False
    client.put("k", "1")
    assert client.discard("k") is True


def test_not_found_is_a_key_error_that_reads_well(client):
    with pytest.raises(KeyError) as caught:
        client.entry("none")
    assert str(caught.value) == "key not found"
    assert caught.value.key == b"none"
    with pytest.raises(mqkv.NotFound):
        client.stat("none")


def test_add(client):
    assert client.add("n") == 1
    assert client.add("n", 5) == 6
    assert client.add("n", delta=-10) == -4
    assert client.get("n") == b"-4"
    assert client.add("m", 1, initial=100) == 101
    with pytest.raises(mqkv.NotFound):
        client.add("none", if_present=True)
    with pytest.raises(mqkv.OutOfBounds) as caught:
        client.add("n", -1, min=-4)
    assert caught.value.number == -4
    assert client.add("n", 4, min=-4, max=0) == 0
    client.put("text", "x")
    with pytest.raises(mqkv.NotANumber):
        client.add("text")
    total, version = client.add("n", 2, with_version=True)
    assert total == 2 and version == client.stat("n").version
    assert client.add("big", 2 ** 63 - 1) == 2 ** 63 - 1
    with pytest.raises(mqkv.OutOfBounds):
        client.add("big")
    assert client.add("ends", ttl=100) == 1
    assert 90 < client.ttl("ends") <= 100


def test_add_of_numbers_with_zeros(client):
    client.put("n", "007")
    with pytest.raises(mqkv.NotANumber):
        client.add("n", canonical=True)
    assert client.add("n") == 8


@pytest.mark.parametrize("direct", ["off", "map", "pread", "auto"])
def test_direct_reads(running, queue, direct):
    with mqkv.Client(queue, direct=direct) as client:
        entries = {f"k{i}".encode(): b"%d" % i * (i % 50) for i in range(500)}
        client.put_many(entries)
        assert client.get_many(entries) == entries
        assert {entry.key: entry.value for entry in client.scan()} == entries
        for key, value in entries.items():
            assert client.get(key) == value and client.stat(key).size == len(value)
        assert client.get("none") is None and not client.exists("none")
        info = client.info()
        assert (info["direct_reads"] > 0) == (info["direct"] != "off") or info["direct_asks"] > 0
        if direct == "off":
            assert info["direct"] == "off" and info["direct_reads"] == 0


def test_append(client):
    assert client.append("k", "abc") == 3
    assert client.append("k", b"\0") == 4
    size, version = client.append("k", "", with_version=True)
    assert size == 4 and version == client.stat("k").version
    assert client.get("k") == b"abc\0"


def test_exchange(client):
    assert client.exchange("k", "1") is None
    assert client.exchange("k", "2") == b"1"
    old, version = client.exchange("k", b"", with_version=True)
    assert old == b"2" and version == client.stat("k").version
    assert client.exchange("k", "3") == b""
    with pytest.raises(mqkv.Exists):
        client.exchange("k", "4", if_absent=True)
    assert client.exchange("new", "4", if_absent=True, with_version=True)[0] is None


def test_expiry(client):
    client.put("k", "1")
    assert client.ttl("k") is None
    client.put("k", "1", ttl=100)
    assert 90 < client.ttl("k") <= 100
    client.put("k", "2", keep_ttl=True)
    assert 90 < client.ttl("k") <= 100
    client.touch("k", timedelta(hours=1))
    assert 3590 < client.ttl("k") <= 3600
    client.persist("k")
    assert client.ttl("k") is None
    at = int((time.time() + 50) * 1000)
    client.touch("k", expiry_ms=at)
    assert client.stat("k").expiry_ms == at == client.entry("k").expiry_ms
    client.put("k", "1", ttl=0.02)
    time.sleep(0.03)
    assert client.get("k") is None
    with pytest.raises(mqkv.NotFound):
        client.ttl("k")
    with pytest.raises(mqkv.NotFound):
        client.touch("k", 1)


def test_exists(client):
    assert not client.exists("k") and "k" not in client
    client.put("k", "123")
    assert client.exists("k") and "k" in client
    assert client.stat("k") == (3, client.stat("k").version, 0)


def test_durability(client):
    for durability in ("interval", "always", None):
        client.put("k", "1", durability=durability)
        client.append("k", "1", durability=durability)
        client.touch("k", 10, durability=durability)
        client.delete("k", durability=durability)
        client.add("k", durability=durability)
        client.exchange("k", "0", durability=durability)
    client.sync()


def test_facts(client, queue):
    assert client.queue == queue
    assert client.ping() > 0
    info = client.info()
    assert info["max_value_bytes"] == 8 << 20
    os.kill(info["server_pid"], 0)
    stats = client.stats()
    assert stats["files"].keys() == client.stats("files")["files"].keys()
    with pytest.raises(mqkv.Error):
        client.stats("bogus")
    assert queue in repr(client)
    client.set_priority(3)


def test_with_statement_and_close(queue):
    with mqkv.Client(queue) as client:
        client.put("k", "1")
        assert not client.closed
    assert client.closed and "closed" in repr(client)
    client.close()
    for call in (lambda: client.get("k"), client.ping, client.info, client.batch().execute,
                 client.pipeline, lambda: client.put("k", "2"), lambda: client.stat("k")):
        with pytest.raises(mqkv.UsageError):
            call()


def test_options(queue):
    with mqkv.Client(queue, timeout=1.5, repeat_writes=True, fail_fast=True, fail_fast_open=True,
                     spin="off", combine_above=1, combine_groups=1, priority=2,
                     server_uid=os.getuid(), replies="queue", direct="off",
                     direct_stale=0.5) as client:
        client.put("k", "1")
        assert client.get("k") == b"1"
    for wrong in ({"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"spin": "x"},
                  {"priority": 32}, {"server_uid": "nobody-is-called-so"}, {"replies": "x"},
                  {"direct": "x"}, {"direct": 1}, {"direct_stale": -1}):
        with pytest.raises(ValueError):
            mqkv.Client(queue, **wrong)
    with pytest.raises(TypeError):
        mqkv.Client(queue, bogus=1)
    with pytest.raises(TypeError):
        mqkv.Client(queue, 5)
    with pytest.raises(mqkv.Denied):
        mqkv.Client(queue, server_uid=os.getuid() + 1)


def test_a_client_is_initialised_once(client, queue):
    with pytest.raises(RuntimeError):
        client.__init__(queue)
    with pytest.raises(RuntimeError):
        mqkv.Client.__new__(mqkv.Client).get("k")


def test_objects_that_only_the_library_makes():
    with pytest.raises(TypeError):
        mqkv.Result()
    for wrong in (None, 1):
        with pytest.raises(TypeError):
            mqkv.Batch(wrong)
        with pytest.raises(TypeError):
            mqkv.Pipeline(wrong)


def test_a_client_is_not_pickled(client):
    import copy
    import pickle
    with pytest.raises(TypeError):
        pickle.dumps(client)
    with pytest.raises(TypeError):
        copy.copy(client)


def test_no_server():
    name = f"/nobody{os.getpid()}"
    with pytest.raises(mqkv.NoServer) as caught:
        mqkv.Client(name, fail_fast=True)
    assert isinstance(caught.value, ConnectionError) and name in str(caught.value)
    with pytest.raises((mqkv.NoServer, mqkv.Timeout, mqkv.DeadlineExceeded)):
        mqkv.Client(name, timeout=0.05)


def test_exceptions_are_what_python_expects():
    assert issubclass(mqkv.NotFound, KeyError)
    assert issubclass(mqkv.Timeout, TimeoutError)
    assert issubclass(mqkv.Denied, PermissionError)
    assert issubclass(mqkv.OutcomeUnknown, (ConnectionError, mqkv.UnknownOutcome))
    for name in mqkv.__all__:
        value = getattr(mqkv, name)
        if isinstance(value, type) and issubclass(value, BaseException):
            assert issubclass(value, mqkv.Error) and value.__doc__
            assert value("why").args == ("why",) and str(value("why")) == "why"


def test_every_status_has_a_class():
    import pathlib
    import re
    from mqkv import errors
    header = pathlib.Path(__file__).resolve().parents[3] / "include/mqkv/status.h"
    names = {name.lower() for name in re.findall(r"^    KV_(\w+) =", header.read_text(), re.M)}
    of_the_engine_alone = {"ok", "busy", "mismatch"}
    assert names - of_the_engine_alone == set(errors._CLASSES)


def test_nothing_leaks(client):
    def work():
        client.put("k", b"x" * 100)
        client.get("k")
        client.get("none")
        client.entry("k")
        client.stat("k")
        client.add("n", with_version=True)
        client.exchange("k", "y", ttl=100, with_version=True)
        client.append("k", "z")
        for _ in client.scan():
            pass
        with client.batch() as batch:
            results = [batch.get("k"), batch.get("none"), batch.add("k"), batch.scan_page()]
        with pytest.raises(mqkv.NotANumber):
            results[2].result()
        with client.pipeline() as pipeline:
            pipeline.put("p", "1")
            pipeline.get("p")
        with client.watch("w") as watch:
            client.put("w", "1")
            assert watch.next(60) and watch.position
        for wrong in (lambda: client.put("k", 1), lambda: client.put("k", "v", ttl=-1),
                      lambda: client.put("k", "v", bogus=1), lambda: client.entry("none"),
                      lambda: client.watch(since="none")):
            with pytest.raises((TypeError, ValueError, KeyError)):
                wrong()

    def memory():
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[5])

    for _ in range(200):
        work()
    objects, before = len(gc.get_objects()), memory()
    references = [sys.getrefcount(thing) for thing in (None, mqkv.Result, client, mqkv.NotFound)]
    for _ in range(1000):
        work()
    if os.environ.get("MQKV_VARIANT", "release") == "release":  # sanitizers keep what was freed
        assert memory() - before < 500  # pages
    assert len(gc.get_objects()) - objects < 200
    after = [sys.getrefcount(thing) for thing in (None, mqkv.Result, client, mqkv.NotFound)]
    assert all(abs(a - b) < 100 for a, b in zip(after, references)), (references, after)


def test_a_dropped_client_is_closed(running):
    with mqkv.Client(running.queue) as watcher:
        def sessions():
            return watcher.stats("sessions")["sessions"]["live"]

        before = sessions()
        client = mqkv.Client(running.queue)
        client.ping()
        result = client.pipeline().put("k", "1")
        assert result.ok
        assert sessions() > before - 1
        del client
        gc.collect()
        assert wait_until(lambda: sessions() == before)


def test_threads_share_a_client(client):
    failures = []

    def work(number):
        try:
            for i in range(200):
                key = f"t{number}:{i}"
                client.put(key, key)
                assert client.get(key) == key.encode()
                client.add("all")
        except BaseException as error:  # pylint: disable=broad-except
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert client.get("all") == b"2400"


def test_a_client_is_indexed(client):
    client["k"] = "v"
    assert client["k"] == b"v"
    del client["k"]
    for failing in (lambda: client["k"], lambda: client.__delitem__("k")):
        with pytest.raises(KeyError):
            failing()


def test_a_number_is_no_key(client):
    for call in (lambda: client.get(5), lambda: client.mapping(5), lambda: client.mapping()[5],
                 lambda: client.watch(5), lambda: client.get_together([5]),
                 lambda: list(client.range(5))):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError), client.transaction() as t:
        t.get(5)
