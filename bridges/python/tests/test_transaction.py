"""Transactions: several keys change together, or none."""

import asyncio
import datetime
import random
import subprocess
import sys
import threading

import pytest

import mqkv
import mqkv.aio
from conftest import ROOT
from test_processes import in_child


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 120))


def test_a_block_is_written_at_its_end(client):
    client.put_many({"a": "1", "b": "2", "text": "x", "gone": "y"})
    with client.transaction() as t:
        assert t["a"] == b"1" and t.get("none") is None and t.get("none", 5) == 5
        assert "b" in t and "none" not in t
        put = t.put("a", "10")
        t["new"] = bytearray(b"n")
        del t["b"]
        deleted, absent = t.delete("gone"), t.delete("never")
        added = t.add("count", 5, max=9)
        appended = t.append("text", "yz")
        assert t["a"] == b"10" and t["new"] == b"n" and "b" not in t and t.get("gone") is None
        with pytest.raises(KeyError):
            t["b"]
        with pytest.raises(KeyError):
            del t["none"]
        assert client.get("a") == b"1" and client.get("new") is None and client.exists("gone")
        assert not put.done
    assert client.get_many(["a", "b", "new", "gone", "count", "text"]) == {
        b"a": b"10", b"new": b"n", b"count": b"5", b"text": b"xyz"}
    assert put.result() == client.entry("a").version
    assert added.result() == 5 and appended.result() == 3 and deleted.ok
    with pytest.raises(mqkv.NotFound):
        absent.result()


def test_a_put_may_be_replaced(client):
    client.put("k", "0", ttl=1000)
    with client.transaction() as t:
        first = t.put("k", "1", keep_ttl=True)
        t["other"] = "1"
        last = t.put("k", "2", keep_ttl=True)
        t["d"] = "1"
        t.delete("d")
        t.delete("other")
        t["other"] = "3"
        assert t["k"] == b"2" and t["other"] == b"3" and "d" not in t
    assert last.ok and not first.done
    assert client.get("k") == b"2" and client.ttl("k") > 900
    assert client.get("other") == b"3" and client.get("d") is None
    with client.transaction() as t:
        t["k"] = "3"
        with pytest.raises(mqkv.UsageError, match="already"):
            t.put("k", "4", keep_ttl=True)
        t.add("n")
        for write in (t.delete, t.add, lambda key: t.append(key, "x"), lambda key: t.put(key, "1"),
                      lambda key: t.touch(key, 5)):
            with pytest.raises(mqkv.UsageError, match="b'n' already"):
                write("n")
        for read in (t.get, t.exists, lambda key: t[key], lambda key: t.get_together([key])):
            with pytest.raises(mqkv.UsageError, match="at the end"):
                read("n")
    assert client.get("k") == b"3" and client.get("n") == b"1"


def test_expiry(client):
    client.put_many({"t": "1", "keep": "1", "p": "1"}, ttl=5000)
    with client.transaction() as t:
        t.put("ttl", "1", ttl=datetime.timedelta(seconds=100))
        t.put("at", "1", expiry_ms=1999999999999)
        t.touch("t", 100)
        t.touch("p", None)
        t.put("keep", "2", keep_ttl=True)
        absent = t.touch("none", expiry_ms=1999999999999)
        assert t["t"] == b"1" and "p" in t
        for wrong in (lambda: t.touch("x"), lambda: t.touch("x", 1, 2), lambda: t.put("x", 5),
                      lambda: t.put("x", "1", if_absent=True), lambda: t.add("x", wrong=1)):
            with pytest.raises(TypeError):
                wrong()
    assert 90 < client.ttl("ttl") <= 100 and client.stat("at").expiry_ms == 1999999999999
    assert 90 < client.ttl("t") <= 100 and client.ttl("p") is None and client.ttl("keep") > 4000
    assert absent.status == "not_found"


@pytest.mark.parametrize("before, after", [(None, "1"), ("0", "1"), ("0", None), ("0", "0")])
@pytest.mark.parametrize("look", [lambda t: t.get("k"), lambda t: "k" in t,
                                  lambda t: t.get_together(["other", "k"])])
def test_what_was_read_must_not_change(client, before, after, look):
    if before:
        client.put("k", before)
    with pytest.raises(mqkv.TransactionConflict, match="b'k' has changed") as caught:
        with client.transaction() as t:
            look(t)
            result = t.put("written", "1")
            if after:
                client.put("k", after)
            else:
                client.delete("k")
    assert caught.value.key == b"k" and caught.value.status == "version_mismatch"
    assert isinstance(caught.value, mqkv.VersionMismatch) and isinstance(caught.value, mqkv.Error)
    assert client.get("written") is None and not result.done
    with pytest.raises(RuntimeError, match="not done"):
        result.result()


def test_reads_are_repeatable(client):
    client.put("k", "1")
    with pytest.raises(mqkv.TransactionConflict):
        with client.transaction() as t:
            assert t["k"] == b"1"
            client.put("k", "2")
            assert t["k"] == b"1" and "k" in t
    with pytest.raises(mqkv.TransactionConflict):  # at once, where two reads cannot agree
        with client.transaction() as t:
            assert "k" in t
            client.put("k", "3")
            t.get("k")
            pytest.fail("not reached")
    with client.transaction() as t:
        assert "k" in t and t["k"] == b"3"
    with pytest.raises(mqkv.TransactionConflict):  # though nothing is written
        with client.transaction() as t:
            t.get("k")
            client.delete("k")
    with client.transaction() as t:
        pass


def test_guards(client):
    version = client.put("k", "v")
    with client.transaction() as t:
        t.guard("k", version=version)
        t.guard("k", value=memoryview(b"v"))
        t.guard("k", present=True)
        t.guard("none", present=False)
        t.guard("none", version=0)
        t["done"] = "1"
    assert client.get("done") == b"1"
    for key, guard in (("k", {"version": version + 1}), ("k", {"version": 0}),
                       ("k", {"value": "w"}), ("k", {"present": False}), ("none", {"value": ""}),
                       ("none", {"present": True}), ("none", {"version": 7})):
        with pytest.raises(mqkv.GuardFailed, match="does not hold") as caught:
            with client.transaction() as t:
                t.get("k")
                t.guard("done", present=True)
                t.guard(key, **guard)
                t["done"] = "2"
        assert caught.value.key == key.encode() and isinstance(caught.value, mqkv.ConditionFailed)
        assert not isinstance(caught.value, mqkv.TransactionConflict)
    assert client.get("done") == b"1"
    with client.transaction() as t:
        for wrong in ({}, {"version": 1, "present": True}):
            with pytest.raises(mqkv.UsageError, match="one of"):
                t.guard("k", **wrong)


def test_an_exception_abandons(client):
    client.put("k", "1")
    with pytest.raises(ZeroDivisionError):
        with client.transaction() as t:
            t["k"] = "2"
            result = t.add("n")
            raise ZeroDivisionError
    assert client.get("k") == b"1" and client.get("n") is None and not result.done
    for use in (lambda: t.put("k", "2"), lambda: t.get("k"), lambda: t.guard("k", present=True),
                lambda: t.get_together(["k"]), t.__enter__):
        with pytest.raises(mqkv.UsageError):
            use()
    unused = client.transaction()
    with pytest.raises(mqkv.UsageError, match="with statement"):
        unused["k"] = "2"


def test_what_fails_changes_nothing(client):
    client.put_many({"stock": "2", "text": "x"})
    with pytest.raises(mqkv.OutOfBounds) as caught:
        with client.transaction() as t:
            t["order"] = "1"
            t.add("stock", -3, min=0)
    assert caught.value.number == 2 and caught.value.key == b"stock"
    with pytest.raises(mqkv.NotANumber) as caught:
        with client.transaction() as t:
            t["order"] = "1"
            t.add("text")
    assert caught.value.key == b"text"
    for key, value, error in (("", "1", mqkv.BadKey),
                              ("k", bytes((8 << 20) + 1), mqkv.ValueTooBig)):
        with pytest.raises(error):
            with client.transaction() as t:
                t["order"] = "1"
                t.put(key, value)
    assert client.get("order") is None and client.get("stock") == b"2"


def test_limits(client):
    keys = [f"k{i}" for i in range(128)]
    with client.transaction() as t:
        for key in keys:
            t[key] = key
    assert client.get_together(keys) == {key.encode(): key.encode() for key in keys}
    with client.transaction() as t:
        assert len(t.get_together(keys[:64])) == 64
        for key in keys[:64]:
            t[key] = "2"
    for read, written in ((0, 129), (64, 65), (128, 1)):
        with pytest.raises(mqkv.UsageError, match="128"):
            with client.transaction() as t:
                t.get_together(keys[:read])
                for i in range(written):
                    t[f"n{i}"] = "1"
    assert not list(client.keys("n"))
    with pytest.raises(mqkv.UsageError, match="128"):
        client.get_together([*keys, "more"])
    large = random.Random(1).randbytes(7 << 20)
    with client.transaction() as t:
        t["large"] = large
        t["small"] = "1"
    with client.transaction() as t:
        assert t["large"] == large
        t.guard("large", value=large)
        t.append("small", "2")
    assert client.get("small") == b"12"


def test_together(client):
    client.put_many({"a": "1", "b": ""})
    assert client.get_together(["a", b"b", "c"]) == {b"a": b"1", b"b": b""}
    assert client.get_together([]) == {} == client.get_together(iter(["none"]))
    with pytest.raises(mqkv.BadKey):
        client.get_together(["a", ""])
    with client.transaction() as t:
        t["c"] = "3"
        t.delete("b")
        assert t.get_together(["a", "b", "c"]) == {b"a": b"1", b"c": b"3"}


def test_transactions_do_not_nest(client, queue):
    with client.transaction() as t:
        t["outer"] = "1"
        with pytest.raises(mqkv.UsageError, match="nest"):
            with client.transaction():
                pytest.fail("not reached")
        with mqkv.Client(queue) as other, other.transaction() as of_other:
            of_other["other"] = "1"
        thread = threading.Thread(target=lambda: client.transactional()(
            lambda t: t.put("thread", "1"))())
        thread.start()
        thread.join()
        assert client.get("thread") == b"1" == client.get("other")
        assert in_child(lambda: client.transactional()(lambda t: t.put("child", "1"))()) == 0
    assert client.get("outer") == b"1" == client.get("child")
    left = client.transaction()
    left.__enter__()
    del left  # nobody can end it
    with client.transaction() as t:
        t["after"] = "1"


def test_the_decorator(client):
    client.put("n", "0")
    calls = []

    @client.transactional(tries=3)
    def add(t, key, amount=1):
        """Adds."""
        calls.append(key)
        number = int(t[key])
        if len(calls) < 3:
            client.put(key, str(number + 100))  # a conflict
        t[key] = str(number + amount)
        return number

    assert add("n", amount=5) == 200 and len(calls) == 3 and client.get("n") == b"205"
    assert add.__name__ == "add" and add.__doc__ == "Adds."
    calls[:] = []
    add_twice = client.transactional(tries=2)(add.__wrapped__)
    with pytest.raises(mqkv.TransactionConflict):
        add_twice("n")
    assert len(calls) == 2 and client.get("n") == b"405"

    @client.transactional()
    def fail(t):
        calls.append(1)
        t.guard("n", present=False)

    calls[:] = []
    with pytest.raises(mqkv.GuardFailed):
        fail()
    assert len(calls) == 1

    async def coroutine(t):
        pass

    def generator(t):
        yield t

    for wrong in (coroutine, generator):
        with pytest.raises(TypeError):
            client.transactional()(wrong)
    with pytest.raises(ValueError):
        client.transactional(tries=0)(add.__wrapped__)
    with pytest.raises(TypeError):
        mqkv.aio.Client().transactional()(add.__wrapped__)


def test_durability(client):
    with client.transaction(durability="always") as t:
        t["k"] = "1"
    with pytest.raises(ValueError, match="durability"):
        with client.transaction(durability="perhaps") as t:
            t["k"] = "2"
    assert client.get("k") == b"1"


def test_an_unknown_outcome(own_server):
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=0.5) as client:
        client.put("a", "1")
        transaction = client.transaction()
        with pytest.raises(mqkv.UnknownOutcome) as caught:
            with transaction as t:
                t["a"] = "2"
                t["b"] = t["a"]
                own_server.pause()
        assert isinstance(caught.value, mqkv.Timeout)
        own_server.resume()
        own_server.stop()
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=30) as client:
        assert client.get_together(["a", "b"]) in ({b"a": b"1"}, {b"a": b"2", b"b": b"2"})
        with pytest.raises(mqkv.Error):
            with client.transaction() as t:
                t["a"] = "3"
                client.close()


def test_batches_as_transactions(client):
    """What the package itself is made of."""
    batch = client.batch()
    put = batch.put("k", "1")
    gone = batch.put("gone", "1")
    batch.withdraw(gone)
    with pytest.raises(ValueError):
        batch.withdraw(gone)
    for wrong, error in ((5, TypeError), ([5], TypeError), ([("k",)], TypeError),
                         ([("k", None)], TypeError), ([(5, 1)], TypeError),
                         ([("k", -1)], OverflowError), ([("k", 1 << 64)], OverflowError)):
        with pytest.raises(error):
            batch.transact(wrong)
    assert len(batch) == 1
    assert batch.transact([("k", False), (b"none", 0)]) is None
    assert len(batch) == 0 and put.result() == client.stat("k").version
    assert batch.transact([("k", True), ("k", b"2"), ("k", 0)]) == 1
    assert batch.transact(()) is None and client.get("gone") is None
    batch.put("k", "2", if_absent=True)
    with pytest.raises(mqkv.UsageError, match="no condition"):
        batch.transact(())
    batch.scan_page()
    with pytest.raises(mqkv.UsageError):
        batch.transact(())


# A bank: what is moved is never lost, and never seen twice ----------------------------------------

ACCOUNTS = [f"account:{i}" for i in range(6)]
TOTAL = 600


def open_accounts(client):
    client.put_many({account: "100" for account in ACCOUNTS})


def total_of(values):
    assert len(values) == len(ACCOUNTS)
    return sum(int(value) for value in values.values())


MOVER = """
import random, sys, mqkv
accounts = sys.argv[2:]
client = mqkv.Client(sys.argv[1], timeout=60)

@client.transactional(tries=100000)
def move(t, source, target, amount):
    left = int(t[source]) - amount
    if left < 0:
        return False
    t[source] = str(left)
    t[target] = str(int(t[target]) + amount)
    return True

for i in range(150):
    source, target = random.sample(accounts, 2)
    if i % 3:
        move(source, target, random.randint(1, 40))
        continue
    amount = random.randint(1, 40)
    try:
        with client.transaction() as t:
            t.add(source, -amount, min=0)
            t.add(target, amount)
    except mqkv.OutOfBounds:
        pass
"""


def test_a_bank_of_processes(client, queue):
    open_accounts(client)
    movers = [subprocess.Popen([sys.executable, "-c", MOVER, queue, *ACCOUNTS], cwd=ROOT)
              for _ in range(3)]
    sums = 0
    try:
        while any(mover.poll() is None for mover in movers):
            assert total_of(client.get_together(ACCOUNTS)) == TOTAL
            sums += 1
            try:
                with client.transaction() as t:
                    seen = {account: t[account] for account in ACCOUNTS}
            except mqkv.TransactionConflict:
                continue
            assert total_of(seen) == TOTAL
    finally:
        statuses = [mover.wait(120) for mover in movers]
    assert statuses == [0, 0, 0] and sums > 0
    assert total_of(client.get_together(ACCOUNTS)) == TOTAL


def test_a_bank_whose_server_is_killed(own_server):
    """A transfer whose fate is unknown was done, or not: the receipt that it wrote tells."""
    own_server.start("-d", "4")
    with mqkv.Client(own_server.queue, timeout=60) as client:
        open_accounts(client)
    ended = threading.Event()
    faults, told = [], []

    def work(seed):
        generator = random.Random(seed)
        receipts = {}
        with mqkv.Client(own_server.queue, timeout=60) as client:
            while not ended.is_set():
                receipt = f"receipt:{seed}:{len(receipts)}"
                source, target = generator.sample(ACCOUNTS, 2)
                amount = generator.randint(1, 40)
                try:
                    with client.transaction() as t:
                        t[source] = str(int(t[source]) - amount)
                        t.add(target, amount)
                        t[receipt] = str(amount)
                    receipts[receipt] = True
                except mqkv.TransactionConflict:
                    receipts[receipt] = False
                except mqkv.UnknownOutcome:
                    receipts[receipt] = None
                if total_of(client.get_together(ACCOUNTS)) != TOTAL:
                    faults.append(receipt)
        told.append(receipts)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        ended.wait(0.4)
        own_server.kill()
        own_server.start("-d", "4")
    ended.set()
    for thread in threads:
        thread.join()
    assert not faults and len(told) == 3
    with mqkv.Client(own_server.queue, timeout=60) as client:
        assert total_of(client.get_together(ACCOUNTS)) == TOTAL
        for receipts in told:
            there = client.get_many(receipts)
            assert [key for key, done in receipts.items()
                    if done is not None and done != (key.encode() in there)] == []


def test_a_bank_of_threads(client):
    open_accounts(client)
    faults = []

    @client.transactional(tries=100_000)
    def move(t, source, target, amount):
        t[source] = str(int(t[source]) - amount)
        t[target] = str(int(t[target]) + amount)

    def work(seed):
        generator = random.Random(seed)
        try:
            for _ in range(60):
                move(*generator.sample(ACCOUNTS, 2), generator.randint(1, 40))
                assert total_of(client.get_together(ACCOUNTS)) == TOTAL
        except Exception as fault:  # pylint: disable=broad-except
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults and total_of(client.get_together(ACCOUNTS)) == TOTAL


# asyncio ------------------------------------------------------------------------------------------

def test_asyncio(client, queue):
    client.put_many({"a": "1", "b": "2", "gone": "1"})

    async def work():
        async with mqkv.aio.Client(queue) as opened:
            async with opened.transaction(durability="interval") as t:
                assert await t.get("a") == b"1" and await t.get("none", 5) == 5
                assert await t.exists("b") and not await t.exists("none")
                assert await t.get_together(["a", "b", "c"]) == {b"a": b"1", b"b": b"2"}
                t["a"] = "10"
                del t["gone"]
                added = t.add("n", 5)
                t.guard("b", value="2")
                assert await t.get("a") == b"10" and not await t.exists("gone")
                assert await opened.get("a") == b"1"
                with pytest.raises(mqkv.UsageError, match="nest"):
                    async with opened.transaction():
                        pytest.fail("not reached")
            assert added.result() == 5
            assert await opened.get_together(["a", "gone", "n"]) == {b"a": b"10", b"n": b"5"}
            for look in (lambda t: t.get("a"), lambda t: t.exists("a"),
                         lambda t: t.get_together(["a"])):
                with pytest.raises(mqkv.TransactionConflict) as caught:
                    async with opened.transaction() as t:
                        await look(t)
                        t["b"] = "3"
                        await opened.put("a", "11")
                assert caught.value.key == b"a"
            with pytest.raises(mqkv.GuardFailed):
                async with opened.transaction() as t:
                    t.guard("a", present=False)
            with pytest.raises(ZeroDivisionError):
                async with opened.transaction() as t:
                    t["b"] = "3"
                    raise ZeroDivisionError
            with pytest.raises(mqkv.UsageError):
                t["b"] = "3"
            with pytest.raises(mqkv.OutOfBounds):
                async with opened.transaction() as t:
                    t.add("n", -6, min=0)
            with pytest.raises(mqkv.UsageError, match="128"):
                await opened.get_together(str(i) for i in range(129))
            assert await opened.get("b") == b"2"
            with pytest.raises(ValueError):
                opened.transactional(tries=0)(look)
            with pytest.raises(TypeError):
                opened.transactional()(look)
        with pytest.raises(mqkv.UsageError):
            opened.transaction()
        with pytest.raises(mqkv.UsageError):
            await opened.get_together(["a"])

    run(work())


def test_a_bank_of_tasks(client, queue):
    open_accounts(client)

    async def work():
        async with mqkv.aio.Client(queue, timeout=60) as opened:
            @opened.transactional(tries=100_000)
            async def move(t, source, target, amount):
                left = int(await t.get(source)) - amount
                if left < 0:
                    return False
                t[source] = str(left)
                t[target] = str(int(await t.get(target)) + amount)
                return True

            async def move_often(seed):
                generator = random.Random(seed)
                for _ in range(40):
                    await move(*generator.sample(ACCOUNTS, 2), generator.randint(1, 40))
                    assert total_of(await opened.get_together(ACCOUNTS)) == TOTAL

            await asyncio.gather(*[move_often(seed) for seed in range(5)])
            assert total_of(await opened.get_together(ACCOUNTS)) == TOTAL

    run(work())


def test_closing_waits_for_a_transaction(own_server):
    own_server.start()

    async def work():
        opened = await mqkv.aio.Client(own_server.queue, timeout=30).connect()

        async def write():
            async with opened.transaction() as t:
                t["a"] = t["b"] = "1"

        own_server.pause()
        cancelled, waiting = asyncio.create_task(write()), asyncio.create_task(write())
        await asyncio.sleep(0.1)
        assert opened.pending == 2
        cancelled.cancel()
        closing = asyncio.create_task(opened.close())
        await asyncio.sleep(0.1)
        assert not closing.done() and not waiting.done()
        own_server.resume()
        await closing
        await waiting
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert opened.closed and opened.pending == 0

    run(work())
    with mqkv.Client(own_server.queue, timeout=30) as client:
        assert client.get_together(["a", "b"]) == {b"a": b"1", b"b": b"1"}
