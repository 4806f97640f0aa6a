"""How long queues of mqkv.kombu live: what the entries in the store say, without kombu."""

import os
import subprocess
import time

import pytest

from mqkv.kombu_lifetime import Consumer, Lifetimes, Terms


@pytest.fixture
def lifetimes(client):
    """Those of an empty store."""
    return Lifetimes(client)


def of_dead_process():
    """The name of a consumer whose process has ended."""
    with subprocess.Popen(["sleep", "60"]) as process:
        started = open(f"/proc/{process.pid}/stat", encoding="utf-8").read().split()[21]
        name = Consumer(f"{os.stat('/proc/self/ns/pid').st_ino}:{process.pid}:{started}:1")
        assert name.lives(0)
        process.kill()
    return name


def test_a_queue_of_which_nothing_is_said_lives_for_ever(lifetimes, client):
    assert lifetimes.terms("q") is None
    assert not lifetimes.join("q", Consumer.new())
    assert lifetimes.over() == {}
    assert not client.exists("kombu:queues")


def test_a_queue_ends_when_it_was_not_used(lifetimes):
    lifetimes.declare("short", 1, -1, False)
    lifetimes.declare("long", 3_600_000, 5000, False)
    time.sleep(0.01)
    assert set(lifetimes.over()) == {"short"}
    assert lifetimes.terms("long").ttl_ms == 5000
    lifetimes.declare("short", 3_600_000, -1, False)
    assert lifetimes.over() == {}


def test_a_queue_ends_with_its_last_consumer(lifetimes):
    first, second = Consumer.new(), Consumer.new()
    lifetimes.declare("q", 0, -1, True)
    assert lifetimes.over() == {}  # nobody has consumed from it yet
    assert lifetimes.join("q", first) and lifetimes.join("q", second)
    assert not lifetimes.leave("q", first)
    assert lifetimes.over() == {}
    assert lifetimes.leave("q", second)
    assert set(lifetimes.over()) == {"q"}
    lifetimes.forget("q")
    assert lifetimes.terms("q") is None


def test_a_consumer_ends_with_its_process(lifetimes):
    dead = of_dead_process()
    assert not dead.lives(time.time_ns())
    lifetimes.declare("q", 0, -1, True)
    lifetimes.join("q", dead)
    assert set(lifetimes.over()) == {"q"}
    lifetimes.join("q", Consumer.new())
    assert lifetimes.over() == {}


def test_a_process_of_the_same_number_is_another_consumer():
    namespace, pid, started, unique = Consumer.new().split(":")
    assert not Consumer(f"{namespace}:{pid}:{int(started) + 1}:{unique}").lives(0)


def test_a_consumer_elsewhere_lives_for_its_time():
    now_ms = time.time_ns() // 1_000_000
    for name in ("1:1:1:elsewhere", "0:1:1:unknown", "no name"):
        assert Consumer(name).lives(now_ms + 60_000)
        assert not Consumer(name).lives(now_ms - 1)


def test_an_exchange_is_noted_once(lifetimes):
    lifetimes.declare("q", 1000, -1, False)
    lifetimes.bind("q", "x")
    lifetimes.bind("q", "x")
    assert lifetimes.terms("q").exchanges == ["x"]


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"{", b'{"consumers": [1]}', b"\xff",
                                  b'{"consumers": {"a": "late"}}', b'{"expires_ms": {}}'])
def test_what_was_not_written_here_says_nothing(lifetimes, client, data):
    assert vars(Terms(data)) == vars(Terms())
    client.put("kombu:queue:q", data)
    assert lifetimes.terms("q").expires_ms == 0
    assert not lifetimes.terms("q").is_over()
