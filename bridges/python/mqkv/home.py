"""home: a daemon for a directory, started by whoever opens the directory and finds none.

mqkv.Client(directory="~/store") and mqkv.Cache("~/store") use it. The daemon is serverk, of this
user; it ends when no program has had the directory open for `idle-exit`. Its options are in
DIRECTORY/serverk.conf, which the first program writes and anybody may edit; its log is
DIRECTORY/serverk.log. The queue's name follows from the store's lock file, so all programs find the
same daemon, whatever path they use, and a copy of the directory is another store.

Programs that start it at once take turns by a lock on that file, which the kernel takes from those
that are killed. While a program has the directory open, a thread of it waits for the daemon's end,
and starts the next one: kill -9 of the daemon is a pause for calls, as with a service manager.
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import logging
import os
import pathlib
import pwd
import select
import shutil
import signal
import stat
import struct
import subprocess
import threading
import time
from typing import Iterator, Mapping, Optional, Union

from . import _mqkv, programs
from .errors import Denied, Error, NoServer

__all__ = ["Path", "expand", "find_serverk", "queue_of", "settings_of", "change_settings"]

Path = Union[str, bytes, "os.PathLike[str]"]

# After this time without a user the daemon of a directory ends.
IDLE_EXIT = "60s"
TEMPORARY_IDLE_EXIT = "1s"  # of a directory that nobody has named

_SETTINGS: dict[str, dict[str, str]] = {
    "store": {"datafiles": "1", "max-value": "64M", "direct": "owner"},
    "queues": {"lanes": "shared"},
    "workers": {"workers": "2"},
    "process": {},
}
_START_S = 60.0  # a start, which may have to wait for the end of the last daemon
_ANSWER_S = 5.0  # of a daemon that is there
_RETRY_S = 0.05
_FLOCK = "hhqqi4x"  # struct flock of 64 bits
_log = logging.getLogger("mqkv")


def expand(directory: Path) -> str:
    """The absolute path; `~` and variables are expanded as diskcache does."""
    return os.path.abspath(os.path.expandvars(os.path.expanduser(os.fsdecode(directory))))


def _candidates() -> Iterator[str]:
    yield programs.find("serverk")
    package = pathlib.Path(__file__).resolve().parent
    yield str(package.parent.parent / "serverk")  # of build/python
    found = shutil.which("serverk")
    if found:
        yield found
    yield "/usr/local/bin/serverk"
    yield "/usr/bin/serverk"


def find_serverk() -> str:
    """The program: $MQKV_SERVERK, or that of the wheel, or the installed one. NoServer: there is
    none."""
    named = os.environ.get("MQKV_SERVERK")
    for path in [named] if named else _candidates():
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise NoServer(f"no program serverk to start a daemon with: "
                   f"{named or 'it is not in $PATH'}; install mqkv's programs, or "
                   "name it in $MQKV_SERVERK")


# The directory -----------------------------------------------------------------------------------

def _denied(text: str) -> Denied:
    error = Denied(text)
    error.status = "denied"
    return error


def _is_private(group: int) -> bool:
    """Whether it is the group of this user alone, with which a umask of 002 does no harm."""
    try:
        user, facts = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (group == user.pw_gid and facts.gr_name == user.pw_name
            and set(facts.gr_mem) <= {user.pw_name})


def _check_directory(directory: str, descriptor: int) -> None:
    """Denied: it is another user's, or others may write to it."""
    facts = os.fstat(descriptor)
    if facts.st_uid != os.geteuid():
        raise _denied(f"{directory} belongs to another user: a directory is opened by its owner "
                      "only; other users ask a daemon by the name of its queue")
    if facts.st_mode & stat.S_IWOTH or (facts.st_mode & stat.S_IWGRP
                                        and not _is_private(facts.st_gid)):
        raise _denied(f"other users may write to {directory} (mode "
                      f"{stat.S_IMODE(facts.st_mode):04o}): chmod go-w, or name another directory")


def _lock_file(directory: str) -> int:
    """The descriptor of the store's lock file; directory and file are made if they are missing.
    serverk's own lock on it (fcntl) and the one of those who start it (flock) do not meet."""
    os.makedirs(directory, 0o700, exist_ok=True)
    path = os.path.join(directory, "lock")
    where = file = -1
    try:
        where = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        _check_directory(directory, where)
        file = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600,
                       dir_fd=where)
        facts = os.fstat(file)
        if facts.st_uid != os.geteuid() or not stat.S_ISREG(facts.st_mode):
            os.close(file)
            raise _denied(f"{path} is no file of this user: name another directory")
        return file
    except Denied:
        raise
    except PermissionError as error:
        raise _denied(f"{directory if where < 0 else path} belongs to another user: a directory is "
                      "opened by its owner only; other users ask a daemon by the name of its "
                      "queue") from error
    finally:
        if where >= 0:
            os.close(where)


@contextlib.contextmanager
def _locked(directory: str, end: float) -> Iterator[int]:
    """One program at a time, which gets the descriptor of the lock file. NoServer: others have it
    until `end`, by time.monotonic."""
    descriptor = _lock_file(directory)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    busy = NoServer(f"another program holds the lock of {directory} (flock of its "
                                    "file lock) and does not give it back")
                    busy.status = "no_server"
                    raise busy from None
                time.sleep(_RETRY_S)
        try:
            yield descriptor
        finally:  # a child forked meanwhile has a copy of the descriptor: to close ours is not all
            fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def queue_of(directory: str) -> str:
    """The name of the queue of the directory's daemon. The daemon has the lock file open, so that
    no other file gets the number while it runs, whatever becomes of the directory."""
    descriptor = _lock_file(directory)
    try:
        facts = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return f"/mqkv.home.{facts.st_dev:x}.{facts.st_ino:x}"


def _settings_file(directory: str) -> str:
    return os.path.join(directory, "serverk.conf")


def settings_of(directory: str) -> dict[str, str]:
    """The options in the directory's serverk.conf; none if there is no such file."""
    found = {}
    try:
        lines = pathlib.Path(_settings_file(directory)).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return {}
    for line in lines:
        name, equal, value = line.partition("=")
        if equal and not line.lstrip().startswith(("#", ";")):
            found[name.strip()] = value.strip()
    return found


def _write_settings(directory: str, wanted: Mapping[str, Mapping[str, str]]) -> None:
    lines = ["# Options of the daemon that programs start for this directory (serverk(1)).",
             "# After an edit: SIGHUP, or the next start."]
    for section, options in wanted.items():
        lines += ["", f"[{section}]", *(f"{name} = {value}" for name, value in options.items())]
    _replace_settings(directory, lines)


def _replace_settings(directory: str, lines: list[str]) -> None:
    """The caller has the lock."""
    temporary = f"{_settings_file(directory)}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # of a program that was killed
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                         | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(temporary, _settings_file(directory))


def _default_settings(store: Mapping[str, str],
                      idle_exit: Optional[str]) -> dict[str, dict[str, str]]:
    wanted = {section: dict(options) for section, options in _SETTINGS.items()}
    wanted["store"].update(store)
    wanted["process"]["idle-exit"] = idle_exit or IDLE_EXIT
    return wanted


def change_settings(directory: str, changes: Mapping[str, str]) -> None:
    """Writes other options of [store] into serverk.conf; who has the daemon's pid sends SIGHUP."""
    with _locked(directory, time.monotonic() + _START_S):
        path = _settings_file(directory)
        if not os.path.exists(path):
            _write_settings(directory, _default_settings(changes, None))
            return
        left, lines = dict(changes), []
        for line in pathlib.Path(path).read_text("utf-8").splitlines():
            name = line.partition("=")[0].strip()
            lines.append(f"{name} = {left.pop(name)}" if name in left else line)
        if left:
            at = lines.index("[store]") + 1 if "[store]" in lines else 0
            lines[at:at] = ([] if at else ["[store]"]) + [f"{n} = {v}" for n, v in left.items()]
        _replace_settings(directory, lines)


def prepare(directory: str, store: Mapping[str, str], idle_exit: Optional[str] = None,
            patience_s: float = _START_S) -> None:
    """Writes serverk.conf with these options of [store], unless there is one."""
    if os.path.exists(_settings_file(directory)):
        return
    with _locked(directory, time.monotonic() + patience_s):
        if not os.path.exists(_settings_file(directory)):
            _write_settings(directory, _default_settings(store, idle_exit))


# Starting ----------------------------------------------------------------------------------------

def _pid_of(queue: str, patience_s: float = _ANSWER_S) -> int:
    """The process that serves the queue. NoServer: nobody."""
    client = _mqkv.Client(queue, fail_fast_open=True, server_uid=os.geteuid(), direct="off",
                          timeout=max(_RETRY_S, min(patience_s, _ANSWER_S)))
    try:
        return int(client.info()["server_pid"])
    finally:
        client.close()


def _open_again(directory: str, lock: int) -> int:
    """The descriptor of the directory that has this lock file, whatever its path leads to now: who
    owns a directory above may exchange it at any time. Denied."""
    where = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check_directory(directory, where)
        found = os.stat("lock", dir_fd=where, follow_symlinks=False)
        if not os.path.samestat(found, os.fstat(lock)):
            raise _denied(f"{directory} was exchanged while its daemon was being started")
        return where
    except BaseException:
        os.close(where)
        raise


def _is_served(lock: int) -> bool:
    """Whether a daemon has the store of that lock file, by its own lock (fcntl)."""
    asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    found: int = struct.unpack(_FLOCK, fcntl.fcntl(lock, fcntl.F_GETLK, asked))[0]
    return found != fcntl.F_UNLCK


def _start_once(directory: str, lock: int, queue: str, patience_s: float) -> Optional[str]:
    """Starts the daemon, if nobody serves. What serverk says if it does not start; it may be that
    the last one has not ended yet. TimeoutExpired: it is still starting, and goes on."""
    # Its options and its log are those of the very directory that was checked. Which one it has
    # opened as its store is looked at afterwards, before a client writes.
    command = [find_serverk(), "--mq", queue, "--dir", directory, "--config", "serverk.conf",
               "--log", "serverk.log", "--daemon"]
    where = _open_again(directory, lock)
    try:
        starting = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE, cwd=f"/proc/self/fd/{where}")
    finally:
        os.close(where)
    try:
        _, said = starting.communicate(timeout=max(_RETRY_S, patience_s))
    except BaseException:  # what it says must be read, and its end be known
        threading.Thread(target=starting.communicate, daemon=True).start()
        raise
    text = said.decode("utf-8", "replace").strip()
    return None if starting.returncode == 0 else text or f"serverk: status {starting.returncode}"


def start(directory: str, queue: str, patience_s: float = _START_S) -> int:
    """Returns the pid of the directory's daemon, started if there was none. NoServer tells why it
    does not start, or that it takes longer than patience_s and goes on."""
    end = time.monotonic() + patience_s
    prepare(directory, {}, patience_s=patience_s)
    failure: Optional[str] = None
    with _locked(directory, end) as lock:
        while True:
            try:
                pid = _pid_of(queue, end - time.monotonic())
                if _is_served(lock):
                    return pid
                # Another directory came in between, or the daemon is ending.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
                failure = f"process {pid} serves another directory, or is ending"
            except NoServer:
                try:
                    failure = _start_once(directory, lock, queue, end - time.monotonic())
                except subprocess.TimeoutExpired:
                    before = f" (the attempt before: {failure})" if failure else ""
                    failure = (f"it is still starting after {patience_s:g} s, and goes on: a later "
                               f"attempt, or a longer timeout=, finds it{before}")
            if failure is not None and (time.monotonic() > end or not _may_pass(failure)):
                error = NoServer(f"the daemon of {directory} does not start: {failure}")
                error.status = "no_server"
                raise error
            if failure is not None:
                time.sleep(_RETRY_S)


def _may_pass(failure: str) -> bool:
    """Whether the reason is one that goes away by itself: the last daemon writes its checkpoint, or
    daemons of other directories, which end when they are idle, have the bytes for queues."""
    return any(word in failure for word in ("in use", "is served", "serves", "message queue",
                                            "RLIMIT_MSGQUEUE"))


# Keeping it alive --------------------------------------------------------------------------------

_lock = threading.RLock()  # drop is called by finalizers, too: at any place in this thread
_keepers: "dict[str, _Keeper]" = {}


def _readable(timeout_ms: Optional[int], *descriptors: int) -> list[int]:
    """Those that are readable, as soon as one is or the time is over (None: never)."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return [descriptor for descriptor, _ in poll.poll(timeout_ms)]


class _Keeper:
    """Starts the next daemon when the last one was killed, while clients of this process have the
    directory open."""

    def __init__(self, directory: str, queue: str, pid: int) -> None:
        self.directory = directory
        self.queue = queue
        self.users = 1
        self._pid = pid
        self._ends: tuple[int, int] = (-1, -1)  # of the pipe that wakes the thread
        self.begin()

    def begin(self) -> None:
        """Starts the thread; once more in a child of fork, where there is none."""
        for inherited in self._ends:
            if inherited >= 0:
                os.close(inherited)
        self._ends = os.pipe2(os.O_CLOEXEC)
        threading.Thread(target=self._run, args=self._ends, name=f"mqkv{self.queue}",
                         daemon=True).start()

    def stop(self) -> None:
        """The last user is gone."""
        os.write(self._ends[1], b"x")

    def _run(self, wake: int, end: int) -> None:
        try:
            while self._wait(wake):
                try:
                    self._pid = start(self.directory, self.queue)
                except (Error, OSError) as error:
                    _log.warning("%s", error)
                    if _readable(1000, wake):
                        return
        finally:
            os.close(wake)
            os.close(end)

    def _wait(self, wake: int) -> bool:
        """Returns when the daemon has ended; False: stop was called."""
        try:
            process = os.pidfd_open(self._pid)
        except ProcessLookupError:  # it has ended already
            return not _readable(0, wake)
        except OSError:  # no descriptor is left, or a sandbox forbids it
            return self._wait_by_asking(wake)
        try:
            return wake not in _readable(None, wake, process)
        finally:
            os.close(process)

    def _wait_by_asking(self, wake: int) -> bool:
        """As _wait, within a second."""
        while not _readable(1000, wake):
            try:
                if _pid_of(self.queue) != self._pid:
                    return True
            except NoServer:
                return True
            except (Error, OSError):
                pass
        return False


def keep(directory: str, queue: str, pid: int) -> None:
    """A client of this process has the directory open from now on, until drop."""
    with _lock:
        keeper = _keepers.get(queue)
        if keeper is not None and keeper.users > 0:  # 0: a finalizer was quicker
            keeper.users += 1
        else:
            _keepers[queue] = _Keeper(directory, queue, pid)


def drop(queue: str) -> None:
    """One of the clients is closed."""
    with _lock:
        keeper = _keepers.get(queue)
        if keeper is None:
            return
        keeper.users -= 1
        if keeper.users == 0:
            del _keepers[queue]
            keeper.stop()


def _begin_in_child() -> None:
    global _lock
    _lock = threading.RLock()
    for keeper in _keepers.values():
        keeper.begin()


os.register_at_fork(after_in_child=_begin_in_child)
