"""Store: stored responses for their clients, and records of all exchanges for the operator.

Stored responses and turns belong to an owner, the key they were made with; every query names one, and all of them
expire. Calls of those tables are short and synchronous, in the store's own thread: a row is written before its client
learns of it, so that a process may be killed at any moment. None waits for another process: they fail as busy, to be
tried again. The record tables are written by the ingest thread and read by commands; see `records`.
"""

from __future__ import annotations

from dragoman.store.async_store import Store
from dragoman.store.conversations import LeaseLost
from dragoman.store.database import MEMORY, StoredBytes, Tables, open_tables
from dragoman.store.errors import StoreBusy, StoreError
from dragoman.store.work_item import Expedite
from dragoman.store.write_errors import not_writable

__all__ = [
    "MEMORY",
    "Expedite",
    "LeaseLost",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoredBytes",
    "Tables",
    "not_writable",
    "open_tables",
]
