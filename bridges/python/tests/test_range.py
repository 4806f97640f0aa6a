"""Ranges of keys in their order (serverk --ordered)."""

import asyncio

import pytest

import mqkv
import mqkv.aio


@pytest.fixture(scope="module")
def ordered(servers):
    server = servers()
    server.start("--ordered", "-d", "3")
    yield server
    server.stop()


@pytest.fixture
def store(ordered):
    with mqkv.Client(ordered.queue) as client:
        client.delete_range()
        yield client


KEYS = sorted([b"\x00", b"\xff", b"a", b"a\x00", b"a\xff", b"ab", b"b", b"b" * 300, b"c"])


def keys(entries):
    return [entry.key for entry in entries]


def test_entries_come_in_order_both_ways(store):
    for key in KEYS:
        store.put(key, b"v" + key)
    assert keys(store.range()) == KEYS
    assert keys(store.range(reverse=True)) == KEYS[::-1]
    assert [entry.value for entry in store.range()] == [b"v" + key for key in KEYS]
    assert [entry.value for entry in store.range(keys_only=True)] == [None] * len(KEYS)


def test_bounds_prefix_and_limit(store):
    for key in KEYS:
        store.put(key, b"")
    assert keys(store.range(b"a", b"b")) == [b"a", b"a\x00", b"ab", b"a\xff"]
    assert keys(store.range(b"a", b"b", reverse=True)) == [b"a\xff", b"ab", b"a\x00", b"a"]
    assert keys(store.range(prefix=b"a")) == [b"a", b"a\x00", b"ab", b"a\xff"]
    assert keys(store.range(b"ab", prefix=b"a")) == [b"ab", b"a\xff"]
    assert keys(store.range(limit=2)) == KEYS[:2]
    assert keys(store.range(reverse=True, limit=1)) == [b"\xff"]
    assert keys(store.range(limit=0)) == keys(store.range(b"x", b"y")) == []
    assert store.count() == len(KEYS) and store.count(b"a", b"b") == store.count(prefix=b"a") == 4


def test_pages_go_on_behind_the_last_key(store):
    many = [b"%05d" % i for i in range(2500)]
    store.put_many((key, b"") for key in many)
    assert keys(store.range()) == many
    assert keys(store.range(reverse=True)) == many[::-1]
    assert keys(store.range(limit=1500)) == many[:1500]
    assert keys(store.range(b"01000", b"02001", keys_only=True)) == many[1000:2001]
    assert store.count() == 2500


def test_a_range_is_deleted(store):
    store.put_many((b"%05d" % i, b"") for i in range(1500))
    assert store.delete_range(b"00100", b"00200") == 100
    assert store.delete_range(prefix=b"000", limit=30) == 30
    assert store.delete_range(limit=0) == 0
    assert store.count() == 1370
    assert store.delete_range() == 1370 and list(store.range()) == []


def test_a_place_outlives_the_server(ordered, store):
    many = [b"%05d" % i for i in range(1500)]
    store.put_many((key, b"") for key in many)
    entries = store.range()
    first = [next(entries).key for _ in range(1000)]
    ordered.kill()
    ordered.start(*ordered.options)
    assert first + keys(entries) == many


def test_a_server_without_order_says_so(client):
    with pytest.raises(mqkv.Unsupported, match="--ordered"):
        next(client.range())
    with pytest.raises(mqkv.Unsupported):
        client.count(prefix=b"a")


def test_the_same_in_asyncio(ordered, store):
    many = [b"%05d" % i for i in range(1200)]
    store.put_many((key, b"v") for key in many)

    async def walk():
        async with mqkv.aio.Client(ordered.queue) as client:
            found = [entry.key async for entry in client.range(reverse=True, limit=1100)]
            assert found == many[::-1][:1100]
            assert await client.count(b"00100", b"00200") == 100
            assert await client.delete_range(prefix="000") == 100
            assert await client.count() == 1100

    asyncio.run(walk())


def test_slices_of_a_mapping(store):
    store.put(b"l", b"")
    store.put(b"n", b"")
    mapping = store.mapping("m:")
    mapping.update({"a": "1", "b": "2", "b\0": "3", "c": "4"})
    assert list(mapping["b":"c"]) == [(b"b", b"2"), (b"b\0", b"3")]
    assert [key for key, _ in mapping[:]] == [b"a", b"b", b"b\0", b"c"]
    assert [key for key, _ in mapping["b"::-1]] == [b"c", b"b\0", b"b"]
    assert list(mapping["x":]) == []
    with pytest.raises(ValueError):
        mapping[::2]
    with pytest.raises(ValueError):
        del mapping[::-1]
    del mapping[:"b\0"]
    assert sorted(mapping) == [b"b\0", b"c"]
    del mapping[:]
    assert not mapping and store.count() == 2
