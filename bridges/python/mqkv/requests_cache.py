"""A backend for requests-cache.

    from requests_cache import CachedSession
    from mqkv.requests_cache import Cache

    session = CachedSession(backend=Cache("~/.cache/myprogram"), expire_after=3600)

Responses are stored as JSON, not by pickle, whose reader runs what whoever can write to the store
has put there; serializer= takes what other backends take. Responses that have expired are kept for
ttl_offset seconds, so that a server can be asked whether they are still good, and are gone then.
Other arguments and options are those of mqkv.Cache.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Optional

# Without requests-cache, or its types, nothing is known of it.
from requests_cache.backends.base import BaseCache, BaseStorage  # type: ignore

from .cache import Cache as _Cache

__all__ = ["Cache", "Storage"]


class Storage(BaseStorage):  # type: ignore[misc]
    """A dict of the responses, or of what else requests-cache keeps, in a part of a mqkv.Cache.
    serializer: None stores text and bytes as they are."""

    def __init__(self, cache: _Cache, name: str, serializer: Any = None, *, ttl: bool = True,
                 ttl_offset: float = 3600, **options: Any) -> None:
        super().__init__(serializer=serializer, **options)
        self.cache = cache.part(f"requests_cache/{name}")
        self.ttl = ttl
        self.ttl_offset = ttl_offset

    def __getitem__(self, key: str) -> Any:
        return self.deserialize(key, self.cache[key])

    def __setitem__(self, key: str, value: Any) -> None:
        left: "Optional[float]" = getattr(value, "expires_delta", None) if self.ttl else None
        expire = None if left is None or left + self.ttl_offset <= 0 else left + self.ttl_offset
        self.cache.set(key, self.serialize(value), expire)

    def __delitem__(self, key: str) -> None:
        del self.cache[key]

    def __contains__(self, key: object) -> bool:
        return key in self.cache

    def __iter__(self) -> "Iterator[str]":
        return iter(self.cache)

    def __len__(self) -> int:
        return len(self.cache)

    def bulk_delete(self, keys: "Iterable[str]") -> None:
        """Deletes those that are there, many in a message."""
        self.cache.delete_many(keys)

    def clear(self) -> None:
        """Deletes all of this part."""
        self.cache.clear()

    def close(self) -> None:
        """Closes the cache of which it is a part; it opens again when it is used."""
        self.cache.close()


class Cache(BaseCache):  # type: ignore[misc]
    """The backend: see this module's page."""

    def __init__(self, directory: Any = None, serializer: Any = None, *, ttl: bool = True,
                 ttl_offset: float = 3600, decode_content: bool = False, **options: Any) -> None:
        self.cache = _Cache(directory, **options)
        super().__init__(cache_name=self.cache.directory)
        self.responses = Storage(self.cache, "responses", serializer or "json", ttl=ttl,
                                 ttl_offset=ttl_offset, decode_content=decode_content)
        self.redirects = Storage(self.cache, "redirects")

    @property
    def db_path(self) -> str:
        """The directory."""
        return self.cache.directory

    def close(self) -> None:
        """Closes it; it opens again when it is used."""
        super().close()
        self.cache.close()
