"""A directory is all that a program names: its daemon is started, shared, replaced, and ends."""

import errno
import fcntl
import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

import mqkv
from conftest import wait_until
from mqkv import home


@pytest.fixture(autouse=True)
def short_idle(monkeypatch):
    monkeypatch.setattr(home, "IDLE_EXIT", "300ms")


@pytest.fixture
def directory(tmp_path):
    yield tmp_path / "store"
    assert wait_until(lambda: not is_served(tmp_path / "store"))


def is_served(directory):
    """Whether a process has the store."""
    try:
        pid = int((directory / "lock").read_text())
        return f"--dir\0{directory}" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except (OSError, ValueError):
        return False


def daemons_of(directory):
    """How many daemons the directory has had."""
    return (directory / "serverk.log").read_text().count(" ready: ")


def test_a_directory_is_enough(directory):
    with mqkv.Client(directory) as client:
        client.put("name", "Ada")
    with mqkv.Client(str(directory)) as client, mqkv.Client(directory=directory) as other:
        assert client.get("name") == b"Ada"
        assert client.info()["server_pid"] == other.info()["server_pid"]
    assert directory.stat().st_mode & 0o777 == 0o700


def test_it_ends_when_nobody_uses_it_and_comes_again(directory):
    with mqkv.Client(directory) as client:
        client.put("name", "Ada")
        time.sleep(0.6)
        assert is_served(directory)
    assert wait_until(lambda: not is_served(directory))
    assert daemons_of(directory) == 1
    with mqkv.Client(directory) as client:
        assert client.get("name") == b"Ada"
    assert daemons_of(directory) == 2


def count_up(directory, barrier):
    home.IDLE_EXIT = "300ms"
    barrier.wait()
    with mqkv.Client(directory, timeout=30) as client:
        for _ in range(20):
            client.add("n")


def test_those_who_start_at_once_share_it(directory):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(4)
    programs = [context.Process(target=count_up, args=(directory, barrier)) for _ in range(4)]
    for program in programs:
        program.start()
    for program in programs:
        program.join()
        assert program.exitcode == 0
    with mqkv.Client(directory) as client:
        assert client.get("n") == b"80"
    assert daemons_of(directory) <= 2  # the second, if the first was idle before this client came


def test_the_daemon_may_be_killed(directory):
    with mqkv.Client(directory, timeout=30) as client:
        for number in range(3):
            client.put("n", str(number))
            killed = client.info()["server_pid"]
            os.kill(killed, signal.SIGKILL)
            assert wait_until(lambda: client.get("n") == str(number).encode()
                              and client.info()["server_pid"] not in (0, killed))


def test_a_program_may_be_killed_while_it_starts_it(directory, monkeypatch):
    # Who comes at the moment at which an idle daemon ends may not know what became of a write.
    monkeypatch.setattr(home, "IDLE_EXIT", "3s")
    for delay_ms in (0, 5, 20, 60):
        program = subprocess.Popen(
            [sys.executable, "-c", "import mqkv, sys, time\nfrom mqkv import home\n"
             "home.IDLE_EXIT = '3s'\nprint(flush=True)\n"
             "mqkv.Client(directory=sys.argv[1]).add('n')\ntime.sleep(60)", directory],
            stdout=subprocess.PIPE)
        program.stdout.readline()
        time.sleep(delay_ms / 1000)
        program.kill()
        program.wait()
        program.stdout.close()
        with mqkv.Client(directory, timeout=30) as client:
            client.put("after", str(delay_ms))
            assert client.get("after") == str(delay_ms).encode()


def test_a_child_of_fork_keeps_it_alive_too(directory):
    client = mqkv.Client(directory, timeout=30)
    client.put("n", "1")
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reads, 1)
        os.kill(client.info()["server_pid"], signal.SIGKILL)
        os._exit(0 if client.get("n") == b"1" else 1)
    client.close()
    os.write(writes, b"x")
    assert os.waitpid(child, 0)[1] == 0
    os.close(reads)
    os.close(writes)


def test_a_client_that_is_dropped_is_none(directory):
    mqkv.Client(directory).put("n", "1")
    assert wait_until(lambda: not is_served(directory))


def test_a_copy_is_another_store(directory, tmp_path):
    with mqkv.Client(directory) as client:
        client.put("n", "1")
        client.sync()
    assert wait_until(lambda: not is_served(directory))
    shutil.copytree(directory, tmp_path / "copy")
    with mqkv.Client(directory) as client, mqkv.Client(tmp_path / "copy") as copy:
        copy.add("n")
        assert (client.get("n"), copy.get("n")) == (b"1", b"2")
    assert wait_until(lambda: not is_served(tmp_path / "copy"))


def test_a_directory_that_was_removed_and_made_again_is_empty(directory):
    with mqkv.Client(directory) as client:
        client.put("n", "1")
        shutil.rmtree(directory)
        with mqkv.Client(directory) as again:
            assert again.get("n") is None


def test_options_are_in_the_directory(directory):
    with mqkv.Client(directory) as client:
        assert client.info()["max_value_bytes"] == 64 << 20
    assert home.settings_of(str(directory))["idle-exit"] == "300ms"
    assert wait_until(lambda: not is_served(directory))
    file = directory / "serverk.conf"
    file.write_text(file.read_text().replace("64M", "2M"))
    with mqkv.Client(directory) as client:
        assert client.info()["max_value_bytes"] == 2 << 20


def test_what_does_not_start_says_why(directory, monkeypatch, tmp_path):
    directory.mkdir()
    (directory / "serverk.conf").write_text("[store]\nmax-value = many\n")
    with pytest.raises(mqkv.NoServer, match="max-value"):
        mqkv.Client(directory)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(FileExistsError):
        mqkv.Client(file)
    monkeypatch.setenv("MQKV_SERVERK", str(file))
    (directory / "serverk.conf").unlink()
    with pytest.raises(mqkv.NoServer, match=str(file)):
        mqkv.Client(directory)
    with pytest.raises(ValueError, match="not of both"):
        mqkv.Client("/serverk", directory=directory)


@pytest.fixture
def slow_serverk(tmp_path, monkeypatch):
    """A serverk that does not start before the file `go` is there."""
    real, program, go = home.find_serverk(), tmp_path / "slow_serverk", tmp_path / "go"
    program.write_text(f'#!/bin/sh\nn=0\n'
                       f'while [ ! -e "{go}" ] && [ $n -lt 600 ]; do\n'
                       '    n=$((n + 1))\n    sleep 0.1\ndone\n'
                       f'exec "{real}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("MQKV_SERVERK", str(program))
    yield go
    go.touch()


def test_the_timeout_is_that_of_the_open_too(directory, slow_serverk):
    with pytest.raises(mqkv.NoServer, match="still starting after 0.3 s, and goes on"):
        mqkv.Client(directory, timeout=0.3)
    slow_serverk.touch()
    with mqkv.Client(directory, timeout=60) as client:
        client.put("n", "1")


def test_the_timeout_is_that_of_the_lock_too(directory):
    descriptor = home._lock_file(str(directory))
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(mqkv.NoServer, match="holds the lock"):
            mqkv.Client(directory, timeout=0.1)
    finally:
        os.close(descriptor)
    for wrong in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout must be above 0"):
            mqkv.Client(directory, timeout=wrong)


def test_a_fanout_cache_waits_longer_for_the_daemon_than_for_answers(directory, slow_serverk):
    threading.Timer(1.5, slow_serverk.touch).start()
    with mqkv.FanoutCache(directory, timeout=1) as cache:
        cache["k"] = 1
        assert cache["k"] == 1


def test_a_directory_that_is_named_as_a_queue_is_told_at_once():
    with pytest.raises(mqkv.NoServer, match=r"a directory\? mqkv.Client\(directory='/usr'\)"):
        mqkv.Client("/usr", timeout=3600)  # at once
    for name in ("relative", "~", "."):
        with pytest.raises(mqkv.UsageError, match=r"a directory\? mqkv.Client\(directory="):
            mqkv.Client(name)
    with pytest.raises(mqkv.UsageError) as told:
        mqkv.Client("/a queue")
    assert "a directory?" not in str(told.value)
    with pytest.raises(mqkv.NoServer) as told:
        mqkv.Client("/nothing-at-all", timeout=0.1)
    assert "a directory?" not in str(told.value)


def test_the_queue_of_a_store_may_be_called_as_its_directory(monkeypatch):
    """A daemon of /data on the queue /data, that restarts: it is waited for."""
    monkeypatch.setattr(os.path, "isdir", lambda path: path == "/data")
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/data/data.0000")
    begin = time.monotonic()
    with pytest.raises(mqkv.NoServer, match=r"directory='/data'"):
        mqkv.Client("/data", timeout=0.3)
    assert time.monotonic() - begin >= 0.25


@pytest.mark.parametrize("comes_back", [False, True])
def test_who_owns_the_directory_above_cannot_exchange_it(tmp_path, monkeypatch, comes_back):
    """Between the check and the start; for good, or until the start is over."""
    above, evil, program = tmp_path / "above", tmp_path / "evil", tmp_path / "exchanging_serverk"
    store = above / "store"
    with mqkv.Client(store, timeout=60) as client:
        client.put("n", "1")
    assert wait_until(lambda: not is_served(store))
    evil.mkdir(0o700)
    (evil / "serverk.conf").write_text(f"[process]\npidfile = {tmp_path}/victim\n"
                                       "idle-exit = 300ms\n")
    exchange = f'mv "{store}" "{tmp_path}/aside" && mv "{evil}" "{store}"'
    back = f'mv "{store}" "{evil}" && mv "{tmp_path}/aside" "{store}"'
    once, real = tmp_path / "once", home.find_serverk()
    program.write_text(f'#!/bin/sh\nif [ -e "{once}" ]; then\n    exec "{real}" "$@"\nfi\n'
                       f'touch "{once}"\n{exchange}\n"{real}" "$@"\nstatus=$?\n'
                       f'{back if comes_back else ":"}\nexit $status\n')
    program.chmod(0o755)
    monkeypatch.setenv("MQKV_SERVERK", str(program))
    if comes_back:
        with mqkv.Client(store, timeout=60) as client:
            assert client.get("n") == b"1"
    else:
        with pytest.raises(mqkv.Denied, match="was exchanged"):
            mqkv.Client(store, timeout=60)
    assert not (tmp_path / "victim").exists()
    log = (evil if comes_back else store) / "serverk.log"
    assert not log.exists()
    assert wait_until(lambda: not is_served(store))


def test_a_directory_may_be_bytes(directory):
    with mqkv.Client(os.fsencode(directory)) as client:
        client.put("n", "1")
    with mqkv.Client(directory=os.fsencode(directory)) as client:
        assert client.get("n") == b"1"


def test_a_store_that_another_daemon_serves_is_refused(own_server):
    own_server.start()
    # serverk must have had the time to say so, on a busy machine, too.
    with pytest.raises(mqkv.NoServer, match="in use"):
        home.start(str(own_server.directory), home.queue_of(str(own_server.directory)),
                   patience_s=5)


def test_the_last_attempt_hides_no_reason(directory, tmp_path, monkeypatch):
    serverk = tmp_path / "serverk"
    serverk.write_text(f"""#!/bin/sh
[ ! -e {tmp_path}/again ] || exec sleep 3
touch {tmp_path}/again
echo 'serverk: the store is in use' >&2
exit 1
""")
    serverk.chmod(0o755)
    monkeypatch.setattr(home, "find_serverk", lambda: str(serverk))
    with pytest.raises(mqkv.NoServer, match="still starting.* in use"):
        home.start(str(directory), home.queue_of(str(directory)), patience_s=2)


def test_the_interpreter_ends_with_it_open(directory):
    done = subprocess.run(
        [sys.executable, "-c", "import mqkv, sys\nfrom mqkv import home\n"
         "home.IDLE_EXIT = '300ms'\nclient = mqkv.Client(directory=sys.argv[1])\n"
         "client.put('n', '1')", directory], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_directory_that_others_may_write_to_is_refused(tmp_path):
    for mode in (0o777, 0o1777):
        directory = tmp_path / f"{mode:o}"
        directory.mkdir()
        directory.chmod(mode)
        with pytest.raises(mqkv.Denied, match="other users may write"):
            mqkv.Client(directory)
        assert not list(directory.iterdir())


def test_a_group_may_write_if_it_is_ones_own(tmp_path, monkeypatch):
    tmp_path.chmod(0o770)
    monkeypatch.setattr(home, "_is_private", lambda group: False)
    with pytest.raises(mqkv.Denied, match="chmod go-w"):
        home.queue_of(str(tmp_path))
    monkeypatch.setattr(home, "_is_private", lambda group: True)
    assert home.queue_of(str(tmp_path))


def test_what_is_another_users_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(home.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(mqkv.Denied, match="belongs to another user"):
        home.queue_of(str(tmp_path))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("/dev/null", path)])
def test_a_lock_is_a_file(tmp_path, make):
    make(tmp_path / "lock")
    with pytest.raises((mqkv.Denied, OSError)):
        home.queue_of(str(tmp_path))


def test_settings_are_not_written_through_a_link(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    directory = tmp_path / "d"
    directory.mkdir(0o700)
    for name in ("serverk.conf.new", f"serverk.conf.{os.getpid()}"):
        (directory / name).symlink_to(victim)
    home.change_settings(str(directory), {"max-bytes": "1"})
    home.change_settings(str(directory), {"max-bytes": "2"})
    assert victim.read_text() == "mine"
    assert home.settings_of(str(directory))["max-bytes"] == "2"
    assert (directory / "serverk.conf").stat().st_mode & 0o777 == 0o600


def test_a_child_of_fork_does_not_keep_the_lock(tmp_path):
    with home._locked(str(tmp_path), time.monotonic() + 5):
        child = os.fork()
        if child == 0:
            time.sleep(20)
            os._exit(0)
    try:
        with home._locked(str(tmp_path), time.monotonic() + 1):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_who_waits_for_the_lock_is_told(tmp_path):
    descriptor = home._lock_file(str(tmp_path))
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(mqkv.NoServer, match="holds the lock"):
            with home._locked(str(tmp_path), time.monotonic() + 0.1):
                pass
    finally:
        os.close(descriptor)


def test_a_finalizer_may_drop_while_this_thread_has_the_lock():
    def drop():
        with home._lock:
            home.drop("/none")
    thread = threading.Thread(target=drop, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()


def test_a_daemon_is_watched_without_pidfd(directory, monkeypatch):
    starts = []

    def refused(pid):
        raise OSError(errno.EMFILE, "Too many open files")
    monkeypatch.setattr(home.os, "pidfd_open", refused)
    with mqkv.Client(directory, timeout=30) as client:
        client.put("n", "1")
        start = home.start
        monkeypatch.setattr(home, "start", lambda *names: starts.append(1) or start(*names))
        time.sleep(0.3)
        assert not starts
        killed = client.info()["server_pid"]
        os.kill(killed, signal.SIGKILL)
        assert wait_until(lambda: client.get("n") == b"1"
                          and client.info()["server_pid"] not in (0, killed))
