"""A drop-in for the standard library's dbm, and below shelve, that many programs may have open.

    import mqkv.dbm

    with mqkv.dbm.open("addresses", "c") as db:
        db["Ada"] = "12 St James's Square"

    with mqkv.dbm.open_shelf("objects") as shelf:
        shelf["plan"] = {"any": ["pickled", "object"]}

What dbm calls a file is a name in the store: the database "addresses" has the key dbm\\0addresses,
and its entries begin with dbm\\0addresses\\0. A name and a key together have up to 65,500 bytes.
The store is that of a daemon (queue=, else $MQKV_QUEUE, else /serverk), or that of a directory,
whose daemon is started if need be: open("addresses", "c", directory="~/.cache/myprogram").
"""

from __future__ import annotations

import os
import shelve
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Optional, Union

from .client import Client
from .errors import NoServer
from .mapping import Mapping

if TYPE_CHECKING:
    from ._mqkv import Bytes

__all__ = ["Database", "error", "open", "open_shelf"]


class error(OSError):  # pylint: disable=invalid-name
    """What dbm calls error: no such database, or it is open for reading only, or closed."""


class Database(Mapping):
    """What open() returns: a dict of bytes, with the methods of dbm.gnu too."""

    def __init__(self, client: Client, name: bytes, readonly: bool) -> None:
        super().__init__(client, _MARK + name + b"\0")
        self._name = name
        self._readonly = readonly
        self._keys: Optional[Iterator[bytes]] = None

    def _key(self, key: "Bytes") -> bytes:
        self._check(writes=False)
        return super()._key(key)

    def _check(self, writes: bool = True) -> None:
        if self.client.closed:
            raise error("the database is closed")
        if writes and self._readonly:
            raise error("the database is open for reading only")

    def __setitem__(self, key: "Bytes", value: "Bytes") -> None:
        self._check()
        super().__setitem__(key, value)

    def __delitem__(self, key: "Union[Bytes, slice]") -> None:
        self._check()
        super().__delitem__(key)

    def __iter__(self) -> Iterator[bytes]:
        self._check(writes=False)
        return super().__iter__()

    def setdefault(self, key: "Bytes", default: "Optional[Bytes]" = b"") -> bytes:
        """The value; if there is none, stores the default and returns that. Atomic."""
        if not self._readonly:
            return super().setdefault(key, default)
        value: Optional[bytes] = self.get(key)
        if value is None:
            self._check()
        assert value is not None
        return value

    def pop(self, key: "Bytes", *default: Any) -> Any:
        """Takes the entry out and returns its value. Atomic."""
        self._check()
        return super().pop(key, *default)

    def update(self, *others: Any, **named: Any) -> None:
        """Stores all entries of other mappings or of pairs."""
        self._check()
        super().update(*others, **named)

    def clear(self) -> None:
        """Deletes all entries of the database."""
        self._check()
        super().clear()

    def keys(self) -> Any:
        """All keys, as a list."""
        return list(self)

    def firstkey(self) -> Optional[bytes]:
        """The first key of a walk through all of them; None if there is none."""
        self._keys = iter(self)
        return next(self._keys, None)

    def nextkey(self, key: "Bytes") -> Optional[bytes]:
        """The key after `key`, which firstkey or nextkey gave last; None at the end."""
        del key
        return next(self._keys, None) if self._keys is not None else None

    def reorganize(self) -> None:
        """Nothing: the server does it by itself."""

    def sync(self) -> None:
        """Returns when everything written before is on disk."""
        self._check(writes=False)
        self.client.sync()

    def close(self) -> None:
        """Closes it. Closing twice is harmless."""
        self.client.close()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], raised: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


_MARK = b"dbm\0"


def open(file: "Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]",  # noqa: A001
         flag: str = "r", mode: int = 0o666, *, queue: Optional[str] = None,
         **options: Any) -> Database:
    """Opens the database of that name.

    flag: 'r' an existing one for reading (the default), 'w' for reading and writing, 'c' make it if
    there is none, 'n' always begin with an empty one. mode is not used: who may do what is a matter
    of the queue. queue and the other options, as directory=, are those of mqkv.Client.
    """
    del mode
    name = os.fsencode(file)
    if not name or b"\0" in name:
        raise ValueError("a name is not empty and has no NUL")
    if flag not in ("r", "w", "c", "n"):
        raise error("the flag must be 'r', 'w', 'c' or 'n'")
    try:
        client = Client(queue, **options)
    except NoServer as failed:
        if queue is not None or options.get("directory") is not None:
            raise
        advised = NoServer(f"{failed}; a database without a daemon: "
                           f"mqkv.dbm.open({os.fsdecode(name)!r}, {flag!r}, directory=...)")
        advised.status = failed.status
        raise advised from None
    try:
        database = Database(client, name, flag == "r")
        if flag in ("c", "n"):
            client.put(_MARK + name, b"")
        elif not client.exists(_MARK + name):
            raise error(2, "no such database", os.fsdecode(name))
        if flag == "n":
            database.clear()
    except BaseException:
        client.close()
        raise
    return database


def open_shelf(file: "Union[str, bytes, os.PathLike[str], os.PathLike[bytes]]", flag: str = "c",
               protocol: Optional[int] = None, writeback: bool = False, *,
               queue: Optional[str] = None, **options: Any) -> "shelve.Shelf[Any]":
    """What shelve.open does, on the database of that name."""
    database = open(file, flag, queue=queue, **options)
    return shelve.Shelf(database, protocol, writeback)
