"""Interface of one call to a provider and its response, over a socket or inside the process."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Protocol, TypeAlias

from msgspec import Struct

# Names are lower case; values are raw.
HeaderList: TypeAlias = list[tuple[bytes, bytes]]
# Reads the name of a header. With a set's method and `map`, the names of a head are compared without a loop in Python.
name_of: Callable[[tuple[bytes, bytes]], bytes] = itemgetter(0)


class UpstreamRequest(Struct, frozen=True):
    """A request as it goes out: `url` is absolute, `headers` are complete but for Host and Content-Length."""

    method: str
    url: str
    headers: HeaderList
    body: bytes = b""
    # Whether this very list of headers always goes with this method and URL, so that its lines are written once.
    is_recurring: bool = False

    def __repr__(self) -> str:
        # Neither credentials nor contents may reach a log.
        return f"Call(method={self.method!r}, bytes={len(self.body)})"


class UpstreamCall(Protocol):
    """One call on its way: first `head`, then one of `take_complete`, `read` and `pump`, and `close` in every case."""

    status: int
    headers: HeaderList
    # How often it was sent again, because a pooled connection was dead.
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
        """Cancel the response; a connection with an incomplete response is closed."""
        ...


def header(headers: HeaderList, name: bytes) -> bytes | None:
    """The first value under a lower-case name."""
    for key, value in headers:
        if key == name:
            return value
    return None
