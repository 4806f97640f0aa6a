"""smoke_redis_py: redis-py, in both protocols, does on kresp what programs do with it."""
import os
import sys

import redis

failed = 0


def check(holds, text):
    global failed
    failed += not holds
    print("ok" if holds else "not ok", "-", "redis-py", redis.__version__ + ":", text)


def raises(error, call, *arguments):
    try:
        call(*arguments)
    except error:
        return True
    return False


for protocol in (2, 3):
    r = redis.Redis(unix_socket_path=os.environ["KRESP_SOCKET"], protocol=protocol)
    r.flushall()
    check(r.ping() and r.set("a", "1", ex=100) and r.get("a") == b"1",
          f"set and get, RESP{protocol}")
    check(r.set("a", 2, nx=True) is None and r.getset("a", 5) == b"1" and r.incr("a") == 6,
          "conditions and counters")
    check(r.mset({"x": 1, "y": 2}) and r.mget("x", "y", "z") == [b"1", b"2", None], "many keys")
    with r.pipeline() as pipe:
        pipe.set("p", 1).incr("p").expire("p", 50).get("p")
        check(pipe.execute() == [True, 2, True, b"2"], "a transaction")
    with r.pipeline(transaction=False) as pipe:
        for i in range(1000):
            pipe.set(f"n{i}", i)
        check(pipe.execute() == [True] * 1000, "a pipeline")
    check(len(set(r.scan_iter("n*", count=50))) == 1000, "SCAN")
    check(raises(redis.ResponseError, r.lpush, "l", 1), "a command that is not there is an error")
    check(r.transaction(lambda pipe: (pipe.multi(), pipe.set("w", 1)), "w") == [True], "WATCH")
    with r.lock("lock", timeout=10) as lock:
        check(lock.owned() and lock.extend(5) and lock.reacquire(),
              "a lock is taken, extended, reacquired")
        check(not r.lock("lock", timeout=1, blocking=False).acquire(), "and excludes others")
    check(r.get("lock") is None, "and released")
    check(r.ttl("a") == -1 and r.pexpire("a", 5000) and 0 < r.pttl("a") <= 5000 and r.persist("a"),
          "expiry")
    check(r.info()["redis_version"] and r.config_get("maxmemory") == {"maxmemory": "0"},
          "INFO and CONFIG")
    r.set("bytes", bytes(range(256)))
    check(r.get("bytes") == bytes(range(256)) and r.getrange("bytes", 65, 67) == b"ABC",
          "any bytes")
    with r.pubsub() as pubsub:
        heard = []
        pubsub.subscribe("c", "d")
        pubsub.psubscribe(**{"p*": lambda message: heard.append(message["data"])})
        replies = [pubsub.get_message(timeout=30)["type"] for _ in range(3)]
        counts = [r.publish(channel, "x") for channel in ("c", "pc", "e")]
        message = pubsub.get_message(timeout=30)
        pubsub.get_message(timeout=30)  # goes to the function
        check(replies == ["subscribe", "subscribe", "psubscribe"] and counts == [1, 1, 0]
              and (message["channel"], message["data"]) == (b"c", b"x") and heard == [b"x"],
              "a subscriber")
        pubsub.ping()
        pubsub.unsubscribe()
        kinds = [pubsub.get_message(timeout=30)["type"] for _ in range(3)]
        check(kinds == ["pong", "unsubscribe", "unsubscribe"], "PING and UNSUBSCRIBE")
        check(dict(r.pubsub_numsub("c")) == {b"c": 0} and r.pubsub_numpat() == 1, "PUBSUB")
    check(r.delete("a", "x", "nothing") == 2 and r.exists("a", "y") == 1, "deletion")
sys.exit(1 if failed else 0)
