"""Credential cache: a credential that expires is fetched in a thread, one at a time, and shared until shortly before
its end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio

Value = TypeVar("Value")


class Lease(Generic[Value]):
    """Caches the result of `fetch`, which may block: a value and its end by `clock`. It is renewed `margin` seconds
    before its end, or halfway for a shorter life."""

    __slots__ = ("_clock", "_fetch", "_fetching", "_margin", "_renewed_at", "_value")

    def __init__(
        self, fetch: Callable[[], tuple[Value, float]], *, margin: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._fetch = fetch
        self._margin = margin
        self._clock = clock
        self._value: Value | None = None
        self._renewed_at = 0.0
        self._fetching: asyncio.Task[Value] | None = None

    async def get(self) -> Value:
        """Return the value, fetched if necessary. All waiters share one fetch, and its error."""
        if self._value is not None and self._clock() < self._renewed_at:
            return self._value
        import asyncio

        if self._fetching is None:
            self._fetching = asyncio.create_task(self._renew())
            self._fetching.add_done_callback(_retrieve_exception)
        # A cancelled waiter must not cancel the fetch of others.
        return await asyncio.shield(self._fetching)

    async def _renew(self) -> Value:
        import asyncio

        try:
            value, until = await asyncio.to_thread(self._fetch)
            now = self._clock()
            self._renewed_at = until - min(self._margin, max(0.0, until - now) / 2)
            self._value = value
            return value
        finally:
            self._fetching = None


def _retrieve_exception(task: asyncio.Task[Value]) -> None:
    """Retrieve the exception of a task without waiters, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
