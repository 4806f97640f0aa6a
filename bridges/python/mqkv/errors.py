"""The exceptions of mqkv. Every failure of the store is an Error; what a program handles has a
class of its own.

    Error
        ConditionFailed         the store works; what the call asked for did not hold
            NotFound            no such key (a KeyError too)
            Exists              if_absent, and the key is there
            VersionMismatch     if_version, and the entry has another version
                TransactionConflict     what a transaction has read has changed since
            GuardFailed         a guard of a transaction does not hold
            OutOfBounds         add: the sum would leave its bounds; .number is what is there
            NotOwned            a lock is given back that is not held, or not any more (an
                                AssertionError too)
            NotANumber          add: the value is no decimal number (a ValueError too)
        UsageError              the same call fails again (a ValueError too)
            BadKey, ValueTooBig, Unsupported
        Denied                  not permitted for this user (a PermissionError too)
        Unavailable             it was not executed; later it may be
            NoServer            nobody serves the queue (a ConnectionError too)
            DeadlineExceeded    the time was over before it was executed (a TimeoutError too)
            Overloaded          refused before it was executed
            LimitReached        a kernel limit on queues, memory or descriptors
        UnknownOutcome          a write may or may not have been executed
            Timeout             no answer in time (a TimeoutError too)
            OutcomeUnknown      the server ended, and a write with a condition, an add, append,
                                exchange or transaction is not repeated (a ConnectionError too)
        StorageError            the store cannot do it
            NoSpace, ReadOnly, NotDurable, Corrupt, Crowded
        Missed                  of a watcher: changes that are not kept any more
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Union

if TYPE_CHECKING:
    from ._mqkv import Entry, Result

__all__ = [
    "BadKey", "ConditionFailed", "Corrupt", "Crowded", "DeadlineExceeded", "Denied", "Error",
    "Exists", "GuardFailed", "LimitReached", "Missed", "NoServer", "NoSpace", "NotANumber",
    "NotDurable", "NotFound", "NotOwned", "OutOfBounds", "OutcomeUnknown", "Overloaded",
    "ReadOnly", "StorageError", "Timeout", "TransactionConflict", "Unavailable", "UnknownOutcome",
    "Unsupported", "UsageError", "ValueTooBig", "VersionMismatch",
]


class Error(Exception):
    """A failure that the library or the server reports.

    status is the status as a word ('not_found', 'timeout', ...), key the key of the operation if
    there was one, results what a pipeline's process() had completed before it failed.
    """

    status: str = ""
    key: Optional[bytes] = None
    results: "list[Result[Any]]" = []

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else self.status


class ConditionFailed(Error):
    """The store works; what the call asked for did not hold, and nothing was changed."""


class NotFound(ConditionFailed, KeyError):
    """No such key, or it has expired."""


class Exists(ConditionFailed):
    """if_absent was given, and the key is there."""


class VersionMismatch(ConditionFailed):
    """if_version was given, and the entry has another version."""


class TransactionConflict(VersionMismatch):
    """What the transaction has read has changed since; key is the first such key, and nothing was
    written. Begin anew."""


class GuardFailed(ConditionFailed):
    """A guard of the transaction does not hold; key is the first such key, and nothing was
    written."""


class OutOfBounds(ConditionFailed):
    """The sum of an add would leave its bounds. number is what is there."""

    number: int = 0


class NotANumber(ConditionFailed, ValueError):
    """The value is not a decimal number of 64 bits."""


class NotOwned(ConditionFailed, AssertionError):
    """A lock or semaphore of mqkv.Cache is given back by who does not hold it, or not any more,
    since its time (expire=) was over. Nothing was given back, and others may have held it since."""


class UsageError(Error, ValueError):
    """A wrong argument: the same call fails again."""


class BadKey(UsageError):
    """A key of 0 or of more than 65,535 bytes."""


class ValueTooBig(UsageError):
    """A value above the server's --max-value."""


class Unsupported(UsageError):
    """Something that this server does not know, or a transaction whose keys a cluster has apart."""


class Denied(Error, PermissionError):
    """Not permitted for this user, or the server is another user's than it must be."""


class Unavailable(Error):
    """The operation was not executed; later it may be."""


class NoServer(Unavailable, ConnectionError):
    """Nobody serves the queue."""


class DeadlineExceeded(Unavailable, TimeoutError):
    """The time was over before the operation was executed; nothing changed."""


class Overloaded(Unavailable):
    """Refused before it was executed: too much is waiting."""


class LimitReached(Unavailable):
    """A kernel limit on message queues, memory or descriptors; `clientk doctor` shows which."""


class UnknownOutcome(Error):
    """A write may or may not have been executed."""


class Timeout(UnknownOutcome, TimeoutError):
    """No answer in time."""


class OutcomeUnknown(UnknownOutcome, ConnectionError):
    """The server ended before it answered, and the write is none that is repeated: see
    repeat_writes of mqkv.Client."""


class StorageError(Error):
    """The store cannot do it.

    Of a scan that met a record that cannot be read: entries are those of the page before it, and
    a scan with this cursor goes on behind it.
    """

    entries: "list[Entry]" = []
    cursor: int = 0


class NoSpace(StorageError):
    """The server's disk is full, or the store has reached --max-bytes; reads and deletes go on."""


class ReadOnly(StorageError):
    """The data file takes no writes any more."""


class NotDurable(StorageError):
    """Written, but not known to be on disk."""


class Corrupt(StorageError):
    """A checksum does not hold."""


class Crowded(StorageError):
    """Too many keys of nearly the same hash are there; others can be written."""


class Missed(Error):
    """Changes were missed: they are not kept any more. Read everything anew."""


_CLASSES: "dict[str, type[Error]]" = {
    "not_found": NotFound,
    "exists": Exists,
    "version_mismatch": VersionMismatch,
    "out_of_bounds": OutOfBounds,
    "not_a_number": NotANumber,
    "bad_key": BadKey,
    "value_too_big": ValueTooBig,
    "buffer_too_small": UsageError,
    "bad_request": UsageError,
    "unsupported": Unsupported,
    "denied": Denied,
    "usage": UsageError,
    "no_space": NoSpace,
    "read_only": ReadOnly,
    "corrupt": Corrupt,
    "io": StorageError,
    "not_durable": NotDurable,
    "no_memory": LimitReached,
    "overloaded": Overloaded,
    "deadline": DeadlineExceeded,
    "timeout": Timeout,
    "no_server": NoServer,
    "outcome_unknown": OutcomeUnknown,
    "limit": LimitReached,
    "no_session": NoServer,
    "crowded": Crowded,
    "full": NoSpace,
    "quota": LimitReached,
    "missed": Missed,
    "apart": Unsupported,
}


def from_status(number: int, status: str, text: str, key: "bytes | str | None",
                result: "Union[Result[Any], list[Result[Any]], None]") -> Error:
    """The exception for a status of the library; called by the extension."""
    error = _CLASSES.get(status, Error)(text)
    error.status = status
    error.key = key.encode() if isinstance(key, str) else key
    if isinstance(result, list):
        error.results = result
    elif result is not None and isinstance(error, OutOfBounds):
        error.number = result.number
    elif result is not None and isinstance(error, StorageError):
        error.entries = result.value if isinstance(result.value, list) else []
        error.cursor = result.cursor
    return error
