"""What the extension has: see mqkv.Client, mqkv.Batch and mqkv.Pipeline."""

import builtins
from datetime import timedelta
from typing import (Any, Generic, Iterable, Literal, NamedTuple, Optional, Self, TypeVar,
                    Union, overload)

Bytes = Union[bytes, bytearray, memoryview, str]
Seconds = Union[float, timedelta]
Durability = Literal["interval", "always"]
_Default = TypeVar("_Default")
_Answer = TypeVar("_Answer", covariant=True)

DEFAULT_QUEUE: str
library_version: str

class Entry(NamedTuple):
    key: bytes
    value: bytes
    version: int
    expiry_ms: int

class Stat(NamedTuple):
    size: int
    version: int
    expiry_ms: int

class Result(Generic[_Answer]):
    key: Optional[Bytes]
    tag: Any
    value: Any
    done: bool
    number: int
    version: int
    expiry_ms: int
    @property
    def ok(self) -> bool: ...
    @property
    def status(self) -> str: ...
    @property
    def cursor(self) -> int: ...
    def result(self) -> _Answer: ...

class Client:
    def __init__(
        self,
        queue: Optional[str] = None,
        *,
        timeout: float = 5.0,
        repeat_writes: bool = False,
        fail_fast: bool = False,
        fail_fast_open: bool = False,
        spin: Optional[str] = None,
        combine_above: int = 0,
        combine_groups: int = 0,
        priority: int = 0,
        server_uid: Union[int, str, None] = None,
        replies: Optional[Literal["auto", "shared", "queue"]] = None,
        direct: Optional[Literal["auto", "off", "map", "pread"]] = None,
        direct_stale: float = 0,
    ) -> None: ...
    @overload
    def get(self, key: Bytes) -> Optional[bytes]: ...
    @overload
    def get(self, key: Bytes, default: _Default) -> Union[bytes, _Default]: ...
    def exists(self, key: Bytes) -> bool: ...
    def put(
        self,
        key: Bytes,
        value: Bytes,
        *,
        ttl: Optional[Seconds] = None,
        expiry_ms: Optional[int] = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: Optional[int] = None,
        durability: Optional[Durability] = None,
    ) -> int: ...
    def delete(
        self,
        key: Bytes,
        *,
        if_version: Optional[int] = None,
        durability: Optional[Durability] = None,
    ) -> int: ...
    @overload
    def add(
        self,
        key: Bytes,
        delta: int = 1,
        *,
        min: Optional[int] = None,
        max: Optional[int] = None,
        initial: Optional[int] = None,
        canonical: bool = False,
        if_present: bool = False,
        ttl: Optional[Seconds] = None,
        expiry_ms: Optional[int] = None,
        durability: Optional[Durability] = None,
        with_version: Literal[False] = False,
    ) -> int: ...
    @overload
    def add(
        self,
        key: Bytes,
        delta: int = 1,
        *,
        min: Optional[int] = None,
        max: Optional[int] = None,
        initial: Optional[int] = None,
        canonical: bool = False,
        if_present: bool = False,
        ttl: Optional[Seconds] = None,
        expiry_ms: Optional[int] = None,
        durability: Optional[Durability] = None,
        with_version: Literal[True],
    ) -> tuple[int, int]: ...
    @overload
    def append(
        self,
        key: Bytes,
        value: Bytes,
        *,
        durability: Optional[Durability] = None,
        with_version: Literal[False] = False,
    ) -> int: ...
    @overload
    def append(
        self,
        key: Bytes,
        value: Bytes,
        *,
        durability: Optional[Durability] = None,
        with_version: Literal[True],
    ) -> tuple[int, int]: ...
    @overload
    def exchange(
        self,
        key: Bytes,
        value: Bytes,
        *,
        ttl: Optional[Seconds] = None,
        expiry_ms: Optional[int] = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: Optional[int] = None,
        durability: Optional[Durability] = None,
        with_version: Literal[False] = False,
    ) -> Optional[bytes]: ...
    @overload
    def exchange(
        self,
        key: Bytes,
        value: Bytes,
        *,
        ttl: Optional[Seconds] = None,
        expiry_ms: Optional[int] = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: Optional[int] = None,
        durability: Optional[Durability] = None,
        with_version: Literal[True],
    ) -> tuple[Optional[bytes], int]: ...
    def touch(
        self,
        key: Bytes,
        ttl: Optional[Seconds] = ...,
        *,
        expiry_ms: Optional[int] = None,
        durability: Optional[Durability] = None,
    ) -> int: ...
    def scan_page(
        self,
        prefix: Bytes = b"",
        *,
        cursor: int = 0,
        limit: int = 0,
        keys_only: bool = False,
        atomic: bool = False,
    ) -> tuple[list[Entry], int]: ...
    def stats_json(self, section: Optional[str] = None) -> bytes: ...
    def sync(self) -> None: ...
    def range_page(
        self,
        start: bytes,
        stop: bytes,
        prefix: bytes,
        behind_start: bool,
        reverse: bool,
        keys_only: bool,
        limit: int,
        /,
    ) -> tuple[list[Entry], bool, Optional[str]]: ...
    def count_range(self, start: bytes, stop: bytes, prefix: bytes, /) -> int: ...
    def remove_range(self, start: bytes, stop: bytes, prefix: bytes, limit: int, /) -> int: ...
    def entry(self, key: Bytes) -> Entry: ...
    def stat(self, key: Bytes) -> Stat: ...
    def ping(self) -> float: ...
    def set_priority(self, priority: int) -> None: ...
    def info(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def queue(self) -> str: ...

class _Operations:
    def get(self, key: Bytes, *, tag: Any = None) -> Result[Optional[bytes]]: ...
    def exists(self, key: Bytes, *, tag: Any = None) -> Result[bool]: ...
    def put(
        self,
        key: Bytes,
        value: Bytes,
        *,
        ttl: Optional[Seconds] = None,
        expiry_ms: Optional[int] = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: Optional[int] = None,
        durability: Optional[Durability] = None,
        tag: Any = None,
    ) -> Result[int]: ...
    def delete(
        self,
        key: Bytes,
        *,
        if_version: Optional[int] = None,
        durability: Optional[Durability] = None,
        tag: Any = None,
    ) -> Result[int]: ...
    def add(
        self,
        key: Bytes,
        delta: int = 1,
        *,
        min: Optional[int] = None,
        max: Optional[int] = None,
        initial: Optional[int] = None,
        canonical: bool = False,
        if_present: bool = False,
        ttl: Optional[Seconds] = None,
        expiry_ms: Optional[int] = None,
        durability: Optional[Durability] = None,
        tag: Any = None,
    ) -> Result[int]: ...
    def append(
        self,
        key: Bytes,
        value: Bytes,
        *,
        durability: Optional[Durability] = None,
        tag: Any = None,
    ) -> Result[int]: ...
    def exchange(
        self,
        key: Bytes,
        value: Bytes,
        *,
        ttl: Optional[Seconds] = None,
        expiry_ms: Optional[int] = None,
        keep_ttl: bool = False,
        if_absent: bool = False,
        if_present: bool = False,
        if_version: Optional[int] = None,
        durability: Optional[Durability] = None,
        tag: Any = None,
    ) -> Result[Optional[bytes]]: ...
    def touch(
        self,
        key: Bytes,
        ttl: Optional[Seconds] = ...,
        *,
        expiry_ms: Optional[int] = None,
        durability: Optional[Durability] = None,
        tag: Any = None,
    ) -> Result[int]: ...
    def scan_page(
        self,
        prefix: Bytes = b"",
        *,
        cursor: int = 0,
        limit: int = 0,
        keys_only: bool = False,
        atomic: bool = False,
        tag: Any = None,
    ) -> Result[tuple[list[Entry], int]]: ...
    def stats_json(self, section: Optional[str] = None, *, tag: Any = None) -> Result[bytes]: ...
    def sync(self, *, tag: Any = None) -> Result[None]: ...

class Batch(_Operations):
    def __new__(cls, client: Client) -> Self: ...
    def execute(self) -> list[Result[Any]]: ...
    def transact(
        self,
        guards: Iterable[tuple[Bytes, Union[int, Bytes]]],
        *,
        durability: Optional[Durability] = None,
    ) -> Optional[int]: ...
    def withdraw(self, result: Result[Any]) -> None: ...
    def clear(self) -> None: ...
    def __len__(self) -> int: ...

class Pipeline(_Operations):
    def __init__(self, client: Client, window: int = 0, batch: int = 0) -> None: ...
    def flush(self) -> None: ...
    def process(self) -> list[Result[Any]]: ...
    def fileno(self) -> int: ...
    def set_priority(self, priority: int) -> None: ...
    def close(self) -> None: ...
    @property
    def pending(self) -> int: ...
    @property
    def closed(self) -> bool: ...


JobFields = tuple[bytes, str, int, int, int, int, int, int, bytes]

class Queue:
    """See mqkv.Queue: that of one thread, times in milliseconds."""
    def __new__(cls, client: Client, name: bytes, lease_ms: int,
                durability: Optional[Durability] = None) -> Queue: ...
    def put(self, payloads: list[Bytes], priority: int, delay_ms: int, max_attempts: int,
            backoff_ms: int, /) -> list[int]: ...
    def take(self, count: int, timeout_ms: int, /) -> list[JobFields]: ...
    def ack(self, receipts: list[str], /) -> None: ...
    def fail(self, receipt: str, reason: bytes, delay_ms: int, /) -> bool: ...
    def bury(self, receipt: str, reason: bytes, /) -> None: ...
    def release(self, receipt: str, delay_ms: int, /) -> None: ...
    def extend(self, receipt: str, lease_ms: int, /) -> int: ...
    def lengths(self) -> tuple[int, int, int, int]: ...
    def list(self, state: int, limit: int, /) -> "builtins.list[JobFields]": ...
    def revive(self, limit: int, /) -> int: ...
    def drop(self, state: int, limit: int, /) -> int: ...

ChangeFields = tuple[int, bytes, bytes, int, int, int, int, bool]

class Watch:
    """See mqkv.Watch: times in milliseconds."""
    def __new__(cls, client: Client, prefix: bytes, since: Optional[str],
                keys_only: bool) -> Watch: ...
    def next(self, timeout_ms: int, /) -> Optional[ChangeFields]: ...
    def fileno(self) -> int: ...
    def position(self) -> str: ...
    def close(self) -> None: ...
