"""Store: stored responses for clients, and records of all exchanges for the operator. Stored responses and turns belong
to an owner, the key that made them; every query names one, and all expire. Calls of those tables are short and
synchronous, in the store's thread: a row is written before its client gets the response, so that a kill at any moment
loses nothing. None waits for another process: it fails as busy, to be retried. The ingest thread writes the record
tables, commands read them (`records`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.store.conversations import LeaseLost
from dragoman.store.database import StoredBytes, Tables, open_tables
from dragoman.store.errors import StoreAway, StoreBusy, StoreError
from dragoman.store.work_item import Expedite
from dragoman.store.write_errors import not_writable

if TYPE_CHECKING:
    from dragoman.store.async_store import Store

__all__ = [
    "Expedite",
    "LeaseLost",
    "Store",
    "StoreAway",
    "StoreBusy",
    "StoreError",
    "StoredBytes",
    "Tables",
    "not_writable",
    "open_tables",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load the store of a gateway at its first use: commands open tables, and need no event loop."""
        if name != "Store":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from dragoman.store.async_store import Store

        globals()[name] = Store
        return Store
