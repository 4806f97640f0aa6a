"""docs/MIGRATING.md says what is so: every row and every line of it is tried."""

import doctest
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys

import pytest

import mqkv
from conftest import BUILD, listens, wait_until
from mqkv import home, redis as bridge

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/MIGRATING.md"
TEXT = PAGE.read_text(encoding="utf-8")
MEMCACHED_GOOD = ("VALUE", "END", "STORED", "TOUCHED", "DELETED", "STAT", "VERSION")


def rows(title):
    """The rows of the first table below that title: lists of cells, without their backquotes."""
    section = TEXT[TEXT.index(f"\n{title}\n"):]
    table = re.search(r"\n\|[-|]+\|\n((?:\|.*\n)+)", section)[1]
    found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert len(found) > 5
    return found


def code(cell):
    """What a cell has in backquotes; empty: nothing."""
    match = re.search(r"`([^`]*)`", cell)
    return match[1] if match else ""


COMMANDS = rows("### Command by command")
THROUGH_KRESP = rows("### Not there as commands of mqkv, but through kresp")
NOT_THERE = rows("### Not there at all")
MEMCACHED = rows("## From memcached")
LMDB = rows("## From LMDB")
DISKCACHE = rows("## From diskcache")


@pytest.fixture
def filled(client):
    """A store with a text, a number, and something that ends."""
    client.put_many({"k": "v", "n": "1"})
    client.touch("k", 1000)
    return client


def first(cells):
    return code(cells[0])


@pytest.mark.parametrize("cells", [cells for cells in COMMANDS + MEMCACHED if code(cells[1])],
                         ids=first)
def test_clientk(filled, queue, cells):
    command = shlex.split(code(cells[1]))
    if command == ["batch"]:
        command += ["-"]
    done = subprocess.run([BUILD / "clientk", "-m", queue, *command], capture_output=True,
                          input=b"GET k\n", timeout=60, check=False)
    assert done.returncode == 0, done


@pytest.mark.parametrize("cells", [cells for cells in COMMANDS + MEMCACHED + LMDB
                                   if code(cells[2])], ids=first)
def test_python(filled, cells):
    eval(code(cells[2]), {"client": filled, "mqkv": mqkv})  # pylint: disable=eval-used


@pytest.mark.parametrize("library", ["mqkv", "diskcache"])
def test_diskcache(tmp_path, monkeypatch, library):
    module = pytest.importorskip(library, reason=f"{library} is not there")
    monkeypatch.setattr(home, "IDLE_EXIT", "100ms")
    here = {"tmp": tmp_path, **{name: getattr(module, name) for name in (
        "Cache", "FanoutCache", "Deque", "Index", "JSONDisk") if hasattr(module, name)}}
    with module.Cache(tmp_path / "cache") as cache, module.FanoutCache(tmp_path / "fan") as fanout:
        here.update(cache=cache, fanout=fanout)
        for number, cells in enumerate(DISKCACHE):
            here["directory"] = tmp_path / str(number)
            if cells[1] not in ("the same", f"`{library}.Cache`") and library == "mqkv":
                cells = cells[1:]
            for line in re.findall(r"`([^`]*)`", cells[0]):
                if line.startswith(("Django", "mqkv.django")):
                    continue
                exec(f"made = {line}" if line[:1].isupper() else line, here)
                if line[:1].isupper():
                    getattr(here["made"], "cache", here["made"]).close() if "Cache(" not in line \
                        else here["made"].close()


def ask(socket_path, command):
    """A command of Redis, after the same keys are there as in a filled store."""
    connection = bridge.connect(bridge.make_parser().parse_args(["dump", "-s", socket_path, "-"]))
    connection.ask("DEL", "new", "other")
    connection.ask("SET", "k", "v", "EX", 1000)
    connection.ask("SET", "n", "1")
    return connection.ask(*command.split())


@pytest.fixture(scope="module")
def kresp(running, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("kresp") / "sock")
    with subprocess.Popen([BUILD / "kresp", "-m", running.queue, "-s", path],
                          stderr=subprocess.DEVNULL) as process:
        assert wait_until(lambda: listens(path))
        yield path
        process.terminate()


@pytest.fixture(scope="module")
def real_redis(tmp_path_factory):
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not there")
    directory = tmp_path_factory.mktemp("redis")
    path = str(directory / "sock")
    with subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "",
                           "--dir", directory], stdout=subprocess.DEVNULL) as process:
        assert wait_until(lambda: listens(path))
        yield path
        process.terminate()


@pytest.mark.parametrize("cells", COMMANDS + THROUGH_KRESP, ids=first)
def test_kresp_answers_as_redis_does(queue, kresp, real_redis, cells):
    ours, theirs = ask(kresp, first(cells)), ask(real_redis, first(cells))
    assert type(ours) is type(theirs)
    if first(cells).split()[0] in ("INFO", "KEYS", "SCAN", "RANDOMKEY", "PTTL", "EXPIRETIME"):
        return
    assert ours == theirs


@pytest.mark.parametrize("cells", NOT_THERE, ids=first)
def test_what_is_not_there(queue, kresp, real_redis, cells):
    with pytest.raises(bridge.ReplyError, match="unknown command"):
        ask(kresp, first(cells))
    try:
        ask(real_redis, first(cells))
    except bridge.ReplyError as error:
        assert "unknown command" not in str(error)


def test_what_kresp_refuses(queue, kresp):
    for command in ("SELECT 1", "FLUSHALL"):
        with pytest.raises(bridge.ReplyError):
            ask(kresp, command)


@pytest.fixture(scope="module")
def memcached(tmp_path_factory):
    program = shutil.which("memcached")
    if not program:
        pytest.skip("memcached is not there")
    path = str(tmp_path_factory.mktemp("memcached") / "sock")
    user = ["-u", "root"] if os.getuid() == 0 else []
    with subprocess.Popen([program, "-s", path, *user], stderr=subprocess.DEVNULL) as process:
        assert wait_until(lambda: listens(path))
        yield path
        process.terminate()


@pytest.mark.parametrize("cells", MEMCACHED, ids=first)
def test_memcached_has_these_commands(memcached, cells):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(memcached)
        stream = connection.makefile("rwb")

        def send(command):
            needs_value = command.split()[0] in ("set", "add", "replace", "append")
            stream.write(command.encode() + b"\r\n" + (b"1\r\n" if needs_value else b""))
            stream.flush()
            return stream.readline().decode().strip()

        send("delete new")
        assert send("set k 0 0 1") == send("set n 0 0 1") == "STORED"
        answer = send(first(cells))
        assert answer.split()[0] in MEMCACHED_GOOD or answer.isdigit()


def test_memcached_stops_at_zero(memcached, client):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(memcached)
        connection.sendall(b"set few 0 0 1\r\n3\r\ndecr few 5\r\nincr none 1\r\n"
                           b"append none 0 0 1\r\nx\r\n")
        answers = b""
        while answers.count(b"\r\n") < 4:
            answers += connection.recv(4096)
    assert answers == b"STORED\r\n0\r\nNOT_FOUND\r\nNOT_STORED\r\n"
    client.put("few", "3")
    assert client.add("few", -5) == -2 and client.add("none") == 1


def test_the_functions_of_c_exist():
    header = (PAGE.parents[1] / "include/mqkv/clientk.h").read_text()
    for cells in LMDB:
        if code(cells[1]):
            assert f" {code(cells[1])}(" in header


def test_the_code_of_the_page(client):
    globs = {"client": client, "mqkv": mqkv}
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, globs=globs,
                                     optionflags=doctest.ELLIPSIS)
    assert tried > 12 and failed == 0


def test_copying_an_lmdb(client, tmp_path, monkeypatch):
    lmdb = pytest.importorskip("lmdb", reason="python3-lmdb is not there")
    monkeypatch.chdir(tmp_path)
    entries = {b"k%d" % i: b"v%d" % i for i in range(2500)}
    with lmdb.open("old", map_size=1 << 24) as old, old.begin(write=True) as writer:
        for key, value in entries.items():
            writer.put(key, value)
        with pytest.raises(lmdb.BadValsizeError):
            writer.put(b"k" * 512, b"")
    block = re.search(r"\n    import lmdb, mqkv\n(?:(?:    .*)?\n)+", TEXT)[0]
    exec("\n".join(line[4:] for line in block.splitlines()))  # pylint: disable=exec-used
    assert {entry.key: entry.value for entry in client.scan()} == entries


def test_the_first_screen_of_readme(client, queue, tmp_path):
    """What README shows before anything else, as it stands there."""
    if not shutil.which("redis-cli"):
        pytest.skip("redis-cli is not there")
    screen = (PAGE.parents[1] / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    steps = []  # (command, what it prints)
    for line in re.findall(r"^    (.*)$", screen, re.M):
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    assert len(steps) >= 4
    programs = tmp_path / "bin"
    programs.mkdir()
    # redis-cli prints for a terminal only there, or if told to.
    for name, command in (("clientk", f"{BUILD}/clientk"), ("kresp", f"{BUILD}/kresp"),
                          ("redis-cli", f"{shutil.which('redis-cli')} --no-raw"),
                          ("python3", sys.executable)):
        (programs / name).write_text(f'#!/bin/sh\nexec {command} "$@" 2>/dev/null\n')
        (programs / name).chmod(0o755)
    script = "".join(f"{command}\n" for command, _ in steps)
    environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", MQKV_QUEUE=queue)
    done = subprocess.run(["bash", "-c", script + "kill $(jobs -p); wait"], cwd=tmp_path, text=True,
                          env=environment, stdout=subprocess.PIPE, timeout=60, check=False)
    assert done.stdout.splitlines() == [line for _, lines in steps for line in lines]
