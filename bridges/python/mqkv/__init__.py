"""mqkv for Python: the key-value store for the programs of one host.

    import mqkv

    with mqkv.Client() as client:
        client.put("name", "Ada", ttl=60)
        print(client.get("name"))           # b'Ada'

Keys and values are bytes; a str stands for its UTF-8. What comes back is bytes.

    Client          calls, batches, pipelines, scans, watches, transactions
    Cache           values of Python by keys of Python, for those who know diskcache; FanoutCache,
                    Deque, Index, Lock, RLock, BoundedSemaphore, Averager, throttle, barrier, ...
    mqkv.errors     the exceptions, all of them here too: mqkv.Error, mqkv.NotFound, ...
    mqkv.aio        the same for asyncio
    mqkv.dbm        a drop-in for dbm, and below shelve
    mqkv.django     a cache backend for Django
    mqkv.cachelib   the same for cachelib; so mqkv.flask_caching, mqkv.requests_cache, mqkv.dogpile
    mqkv.redis      brings the strings of a Redis here, and back
"""

from ._mqkv import Entry, Result, Stat, library_version
from .cache import Cache, FanoutCache
from .client import Batch, Client, Pipeline
from .errors import (BadKey, ConditionFailed, Corrupt, Crowded, DeadlineExceeded, Denied, Error,
                     Exists, GuardFailed, LimitReached, Missed, NoServer, NoSpace, NotANumber,
                     NotDurable, NotFound, NotOwned, OutcomeUnknown, OutOfBounds, Overloaded,
                     ReadOnly, StorageError, Timeout, TransactionConflict, Unavailable,
                     UnknownOutcome, Unsupported, UsageError, ValueTooBig, VersionMismatch)
from .jobs import Job, Queue
from .mapping import Mapping
from .persistent import Deque, Index
from .recipes import (Averager, BoundedSemaphore, Lock, RLock, barrier, memoize_stampede,
                      throttle)
from .transaction import Transaction
from .watch import Change, ChangePart, Watch

__all__ = [
    "Averager", "BadKey", "Batch", "BoundedSemaphore", "Cache", "Change", "ChangePart",
    "Client", "ConditionFailed", "Corrupt", "Crowded", "DeadlineExceeded", "Denied", "Deque",
    "Entry", "Error", "Exists", "FanoutCache", "GuardFailed", "Index", "Job", "LimitReached",
    "Lock", "Mapping", "Missed", "NoServer", "NoSpace", "NotANumber", "NotDurable", "NotFound",
    "NotOwned", "OutOfBounds", "OutcomeUnknown", "Overloaded", "Pipeline", "Queue", "RLock",
    "ReadOnly", "Result", "Stat", "StorageError", "Timeout", "Transaction",
    "TransactionConflict", "Unavailable", "UnknownOutcome", "Unsupported", "UsageError",
    "ValueTooBig", "VersionMismatch", "Watch", "barrier", "library_version", "memoize_stampede",
    "throttle",
]
__version__ = library_version
