"""Store: what must be there again later: of Responses for their clients, of all exchanges for whoever runs the gateway.

    interface      what is asked of it, from a loop that waits for no disk and no lock
    thread, unit   where that is done, one after the other, and how it comes back
    database       the file: connection, time, who may read it; its tables
    migrations     those tables, as a numbered list of steps that only grows
    responses      answers by id, and the chain that leads to one
    conversations
    events         the stream of a background response, as far as it was told
    turns          what completes the turns of Chat clients, for an hour; turn_marks knows whose there may be
    rests          targets and keys that are left alone, for after a restart
    account_tables records of exchanges, sums, marks of journals, speakers: a connection of their own
    addition       many rows with few statements
    record_questions, session_questions
                   what is asked of records, sessions and threads, to read only
    usage_questions  what exchanges came to, from sums alone
    exports        rows of exchanges one after the other, however many
    forgetting     takes rows out of the file for good, a few at a time
    examination    whether its tables agree with each other
    writable       who may not write to a file, and what mends that
    transaction    several writes that are one
    errors         what everybody else sees of SQLite's
    inspection     what state a file is in, for `dragoman doctor`

What is kept of Responses and turns belongs to an owner, the key it was made with, and to nobody else: every question
names one. All of it ends at its time. Calls of those tables are short and synchronous, in the store's own thread: a row
is written before its client learns of it, so that a process may be killed at any moment. None of them waits for another
process: they fail as busy, to be tried again. What the rows mean to a client is the gateway's to know. The tables of
exchanges are written by the thread that moves journals, and read by commands; see `accounts`.
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
