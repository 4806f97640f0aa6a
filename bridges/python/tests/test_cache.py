"""mqkv.Cache and what is built on it. diskcache's own tests run on it too (make check-python)."""

import collections
import datetime
import decimal
import io
import math
import multiprocessing
import os
import pickle
import signal
import threading
import time
import uuid

import pytest

import mqkv
from conftest import wait_until
from mqkv import coding, home


@pytest.fixture(scope="module", autouse=True)
def short_idle():
    """Before `shared`: its daemon, too, ends soon after the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home, "IDLE_EXIT", "300ms")
        patch.setattr(home, "TEMPORARY_IDLE_EXIT", "100ms")
        yield


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A cache in a directory, for tests that leave nothing behind that matters."""
    with mqkv.Cache(tmp_path_factory.mktemp("cache")) as cache:
        yield cache


@pytest.fixture
def cache(shared):
    shared.clear()
    return shared


# Values and keys ---------------------------------------------------------------------------------

SOME_VALUES = [
    None, True, False, 0, -1, 2 ** 63 - 1, 2 ** 63, -2 ** 63, 10 ** 100, 1.5, -0.0, math.inf,
    "", "Ada", "\0", "\ud800", "é" * 1000, b"", b"\0\xff", bytearray(b"a"), [], [1, [2.5, None]],
    {}, {"a": {"b": [True]}}, (), (1, (2, "x"), b"y"), {1: 2, (3, 4): "5", None: [()]}, set(),
    {1, "a"}, frozenset({(1, 2)}), {"\0": 1}, {"\0": ["tuple", []]}, [{"\0": ["type", "os:x"]}],
    datetime.datetime(2026, 11, 27, 4, 50, 13, 7), datetime.date(2026, 11, 27),
    datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc), datetime.time(1, 2, 3),
    datetime.timedelta(-1, 5, 7), decimal.Decimal("1.10"), uuid.UUID(int=7), 1 + 2j,
]


@pytest.mark.parametrize("value", SOME_VALUES, ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize("serializer", ["json", "pickle", "msgpack"])
def test_a_value_comes_back_as_it_was(value, serializer):
    if serializer == "msgpack":
        pytest.importorskip("msgpack")
    coder = coding.Coder(serializer)
    read = coder.loads(coder.dumps(value))
    assert type(read) is type(value) and read == value
    if not isinstance(value, (set, frozenset)):
        assert repr(read) == repr(value)


@pytest.mark.parametrize("key", [value for value in SOME_VALUES
                                 if type(value) not in (list, dict, set, bytearray)],
                         ids=lambda value: repr(value)[:30])
def test_a_key_comes_back_as_it_was(key):
    stored = coding.key_bytes(key)
    assert coding.key_of(stored) == key
    assert coding.key_bytes(coding.key_of(stored)) == stored


def test_keys_are_equal_as_in_a_dict():
    assert coding.key_bytes(1) == coding.key_bytes(1.0)
    assert len({coding.key_bytes(key) for key in ("1", b"1", 1, (1,), ("1",), [1], None)}) == 7
    assert coding.key_bytes({1, 2, 3}) == coding.key_bytes({3, 2, 1})


class Own:
    def __eq__(self, other):
        return isinstance(other, Own)


def test_pickle_is_for_those_who_ask(tmp_path):
    with mqkv.Cache(tmp_path / "c") as cache:
        for value in (Own(), [Own()], {"a": Own()}, (Own(),), lambda: 0):
            with pytest.raises(TypeError, match="serializer='pickle'"):
                cache["k"] = value
        with pytest.raises(TypeError, match="serializer='pickle'"):
            cache[Own()] = 1
        with mqkv.Cache(tmp_path / "c", serializer="pickle") as other:
            other["k"] = Own()
            other[Own()] = 1
            assert other["k"] == Own() and other[Own()] == 1
        with pytest.raises(TypeError, match="run code"):
            cache.get("k")
        with pytest.raises(TypeError, match="run code"):
            list(cache)
    with pytest.raises(ValueError, match="serializer"):
        mqkv.Cache(tmp_path / "c", serializer="yaml")
    with pytest.raises(ValueError, match="serializer"):
        mqkv.Cache(tmp_path / "c", disk=object)
    with pytest.raises(ValueError, match="eviction_policy"):
        mqkv.Cache(tmp_path / "c", eviction_policy="best")


def test_a_serializer_of_ones_own(tmp_path):
    class Upper:
        @staticmethod
        def dumps(value):
            return repr(value).upper().encode()

        @staticmethod
        def loads(data):
            return data.decode()

    with mqkv.Cache(tmp_path / "c", serializer=Upper()) as cache:
        cache["k"] = ["a"]
        cache["n"] = 1
        assert (cache["k"], cache["n"], cache.incr("n")) == ("['A']", 1, 2)


@pytest.mark.parametrize("data", [
    b"", b"?", b"j{", b"J{\"\0\":[\"os.system\",1]}", b"J{\"\0\":1}", b"t", b"t\xff\xff\xffx",
    b"q1", b"m\xc1", b"s\xff", b"xa", b"-", b"1x", b"p\x80\x04N.", b"J" + b"[" * 100000])
def test_what_others_store_does_no_harm(cache, data):
    cache.client.put(b"ks" + b"bad", data)
    with pytest.raises((ValueError, coding.PickleRefused, ImportError)):
        cache.get("bad")
    with pytest.raises((ValueError, coding.PickleRefused, ImportError)):
        cache.get("bad", tag=True)
    assert cache.delete("bad")


# Items -------------------------------------------------------------------------------------------

def test_an_item_has_an_end_and_a_tag(cache):
    cache.set("k", "v", expire=60, tag=("a", 1))
    value, end, tag = cache.get("k", expire_time=True, tag=True)
    assert (value, tag) == ("v", ("a", 1)) and 55 < end - time.time() <= 60
    assert cache.touch("k") and cache.get("k", expire_time=True) == ("v", None)
    assert cache.set("k", "v", expire=0) and "k" not in cache
    assert cache.set("k", "v", expire=-1) and "k" not in cache
    assert not cache.touch("k", 5) and not cache.delete("k")
    assert cache.pop("k", 7, expire_time=True, tag=True) == (7, None, None)
    assert cache.evict("nobody's") == 0


def test_numbers_are_counted_in_one_step(cache):
    assert cache.incr("n", default=2 ** 63 - 2) == 2 ** 63 - 1
    assert cache.incr("n") == 2 ** 63 and cache["n"] == 2 ** 63
    cache.set("tagged", 5, expire=60, tag="t")
    assert cache.incr("tagged", 2) == 7
    assert cache.get("tagged", tag=True) == (7, "t")
    assert cache.get("tagged", expire_time=True)[1] is not None
    assert cache.incr("half", 0.5, default=1.5) == 2.0
    with pytest.raises(TypeError):
        cache["text"] = "x"
        cache.incr("text")


def test_files_and_many(cache):
    cache.set("file", io.BytesIO(b"content"), read=True)
    with cache.read("file") as file:
        assert file.read() == b"content"
    with pytest.raises(KeyError):
        cache.read("none")
    cache.set_many({"a": 1, "b": (2,)}, tag="many")
    assert cache.get_many(["a", "b", "c"]) == {"a": 1, "b": (2,)}
    assert cache.evict("many") == 2


def test_long_arguments_are_no_trouble_to_memoize(cache):
    calls = []

    @cache.memoize()
    def size(text, *rest):
        calls.append(1)
        return len(text) + len(rest)

    for _ in range(2):
        assert size("x" * 100000) == 100000
        assert size("x" * 100001) == 100001
    assert len(calls) == 2
    with pytest.raises(mqkv.BadKey):
        cache["x" * 100000] = 1


def test_memoize_tells_arguments_apart(cache):
    @cache.memoize(typed=True, ignore={"debug"})
    def name(value, debug=False):
        return type(value).__name__

    assert [name(1), name(1.0), name(True), name("1"), name(1, debug=True)] == [
        "int", "float", "bool", "str", "int"]
    assert cache[name.__cache_key__(1)] == "int"
    with pytest.raises(TypeError):
        cache.memoize(name)


def test_it_is_closed_and_opened_again(tmp_path):
    cache = mqkv.Cache(tmp_path / "c")
    cache["k"] = 1
    cache.close()
    cache.close()
    assert cache.get("k") == 1 and cache["k"] == 1
    other = pickle.loads(pickle.dumps(cache))
    assert other["k"] == 1 and other.directory == cache.directory
    other.close()
    cache.close()


def test_one_in_the_store_of_a_client(client):
    client.put("mine", "1")
    with mqkv.Cache(client=client, prefix="app:") as cache, mqkv.Cache(client=client) as other:
        cache["k"], other["k"] = 1, 2
        assert (cache["k"], other["k"], len(cache)) == (1, 2, 1)
        cache.push("job")
        assert cache.clear() == 2 and len(other) == 1
        with pytest.raises(ValueError, match="max-bytes"):
            cache.reset("size_limit", 1 << 20)
        with pytest.raises(TypeError):
            pickle.dumps(cache)
    assert client.get("mine") == b"1"
    with pytest.raises(ValueError):
        mqkv.Cache("/tmp/x/y", client=client)


def test_the_daemon_keeps_the_bound(tmp_path):
    with mqkv.Cache(tmp_path / "c", size_limit=4 << 20) as cache:
        for number in range(100):
            cache[number] = b"x" * 100_000
        assert cache.volume() <= 4 << 20 and 0 < len(cache) < 50
        cache.reset("size_limit", 1 << 20)
        assert wait_until(lambda: cache.volume() <= 1 << 20)
    assert home.settings_of(str(tmp_path / "c"))["max-bytes"] == str(1 << 20)
    with mqkv.Cache(tmp_path / "c") as cache:
        assert cache.size_limit == 1 << 20


def test_no_bound(tmp_path):
    directory = str(tmp_path / "c")
    with mqkv.Cache(directory, size_limit=0) as cache:
        cache["k"] = 1
        assert cache["k"] == 1 and home.settings_of(directory)["evict"] == "none"
        cache.reset("size_limit", 1e9)
        found = home.settings_of(directory)
        assert (found["evict"], found["max-bytes"]) == ("s3fifo", "1000000000")
        cache["k"] = 2
        cache.reset("eviction_policy", "none")
        found = home.settings_of(directory)
        assert (found["evict"], found["max-bytes"]) == ("none", "0")
        cache.reset("eviction_policy", "least-recently-used")
        found = home.settings_of(directory)
        assert (found["evict"], found["max-bytes"], found["direct"]) == (
            "s3fifo", "1000000000", "off")
        cache.reset("size_limit", 0)
        found = home.settings_of(directory)
        assert (found["evict"], found["max-bytes"]) == ("none", "0")
        with pytest.raises(ValueError):
            cache.reset("size_limit", -1)
        assert cache["k"] == 2 and cache.size_limit == 0
    with mqkv.Cache(tmp_path / "float", size_limit=1e9) as cache:
        cache["k"] = 1
        assert home.settings_of(str(tmp_path / "float"))["max-bytes"] == "1000000000"


def test_settings_are_kept_when_they_are_the_defaults(tmp_path, monkeypatch):
    mqkv.Cache(tmp_path / "c").close()
    monkeypatch.setitem(mqkv.cache.DEFAULT_SETTINGS, "size_limit", 1 << 20)
    with mqkv.Cache(tmp_path / "c") as cache:
        assert cache.size_limit == 2 ** 30


def test_a_block_of_transact_that_does_not_begin_keeps_nobody_waiting(cache, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(cache, "begin", lambda step: 1 / 0)
        with pytest.raises(ZeroDivisionError), cache.transact():
            pass
    before = time.monotonic()
    with cache.transact():
        cache["k"] = 1
    assert time.monotonic() - before < 5


def test_parts_of_a_fanout_cache(tmp_path):
    with mqkv.FanoutCache(tmp_path / "c", shards=4, timeout=0.01) as cache:
        users, jobs, names = cache.cache("users"), cache.deque("jobs", maxlen=2), cache.index("n")
        cache["k"], users["k"], names["k"] = 1, 2, 3
        jobs.extend("abc")
        assert (cache["k"], users["k"], names["k"], list(jobs)) == (1, 2, 3, ["b", "c"])
        assert (len(cache), len(users), len(names)) == (1, 1, 1)
        again = pickle.loads(pickle.dumps(users))
        assert again["k"] == 2
        assert list(pickle.loads(pickle.dumps(jobs))) == ["b", "c"]


def test_a_fanout_cache_without_a_daemon_is_empty(own_server):
    own_server.start()
    with mqkv.Client(own_server.queue, timeout=1, direct="off") as client:
        cache = mqkv.FanoutCache(client=client)
        cache["k"] = 1
        own_server.kill()
        assert cache.get("k", "none") == "none" and cache.incr("k") is None
        assert cache.set("k", 2) is False
        with pytest.raises((TimeoutError, ConnectionError)):
            cache.get("k", retry=True)
        with pytest.raises((TimeoutError, ConnectionError)):
            cache["k"] = 3
        with pytest.raises((TimeoutError, ConnectionError)):
            del cache["k"]
        with pytest.raises((TimeoutError, ConnectionError)):
            cache.read("k")
        own_server.start()
        assert wait_until(lambda: cache.get("k") in (1, 2))


def test_statistics_are_of_all_programs(tmp_path):
    with mqkv.Cache(tmp_path / "c", statistics=True) as cache, mqkv.Cache(tmp_path / "c") as other:
        cache["k"] = 1
        cache.get("k"), cache.get("none"), other.get("k")
        other.close()
        assert cache.stats(reset=True) == (2, 1)
        assert cache.stats(enable=False) == (0, 0)


# Order -------------------------------------------------------------------------------------------

def test_an_index_keeps_the_order_in_which_keys_came(tmp_path):
    index = mqkv.Index(tmp_path / "i", [("b", 1), ("a", 2)], c=3)
    index["b"] = 4
    index["b"] = 5
    assert list(index.items()) == [("b", 5), ("a", 2), ("c", 3)]
    assert list(reversed(index)) == ["c", "a", "b"]
    assert index.popitem(last=False) == ("b", 5) and index.popitem() == ("c", 3)
    assert index == {"a": 2} and index != {"a": 3} and bool(index)
    del index["a"]
    assert not index and index.pop("a", 7) == 7
    index.cache.close()


def part_of(cache, prefix):
    made = mqkv.Cache(client=cache.client, prefix=prefix)
    made.clear()
    return made


def test_an_index_keeps_places_in_transact_too(cache):
    index = mqkv.Index.fromcache(part_of(cache, "i"), [("a", 1), ("b", 2), ("c", 3)])
    with index.transact():
        index["a"] = 10
        assert list(index) == ["a", "b", "c"] and len(index) == 3
    with index.transact():
        index["a"] = 11
        index["a"] = 12
    assert list(index.items()) == [("a", 12), ("b", 2), ("c", 3)]
    with index.transact():
        index["new"], index["newer"], index["new"] = 1, 2, 3
        assert list(index) == ["a", "b", "c", "new", "newer"]
        assert list(reversed(index)) == ["newer", "new", "c", "b", "a"]
        assert list(index.cache.iterkeys()) == ["a", "b", "c", "new", "newer"]
    assert list(index) == ["a", "b", "c", "new", "newer"]
    with index.transact():
        index["a"] = index.pop("a")  # taken out and stored again: it comes last
        del index["c"]
        assert list(index) == ["b", "new", "newer", "a"] and len(index) == 4
    assert list(index) == ["b", "new", "newer", "a"]
    index.cache.incr("b")
    index.cache.touch("new", 600)
    assert list(index.items()) == [("b", 3), ("new", 3), ("newer", 2), ("a", 12)]
    assert index.cache.get("new", expire_time=True)[1] is not None


def test_an_index_takes_what_its_block_has_stored(cache):
    index = mqkv.Index.fromcache(part_of(cache, "t"), [("a", 1), ("b", 2)])
    with index.transact():
        index["new"] = 1
        assert index.peekitem() == index.popitem() == ("new", 1)
        assert index.popitem(last=False) == ("a", 1)
        assert index.peekitem(last=False) == index.popitem() == ("b", 2)
        with pytest.raises(KeyError):
            index.popitem()
        assert not index and len(index) == 0
    assert not index
    plain = part_of(cache, "p")
    with plain.transact():
        plain["x"], plain["y"], plain["x"] = 1, 2, 3
        assert plain.peekitem() == ("x", 3)  # a Cache's item that is stored again is the last
    assert plain.peekitem() == ("x", 3)


def test_a_deque_is_extended_by_itself(cache):
    ours = mqkv.Deque.fromcache(part_of(cache, "d"), range(150), maxlen=150)
    theirs = collections.deque(range(150), maxlen=150)
    for extend in ("extendleft", "extend", "__iadd__"):
        for _ in range(2):
            getattr(ours, extend)(ours)
            getattr(theirs, extend)(theirs)
            assert list(ours) == list(theirs)
            ours.rotate(60)
            theirs.rotate(60)
    again = mqkv.Deque.fromcache(ours.cache, maxlen=150)
    ours.extendleft(again)
    theirs.extendleft(list(theirs))
    assert list(ours) == list(theirs)


def test_the_limit_of_a_deque(cache):
    items = mqkv.Deque.fromcache(part_of(cache, "l"), "abc", maxlen=3)
    for wrong in (-1, float("nan"), "2"):
        with pytest.raises((ValueError, TypeError)):
            items.maxlen = wrong
        with pytest.raises((ValueError, TypeError)):
            mqkv.Deque.fromcache(items.cache, maxlen=wrong)
        with pytest.raises((ValueError, TypeError)):
            mqkv.Deque(maxlen=wrong)
        assert (list(items), items.maxlen) == (["a", "b", "c"], 3)
    items.maxlen = None
    items.append("d")
    assert (list(items), items.maxlen) == (["a", "b", "c", "d"], math.inf)
    items.maxlen = 0
    assert list(items) == []


def test_a_deque_has_holes(tmp_path):
    deque = mqkv.Deque("abcdef", tmp_path / "d")
    del deque[2]
    deque.remove("d")
    assert (list(deque), len(deque), deque[2], deque[-1]) == (list("abef"), 4, "e", "f")
    deque[2] = "E"
    assert [deque.popleft(), deque.popleft(), deque.popleft(), len(deque)] == ["a", "b", "E", 1]
    assert deque.pop() == "f" and len(deque) == 0
    with pytest.raises(IndexError):
        deque[0]
    deque.append("x")
    assert deque == ["x"] and deque.peekleft() == "x"
    deque.cache.close()


# Several programs --------------------------------------------------------------------------------

def push_and_pull(directory, number, queue):
    home.IDLE_EXIT = "300ms"
    pulled = []
    with mqkv.Cache(directory) as cache:
        for item in range(50):
            cache.push((number, item), prefix="q")
            if item % 2:
                pulled.append(cache.pull(prefix="q")[1])
    queue.put(pulled)


def test_a_queue_gives_each_item_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    programs = [context.Process(target=push_and_pull, args=(tmp_path / "c", number, queue))
                for number in range(3)]
    for program in programs:
        program.start()
    pulled = [item for _ in programs for item in queue.get(timeout=60)]
    for program in programs:
        program.join()
    with mqkv.Cache(tmp_path / "c") as cache:
        while (item := cache.pull(prefix="q")[1]) is not None:
            pulled.append(item)
    assert sorted(pulled) == [(number, item) for number in range(3) for item in range(50)]
    for number in range(3):
        assert [item for who, item in pulled[-75:] if who == number] == sorted(
            item for who, item in pulled[-75:] if who == number)


def test_transact_is_one_step_for_all(cache):
    cache["a"], cache["b"] = 100, 0

    def pay():
        for _ in range(20):
            with cache.transact(retry=True):
                cache["a"] -= 1
                with cache.transact():
                    cache.incr("b")
                assert cache["a"] + cache["b"] == 100

    threads = [threading.Thread(target=pay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (cache["a"], cache["b"]) == (20, 80)


def test_a_block_of_transact_sees_what_it_does(cache):
    cache["old"] = 1
    with cache.transact():
        assert cache.pop("old") == 1 and "old" not in cache and not cache.delete("old")
        assert cache.add("new", 2, expire=60) and not cache.add("new", 3)
        assert cache.touch("new") and cache.get("new", expire_time=True) == (2, None)
        assert cache.incr("new", 5) == 7 and cache.decr("n") == -1
        key = cache.push("item")
        assert cache.peek() == (key, "item") and cache.pull() == (key, "item")
        assert cache.pull() == (None, None)
        cache.set("gone", 1, expire=0)
    assert sorted(cache, key=str) == ["n", "new"]
    with pytest.raises(ZeroDivisionError):
        with cache.transact():
            cache["new"] = 0
            1 // cache["new"]
    assert cache["new"] == 7


def test_who_waits_for_transact_waits_for_its_time_only(tmp_path):
    with mqkv.Cache(tmp_path / "c", timeout=1) as cache:
        version = cache.take_lock(False)
        with pytest.raises(mqkv.Timeout):
            with cache.transact():
                pass
        cache.give_lock(version)
        with cache.transact():
            cache["k"] = 1
    with mqkv.Cache(tmp_path / "c") as cache:
        with pytest.raises(mqkv.TransactionConflict):
            with cache.transact():
                cache["k"] = 2
                cache.client.delete(cache.lock_name)  # as if its time were over
        assert cache["k"] == 1


def test_kill_9_of_the_daemon_is_a_pause(tmp_path):
    with mqkv.Cache(tmp_path / "c") as cache:
        for number in range(20):
            cache[number] = number
            if number % 7 == 3:
                os.kill(cache.client.info()["server_pid"], signal.SIGKILL)
        assert dict((key, cache[key]) for key in cache) == {n: n for n in range(20)}


def test_delete_many(cache):
    cache.set_many({number: number for number in range(10)})
    assert cache.delete_many([1, 2, "none"]) == 2
    assert sorted(cache) == [0, *range(3, 10)]


def test_a_typed_key_is_the_one_that_iteration_gives(cache):
    @cache.memoize(typed=True)
    def kind_of(value):
        return repr(value)

    for value in (None, ..., 1, True, 1.5, "x", b"x", (1, None), datetime.date(1843, 9, 1), len,
                  int, decimal.Decimal):
        if value is len:
            with pytest.raises(coding.PickleRefused):
                kind_of(value)
        elif value is not ...:
            kind_of(value)
    keys = list(cache)
    assert len(keys) == 10 and all(key in cache for key in keys)
    assert cache.delete_many(keys) == 10 and not list(cache)


def test_types_in_keys():
    for kind in (type(None), type(...), type(len), type(lambda: 0), type(time), type, int):
        key = ("f", kind)
        assert coding.key_of(coding.key_bytes(key)) == key

    class Local:
        pass

    with pytest.raises(coding.PickleRefused):
        coding.key_bytes(("f", Local))
    stored = coding.key_bytes(("f", uuid.UUID)).replace(b"uuid:", b"not_loaded:")
    assert coding.key_of(stored) == ("f", "not_loaded:UUID")
    assert coding.key_bytes(coding.key_of(stored)) == stored


@pytest.mark.parametrize("ignore", [{"b"}, {1}, {"b", 1}])
def test_what_is_ignored_may_be_passed_in_any_way(cache, ignore):
    runs = []

    def add(a, b, *more, c=0, **named):
        runs.append(b)
        return a

    for memoize in (cache.memoize(ignore=ignore), mqkv.memoize_stampede(cache, 60, ignore=ignore)):
        cache.clear()
        runs.clear()
        call = memoize(add)
        nothing = object()  # which no key can have
        assert [call(1, 2), call(1, b=3), call(b=4, a=1), call(1, nothing)] == [1] * 4
        assert runs in ([2, 4], [2])  # a=1 by name is another key, as ever
        call(1, 2, 3)
        call(1, 2, c=3)
        assert len(runs) == 4
    assert mqkv.Cache.memoize(cache, ignore={0})(abs)(-3) == 3


def test_read_only_is_refused(cache, tmp_path):
    for make in (mqkv.Cache, mqkv.FanoutCache):
        with pytest.raises(ValueError, match="read_only"):
            make(tmp_path / "c", read_only=True)
        assert not (tmp_path / "c").exists()
    with pytest.raises(ValueError, match="read_only"):
        mqkv.FanoutCache(client=cache.client).cache("part", read_only=True)
    mqkv.Cache(client=cache.client, read_only=False)


def test_keys_of_a_tag(cache):
    ours = part_of(cache, "tags")
    for number, tag in enumerate(["a", "b", None, "a"]):
        ours.set(number, "x", tag=tag)
    assert list(ours.iterkeys(tag="a")) == [0, 3] and list(ours.iterkeys(tag=None)) == [2]
    assert list(ours.iterkeys(reverse=True, tag="a")) == [3, 0]
    with ours.transact():
        ours.set(1, "x", tag="a")
        ours.set(3, "x")
        del ours[0]
        assert list(ours.iterkeys(tag="a")) == [1]
    assert list(ours.iterkeys(tag="a")) == [1] and list(ours.iterkeys()) == [1, 2, 3]


HOSTILE_KEYS = [b"t" + b"(" * 30000, b"t(", b"t1 +", b"t\xff",
                b"t" + b"-" * 60000 + b"1", b"J" + b"[" * 30000, b'J{"\\u0000": 5}', b"i", b"i" * 9,
                b"f", b"s\xff", b"?", b"", b'J{"\\u0000": ["set", [[1]]]}',
                b"i" + b"9" * 5000]


@pytest.mark.parametrize("keeps_places", [False, True])
def test_what_is_no_key_does_not_break_iteration(cache, keeps_places):
    ours = part_of(cache, "h")
    ours.keeps_places = keeps_places
    ours.set_many({"a": 1, 2: 3})
    for number, key in enumerate(HOSTILE_KEYS):
        value = (b"t\0\xff", b"q", b"5", b"t\0\0\1t(")[number % 4]
        ours.client.put(b"hk" + key, value)
        with pytest.raises(ValueError):
            coding.key_of(key)
    ours.set("z", 4, tag="t")
    assert sorted(map(str, ours)) == sorted(map(str, reversed(ours))) == ["2", "a", "z"]
    assert list(ours.iterkeys()) == [2, "a", "z"]
    assert ours.peekitem() == ("z", 4) and ours.evict("t") == 1
    assert ours.peekitem() in (("a", 1), (2, 3)) and ours.evict("none") == 0
    assert ours.clear() == len(HOSTILE_KEYS) + 2
