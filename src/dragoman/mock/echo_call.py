"""Echo call: an upstream call to the echo provider, with the interface of a call over a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from dragoman.errors import Oversized, Truncated
from dragoman.http.upstream_call import UpstreamRequest
from dragoman.mock.answers.delivery import Delivery
from dragoman.mock.echo import respond_to

EMPTY = Delivery(pieces=())


class EchoCall:
    """One response in progress. Other tasks run between any two chunks."""

    def __init__(self, call: UpstreamRequest, protocol: str) -> None:
        response = respond_to(call, protocol)
        self.status = response.status
        self.headers = response.headers
        self.renewed = 0
        self._delivery = response.delivery
        self._going = asyncio.Event()
        self._going.set()
        # Set by `abort` and `close`, to end all delays.
        self._over = asyncio.Event()
        self._error: Exception | None = None

    async def head(self) -> None:
        await self._sleep(self._delivery.wait)

    async def read(self, limit: int) -> bytes:
        """Return the full body. More than `limit` bytes raise `Oversized`."""
        pieces: list[bytes] = []
        size = 0

        def append(piece: bytes) -> None:
            nonlocal size
            size += len(piece)
            if size > limit:
                raise Oversized("the answer is larger than the limit")
            pieces.append(piece)

        await self.pump(append)
        if self._over.is_set():
            raise Truncated("the answer was given up before its end")
        return b"".join(pieces)

    def take_complete(self) -> bytes | None:
        """Return the full body of a non-streamed response, once. None if it must be pumped."""
        delivery = self._delivery
        if delivery.streamed or delivery.breaks or self._over.is_set():
            return None
        self._delivery = EMPTY
        return delivery.body

    async def pump(self, take: Callable[[bytes], None]) -> None:
        """Pass the body on, one frame at a time. After `close` it returns without an error."""
        for delay, piece in self._delivery.pieces:
            await self._sleep(delay)
            while not self._going.is_set():
                await self._going.wait()
                self._raise_if_aborted()
            if self._over.is_set():
                return
            take(piece)
        if self._delivery.breaks:
            await self._sleep(0.0)
            raise Truncated("the answer broke off before its end")

    def pause(self) -> None:
        if not self._over.is_set():
            self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def abort(self, error: Exception) -> None:
        """End the call. Its waiter gets this error."""
        if self._error is None:
            self._error = error
        self._stop()

    def close(self) -> None:
        # A raised error keeps its frames alive, and these keep this call alive.
        self._error = None
        self._stop()

    def _stop(self) -> None:
        self._over.set()
        self._going.set()

    async def _sleep(self, seconds: float) -> None:
        if seconds > 0 and not self._over.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._over.wait()
        else:
            await asyncio.sleep(0)
        self._raise_if_aborted()

    def _raise_if_aborted(self) -> None:
        if self._error is not None:
            raise self._error
