"""Cache and FanoutCache: the interface of diskcache on a store of mqkv.

    from mqkv import Cache

    with Cache("~/.cache/myprogram") as cache:
        cache.set("name", "Ada", expire=60, tag="people")
        print(cache["name"])

A directory has a daemon, which is started if there is none (mqkv.home); it keeps the bound
(size_limit) and makes room. Cache(client=client, prefix=b"cache:") is one in a store that a daemon
serves already; the bound is that daemon's then. docs/MIGRATING.md has what differs from diskcache.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import itertools
import json
import os
import random
import signal
import struct
import tempfile
import threading
import time
import warnings
from typing import (TYPE_CHECKING, Any, Callable, Iterable, Iterator, NamedTuple, Optional,
                    ParamSpec, TypeVar)

from . import home
from .client import Client
from .coding import Coder, Serializer, key_bytes, key_of
from .errors import (BadKey, Corrupt, Error, Exists, GuardFailed, NotANumber, NotFound, OutOfBounds,
                     StorageError, Timeout, TransactionConflict, VersionMismatch)
from .transaction import Transaction

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Union

    from ._mqkv import Entry
    from .persistent import Deque, Index

__all__ = ["Cache", "DEFAULT_SETTINGS", "ENOVAL", "FanoutCache", "args_to_key"]

_T = TypeVar("_T")
_Arguments = ParamSpec("_Arguments")

ENOVAL: Any = type("_Enoval", (), {"__repr__": lambda self: "ENOVAL"})()

# What a cache can be told, by the names that diskcache has for it.
DEFAULT_SETTINGS: "dict[str, Any]" = {
    "statistics": 0,
    "size_limit": 2 ** 30,
    "eviction_policy": "least-recently-stored",
}
# Others that its users set, and that mean nothing here.
_OTHER_SETTINGS: "dict[str, Any]" = {"cull_limit": 10, "tag_index": 0,
                                     "disk_min_file_size": 2 ** 15}
_POLICIES = {  # `direct` of [store] of serverk.conf: reads in place are not seen by the daemon
    "none": "owner",
    "least-recently-stored": "owner",
    "least-recently-used": "off",
    "least-frequently-used": "off",
}
_FIRST_PUSHED = 500_000_000_000_000
_LEASE_S = 10.0  # of the lock of transact: so long others wait for one that has died
_PLACE = struct.Struct(">cQ")
_LAST = 1 << 64  # behind the places of all that is stored


def _bound(limit: Any, policy: str) -> "dict[str, str]":
    """The options of [store] of serverk.conf for that. ValueError."""
    size = int(limit)
    if size < 0:
        raise ValueError(f"size_limit is a number of bytes, or 0 for no bound, not {limit!r}")
    if size == 0 or policy == "none":
        return {"evict": "none", "max-bytes": "0"}
    return {"evict": "s3fifo", "max-bytes": str(size)}


def _refuse_read_only(settings: "dict[str, Any]") -> None:
    if settings.get("read_only"):
        raise ValueError("read_only: who may open a directory may write to it. Who may only read "
                         "is a user of a daemon without the right to write (serverk(1), [user ...])"
                         ": Cache(client=mqkv.Client(QUEUE))")


def args_to_key(base: "tuple[Any, ...]", args: "tuple[Any, ...]", kwargs: "dict[str, Any]",
                typed: bool, ignore: "Union[set[Any], tuple[Any, ...]]") -> "tuple[Any, ...]":
    """The key of a call of a memoized function, as diskcache makes it."""
    if ignore:
        args = tuple(arg for number, arg in enumerate(args) if number not in ignore)
        kwargs = {name: value for name, value in kwargs.items() if name not in ignore}
    key = base + args + (None,)
    items = sorted(kwargs.items()) if kwargs else ()
    for item in items:
        key += item
    if typed:
        key += tuple(type(arg) for arg in args) + tuple(type(value) for _, value in items)
    return key


def ignored_in(function: "Callable[..., Any]", ignore: "Iterable[Any]") -> "set[Any]":
    """Those arguments by place and by name, however they were told, so that it makes no difference
    how a call passes them."""
    ignored = set(ignore)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # nobody knows
        return ignored
    for place, parameter in enumerate(parameters):
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            break
        if place in ignored or parameter.name in ignored:
            ignored |= {place, parameter.name}
    return ignored


def full_name(function: "Callable[..., Any]") -> str:
    """The function's module and name."""
    return f"{function.__module__}.{function.__qualname__}"


class _Stored(NamedTuple):
    """What an entry of a cache holds."""

    value: bytes  # as the coder made it
    tag: Any
    place: int  # 0: that of its version
    expiry_ms: int  # 0: never


def _split(data: bytes, expiry_ms: int = 0) -> _Stored:
    """ValueError: nothing that a cache has stored."""
    tag, place = None, 0
    value = data
    try:
        if value[:1] == b"q":
            place = _PLACE.unpack_from(value)[1]
            value = value[_PLACE.size:]
        if value[:1] == b"t":
            size = int.from_bytes(value[1:4], "big")
            tag = key_of(value[4:4 + size])
            value = value[4 + size:]
    except (struct.error, ArithmeticError, LookupError, ValueError, TypeError,
            RecursionError) as error:
        raise ValueError(f"no value of a cache: {data[:40]!r}: {error}") from error
    return _Stored(value, tag, place, expiry_ms)


def _tag_of(entry: "Entry") -> Any:
    try:
        return _split(entry.value).tag
    except ValueError:
        return None


def _place_of(entry: "Entry") -> int:
    try:
        return _split(entry.value).place or entry.version
    except ValueError:
        return entry.version


def _joined(value: bytes, tag: Any) -> bytes:
    if tag is not None:
        named = key_bytes(tag)
        value = b"t" + len(named).to_bytes(3, "big") + named + value
    return value


class Step:
    """What transact, push, pull and the recipes read and write: one transaction of the store."""

    def __init__(self, transaction: Transaction, client: Client) -> None:
        self._transaction = transaction
        self._client = client
        # What this transaction has written: data (None: deleted) and when it ends.
        self._written: "dict[bytes, tuple[Optional[bytes], int]]" = {}

    def read(self, stored: bytes) -> "Optional[bytes]":
        """The entry's data, which must be the same at the end."""
        return self._transaction.get(stored)

    def glance(self, stored: bytes) -> "Optional[bytes]":
        """The entry's data, which may change before the end."""
        if stored in self._written:
            return self._written[stored][0]
        return self._client.get(stored)

    def expiry_ms(self, stored: bytes) -> int:
        """When the entry that was read ends; 0: never."""
        if stored in self._written:
            return self._written[stored][1]
        try:
            return self._client.stat(stored).expiry_ms
        except NotFound:
            return 0

    def version(self, stored: bytes) -> int:
        """Of the entry, if it was read and not written since; else 0."""
        return 0 if stored in self._written else self._transaction._version_read(stored)

    def written(self, root: bytes) -> "dict[bytes, Optional[bytes]]":
        """What was written to keys that begin so, in the order in which it gets its versions."""
        return {stored: data for stored, (data, _) in self._written.items()
                if stored.startswith(root)}

    def write(self, stored: bytes, data: bytes, expiry_ms: int = 0) -> None:
        """Writes the entry at the end, after all that was written before."""
        self._transaction.put(stored, data, expiry_ms=expiry_ms or None)
        self._written.pop(stored, None)
        self._written[stored] = (data, expiry_ms)

    def write_in_place(self, stored: bytes, data: bytes, expiry_ms: int = 0) -> None:
        """The same, but before all that was written after it."""
        names = list(self._written)
        later = names[names.index(stored) + 1:] if stored in self._written else []
        self.write(stored, data, expiry_ms)
        for name in later:
            again, ends_ms = self._written[name]
            if again is not None:
                self.write(name, again, ends_ms)

    def remove(self, stored: bytes) -> None:
        """Deletes the entry at the end."""
        self._transaction.delete(stored)
        self._written[stored] = (None, 0)


class _Transact:
    """The with statement of Cache.transact."""

    def __init__(self, cache: "Cache", retry: bool) -> None:
        self._cache = cache
        self._retry = retry
        self._is_inner = False
        self._version = 0
        self._transaction: "Optional[Transaction]" = None

    def __enter__(self) -> None:
        cache = self._cache
        if cache.running() is not None:
            self._is_inner = True
            return
        self._version = cache.take_lock(self._retry)
        try:
            client = cache.client
            transaction = client.transaction()
            transaction.__enter__()
            self._transaction = transaction
            cache.begin(Step(transaction, client))
        except BaseException as error:
            if self._transaction is not None:
                self._transaction.__exit__(type(error), error, error.__traceback__)
            cache.give_lock(self._version)
            raise

    def __exit__(self, kind: "Optional[type[BaseException]]", error: "Optional[BaseException]",
                 trace: "Optional[TracebackType]") -> None:
        if self._is_inner or self._transaction is None:
            return
        cache, transaction = self._cache, self._transaction
        lock = cache.lock_name
        cache.end()
        if kind is not None:
            transaction.__exit__(kind, error, trace)
            cache.give_lock(self._version)
            return
        try:
            transaction.guard(lock, version=self._version)
            transaction.delete(lock)
            transaction.__exit__(None, None, None)
        except GuardFailed as failed:
            lost = TransactionConflict(f"the block of transact took more than {_LEASE_S:.0f} s, "
                                       "and others have begun theirs; nothing was written")
            lost.status = "version_mismatch"
            raise lost from failed
        except Error:
            cache.give_lock(self._version)
            raise


class Cache:
    """A cache in a directory, with the interface of diskcache.Cache.

    directory: made if it is missing; None: a new one below the directory for temporary files.
    timeout: seconds that a call may take, at least 1. serializer: how values are stored that are no
    text, bytes or integers: 'json' (which keeps tuples, sets, dates, ... too), 'msgpack', 'pickle',
    or an object with dumps and loads. client, prefix: instead of a directory, a part of another
    store.
    Settings, of which the directory remembers those of its first program:

        size_limit       bytes, of keys and values with what belongs to them (1 GiB; 0: none)
        eviction_policy  'least-recently-stored', 'least-recently-used', 'none'
        statistics       whether hits and misses are counted

    Others of diskcache (cull_limit, sqlite_..., disk_...) are accepted and do nothing, but for
    read_only=True, which is a ValueError. A cache may be used by any number of threads and
    programs; one that was closed opens again when it is used.
    A cache that evicts may evict what was pushed, and items of a Deque or an Index in it, too:
    those that nothing may lose belong in one with eviction_policy='none'.
    """

    keeps_places = False  # whether a key that is stored again stays where it was, as in an Index

    def __init__(self, directory: "Optional[home.Path]" = None, timeout: float = 60.0,
                 disk: Any = None, *, serializer: "Union[str, Serializer]" = "json",
                 client: "Optional[Client]" = None, prefix: "Union[str, bytes]" = b"cache:",
                 **settings: Any) -> None:
        _refuse_read_only(settings)
        if disk is not None:
            raise ValueError("values are not stored by a diskcache.Disk: serializer= takes 'json', "
                             "'msgpack', 'pickle', or an object with dumps and loads")
        policy = settings.get("eviction_policy", DEFAULT_SETTINGS["eviction_policy"])
        if policy not in _POLICIES:
            raise ValueError(f"eviction_policy is one of {', '.join(_POLICIES)}, not {policy!r}")
        _bound(settings.get("size_limit", DEFAULT_SETTINGS["size_limit"]), policy)
        self._timeout = max(1.0, timeout)
        self._serializer = serializer
        self._coder = Coder(serializer, settings.get("disk_pickle_protocol", 4))
        self._given = settings
        self._local = threading.local()
        self._lock = threading.RLock()
        self._transacting = 0  # threads in transact
        self._hits = self._misses = 0
        self._owner = client  # whose client it is, if it is not ours
        self._directory = ""
        self._opened: "Optional[Client]" = None
        if client is not None:
            if directory is not None:
                raise ValueError("a cache is in a directory or in a client's store, not in both")
            root = prefix.encode() if isinstance(prefix, str) else bytes(prefix)
        else:
            self._is_temporary = directory is None
            self._directory = home.expand(
                tempfile.mkdtemp(prefix="mqkv-") if directory is None else directory)
            root = b""
        self._set_root(root)
        self._open()
        self._load_settings()

    def _set_root(self, root: bytes) -> None:
        self._root = root
        self._data = root + b"k"  # before the keys of its items
        self._meta = root + b"m"  # before those of what it needs itself
        self.lock_name = self._meta + b"lock"

    # Opening, closing, settings ------------------------------------------------------------------

    def _open(self) -> Client:
        with self._lock:
            if self._owner is not None:
                self._opened = self._owner
            elif self._opened is None:
                wanted = {**DEFAULT_SETTINGS, **self._given}
                policy = wanted["eviction_policy"]
                store = {**_bound(wanted["size_limit"], policy), "direct": _POLICIES[policy]}
                home.prepare(self._directory, store,
                             home.TEMPORARY_IDLE_EXIT if self._is_temporary else None)
                # A daemon may take longer to start than to answer.
                home.start(self._directory, home.queue_of(self._directory))
                self._opened = Client(directory=self._directory, timeout=self._timeout)
            self._get_data = self._opened.get
            return self._opened

    @property
    def client(self) -> Client:
        """The client that it uses."""
        return self._opened or self._open()

    def _get_again(self, stored: bytes) -> "Optional[bytes]":
        return self._open().get(stored)

    def close(self, *_: Any) -> None:
        """Closes it; closing twice is harmless. It opens again when it is used."""
        with self._lock:
            if self._opened is None:
                return
            if not self._opened.closed and self._hits + self._misses:
                self._flush_statistics()
            if self._owner is None:
                self._opened.close()
            self._opened = None
            self._get_data = self._get_again  # type: ignore[assignment]

    def __enter__(self: _T) -> _T:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        if self._owner is not None:
            raise TypeError("a cache in a client's store cannot be pickled: let the other process "
                            "make its own")
        return _opened_again, (type(self), self._directory, self._timeout, self._serializer,
                               self._root, self._given)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(directory={self._directory!r})"

    @property
    def directory(self) -> str:
        """The directory; '' if it is in a client's store."""
        return self._directory

    @property
    def timeout(self) -> float:
        """Seconds that a call may take."""
        return self._timeout

    def _load_settings(self) -> None:
        data = self.client.get(self._meta + b"settings")
        kept = json.loads(data) if data else {}
        self._settings = {**_OTHER_SETTINGS, **DEFAULT_SETTINGS, **kept, **self._given}
        is_first = not data and self._owner is None
        try:
            if is_first or self._settings["statistics"] != kept.get("statistics", 0):
                self._store_settings(if_absent=is_first)
        except Exists:  # another program was the first
            self._load_settings()
        self._counts = bool(self._settings["statistics"])

    def _store_settings(self, if_absent: bool = False) -> None:
        self.client.put(self._meta + b"settings",
                        json.dumps({name: self._settings[name] for name in DEFAULT_SETTINGS}),
                        if_absent=if_absent)

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("_settings", {})
        if name in settings:
            return settings[name]
        raise AttributeError(name)

    def reset(self, key: str, value: Any = ENOVAL, update: bool = True) -> Any:
        """Sets a setting, also for other programs; returns what it is. Without a value it is read
        anew. size_limit takes effect at once, another eviction_policy when the daemon starts next,
        and so does a size_limit instead of 0 or 0 instead of one.
        """
        if value is ENOVAL:
            self._load_settings()
            return self._settings.get(key)
        if key == "eviction_policy" and value not in _POLICIES:
            raise ValueError(f"eviction_policy is one of {', '.join(_POLICIES)}, not {value!r}")
        if key == "size_limit":
            _bound(value, self._settings["eviction_policy"])
        before, self._settings[key] = self._settings.get(key), value
        if key == "statistics":
            self._counts = bool(value)
        if update and key in DEFAULT_SETTINGS and value != before:
            self._store_settings()
            if key in ("eviction_policy", "size_limit"):
                self._tell_daemon(key)
        return value

    def _tell_daemon(self, key: str) -> None:
        if self._owner is not None:
            raise ValueError(f"{key} of a cache in a client's store is its daemon's: serverk "
                             "--max-bytes, --evict")
        policy = self._settings["eviction_policy"]
        options = _bound(self._settings["size_limit"], policy)
        if key == "eviction_policy":
            options["direct"] = _POLICIES[policy]
        home.change_settings(self._directory, options)
        os.kill(int(self.client.info()["server_pid"]), signal.SIGHUP)

    # Keys and values -----------------------------------------------------------------------------

    def _stored(self, key: Any) -> bytes:
        if type(key) is str:
            return self._data + b"s" + key.encode("utf-8", "surrogatepass")
        return self._data + key_bytes(key, self._coder.pickles)

    def _key(self, stored: bytes) -> Any:
        return key_of(stored[len(self._data):], self._coder.pickles)

    def _value(self, value: Any, read: bool) -> bytes:
        return b"b" + bytes(value.read()) if read else self._coder.dumps(value)

    @staticmethod
    def _answer(value: Any, read: bool) -> Any:
        return io.BytesIO(value) if read and isinstance(value, bytes) else value

    def _several(self, value: Any, stored: "Optional[_Stored]", expire_time: bool,
                 tag: bool) -> Any:
        """The value, and what else was asked for."""
        if not (expire_time or tag):
            return value
        answer: "tuple[Any, ...]" = (value,)
        if expire_time:
            answer += (stored.expiry_ms / 1000 if stored and stored.expiry_ms else None,)
        if tag:
            answer += (stored.tag if stored else None,)
        return answer

    # Transactions --------------------------------------------------------------------------------

    def transact(self, retry: bool = False) -> Any:
        """What the block does to this cache is done at its end, in one step, or not at all. Blocks
        of all programs come one after the other; other writes do not wait, and one that changes
        what the block has read is a TransactionConflict at its end. At most 128 keys are read or
        written. Blocks nest: the outermost counts. set_many, get_many, delete_many, clear and evict
        are no part of it: they see and change the store at once. Iteration, len and peekitem see
        the store as it is, with what the block has written."""
        return _Transact(self, retry)

    def running(self) -> "Optional[Step]":
        """The transaction of this thread."""
        step: "Optional[Step]" = getattr(self._local, "step", None)
        return step

    def begin(self, step: Step) -> None:
        """This thread is in a transaction from now on."""
        self._local.step = step
        with self._lock:
            self._transacting += 1

    def end(self) -> None:
        """The transaction of this thread is over."""
        self._local.step = None
        with self._lock:
            self._transacting -= 1

    def take_lock(self, retry: bool) -> int:
        """Waits until no other block of transact runs; returns the version of the lock."""
        end = time.monotonic() + self._timeout
        for attempt in itertools.count():
            try:
                return self.client.put(self.lock_name, b"", ttl=_LEASE_S, if_absent=True)
            except Exists:
                if not retry and time.monotonic() > end:
                    error = Timeout("another block of transact has not ended")
                    error.status = "timeout"
                    raise error from None
                time.sleep(random.random() * min(0.0005 * 2 ** min(attempt, 6), 0.02))
        raise AssertionError

    def give_lock(self, version: int) -> None:
        """Others may begin."""
        try:
            self.client.delete(self.lock_name, if_version=version)
        except (NotFound, VersionMismatch):
            pass

    def atomically(self, function: "Callable[[Step], _T]") -> _T:
        """What the function reads and writes is one step. It may run several times."""
        running = self.running()
        if running is not None:
            return function(running)
        for attempt in itertools.count():
            try:
                client = self.client
                with client.transaction() as transaction:
                    step = Step(transaction, client)
                    self.begin(step)
                    try:
                        answer = function(step)
                    finally:
                        self.end()
                return answer
            except TransactionConflict:
                time.sleep(random.random() * min(0.0002 * 2 ** min(attempt, 7), 0.02))
        raise AssertionError

    @staticmethod
    def _expiry_ms(expire: "Optional[float]") -> int:
        return 0 if expire is None else max(1, int((time.time() + expire) * 1000))

    # Writing -------------------------------------------------------------------------------------

    def set(self, key: Any, value: Any, expire: "Optional[float]" = None, read: bool = False,
            tag: Any = None, retry: bool = False) -> bool:
        """Stores the value; True. expire: seconds until it ends. read: the value is a file to read
        it from. tag: see evict."""
        data = self._value(value, read)
        if tag is not None:
            data = _joined(data, tag)
        self._put(self._stored(key), data, expire)
        return True

    def _put(self, stored: bytes, data: bytes, expire: "Optional[float]") -> None:
        if self._transacting and (step := self.running()) is not None:
            if expire is not None and expire <= 0:
                step.remove(stored)
            else:
                self._write(step, stored, data, self._expiry_ms(expire))
        elif expire is None:
            if self.keeps_places:
                self._put_in_place(stored, data)
            else:
                self.client.put(stored, data)
        elif expire <= 0:
            self.client.discard(stored)
        else:
            self.client.put(stored, data, ttl=max(0.001, expire))

    def _put_in_place(self, stored: bytes, data: bytes) -> None:
        client = self.client
        while True:
            try:
                entry = client.entry(stored)
                place = _split(entry.value).place or entry.version
                client.put(stored, _PLACE.pack(b"q", place) + data, if_version=entry.version)
                return
            except VersionMismatch:
                continue
            except NotFound:
                try:
                    client.put(stored, data, if_absent=True)
                    return
                except Exists:
                    continue

    def _write(self, step: Step, stored: bytes, data: bytes, expiry_ms: int) -> None:
        """Writes the entry, where it was if this cache keeps places. data: without a place."""
        if not self.keeps_places:
            step.write(stored, data, expiry_ms)
            return
        old = step.read(stored)
        place = 0 if old is None else _split(old).place or step.version(stored)
        step.write_in_place(stored, (_PLACE.pack(b"q", place) if place else b"") + data, expiry_ms)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.set(key, value)

    def set_many(self, items: Any, expire: "Optional[float]" = None, tag: Any = None) -> None:
        """Stores all of a mapping, or of pairs, many in a message: not as one step."""
        pairs = items.items() if hasattr(items, "items") else items
        entries = ((self._stored(key), _joined(self._coder.dumps(value), tag))
                   for key, value in pairs)
        self.client.put_many(entries, ttl=expire)

    def get_many(self, keys: "Iterable[Any]") -> "dict[Any, Any]":
        """The values of those keys that are there, many in a message."""
        names = {self._stored(key): key for key in keys}
        found = self.client.get_many(names)
        return {names[stored]: self._coder.loads(_split(data).value)
                for stored, data in found.items()}

    def delete_many(self, keys: "Iterable[Any]") -> int:
        """Deletes those keys that are there, many in a message; returns how many were."""
        return self.client.delete_many(self._stored(key) for key in keys)

    def add(self, key: Any, value: Any, expire: "Optional[float]" = None, read: bool = False,
            tag: Any = None, retry: bool = False) -> bool:
        """Stores the value if the key is absent; tells whether it was."""
        stored = self._stored(key)
        data = _joined(self._value(value, read), tag)
        if self._transacting and (step := self.running()) is not None:
            if step.read(stored) is not None:
                return False
            step.write(stored, data, self._expiry_ms(expire))
            return True
        if expire is not None and expire <= 0:
            return not self.client.exists(stored)
        try:
            self.client.put(stored, data, if_absent=True,
                            ttl=None if expire is None else max(0.001, expire))
        except Exists:
            return False
        return True

    def touch(self, key: Any, expire: "Optional[float]" = None, retry: bool = False) -> bool:
        """Lets the item end in expire seconds (None: never); tells whether there is one."""
        stored = self._stored(key)
        if self._transacting and (step := self.running()) is not None:
            data = step.read(stored)
            if data is not None:
                old = _split(data)
                self._write(step, stored, _joined(old.value, old.tag), self._expiry_ms(expire))
            return data is not None
        if self.keeps_places:
            return self.atomically(lambda _: self.touch(key, expire))
        if expire is not None and expire <= 0:
            return self.client.discard(stored)
        try:
            self.client.touch(stored, expire if expire is None else max(0.001, expire))
        except NotFound:
            return False
        return True

    def incr(self, key: Any, delta: int = 1, default: "Optional[int]" = 0,
             retry: bool = False) -> Any:
        """Adds to the number, from default if there is none; returns the sum. One step. KeyError:
        there is none, and default is None."""
        stored = self._stored(key)
        if (not (self._transacting or self.keeps_places) and type(delta) is int
                and type(default) in (int, type(None))):
            try:
                if default is None:
                    return self.client.add(stored, delta, if_present=True)
                return self.client.add(stored, delta, initial=default)
            except NotFound:
                raise KeyError(key) from None
            except (NotANumber, OutOfBounds, OverflowError):
                pass  # with a tag, or no integer of 64 bits

        def add(step: Step) -> Any:
            data = step.read(stored)
            if data is None:
                if default is None:
                    raise KeyError(key)
                total = default + delta
                step.write(stored, self._coder.dumps(total))
                return total
            old = _split(data)
            total = self._coder.loads(old.value) + delta
            self._write(step, stored, _joined(self._coder.dumps(total), old.tag),
                        step.expiry_ms(stored))
            return total

        return self.atomically(add)

    def decr(self, key: Any, delta: int = 1, default: "Optional[int]" = 0,
             retry: bool = False) -> Any:
        """Takes from the number: see incr."""
        return self.incr(key, -delta, default, retry)

    # Reading -------------------------------------------------------------------------------------

    def get(self, key: Any, default: Any = None, read: bool = False, expire_time: bool = False,
            tag: bool = False, retry: bool = False) -> Any:
        """The value, or default. read: bytes as a file; expire_time, tag: a tuple with these."""
        if type(key) is str:
            stored = self._data + b"s" + key.encode("utf-8", "surrogatepass")
        else:
            stored = self._data + key_bytes(key, self._coder.pickles)
        if self._transacting or self._counts or read or expire_time or tag:
            return self._get_with(stored, default, read, expire_time, tag)
        data = self._get_data(stored)
        if data is None:
            return default
        kind = data[:1]
        if kind == b"s":
            return data[1:].decode("utf-8", "surrogatepass")
        if kind == b"b":
            return data[1:]
        if kind == b"t" or kind == b"q":
            data = _split(data).value
        return self._coder.loads(data)

    def _find(self, stored: bytes, expire_time: bool) -> "Optional[_Stored]":
        if self._transacting and (step := self.running()) is not None:
            data = step.read(stored)
            if data is None:
                return None
            return _split(data, step.expiry_ms(stored) if expire_time else 0)
        if not expire_time:
            data = self._get_data(stored)
            return None if data is None else _split(data)
        try:
            entry = self.client.entry(stored)
        except NotFound:
            return None
        return _split(entry.value, entry.expiry_ms)

    def _get_with(self, stored: bytes, default: Any, read: bool, expire_time: bool,
                  tag: bool) -> Any:
        found = self._find(stored, expire_time)
        if self._counts:
            self._count(found is not None)
        if found is None:
            return self._several(default, None, expire_time, tag)
        value = self._answer(self._coder.loads(found.value), read)
        return self._several(value, found, expire_time, tag)

    def __getitem__(self, key: Any) -> Any:
        value = self.get(key, ENOVAL)
        if value is ENOVAL:
            raise KeyError(key)
        return value

    def read(self, key: Any, retry: bool = False) -> Any:
        """The value, which is bytes, as a file. KeyError."""
        value = self.get(key, ENOVAL, read=True)
        if value is ENOVAL:
            raise KeyError(key)
        return value

    def __contains__(self, key: Any) -> bool:
        stored = self._stored(key)
        if self._transacting and (step := self.running()) is not None:
            return step.read(stored) is not None
        return self.client.exists(stored)

    def pop(self, key: Any, default: Any = None, expire_time: bool = False, tag: bool = False,
            retry: bool = False) -> Any:
        """Takes the item out and returns its value, or default. One step."""
        stored = self._stored(key)
        if self._transacting and (step := self.running()) is not None:
            data = step.read(stored)
            if data is None:
                return self._several(default, None, expire_time, tag)
            found = _split(data, step.expiry_ms(stored) if expire_time else 0)
            step.remove(stored)
        else:
            while True:
                try:
                    entry = self.client.entry(stored)
                    self.client.delete(stored, if_version=entry.version)
                    break
                except VersionMismatch:
                    continue
                except NotFound:
                    return self._several(default, None, expire_time, tag)
            found = _split(entry.value, entry.expiry_ms)
        return self._several(self._coder.loads(found.value), found, expire_time, tag)

    # Deleting ------------------------------------------------------------------------------------

    def delete(self, key: Any, retry: bool = False) -> bool:
        """Deletes the item; tells whether there was one."""
        stored = self._stored(key)
        if self._transacting and (step := self.running()) is not None:
            was_there = step.read(stored) is not None
            if was_there:
                step.remove(stored)
            return was_there
        return self.client.discard(stored)

    def __delitem__(self, key: Any) -> None:
        if not self.delete(key):
            raise KeyError(key)

    def evict(self, tag: Any, retry: bool = False) -> int:
        """Deletes the items with the tag; returns how many there were. It looks at all items."""
        return self._delete_if(lambda entry: bool(_tag_of(entry) == tag))

    def _delete_if(self, is_due: "Callable[[Entry], bool]") -> int:
        deleted = 0
        due = (entry for entry in self.client.scan(self._data) if is_due(entry))
        while chunk := list(itertools.islice(due, 1000)):
            batch = self.client.batch()
            for entry in chunk:
                batch.delete(entry.key, if_version=entry.version)
            for result in batch.execute():
                if result.status not in ("not_found", "version_mismatch"):
                    result.result()
                    deleted += 1
        return deleted

    def clear(self, retry: bool = False) -> int:
        """Deletes all items; returns how many there were."""
        self.client.delete_many(self.client.keys(self._meta + b"pushed:"))
        return self.client.delete_many(self.client.keys(self._data))

    def expire(self, now: "Optional[float]" = None, retry: bool = False) -> int:
        """Nothing is to do: an item that has expired is gone, and the daemon sweeps. 0."""
        return 0

    def cull(self, retry: bool = False) -> int:
        """Nothing is to do: the daemon makes room when a write needs it. 0."""
        return 0

    # All items -----------------------------------------------------------------------------------

    def _in_order(self) -> "list[bytes]":
        """The stored keys, in the order in which their values were stored."""
        if self.keeps_places:
            places = {entry.key: _place_of(entry) for entry in self.client.scan(self._data)}
        else:
            places = {entry.key: entry.version
                      for entry in self.client.scan(self._data, keys_only=True)}
        if (step := self.running()) is not None:
            for number, (stored, data) in enumerate(step.written(self._data).items()):
                places[stored] = -1 if data is None else _split(data).place or _LAST + number
        found = sorted((place, stored) for stored, place in places.items() if place >= 0)
        return [stored for _, stored in found]

    def _readable(self, names: "Iterable[bytes]") -> "Iterator[tuple[Any, bytes]]":
        """Those that a cache has stored, behind their keys. Others may stand in the store, too."""
        for stored in names:
            try:
                key = self._key(stored)
            except ValueError:
                continue
            yield key, stored

    def __iter__(self) -> "Iterator[Any]":
        for key, _ in self._readable(self._in_order()):
            yield key

    def __reversed__(self) -> "Iterator[Any]":
        for key, _ in self._readable(reversed(self._in_order())):
            yield key

    def _tagged(self, tag: Any) -> "Iterator[bytes]":
        """The stored keys of the items with the tag, in no order."""
        step = self.running()
        written = {} if step is None else step.written(self._data)
        for entry in self.client.scan(self._data):
            if entry.key not in written and _tag_of(entry) == tag:
                yield entry.key
        for stored, data in written.items():
            if data is not None and _split(data).tag == tag:
                yield stored

    def iterkeys(self, reverse: bool = False, tag: Any = ENOVAL) -> "Iterator[Any]":
        """The keys in their order: numbers, text, bytes, then others. tag: of the items that have
        it, which takes a look at all items."""
        ranks = {b"i": 0, b"f": 0, b"s": 1, b"b": 2}
        sizes = len(self._data)
        keyed = []
        for key, stored in self._readable(self._names() if tag is ENOVAL else self._tagged(tag)):
            rank = ranks.get(stored[sizes:sizes + 1], 3)
            keyed.append((rank, key if rank < 3 else stored, stored))
        for _, _, stored in sorted(keyed, reverse=reverse):
            yield self._key(stored)

    def _names(self) -> "Iterable[bytes]":
        """The stored keys, in no order."""
        return self.client.keys(self._data) if self.running() is None else self._in_order()

    def __len__(self) -> int:
        return sum(1 for _ in self._names())

    def __bool__(self) -> bool:
        return True

    def peekitem(self, last: bool = True, expire_time: bool = False, tag: bool = False,
                 retry: bool = False) -> Any:
        """The item that was stored last (or first), as (key, value). KeyError: there is none."""
        found = self._in_order()
        for key, stored in self._readable(reversed(found) if last else found):
            item = self._find(stored, True)
            if item is not None:
                pair = (key, self._coder.loads(item.value))
                return self._several(pair, item, expire_time, tag)
        raise KeyError("dictionary is empty")

    # Queues --------------------------------------------------------------------------------------

    def _bounds_name(self, prefix: "Optional[str]") -> bytes:
        return self._meta + b"pushed:" + (b"" if prefix is None else b"=" + prefix.encode())

    def _pushed(self, number: int, prefix: "Optional[str]") -> bytes:
        return self._stored(number if prefix is None else f"{prefix}-{number:015d}")

    def bounds(self, step: Step, prefix: "Optional[str]" = None) -> "Optional[list[int]]":
        """Of the queue of that prefix: the first and the last number, and how many between them are
        known to be missing; None: it is empty."""
        known = step.read(self._bounds_name(prefix))
        return None if known is None else [int(number) for number in json.loads(known)]

    def set_bounds(self, step: Step, prefix: "Optional[str]", first: int, last: int,
                   holes: int) -> None:
        """Writes them."""
        if first > last:
            step.remove(self._bounds_name(prefix))
        else:
            step.write(self._bounds_name(prefix),
                       json.dumps([first, last, max(0, holes)]).encode())

    def pushed(self, number: int) -> bytes:
        """The stored key of an item of the queue without prefix."""
        return self._pushed(number, None)

    def pushed_values(self, numbers: "Iterable[int]") -> "Iterator[tuple[int, Any]]":
        """Those of these items that are there, with their numbers."""
        names = {self._pushed(number, None): number for number in numbers}
        step = self.running()
        found: "dict[bytes, Optional[bytes]]" = {}
        if step is None:
            found.update(self.client.get_many(names))
        else:
            found.update((name, step.glance(name)) for name in names)
        for name, number in names.items():
            value = self.value_of(found.get(name))
            if value is not ENOVAL:
                yield number, value

    def value_of(self, data: "Optional[bytes]") -> Any:
        """The value in an entry; ENOVAL: there is no entry."""
        return ENOVAL if data is None else self._coder.loads(_split(data).value)

    def data_of(self, value: Any) -> bytes:
        """The entry of a value."""
        return self._coder.dumps(value)

    def push(self, value: Any, prefix: "Optional[str]" = None, side: str = "back",
             expire: "Optional[float]" = None, read: bool = False, tag: Any = None,
             retry: bool = False) -> Any:
        """Appends the value to the queue of that prefix, at its back or front; returns its key: a
        number, or PREFIX-NUMBER. One step."""
        data = _joined(self._value(value, read), tag)

        def push(step: Step) -> int:
            bounds = self.bounds(step, prefix)
            if bounds is None:
                number = _FIRST_PUSHED
                self.set_bounds(step, prefix, number, number, 0)
            else:
                first, last, holes = bounds
                number = last + 1 if side == "back" else first - 1
                self.set_bounds(step, prefix, min(first, number), max(last, number), holes)
            step.write(self._pushed(number, prefix), data, self._expiry_ms(expire))
            return number

        number = self.atomically(push)
        return number if prefix is None else f"{prefix}-{number:015d}"

    def _from_queue(self, prefix: "Optional[str]", default: Any, side: str, expire_time: bool,
                    tag: bool, takes: bool) -> Any:
        def look(step: Step) -> "Optional[tuple[int, _Stored]]":
            bounds = self.bounds(step, prefix)
            if bounds is None:
                return None
            first, last, holes = bounds
            numbers = range(first, last + 1) if side == "front" else range(last, first - 1, -1)
            for number in numbers:
                stored = self._pushed(number, prefix)
                if step.glance(stored) is None or (data := step.read(stored)) is None:
                    holes -= 1  # it has ended, or somebody has deleted it
                    continue
                found = _split(data, step.expiry_ms(stored))
                if takes:
                    step.remove(stored)
                    left = (number + 1, last) if side == "front" else (first, number - 1)
                    self.set_bounds(step, prefix, *left, holes)
                return number, found
            if takes:
                self.set_bounds(step, prefix, 1, 0, 0)
            return None

        answer = self.atomically(look)
        if answer is None:
            return self._several(default, None, expire_time, tag)
        number, found = answer
        key: Any = number if prefix is None else f"{prefix}-{number:015d}"
        return self._several((key, self._coder.loads(found.value)), found, expire_time, tag)

    def pull(self, prefix: "Optional[str]" = None, default: Any = (None, None),
             side: str = "front", expire_time: bool = False, tag: bool = False,
             retry: bool = False) -> Any:
        """Takes the item at the front (or back) of the queue out; returns (key, value). One step.
        default: the queue is empty."""
        return self._from_queue(prefix, default, side, expire_time, tag, True)

    def peek(self, prefix: "Optional[str]" = None, default: Any = (None, None),
             side: str = "front", expire_time: bool = False, tag: bool = False,
             retry: bool = False) -> Any:
        """The item at the front (or back) of the queue, which stays: see pull."""
        return self._from_queue(prefix, default, side, expire_time, tag, False)

    # Memoizing -----------------------------------------------------------------------------------

    def memoize(self, name: "Optional[str]" = None, typed: bool = False,
                expire: "Optional[float]" = None, tag: Any = None,
                ignore: "Iterable[Any]" = ()
                ) -> "Callable[[Callable[_Arguments, _T]], Callable[_Arguments, _T]]":
        """A decorator: the function is called once for each set of arguments, and its answer is
        kept here. function.__cache_key__(...) is the key of a call. typed: 1 and 1.0 are not the
        same; ignore: arguments that make no difference, each by its place (from 0) or its name,
        however a call passes it."""
        if callable(name):
            raise TypeError("name cannot be callable")
        ignore = set(ignore)

        def decorate(function: "Callable[_Arguments, _T]") -> "Callable[_Arguments, _T]":
            ignored = ignored_in(function, ignore)
            base = (full_name(function) if name is None else name,)
            get, set_ = self.get, self.set

            def make(key: "tuple[Any, ...]", args: Any, kwargs: Any) -> _T:
                answer = function(*args, **kwargs)
                if expire is None or expire > 0:
                    set_(key, answer, expire, tag=tag)
                return answer

            def cache_key(*args: Any, **kwargs: Any) -> "tuple[Any, ...]":
                return args_to_key(base, args, kwargs, typed, ignored)

            @functools.wraps(function)
            def call(*args: "_Arguments.args", **kwargs: "_Arguments.kwargs") -> _T:
                key = (base + args + (None,) if not (kwargs or typed or ignored)
                       else args_to_key(base, args, kwargs, typed, ignored))
                try:
                    answer: Any = get(key, ENOVAL)
                except BadKey:  # it is longer than the store's keys may be
                    key = base + ("sha256", hashlib.sha256(key_bytes(
                        key, self._coder.pickles)).hexdigest())
                    answer = get(key, ENOVAL)
                if answer is ENOVAL:
                    return make(key, args, kwargs)
                return answer  # type: ignore[no-any-return]

            call.__cache_key__ = cache_key  # type: ignore[attr-defined]
            return call

        return decorate

    # Statistics, size, damage --------------------------------------------------------------------

    def _count(self, is_hit: bool) -> None:
        with self._lock:
            if is_hit:
                self._hits += 1
            else:
                self._misses += 1

    def _flush_statistics(self) -> None:
        with self._lock:
            hits, misses, self._hits, self._misses = self._hits, self._misses, 0, 0
        client = self.client
        client.add(self._meta + b"hits", hits)
        client.add(self._meta + b"misses", misses)

    def stats(self, enable: bool = True, reset: bool = False) -> "tuple[int, int]":
        """Hits and misses since they are counted, of all programs (of others as far as they have
        asked, or closed). Counts from now on, or no more; reset: from 0."""
        self._flush_statistics()
        client = self.client
        answer = (client.add(self._meta + b"hits", 0), client.add(self._meta + b"misses", 0))
        if reset:
            client.put_many([(self._meta + b"hits", b"0"), (self._meta + b"misses", b"0")])
        self.reset("statistics", int(enable))
        return answer

    def volume(self) -> int:
        """The bytes of the store's live records."""
        files = self.client.stats("files")["files"]["each"]
        return sum(int(file["live_bytes"]) for file in files)

    def check(self, fix: bool = False, retry: bool = False) -> "list[Any]":
        """Reads all items, with their checksums; returns a warning for each that cannot be read."""
        found: "list[Any]" = []
        cursor = 0
        while True:
            try:
                for _ in self.client.scan(self._data, cursor=cursor):
                    pass
                return found
            except (Corrupt, StorageError) as error:
                cursor = error.cursor
                warnings.warn(f"{error}: kvcheck --salvage saves what is left")
                found.append(error)
                if cursor == 0:
                    return found

    def create_tag_index(self) -> None:
        """Nothing is to do: there is no index of tags."""
        self.reset("tag_index", 1)

    def drop_tag_index(self) -> None:
        """Nothing is to do: there is no index of tags."""
        self.reset("tag_index", 0)

    # Parts ---------------------------------------------------------------------------------------

    def part(self, name: str, **settings: Any) -> "Cache":
        """A cache of its own within this one's store. It uses this one's client."""
        return self.part_of(self._root + b"s" + name.encode() + b"\0", **settings)

    def part_of(self, root: bytes, **settings: Any) -> "Cache":
        """The part whose keys begin so."""
        _refuse_read_only(settings)
        made = _Part.__new__(_Part)
        made.__dict__.update(self.__dict__)
        made._local = threading.local()
        made._lock = threading.RLock()
        made._transacting = made._hits = made._misses = 0
        made._owner = self.client
        made._set_root(root)
        made._given = settings
        made._load_settings()
        return made


class _Part(Cache):
    """What part makes."""

    def __reduce__(self) -> Any:
        return _opened_again, (type(self), self._directory, self._timeout, self._serializer,
                               self._root, self._given)


class FanoutCache(Cache):
    """A Cache with the interface of diskcache.FanoutCache. Writers do not block one another, so
    there is nothing to fan out: shards is ignored. A call that takes longer than timeout (at least
    a second), or that finds no daemon, is a miss (get, pop: the default; incr: None; set, add, ...:
    False), but for retry=True, read and item access, which raise what has happened."""

    def __init__(self, directory: "Optional[home.Path]" = None, shards: int = 8,
                 timeout: float = 1.0, disk: Any = None, **settings: Any) -> None:
        super().__init__(directory, timeout, disk, **settings)

    def __getitem__(self, key: Any) -> Any:
        value = Cache.get(self, key, ENOVAL)
        if value is ENOVAL:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        Cache.set(self, key, value)

    def __delitem__(self, key: Any) -> None:
        if not Cache.delete(self, key):
            raise KeyError(key)

    def read(self, key: Any, retry: bool = False) -> Any:
        """As Cache.read; raises what has happened."""
        value = Cache.get(self, key, ENOVAL, read=True)
        if value is ENOVAL:
            raise KeyError(key)
        return value

    def cache(self, name: str, timeout: float = 60.0, disk: Any = None, **settings: Any) -> Cache:
        """A cache of its own in this one's store."""
        return self.part(f"cache/{name}", **settings)

    def deque(self, name: str, maxlen: "Optional[int]" = None) -> "Deque":
        """A Deque in this one's store."""
        from .persistent import Deque
        return Deque.fromcache(self.part(f"deque/{name}"), maxlen=maxlen)

    def index(self, name: str) -> "Index":
        """An Index in this one's store."""
        from .persistent import Index
        return Index.fromcache(self.part(f"index/{name}"))


def _lenient(name: str, on_timeout: "Callable[[tuple[Any, ...], dict[str, Any]], Any]") -> Any:
    method = getattr(Cache, name)

    @functools.wraps(method)
    def call(self: FanoutCache, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except (TimeoutError, ConnectionError):
            if kwargs.get("retry"):
                raise
            return on_timeout(args, kwargs)

    return call


def _default(args: "tuple[Any, ...]", kwargs: "dict[str, Any]") -> Any:
    return args[1] if len(args) > 1 else kwargs.get("default")


for _name in ("get", "pop"):
    setattr(FanoutCache, _name, _lenient(_name, _default))
for _name in ("incr", "decr"):
    setattr(FanoutCache, _name, _lenient(_name, lambda args, kwargs: None))
for _name in ("set", "add", "touch", "delete"):
    setattr(FanoutCache, _name, _lenient(_name, lambda args, kwargs: False))


def _opened_again(kind: "type[Cache]", directory: str, timeout: float, serializer: Any,
                  root: bytes, settings: "dict[str, Any]") -> Cache:
    """What unpickling a cache calls."""
    if not root:
        return kind(directory, timeout=timeout, serializer=serializer, **settings)
    whole = Cache(directory, timeout, serializer=serializer)
    return whole.part_of(root, **settings)
