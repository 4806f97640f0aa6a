"""A result backend for Celery.

    app = Celery("app", broker="mqkv:///serverk", backend="mqkv.celery:Backend:///serverk")

What stands behind "://" is as in mqkv.kombu. Results end after result_expires, those of tasks that
failed after result_failure_expires; None and 0 are never. Importing this module makes the broker's
mqkv:// known, too.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Iterable, Optional

# Without celery, or its types, nothing is known of it.
from celery import states  # type: ignore
from celery.backends.base import KeyValueStoreBackend  # type: ignore

from .client import Client
from .errors import NotFound
from .kombu import client_of

__all__ = ["Backend"]


class Backend(KeyValueStoreBackend):  # type: ignore[misc]
    """The backend: see this module's page."""

    supports_autoexpire = True
    implements_incr = True
    supports_result_compression = True
    supports_failure_expires = True

    def __init__(self, app: Any, url: Optional[str] = None, **kwargs: Any) -> None:
        super().__init__(app, url=url, **kwargs)
        failure_expires = app.conf.get("result_failure_expires")
        self.failure_expires = (self.expires if failure_expires is None
                                else self.prepare_expires(failure_expires))
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

    def _set_with_state(self, key: Any, value: Any, state: Any) -> None:
        expires = self.failure_expires if state == states.FAILURE else self.expires
        self.client.put(key, value, ttl=expires or None)

    def delete(self, key: Any) -> None:
        """Deletes the value."""
        self.client.discard(key)

    def incr(self, key: Any) -> int:
        """Counts."""
        return self.client.add(key)

    def expire(self, key: Any, value: Optional[float]) -> None:
        """Lets the value end in that many seconds; None, 0: never."""
        with suppress(NotFound):
            if value:
                self.client.touch(key, value)
            else:
                self.client.persist(key)
