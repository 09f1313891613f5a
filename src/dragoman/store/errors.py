"""Errors of the store, for its callers instead of those of a database."""

from __future__ import annotations

from dragoman.errors import DragomanError


class StoreError(DragomanError):
    """The store failed; nothing was written."""


class StoreBusy(StoreError):
    """Another process held the store for too long."""


class StoreFull(StoreError):
    """There is no room for a write."""


class StoreDamaged(StoreError):
    """The file is none of SQLite, or its pages contradict each other."""


class StoreReplaced(StoreError):
    """Another file is at the place of the opened one, or none."""


class StoreWithoutTables(StoreError):
    """A table is missing, as in a database that was not set up."""


class NewerContents(StoreError):
    """A later release has changed the tables of the contents."""


class StoreInterrupted(StoreError):
    """A query was ended before its result."""


class StoreConflict(StoreError):
    """Another transaction changed the same rows; the work item may succeed if it is run again."""


class StoreAway(StoreError):
    """The server of the database does not answer, or cannot write."""


class StoreUnknown(StoreAway):
    """A commit got no answer: everything of its transaction was written, or nothing."""


def store_error(error: BaseException) -> StoreError:
    """The same as a new error of the store, which leads to no frame."""
    kind = type(error) if isinstance(error, StoreError) else StoreError
    return kind(str(error) or "the store failed")
