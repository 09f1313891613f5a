"""Store failures: what clients are told where the store fails, and what is asked of it for them (decision 21)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from dragoman.errors import ClientError
from dragoman.gateway.observability.logs import Log
from dragoman.store import Store, StoreError, Tables

T = TypeVar("T")

_NOT_SENT = "the answer could not be kept, so that it is not told; ask again, or with store: false"
_NOT_DONE = "this could not be kept, so that nothing was done; ask again later"


class NotStored(ClientError):
    """What was to be kept could not be: an answer is not told, since nobody could refer to it; a change is not made."""

    def __init__(self, message: str = _NOT_SENT, status: int = 500) -> None:
        super().__init__(status, message)


class StorageFull(NotStored):
    """As much is stored as may be, by a setting of `[storage]`: no provider is asked for what could not be kept."""

    def __init__(self, setting: str) -> None:
        whose = "this key has" if setting == "max_bytes_per_key" else "all keys together have"
        message = f"{whose} stored as much as may be (storage.{setting}); delete responses or conversations, or send"
        super().__init__(f"{message} store: false", status=507)


def unreadable(error: StoreError, log: Log) -> ClientError:
    """What a client is told if the store fails; the log says why."""
    log.event("error", "cannot read the store", reason=str(error))
    return ClientError(500, "what is kept of earlier responses cannot be reached")


def undone(error: StoreError, log: Log) -> NotStored:
    """What a client is told of a change that failed; the log says why."""
    log.event("error", "cannot write the store", reason=str(error))
    return NotStored(_NOT_DONE)


async def change(store: Store, log: Log, work: Callable[[Tables], T]) -> T:
    """Write down what a client asks for; `NotStored` if that fails."""
    try:
        return await store.write(work)
    except StoreError as error:
        raise undone(error, log) from None


async def check(store: Store, log: Log) -> None:
    """Refuse what could not be kept: before anybody is asked for it, a store that failed is tried again."""
    try:
        await store.check()
    except StoreError as error:
        log.event("error", "store is still unavailable", reason=str(error))
        raise ClientError(503, "answers cannot be kept at present; try again later, or with store: false") from None


async def await_result(future: asyncio.Future[T], on_abandoned: Callable[[T], object]) -> T:
    """What comes of a future of the store; `on_abandoned` gets it if whoever waits leaves in that very moment."""
    try:
        return await future
    except asyncio.CancelledError:
        if future.done() and not future.cancelled() and future.exception() is None:
            on_abandoned(future.result())
        raise
    finally:
        # The frames of what it raises lead here, and from here to what holds the error.
        del future
