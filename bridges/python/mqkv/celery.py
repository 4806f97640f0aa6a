"""A result backend for Celery.

    app = Celery("app", broker="mqkv:///serverk", backend="mqkv.celery:Backend:///serverk")

What stands behind "://" is as in mqkv.kombu. Results end after result_expires. Importing this
module makes the broker's mqkv:// known, too.
"""

from __future__ import annotations

import threading
from typing import Any, Iterable, Optional

# Without celery, or its types, nothing is known of it.
from celery.backends.base import KeyValueStoreBackend  # type: ignore

from .client import Client
from .errors import NotFound
from .kombu import client_of

__all__ = ["Backend"]


class Backend(KeyValueStoreBackend):  # type: ignore[misc]
    """The backend: see this module's page."""

    supports_autoexpire = True
    implements_incr = True

    def __init__(self, app: Any, url: Optional[str] = None, **kwargs: Any) -> None:
        super().__init__(app, url=url, **kwargs)
        self._virtual_host = (url or "").partition("://")[2].removeprefix("/")
        self._client: Optional[Client] = None
        self._lock = threading.Lock()

    @property
    def client(self) -> Client:
        """The client of the store, opened when it is first needed."""
        with self._lock:
            if self._client is None:
                self._client = client_of(self._virtual_host)
            return self._client

    def get(self, key: Any) -> Optional[bytes]:
        """The value, or None."""
        return self.client.get(key)

    def mget(self, keys: "Iterable[Any]") -> "list[Optional[bytes]]":
        """The values, or None."""
        keys = [key.encode() if isinstance(key, str) else bytes(key) for key in keys]
        values = self.client.get_many(keys)
        return [values.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        """Stores the value until result_expires."""
        self.client.put(key, value, ttl=self.expires or None)

    def delete(self, key: Any) -> None:
        """Deletes the value."""
        self.client.discard(key)

    def incr(self, key: Any) -> int:
        """Counts."""
        return self.client.add(key)

    def expire(self, key: Any, value: float) -> None:
        """Lets the value end in that many seconds."""
        try:
            self.client.touch(key, value)
        except NotFound:
            pass
