"""Recipes on a Cache, as diskcache has them: locks, a semaphore, an average, decorators.

A lock of which nobody knows that its holder has died is held for ever: give it expire=, longer than
anybody holds it. Who held it longer gives back nothing, least of all what somebody else holds now:
release, and the end of a with statement, raise NotOwned then. In a cache that makes room
(size_limit) a lock may be evicted: locks belong in one with eviction_policy='none'.
"""

from __future__ import annotations

import functools
import math
import os
import random
import secrets
import threading
import time
from typing import Any, Callable, Iterable, Optional, ParamSpec, TypeVar

from .cache import ENOVAL, Cache, Step, args_to_key, full_name, ignored_in
from .errors import NotOwned

__all__ = ["Averager", "BoundedSemaphore", "Lock", "RLock", "barrier", "memoize_stampede",
           "throttle"]

_T = TypeVar("_T")
_Arguments = ParamSpec("_Arguments")
_LONGEST_S = 0.02
_LATE = 16  # so many tokens whose time was over a thread keeps at most
_thread = threading.local()
_ANEW = "anew"  # after the key of an answer: somebody makes it anew


def _wait(attempt: int) -> None:
    """Before the next look at a lock."""
    time.sleep(random.uniform(0.5, 1) * min(0.0005 * 2 ** min(attempt, 10), _LONGEST_S))


def _thread_name() -> str:
    """This thread, by a name that no other one has, not even a later one of the same numbers."""
    if getattr(_thread, "process", None) != os.getpid():
        _thread.process, _thread.name = os.getpid(), secrets.token_hex(8)
    return str(_thread.name)


class _Entry:
    """Something that programs share, in an entry of a cache."""

    def __init__(self, cache: Cache, key: Any, expire: Optional[float] = None,
                 tag: Any = None) -> None:
        self._cache = cache
        self._key = key
        self._expire = expire
        self._tag = tag


class Averager(_Entry):
    """The average of numbers that programs add."""

    def add(self, value: float) -> None:
        """Adds a number."""
        def add(_: Step) -> None:
            total, count = self._cache.get(self._key, (0.0, 0), retry=True)
            self._cache.set(self._key, (total + value, count + 1), self._expire, tag=self._tag,
                            retry=True)

        self._cache.atomically(add)

    def get(self) -> Optional[float]:
        """The average; None of nothing."""
        total, count = self._cache.get(self._key, (0.0, 0), retry=True)
        return None if count == 0 else float(total / count)

    def pop(self) -> Optional[float]:
        """The average, and begins anew."""
        total, count = self._cache.pop(self._key, (0.0, 0), retry=True)
        return None if count == 0 else float(total / count)


class _Held(_Entry):
    def _take(self) -> bool:
        """Takes it, if it is free."""
        raise NotImplementedError

    def acquire(self) -> None:
        """Waits until it is free, and takes it."""
        attempt = 0
        while not self._take():
            _wait(attempt)
            attempt += 1

    def release(self) -> None:
        """Gives it back. NotOwned: it is not this thread's, or its time was over."""
        raise NotImplementedError

    def _not_owned(self) -> NotOwned:
        error = NotOwned(f"{type(self).__name__} {self._key!r} cannot be released: it was not "
                         "acquired here, or its time (expire=) was over")
        error.status = "not_owned"
        return error

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, kind: "Optional[type[BaseException]]", *_: Any) -> None:
        try:
            self.release()
        except NotOwned:
            if kind is None:
                raise


class _ByToken(_Held):
    """Each acquire makes a token, which is in the entry as long as it is held. A thread gives back
    its own last one, or, if it has none, one that another thread has taken by the same object."""

    _most = 1  # that may be held at once

    def __init__(self, cache: Cache, key: Any, expire: Optional[float] = None,
                 tag: Any = None) -> None:
        super().__init__(cache, key, expire, tag)
        self._tokens: "dict[tuple[int, int], list[str]]" = {}  # by process and thread

    def _keep(self, token: str) -> None:
        tokens = self._tokens.setdefault((os.getpid(), threading.get_ident()), [])
        tokens.append(token)
        del tokens[:-self._most - _LATE]

    def _give(self, tokens: "list[str]") -> Optional[str]:
        """Takes one of these tokens out of the entry; None: none of them is there."""
        raise NotImplementedError

    def release(self) -> None:
        process, thread = os.getpid(), threading.get_ident()
        own = self._tokens.get((process, thread))
        if own:
            if self._give([own.pop()]) is None:
                raise self._not_owned()
            return
        others = [tokens for (where, _), tokens in list(self._tokens.items()) if where == process]
        given = self._give([token for tokens in others for token in tokens])
        if given is None:
            raise self._not_owned()
        for tokens in others:
            if given in tokens:
                tokens.remove(given)


class Lock(_ByToken):
    """A lock of programs and threads. expire: seconds after which it is free in any case. Whoever
    has it, cache.delete(key) makes it free."""

    def _take(self) -> bool:
        token = secrets.token_hex(8)
        if not self._cache.add(self._key, token, self._expire, tag=self._tag, retry=True):
            return False
        self._keep(token)
        return True

    def _give(self, tokens: "list[str]") -> Optional[str]:
        def give(_: Step) -> Optional[str]:
            held: Optional[str] = self._cache.get(self._key, retry=True)
            if held not in tokens:
                return None
            self._cache.delete(self._key, retry=True)
            return held

        return self._cache.atomically(give)

    def locked(self) -> bool:
        """Whether somebody has it."""
        return self._key in self._cache


class RLock(_Held):
    """A lock that its thread may take again, and gives back as often."""

    def _change(self, change: int) -> bool:
        mine = _thread_name()

        def try_it(_: Step) -> bool:
            owner, count = self._cache.get(self._key, (None, 0), retry=True)
            if count > 0 and owner != mine or count + change < 0:
                return False
            self._cache.set(self._key, (mine, count + change), self._expire, tag=self._tag,
                            retry=True)
            return True

        return self._cache.atomically(try_it)

    def _take(self) -> bool:
        return self._change(1)

    def release(self) -> None:
        if not self._change(-1):
            raise self._not_owned()


class BoundedSemaphore(_ByToken):
    """A semaphore that value holders may have at once. expire: seconds after which each of them
    has it no more."""

    def __init__(self, cache: Cache, key: Any, value: int = 1, expire: Optional[float] = None,
                 tag: Any = None) -> None:
        super().__init__(cache, key, expire, tag)
        self._most = value

    def _holders(self) -> "dict[str, Optional[float]]":
        """The tokens of those that hold it, and when they end (None: never)."""
        now = time.time()
        held: "dict[str, Optional[float]]" = self._cache.get(self._key, {}, retry=True)
        return {token: end for token, end in held.items() if end is None or end > now}

    def _store(self, holders: "dict[str, Optional[float]]") -> None:
        ends = [end for end in holders.values() if end is not None]
        left: Optional[float] = 0.0  # of nobody the entry is deleted
        if ends:
            left = max(ends) - time.time()
        if len(ends) < len(holders):
            left = None
        self._cache.set(self._key, holders, left, tag=self._tag, retry=True)

    def _take(self) -> bool:
        token = secrets.token_hex(8)

        def take(_: Step) -> bool:
            holders = self._holders()
            if len(holders) >= self._most:
                return False
            end = None if self._expire is None else time.time() + self._expire
            self._store({**holders, token: end})
            return True

        if not self._cache.atomically(take):
            return False
        self._keep(token)
        return True

    def _give(self, tokens: "list[str]") -> Optional[str]:
        def give(_: Step) -> Optional[str]:
            holders = self._holders()
            mine = next((token for token in tokens if token in holders), None)
            if mine is not None:
                del holders[mine]
                self._store(holders)
            return mine

        return self._cache.atomically(give)


def throttle(cache: Cache, count: int, seconds: float, name: Optional[str] = None,
             expire: Optional[float] = None, tag: Any = None,
             time_func: "Callable[[], float]" = time.time,
             sleep_func: "Callable[[float], Any]" = time.sleep
             ) -> "Callable[[Callable[_Arguments, _T]], Callable[_Arguments, _T]]":
    """A decorator: all programs together call the function count times in that many seconds at
    most; who comes too early waits."""
    def decorate(function: "Callable[_Arguments, _T]") -> "Callable[_Arguments, _T]":
        rate = count / float(seconds)
        key = full_name(function) if name is None else name
        cache.set(key, (time_func(), count), expire, tag=tag, retry=True)

        def ask(_: Step) -> float:
            now = time_func()
            last, tally = cache.get(key, (now, count), retry=True)
            tally = min(tally + (now - last) * rate, count)
            if tally < 1:
                return float((1 - tally) / rate)
            cache.set(key, (now, tally - 1), expire, tag=tag, retry=True)
            return 0

        @functools.wraps(function)
        def call(*args: "_Arguments.args", **kwargs: "_Arguments.kwargs") -> _T:
            while delay := cache.atomically(ask):
                sleep_func(delay)
            return function(*args, **kwargs)

        return call

    return decorate


def barrier(cache: Cache, lock_factory: "Callable[..., Any]", name: Optional[str] = None,
            expire: Optional[float] = None, tag: Any = None
            ) -> "Callable[[Callable[_Arguments, _T]], Callable[_Arguments, _T]]":
    """A decorator: the function is called under a lock of that kind (Lock, RLock,
    BoundedSemaphore)."""
    def decorate(function: "Callable[_Arguments, _T]") -> "Callable[_Arguments, _T]":
        key = full_name(function) if name is None else name
        lock = lock_factory(cache, key, expire=expire, tag=tag)

        @functools.wraps(function)
        def call(*args: "_Arguments.args", **kwargs: "_Arguments.kwargs") -> _T:
            with lock:
                return function(*args, **kwargs)

        return call

    return decorate


def memoize_stampede(cache: Cache, expire: float, name: Optional[str] = None, typed: bool = False,
                     tag: Any = None, beta: float = 1, ignore: "Iterable[Any]" = ()
                     ) -> "Callable[[Callable[_Arguments, _T]], Callable[_Arguments, _T]]":
    """A decorator as Cache.memoize whose answers are made anew a little before they end, by a
    thread of one caller, so that not all callers make them at once. The nearer the end, and the
    longer the function takes, the likelier (times beta): "Optimal Probabilistic Cache Stampede
    Prevention", VLDB 2015."""
    ignore = set(ignore)

    def decorate(function: "Callable[_Arguments, _T]") -> "Callable[_Arguments, _T]":
        ignored = ignored_in(function, ignore)
        base = (full_name(function) if name is None else name,)

        def cache_key(*args: Any, **kwargs: Any) -> "tuple[Any, ...]":
            return args_to_key(base, args, kwargs, typed, ignored)

        def make(key: Any, args: Any, kwargs: Any) -> "tuple[_T, float]":
            begin = time.time()
            answer = function(*args, **kwargs)
            took = time.time() - begin
            cache.set(key, (answer, took), expire, tag=tag, retry=True)
            return answer, took

        @functools.wraps(function)
        def call(*args: "_Arguments.args", **kwargs: "_Arguments.kwargs") -> _T:
            key = cache_key(*args, **kwargs)
            pair: Any
            pair, end = cache.get(key, ENOVAL, expire_time=True, retry=True)
            if pair is ENOVAL:
                return make(key, args, kwargs)[0]
            answer, took = pair
            early = -took * beta * math.log(1 - random.random())
            if end is not None and end - time.time() < early and cache.add(
                    key + (_ANEW,), None, max(took, 0.001)):
                threading.Thread(target=make, args=(key, args, kwargs), daemon=True).start()
            return answer  # type: ignore[no-any-return]

        call.__cache_key__ = cache_key  # type: ignore[attr-defined]
        return call

    return decorate
