"""Store failures: the errors for clients, and waiting for the store on their behalf (decision 21)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from dragoman.errors import ClientError
from dragoman.gateway.observability.logs import Log
from dragoman.store import Store, StoreError, Tables
from dragoman.store.errors import StoreAway, StoreUnknown

T = TypeVar("T")

_AWAY = "the database of stored responses does not answer; retry later, or send store: false"
_NOT_SENT = "the response could not be stored, so it is not returned; retry, or send store: false"
_UNKNOWN = "the database has not confirmed the change; read it again before you retry"
_NOT_DONE = "the change could not be stored, so nothing was done; retry later"


class NotStored(ClientError):
    """The write failed: a response is not returned, because it could not be referenced; a change is not made."""

    def __init__(self, message: str = _NOT_SENT, status: int = 500) -> None:
        super().__init__(status, message)


class StorageFull(NotStored):
    """A limit of `[storage]` is reached: no provider is called for a response that could not be stored."""

    def __init__(self, setting: str) -> None:
        whose = "this key has" if setting == "max_bytes_per_key" else "all keys together have"
        message = f"{whose} stored as much as may be (storage.{setting}); delete responses or conversations, or send"
        super().__init__(f"{message} store: false", status=507)


def unreadable(error: StoreError, log: Log) -> ClientError:
    """The error for the client if the store fails; the log has the reason."""
    if isinstance(error, StoreAway):
        return ClientError(503, _AWAY)
    log.event("error", "cannot read the store", reason=str(error))
    return ClientError(500, "stored responses are not available")


def undone(error: StoreError, log: Log) -> NotStored:
    """The error for the client if a change fails; the log has the reason."""
    if isinstance(error, StoreUnknown):
        return NotStored(_UNKNOWN, status=503)
    if isinstance(error, StoreAway):
        return NotStored(_AWAY, status=503)
    log.event("error", "cannot write the store", reason=str(error))
    return NotStored(_NOT_DONE)


def not_sent(error: BaseException, log: Log) -> NotStored:
    """The error for the client of a response that could not be stored; the log has the reason."""
    log_failure(log, "error", "cannot store response", error)
    return NotStored(status=503) if isinstance(error, StoreAway) else NotStored()


def log_failure(log: Log, level: str, message: str, error: BaseException) -> None:
    """Log a failure of the store. That the server of the database is away is logged once for all."""
    if not isinstance(error, StoreAway):
        log.event(level, message, reason=str(error))


async def change(store: Store, log: Log, owner: bytes, work: Callable[[Tables], T]) -> T:
    """Write a change that a client of this owner requested; `NotStored` if that fails."""
    try:
        return await store.write(work, owner=owner)
    except StoreError as error:
        raise undone(error, log) from None


async def check(store: Store, log: Log) -> None:
    """Reject a request whose response could not be stored: a store that failed is tried before any call."""
    try:
        await store.check()
    except StoreAway:
        raise NotStored(_AWAY, status=503) from None
    except StoreError as error:
        log.event("error", "store is still unavailable", reason=str(error))
        raise ClientError(503, "the response store is not available; retry later, or send store: false") from None


async def await_result(future: asyncio.Future[T], on_abandoned: Callable[[T], object]) -> T:
    """The result of a future of the store; `on_abandoned` gets the result if the waiting task is cancelled at that
    moment."""
    try:
        return await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled() and future.exception() is None:
            on_abandoned(future.result())
        raise
    finally:
        # Breaks the cycle between the frames of the error and this one.
        del future
