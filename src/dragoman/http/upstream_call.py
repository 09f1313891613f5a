"""Interface of one call to a provider and its response, over a socket or inside the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

# Names are lower case; values are as they stand on the wire.
HeaderList: TypeAlias = list[tuple[bytes, bytes]]


class UpstreamRequest(Struct, frozen=True):
    """A request as it goes out: `url` is absolute, `headers` are complete but for Host and Content-Length."""

    method: str
    url: str
    headers: HeaderList
    body: bytes = b""
    # Whether this very list of headers always goes with this method and URL, so that its lines are written once.
    is_recurring: bool = False

    def __repr__(self) -> str:
        # Neither credentials nor what was said may reach a log.
        return f"Call(method={self.method!r}, bytes={len(self.body)})"


class UpstreamCall(Protocol):
    """One call on its way: first `head`, then one of `take_complete`, `read` and `pump`, and `close` in every case."""

    status: int
    headers: HeaderList
    # How often it went out once more, because a connection that was kept turned out to be dead.
    renewed: int

    async def head(self) -> None:
        """Wait until `status` and `headers` are there."""
        ...

    async def read(self, limit: int) -> bytes:
        """The whole body, decoded if it was compressed; more than `limit` bytes raise `Oversized`."""
        ...

    def take_complete(self) -> bytes | None:
        """The whole body if it has already arrived and is not coded, handed over once; None if it must be pumped."""
        ...

    async def pump(self, take: Callable[[bytes], None]) -> None:
        """Hand every piece of the body to `take` as it arrives, from the reading callback itself, until the end."""
        ...

    def pause(self) -> None:
        """Stop reading: the provider feels it."""
        ...

    def resume(self) -> None:
        """Read on."""
        ...

    def abort(self, error: Exception) -> None:
        """End the call from outside: its waiter gets this error, and the connection is closed."""
        ...

    def close(self) -> None:
        """Say that the answer is no longer wanted; a connection whose answer is not at its end is closed."""
        ...


def header(headers: HeaderList, name: bytes) -> bytes | None:
    """The first value under a lower-case name."""
    for key, value in headers:
        if key == name:
            return value
    return None
