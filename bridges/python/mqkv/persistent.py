"""Deque and Index: the interfaces of diskcache's, as collections.deque and dict in a store."""

from __future__ import annotations

import functools
import operator
from collections.abc import (ItemsView, Iterable, Iterator, KeysView, MutableMapping, Sequence,
                             ValuesView)
from typing import Any, Callable, Optional, ParamSpec, TypeVar

from . import home
from .cache import ENOVAL, Cache, Step

__all__ = ["Deque", "Index"]

_T = TypeVar("_T")
_Arguments = ParamSpec("_Arguments")
_CHUNK = 100


class _InCache:
    """What a deque and an index have of their cache."""

    _cache: Cache

    @property
    def cache(self) -> Cache:
        """The cache that it is in."""
        return self._cache

    @property
    def directory(self) -> str:
        """The cache's directory."""
        return self._cache.directory

    def transact(self) -> Any:
        """See Cache.transact."""
        return self._cache.transact(retry=True)


def _limit(maxlen: "Optional[float]") -> float:
    if maxlen is None:
        return float("inf")
    if not maxlen >= 0:
        raise ValueError(f"maxlen is None, or a number of items from 0 on, not {maxlen!r}")
    return maxlen


class Deque(_InCache, Sequence):  # type: ignore[type-arg]
    """A deque that programs share: each method is one step, but for those of many items (extend,
    rotate, reverse, clear), which are one step for each. Nothing of it is evicted."""

    def __init__(self, iterable: "Iterable[Any]" = (), directory: "Optional[home.Path]" = None,
                 maxlen: "Optional[float]" = None, **options: Any) -> None:
        self._maxlen = _limit(maxlen)
        self._cache = Cache(directory, eviction_policy="none", **options)
        self.extend(iterable)

    @classmethod
    def fromcache(cls, cache: Cache, iterable: "Iterable[Any]" = (),
                  maxlen: "Optional[float]" = None) -> "Deque":
        """A deque in a cache that is open."""
        made = cls.__new__(cls)
        made._cache = cache
        made._maxlen = _limit(maxlen)
        made.extend(iterable)
        return made

    def __reduce__(self) -> Any:
        return _deque_again, (self._cache, self._maxlen)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(directory={self.directory!r})"

    @property
    def maxlen(self) -> float:
        """The most items: one more pushes one out at the other end. None, if it is set: any
        number."""
        return self._maxlen

    @maxlen.setter
    def maxlen(self, value: "Optional[float]") -> None:
        self._maxlen = _limit(value)
        while len(self) > self._maxlen:
            self.popleft()

    # Places --------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._cache.atomically(self._length)

    def _length(self, step: Step) -> int:
        bounds = self._cache.bounds(step)
        return 0 if bounds is None else bounds[1] - bounds[0] + 1 - bounds[2]

    def _number(self, step: Step, index: int) -> int:
        """The number of the item at a place. IndexError."""
        bounds = self._cache.bounds(step)
        first, last, holes = bounds if bounds is not None else (1, 0, 0)
        size = last - first + 1 - holes
        if not -size <= index < size:
            raise IndexError("deque index out of range")
        if holes == 0:
            return first + index if index >= 0 else last + 1 + index
        numbers = range(first, last + 1) if index >= 0 else range(last, first - 1, -1)
        left = index if index >= 0 else -index - 1
        for number in numbers:
            if step.glance(self._cache.pushed(number)) is not None:
                if left == 0:
                    return number
                left -= 1
        raise IndexError("deque index out of range")

    def __getitem__(self, index: Any) -> Any:
        def read(step: Step) -> Any:
            return self._cache.value_of(step.read(self._cache.pushed(self._number(step, place))))

        place = operator.index(index)
        value = self._cache.atomically(read)
        if value is ENOVAL:
            raise IndexError("deque index out of range")
        return value

    def __setitem__(self, index: int, value: Any) -> None:
        data = self._cache.data_of(value)

        def write(step: Step) -> None:
            step.write(self._cache.pushed(self._number(step, place)), data)

        place = operator.index(index)
        self._cache.atomically(write)

    def __delitem__(self, index: int) -> None:
        place = operator.index(index)
        self._cache.atomically(lambda step: self._delete(step, self._number(step, place)))

    def _delete(self, step: Step, number: int) -> None:
        bounds = self._cache.bounds(step)
        if bounds is None:
            raise IndexError("deque index out of range")
        first, last, holes = bounds
        step.remove(self._cache.pushed(number))
        if last - first + 1 - holes == 1:
            first, last = 1, 0
        elif number == first:
            first += 1
        elif number == last:
            last -= 1
        else:
            holes += 1
        self._cache.set_bounds(step, None, first, last, holes)

    def _items(self, backwards: bool = False) -> "Iterator[tuple[int, Any]]":
        bounds = self._cache.atomically(self._cache.bounds)
        if bounds is None:
            return
        numbers = range(bounds[0], bounds[1] + 1)
        if backwards:
            numbers = numbers[::-1]
        for begin in range(0, len(numbers), _CHUNK):
            for number, value in self._cache.pushed_values(numbers[begin:begin + _CHUNK]):
                yield number, value

    def __iter__(self) -> "Iterator[Any]":
        for _, value in self._items():
            yield value

    def __reversed__(self) -> "Iterator[Any]":
        for _, value in self._items(True):
            yield value

    # Both ends -----------------------------------------------------------------------------------

    def _push(self, value: Any, side: str, other: str) -> None:
        def push(step: Step) -> None:
            self._cache.push(value, side=side)
            if self._length(step) > self._maxlen:
                self._cache.pull(side=other)

        self._cache.atomically(push)

    def append(self, value: Any) -> None:
        """Adds the value at the back."""
        self._push(value, "back", "front")

    def appendleft(self, value: Any) -> None:
        """Adds the value at the front."""
        self._push(value, "front", "back")

    def extend(self, iterable: "Iterable[Any]") -> None:
        """Adds all values at the back."""
        for value in _apart(iterable):
            self.append(value)

    def extendleft(self, iterable: "Iterable[Any]") -> None:
        """Adds all values at the front, one after the other."""
        for value in _apart(iterable):
            self.appendleft(value)

    def __iadd__(self, iterable: "Iterable[Any]") -> "Deque":
        self.extend(iterable)
        return self

    def _take(self, side: str, stays: bool) -> Any:
        call = self._cache.peek if stays else self._cache.pull
        _, value = call(default=(None, ENOVAL), side=side)
        if value is ENOVAL:
            raise IndexError("pop from an empty deque" if not stays else "peek from an empty deque")
        return value

    def pop(self) -> Any:
        """Takes the value at the back. IndexError: there is none."""
        return self._take("back", False)

    def popleft(self) -> Any:
        """Takes the value at the front. IndexError: there is none."""
        return self._take("front", False)

    def peek(self) -> Any:
        """The value at the back. IndexError: there is none."""
        return self._take("back", True)

    def peekleft(self) -> Any:
        """The value at the front. IndexError: there is none."""
        return self._take("front", True)

    # All of it -----------------------------------------------------------------------------------

    def clear(self) -> None:
        """Removes all values."""
        self._cache.clear()

    def copy(self) -> "Deque":
        """Another one with the same values, in a new directory."""
        return type(self)(self, maxlen=self._maxlen)

    def count(self, value: Any) -> int:
        """How often the value is in it."""
        return sum(1 for item in self if item == value)

    def remove(self, value: Any) -> None:
        """Removes the first such value. ValueError: there is none."""
        for number, item in self._items():
            if item == value and self._cache.atomically(
                    functools.partial(self._remove_if, number, value)):
                return
        raise ValueError("deque.remove(value): value not in deque")

    def _remove_if(self, number: int, value: Any, step: Step) -> bool:
        found: Any = self._cache.value_of(step.read(self._cache.pushed(number)))
        if found is ENOVAL or found != value:
            return False
        self._delete(step, number)
        return True

    def reverse(self) -> None:
        """Turns the order round."""
        values = list(self)
        for place, value in enumerate(reversed(values)):
            self[place] = value

    def rotate(self, steps: int = 1) -> None:
        """Moves that many values from the back to the front; less than 0: the other way."""
        if not isinstance(steps, int):
            raise TypeError(f"type {type(steps).__name__} is not an integer")
        side, other = ("back", "front") if steps >= 0 else ("front", "back")

        def move(_: Step) -> None:
            found, value = self._cache.pull(default=(None, ENOVAL), side=side)
            if value is not ENOVAL:
                self._cache.push(value, side=other)

        for _ in range(abs(steps) % (len(self) or 1)):
            self._cache.atomically(move)

    def _compare(self, other: Any, test: "Callable[[Any, Any], bool]") -> Any:
        if not isinstance(other, Sequence):
            return NotImplemented
        mine, theirs = list(self), list(other)
        return test(mine, theirs)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    __hash__ = None  # type: ignore[assignment]


def _apart(iterable: "Iterable[Any]") -> "Iterable[Any]":
    """The values, also if it is a Deque that changes while they are added to it."""
    return list(iterable) if isinstance(iterable, Deque) else iterable


def _deque_again(cache: Cache, maxlen: float) -> Deque:
    return Deque.fromcache(cache, maxlen=maxlen)


class Index(_InCache, MutableMapping):  # type: ignore[type-arg]
    """A dict that programs share, in the order in which keys came. Nothing of it is evicted."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        directory: "Optional[home.Path]" = None
        if args and (args[0] is None or isinstance(args[0], (str, bytes))
                     or hasattr(args[0], "__fspath__")):
            directory, args = args[0], args[1:]
        self._cache = Cache(directory, eviction_policy="none")
        self._cache.keeps_places = True
        self.update(*args, **kwargs)

    @classmethod
    def fromcache(cls, cache: Cache, *args: Any, **kwargs: Any) -> "Index":
        """An index in a cache that is open."""
        made = cls.__new__(cls)
        made._cache = cache
        cache.keeps_places = True
        made.update(*args, **kwargs)
        return made

    def __reduce__(self) -> Any:
        return Index.fromcache, (self._cache,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.directory!r})"

    def __getitem__(self, key: Any) -> Any:
        return self._cache[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._cache[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._cache[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._cache

    def __iter__(self) -> "Iterator[Any]":
        return iter(self._cache)

    def __reversed__(self) -> "Iterator[Any]":
        return reversed(self._cache)

    def __len__(self) -> int:
        return len(self._cache)

    def __bool__(self) -> bool:
        return next(iter(self), ENOVAL) is not ENOVAL

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """The value; if there is none, stores the default and returns that. One step."""
        while True:
            value = self._cache.get(key, ENOVAL)
            if value is not ENOVAL:
                return value
            if self._cache.add(key, default):
                return default

    def pop(self, key: Any, default: Any = ENOVAL) -> Any:
        """Takes the item out and returns its value. One step. KeyError."""
        value = self._cache.pop(key, ENOVAL)
        if value is not ENOVAL:
            return value
        if default is ENOVAL:
            raise KeyError(key)
        return default

    def popitem(self, last: bool = True) -> "tuple[Any, Any]":
        """Takes the item that came last (or first) out. KeyError: there is none."""
        while True:
            key, _ = self._cache.peekitem(last)
            value = self._cache.pop(key, ENOVAL)
            if value is not ENOVAL:
                return key, value

    def peekitem(self, last: bool = True) -> "tuple[Any, Any]":
        """The item that came last (or first). KeyError: there is none."""
        pair: "tuple[Any, Any]" = self._cache.peekitem(last)
        return pair

    def push(self, value: Any, prefix: "Optional[str]" = None, side: str = "back") -> Any:
        """See Cache.push."""
        return self._cache.push(value, prefix, side)

    def pull(self, prefix: "Optional[str]" = None, default: Any = (None, None),
             side: str = "front") -> Any:
        """See Cache.pull."""
        return self._cache.pull(prefix, default, side)

    def clear(self) -> None:
        """Removes all items."""
        self._cache.clear()

    def keys(self) -> "KeysView[Any]":
        """The keys, in their order."""
        return KeysView(self)

    def values(self) -> "ValuesView[Any]":
        """The values, in the order of the keys."""
        return ValuesView(self)

    def items(self) -> "ItemsView[Any, Any]":
        """Keys and values, in their order."""
        return ItemsView(self)

    def memoize(self, name: "Optional[str]" = None, typed: bool = False,
                ignore: "Iterable[Any]" = ()
                ) -> "Callable[[Callable[_Arguments, _T]], Callable[_Arguments, _T]]":
        """See Cache.memoize."""
        return self._cache.memoize(name, typed, ignore=ignore)

    def __eq__(self, other: object) -> bool:
        """As a dict; with an Index or OrderedDict the order counts."""
        from collections import OrderedDict
        if not hasattr(other, "items"):
            return NotImplemented
        if isinstance(other, (Index, OrderedDict)):
            return list(self.items()) == list(other.items())
        return dict(self.items()) == dict(other.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]
