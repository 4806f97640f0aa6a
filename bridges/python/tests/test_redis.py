"""mqkv-redis: what leaves a Redis arrives in a store, byte by byte, and the other way."""

import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import mqkv
from conftest import BUILD, listens, wait_until
from mqkv import redis as bridge


class RedisServer:
    """A redis-server on a socket in the directory."""

    def __init__(self, directory, *options):
        self.socket = str(directory / "redis.sock")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir",
             str(directory), "--appendonly", "no", *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert wait_until(lambda: listens(self.socket))
        self.connection = bridge.connect(bridge.make_parser().parse_args(
            ["dump", "-s", self.socket, "-"]))
        self.ask = self.connection.ask

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)


@pytest.fixture
def redis(tmp_path):
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not there")
    server = RedisServer(tmp_path)
    yield server
    server.stop()


def run(*arguments, **options):
    """mqkv-redis with these arguments."""
    return subprocess.run([sys.executable, "-m", "mqkv.redis", *arguments], check=False,
                          capture_output=True, timeout=400, **options)


def clientk(queue, *arguments, **options):
    return subprocess.run([BUILD / "clientk", "-m", queue, *arguments], check=False,
                          capture_output=True, timeout=400, **options)


def samples():
    """Keys and values of every size, and of every byte."""
    generator = random.Random(7)
    entries = {bytes([byte]): bytes([byte, 255 - byte]) for byte in range(256)}
    for size in (1, 2, 100, 255, 256, 4096, 65535):
        entries[generator.randbytes(size)] = generator.randbytes(size)
    for size in (0, 1, 15, 16, 4095, 8192, 65536, 100_000, 1 << 20, 2 << 20):
        entries[b"size:%d" % size] = generator.randbytes(size)
    for i in range(2000):
        key = bytes(generator.choices(b'"\\ \n\r\t\0x0#-', k=generator.randrange(1, 12)))
        entries[key] = bytes(generator.choices(b'"\\ \n\r\t\0x0"--', k=generator.randrange(12)))
    return entries


def test_there_and_back(redis, client, queue, tmp_path):
    entries = samples()
    expiries = {}
    for i, (key, value) in enumerate(entries.items()):
        if i % 3 == 0:
            expiries[key] = int((time.time() + 1000 + i) * 1000)
            redis.ask("SET", key, value, "PXAT", expiries[key])
        else:
            redis.ask("SET", key, value)
    path = str(tmp_path / "dump")
    done = run("dump", "-s", redis.socket, path)
    assert done.returncode == 0, done.stderr
    assert f"{len(entries)} entries dumped" in done.stderr.decode()
    done = clientk(queue, "load", path)
    assert done.returncode == 0, done.stderr
    found = {entry.key: entry for entry in client.scan()}
    assert {key: entry.value for key, entry in found.items()} == entries
    assert {key: entry.expiry_ms for key, entry in found.items() if entry.expiry_ms} == expiries

    # Back, by way of clientk's own dump.
    back = str(tmp_path / "back")
    assert clientk(queue, "dump", back).returncode == 0
    redis.ask("FLUSHALL")
    done = run("load", "-s", redis.socket, back)
    assert done.returncode == 0, done.stderr
    assert redis.ask("DBSIZE") == len(entries)
    for key, value in entries.items():
        assert redis.ask("GET", key) == value
        assert redis.ask("PEXPIRETIME", key) == expiries.get(key, -1)


def test_pipes(redis, client, queue):
    redis.ask("MSET", *[word for i in range(3000) for word in (f"k{i}", f"v{i}")])
    dumped = run("dump", "--socket", redis.socket, "-")
    assert dumped.returncode == 0
    assert clientk(queue, "load", "-", input=dumped.stdout).returncode == 0
    assert len(list(client.keys())) == 3000 and client.get("k7") == b"v7"
    redis.ask("FLUSHALL")
    loaded = run("load", "-s", redis.socket, "-", input=clientk(queue, "dump", "-").stdout)
    assert loaded.returncode == 0 and redis.ask("DBSIZE") == 3000


def test_what_has_no_place_is_counted_and_named(redis, tmp_path):
    redis.ask("SET", "kept", "1")
    redis.ask("SET", "", "empty")
    redis.ask("SET", b"k" * 65536, "long")
    redis.ask("SET", "big", b"v" * 2000)
    redis.ask("RPUSH", "a list", "1")
    redis.ask("SADD", "a set", "1")
    redis.ask("HSET", "a hash", "1", "2")
    redis.ask("ZADD", "a zset", "1", "2")
    redis.ask("XADD", "a stream", "*", "1", "2")
    for i in range(12):
        redis.ask("RPUSH", f"list{i}", "1")
    redis.ask("SELECT", 3)
    redis.ask("SET", "elsewhere", "1")
    done = run("dump", "-s", redis.socket, "--max-value", "1K", "-")
    said = done.stderr.decode()
    assert done.returncode == 1
    assert done.stdout.count(b"\nPUT ") == 1 and b'PUT "kept" "1"' in done.stdout
    for text in ("1 entries dumped", "13 of type list", "and 3 more", '1 of type set: "a set"',
                 'type hash: "a hash"', 'type zset: "a zset"', 'type stream: "a stream"',
                 "1 of keys of 0 bytes", "1 of keys of 65536 bytes",
                 '1 of values above --max-value: "big"', "database 3 has 1 keys"):
        assert text in said, said
    assert run("dump", "-s", redis.socket, "--skip", "-").returncode == 0
    other = run("dump", "-s", redis.socket, "--db", "3", "-")
    assert other.returncode == 0 and b'PUT "elsewhere" "1"' in other.stdout
    some = run("dump", "-s", redis.socket, "--match", "k?pt", "-")
    assert some.returncode == 0 and some.stdout.count(b"\nPUT ") == 1


def test_files_are_not_overwritten_and_never_half(redis, tmp_path):
    path = tmp_path / "dump"
    path.write_text("mine")
    redis.ask("SET", "k", "1")
    done = run("dump", "-s", redis.socket, str(path))
    assert done.returncode == 4 and path.read_text() == "mine"
    assert run("dump", "-s", redis.socket, "--force", str(path)).returncode == 0
    assert path.read_bytes().startswith(b"# mqkv dump 1, redis ")
    assert path.stat().st_mode & 0o77 == 0
    assert run("dump", "-s", redis.socket, str(tmp_path / "no/dump")).returncode == 4
    assert sorted(entry.name for entry in tmp_path.iterdir() if "dump" in entry.name) == ["dump"]


def test_damaged_dumps_are_not_loaded(redis, client, queue, tmp_path):
    client.put("a", "1")
    client.put("b", "2")
    sound = clientk(queue, "dump", "-").stdout
    lines = sound.splitlines(keepends=True)
    path = tmp_path / "dump"
    cases = {
        "no trailer": b"".join(lines[:-1]),
        "no header": b"".join(lines[1:]),
        "version": sound.replace(b"dump 1,", b"dump 2,"),
        "checksum is wrong": sound.replace(b'"1"', b'"7"'),
        "not a line of a dump": sound.replace(b"PUT", b"GET", 1),
        "no such escape": sound.replace(b'"1"', b'"\\q"'),
    }
    for text, data in cases.items():
        path.write_bytes(data)
        done = run("load", "-s", redis.socket, str(path))
        assert done.returncode == 4 and text in done.stderr.decode(), (text, done)
        assert redis.ask("DBSIZE") == 0
    path.write_bytes(cases["no trailer"])
    assert run("load", "-s", redis.socket, "--force", str(path)).returncode == 0
    assert redis.ask("GET", "b") == b"2"
    # Of a stream the end is seen last: what came before is loaded, and the exit status tells.
    redis.ask("FLUSHALL")
    done = run("load", "-s", redis.socket, "-", input=cases["no trailer"])
    assert done.returncode == 4 and redis.ask("DBSIZE") == 2


def test_load_options(redis, client, queue, tmp_path):
    client.put("k", "new")
    client.put("ends", "1", ttl=1000)
    header, *lines, _ = clientk(queue, "dump", "-").stdout.splitlines()
    checksum = bridge.Checksum()
    for line in [*lines, bridge.put_line(b"short", b"1", 1)]:  # it ended in 1970
        checksum.add(line)
    dumped = b"\n".join([header, *lines, bridge.put_line(b"short", b"1", 1), checksum.trailer()])
    redis.ask("SET", "k", "old")
    done = run("load", "-s", redis.socket, "--if-absent", "--px", "-", input=dumped)
    said = done.stderr.decode()
    assert done.returncode == 0 and "1 entries loaded" in said
    assert "1 were there" in said and "1 had expired" in said
    assert redis.ask("GET", "k") == b"old" and redis.ask("EXISTS", "short") == 0
    assert 900_000 < redis.ask("PTTL", "ends") <= 1_000_000
    redis.ask("CONFIG", "SET", "maxmemory", "1")
    done = run("load", "-s", redis.socket, "-", input=dumped)
    assert done.returncode == 4 and "OOM" in done.stderr.decode()


def test_passwords(tmp_path):
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not there")
    server = RedisServer(tmp_path)
    try:
        server.ask("CONFIG", "SET", "requirepass", "secret word")
        password = tmp_path / "password"
        password.write_text("secret word\n")
        arguments = ["dump", "-s", server.socket, "-"]
        refused = run(*arguments)
        assert refused.returncode == 4 and "NOAUTH" in refused.stderr.decode()
        assert run(*arguments, "--password-file", str(password)).returncode == 0
        assert run(*arguments, "--password-file", str(password), "--user",
                   "default").returncode == 0
        password.write_text("wrong")
        assert run(*arguments, "--password-file", str(password)).returncode == 4
        assert run(*arguments, "--password-file", str(tmp_path / "none")).returncode == 2
    finally:
        server.stop()


def test_usage_and_no_redis(tmp_path):
    assert run().returncode == 2
    assert run("dump").returncode == 2
    assert run("dump", "--bogus", "-").returncode == 2
    assert run("dump", "--max-value", "many", "-").returncode == 2
    assert run("--help").returncode == 0
    assert run("dump", "-s", str(tmp_path / "none"), "-").returncode == 3
    assert run("load", "-s", str(tmp_path / "none"), "-").returncode == 3
    assert run("load", str(tmp_path / "none")).returncode == 2


@pytest.mark.parametrize("answer, status", [
    (b"", 3), (b"+PONG", 3), (b"hello\r\n", 4), (b"$99999999999999\r\n", 4), (b"*-5\r\n", 3),
    (b"*x\r\n", 4),
    (b":x\r\n", 4), (b"$5\r\nab", 3), (b"+PONG\r\n*2\r\n$1\r\n0\r\n:1\r\n", 4),
    (b"+PONG\r\n" + b"*1\r\n" * 5000, 4), (b"+PONG\r\n*1\r\n$1\r\n0\r\n", 4),
    (b"+PONG\r\n-ERR no\r\n", 4), (b"+PONG\r\n*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n+string\r\n", 3),
])
def test_what_is_no_redis(tmp_path, answer, status):
    path = str(tmp_path / "sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve():
        peer, _ = listener.accept()
        with peer:
            peer.sendall(answer)
            peer.shutdown(socket.SHUT_WR)
            try:
                while peer.recv(65536):
                    pass
            except OSError:
                pass

    server = threading.Thread(target=serve)
    server.start()
    done = run("dump", "-s", path, "--timeout", "20", "-")
    server.join()
    listener.close()
    assert done.returncode == status and b"Traceback" not in done.stderr, done.stderr


def test_lines():
    generator = random.Random(3)
    for _ in range(20_000):
        key, value = (bytes(generator.choices(b'" \\x0ntrPUT\0\n\xff5e-', k=generator.randrange(9)))
                      for _ in range(2))
        expiry_ms = generator.choice((0, 5, 10 ** 18))
        assert bridge.read_put(bridge.put_line(key, value, expiry_ms)) == (key, value, expiry_ms)
    for wrong in (b'PUT "a" "b', b'PUT "a"', b"PUT a b", b'GET "a" "b"', b'PUT "a" "b" --x 1', b"",
                  b'PUT "a" "b\\q"', b'PUT "a"b" "c"', b'PUT "a" "b" "c"', b'PUT "a" "b\\"',
                  b'PUT "a" "b\\x4"', b"PUT", b'PUT "', b'PUT " "', b'PUT "a" "',
                  b'PUT "a" "b" --expires-at ', b'PUT "a" "b" --expires-at x'):
        with pytest.raises(ValueError):
            bridge.read_put(wrong)


def test_kresp_is_a_redis_too(client, queue, tmp_path):
    """What clientk dumps goes through kresp, and comes back the same."""
    if not (BUILD / "kresp").exists():
        pytest.skip("kresp is not built")
    path = str(tmp_path / "kresp.sock")
    with subprocess.Popen([BUILD / "kresp", "-m", queue, "-s", path],
                          stderr=subprocess.DEVNULL) as kresp:
        try:
            assert wait_until(lambda: listens(path))
            client.put_many({b"k\0%d" % i: bytes(range(256)) for i in range(1500)})
            done = run("dump", "-s", path, "-")
            assert done.returncode == 0 and b"1500 entries" in done.stderr
            client.delete_many(client.keys())
            assert run("load", "-s", path, "-", input=done.stdout).returncode == 0
            assert len(client.get_many(client.keys())) == 1500
        finally:
            kresp.terminate()


def test_the_module_has_a_main():
    with pytest.raises(SystemExit) as caught:
        bridge.main(["dump", "-s", "/nowhere/at/all", "-"])
    assert caught.value.code == 3
    assert mqkv.library_version
