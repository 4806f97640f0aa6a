"""coding: Python's keys and values as bytes, and back.

A key is a kind and what is in it: equal keys are equal bytes, and reading a key back gives an equal
one. A value is a decimal number (so that counting is one operation of the store), or a kind and
what is in it. JSON says what it can; what it would change (tuples, bytes in a list, keys of a dict
that are no text, sets, dates, ...) is wrapped in objects that say what it was. All of that can be
read from a store that others write to. Pickle cannot: reading it runs what its writer wanted, so it
is written and read only where a program asked for it.
"""

from __future__ import annotations

import ast
import base64
import datetime
import decimal
import json
import pickle
import sys
import types
import uuid
from typing import Any, Callable, Optional, Protocol, Union

__all__ = ["Coder", "PickleRefused", "Serializer", "key_bytes", "key_of"]

_NONE = type(None)
_MARK = "\0"  # the only name in an object that wraps
_SMALL = 1 << 63
# Of these ascii() is one to one, and ast.literal_eval reads it back.
_LITERALS = frozenset({str, bytes, int, bool, _NONE})
_BARE = frozenset({_NONE, bool, float})
_PLAIN = frozenset({_NONE, bool, float, int, str})
_NAMES = frozenset({str})
# Those that say that they are of builtins, and are not there: NoneType, function, ...
_HIDDEN = {kind.__qualname__: kind for kind in vars(types).values()
           if isinstance(kind, type) and kind.__module__ == "builtins"}


class Serializer(Protocol):
    """What a program may give instead of 'json', 'msgpack' or 'pickle'."""

    def dumps(self, value: Any, /) -> bytes:
        """The bytes of a value."""

    def loads(self, data: bytes, /) -> Any:
        """The value."""


class PickleRefused(TypeError):
    """A value, or key, of a type that only pickle can store, and pickle was not asked for."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} can be stored by pickle only, which is off: who can write to the store could "
            "run code in every program that reads it. If all who can are trusted, ask for "
            "serializer='pickle'; else store what JSON can say")


# What JSON cannot say -------------------------------------------------------------------------

def _wrap(value: Any, with_types: bool) -> Any:
    kind = type(value)
    if kind is str or kind is int or kind in _BARE:
        return value
    if kind is list:
        return [_wrap(item, with_types) for item in value]
    if kind is dict:
        if all(type(name) is str and name != _MARK for name in value):
            return {name: _wrap(item, with_types) for name, item in value.items()}
        return {_MARK: ["dict", [[_wrap(name, with_types), _wrap(item, with_types)]
                                 for name, item in value.items()]]}
    if kind is tuple:
        return {_MARK: ["tuple", [_wrap(item, with_types) for item in value]]}
    if kind is set or kind is frozenset:
        items = [_wrap(item, with_types) for item in value]
        return {_MARK: [kind.__name__, sorted(items, key=json.dumps)]}
    if kind is bytes or kind is bytearray:
        return {_MARK: [kind.__name__, base64.b64encode(value).decode()]}
    if kind is datetime.datetime or kind is datetime.date or kind is datetime.time:
        if getattr(value, "tzinfo", None) in (None, datetime.timezone.utc):
            return {_MARK: [kind.__name__, value.isoformat()]}
    elif kind is datetime.timedelta:
        return {_MARK: ["timedelta", [value.days, value.seconds, value.microseconds]]}
    elif kind is decimal.Decimal or kind is uuid.UUID:
        return {_MARK: [kind.__name__, str(value)]}
    elif kind is complex:
        return {_MARK: ["complex", [value.real, value.imag]]}
    elif with_types and kind is _TypeName:
        return {_MARK: ["type", str(value)]}
    elif with_types and isinstance(value, type):
        name = f"{value.__module__}:{value.__qualname__}"
        if _type_named(name) is value:  # not of a class within a function
            return {_MARK: ["type", name]}
    raise PickleRefused(f"a value of {kind.__module__}.{kind.__qualname__}")


class _TypeName(str):
    """The name of a class whose module is not loaded. Within a key it stands for the class."""


def _type_named(name: str) -> Any:
    """The class, if its module is loaded: nothing is imported."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    if module == "builtins" and found is None:
        found = _HIDDEN.get(path)
    return found if isinstance(found, type) else _TypeName(name)


_UNWRAP: "dict[str, Callable[[Any], Any]]" = {
    "dict": dict, "tuple": tuple, "set": set, "frozenset": frozenset,
    "bytes": base64.b64decode, "bytearray": lambda text: bytearray(base64.b64decode(text)),
    "datetime": datetime.datetime.fromisoformat, "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "timedelta": lambda parts: datetime.timedelta(parts[0], parts[1], parts[2]),
    "Decimal": decimal.Decimal, "UUID": uuid.UUID,
    "complex": lambda parts: complex(parts[0], parts[1]), "type": _type_named,
}


def _unwrap(value: "dict[str, Any]") -> Any:
    if len(value) == 1 and _MARK in value:
        kind, content = value[_MARK]
        return _UNWRAP[kind](content)
    return value


def _wrapped(value: Any, with_types: bool = False) -> bytes:
    return json.dumps(_wrap(value, with_types), separators=(",", ":")).encode()


def _unwrapped(data: bytes) -> Any:
    return json.loads(data, object_hook=_unwrap)


# Keys --------------------------------------------------------------------------------------------

def _is_literal(value: Any) -> bool:
    kind = type(value)
    if kind is tuple:
        return _LITERALS.issuperset(map(type, value)) or all(map(_is_literal, value))
    return kind in _LITERALS


def key_bytes(key: Any, pickles: bool = False) -> bytes:
    """The bytes of a key. An integral float is the integer, as in a dict. PickleRefused."""
    kind = type(key)
    if kind is str:
        return b"s" + (key.encode("utf-8", "surrogatepass"))  # type: ignore[no-any-return]
    if kind is int:
        return b"i%d" % key
    if kind is tuple and (_LITERALS.issuperset(map(type, key)) or all(map(_is_literal, key))):
        return b"t" + ascii(key).encode()
    if kind is bytes:
        return b"b" + key  # type: ignore[no-any-return]
    if kind is float:
        return b"i%d" % key if key.is_integer() else b"f" + repr(key).encode()
    try:
        return b"J" + _wrapped(key, True)
    except PickleRefused:
        if not pickles:
            raise PickleRefused(f"a key of {kind.__module__}.{kind.__qualname__}") from None
    return b"p" + pickle.dumps(key, 4)


def key_of(data: bytes, pickles: bool = False) -> Any:
    """The key of those bytes. ValueError: nothing that a cache has stored."""
    try:
        return _key_of(data, pickles)
    except (PickleRefused, ValueError):
        raise
    except Exception as error:  # of a hostile one MemoryError, SyntaxError, RecursionError, too
        raise ValueError(f"no key of a cache: {data[:40]!r}: {error}") from error


def _key_of(data: bytes, pickles: bool) -> Any:
    kind, content = data[:1], data[1:]
    if kind == b"s":
        return content.decode("utf-8", "surrogatepass")
    if kind == b"i":
        return int(content)
    if kind == b"b":
        return content
    if kind == b"t":
        return ast.literal_eval(content.decode())
    if kind == b"f":
        return float(content)
    if kind == b"J":
        return _unwrapped(content)
    if kind == b"p":
        if pickles:
            return pickle.loads(content)
        raise PickleRefused("a key that another program stored")
    raise ValueError(f"no key of a cache: {data[:40]!r}")


# Values ------------------------------------------------------------------------------------------

class _Json:
    def dumps(self, value: Any) -> bytes:
        if type(value) in _BARE:
            return b"j" + json.dumps(value).encode()
        if _is_plain(value):
            return b"j" + json.dumps(value, separators=(",", ":")).encode()
        return b"J" + _wrapped(value)


def _is_plain(value: Any) -> bool:
    """Whether JSON keeps it as it is: a tuple is no list, and 1 as a name no text."""
    kind = type(value)
    if kind is list:
        return _PLAIN.issuperset(map(type, value)) or all(map(_is_plain, value))
    if kind is dict:
        return _NAMES.issuperset(map(type, value)) and (
            _PLAIN.issuperset(map(type, value.values())) or all(map(_is_plain, value.values())))
    return kind in _PLAIN


class _Pickle:
    def __init__(self, protocol: int) -> None:
        self.protocol = protocol

    def dumps(self, value: Any) -> bytes:
        return b"p" + pickle.dumps(value, self.protocol)


class _Msgpack:
    """MessagePack, with tuples as they are; what it cannot say goes as wrapped JSON."""

    def __init__(self) -> None:
        import msgpack  # type: ignore[import]
        self._packb = msgpack.packb

    def dumps(self, value: Any) -> bytes:
        try:
            return b"m" + bytes(self._packb(value, strict_types=True, default=_refuse))
        except (TypeError, ValueError, OverflowError):
            return b"J" + _wrapped(value)


def _refuse(value: Any) -> Any:
    raise TypeError(type(value))


class _Custom:
    def __init__(self, serializer: Serializer) -> None:
        self._serializer = serializer

    def dumps(self, value: Any) -> bytes:
        return b"x" + self._serializer.dumps(value)


class Coder:
    """Values of one cache. serializer: 'json', 'msgpack', 'pickle', or an object with dumps and
    loads; whatever it is, all that is safe is read."""

    def __init__(self, serializer: Union[str, Serializer] = "json",
                 pickle_protocol: int = pickle.HIGHEST_PROTOCOL) -> None:
        self.pickles = serializer == "pickle"
        self._custom: Optional[Serializer] = None
        if serializer == "json":
            self._dumps = _Json().dumps
        elif serializer == "pickle":
            self._dumps = _Pickle(pickle_protocol).dumps
        elif serializer == "msgpack":
            self._dumps = _Msgpack().dumps
        elif isinstance(serializer, str) or not (hasattr(serializer, "dumps")
                                                 and hasattr(serializer, "loads")):
            raise ValueError("a serializer is 'json', 'msgpack', 'pickle', or an object with dumps "
                             f"and loads, not {serializer!r}")
        else:
            self._custom = serializer
            self._dumps = _Custom(serializer).dumps

    def dumps(self, value: Any) -> bytes:
        """What is stored for the value. PickleRefused."""
        kind = type(value)
        if kind is int and -_SMALL <= value < _SMALL:
            return b"%d" % value
        if kind is str:
            return b"s" + value.encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]
        if kind is bytes:
            return b"b" + value  # type: ignore[no-any-return]
        return self._dumps(value)

    def loads(self, data: bytes) -> Any:
        """The value of what was stored. ValueError: nothing that a cache has stored."""
        try:
            return self._loads(data)
        except (PickleRefused, ImportError):
            raise
        except Exception as error:
            raise ValueError(f"no value of a cache, or of another serializer: {data[:40]!r}: "
                             f"{error}") from error

    def _loads(self, data: bytes) -> Any:
        kind = data[:1]
        if kind == b"s":
            return data[1:].decode("utf-8", "surrogatepass")
        if kind == b"b":
            return data[1:]
        if kind == b"j":
            return json.loads(data[1:])
        if kind == b"J":
            return _unwrapped(data[1:])
        if kind == b"p":
            if not self.pickles:
                raise PickleRefused("a value that another program stored")
            return pickle.loads(data[1:])
        if kind == b"m":
            import msgpack
            return msgpack.unpackb(data[1:], strict_map_key=False)
        if kind == b"x" and self._custom is not None:
            return self._custom.loads(data[1:])
        return int(data)
