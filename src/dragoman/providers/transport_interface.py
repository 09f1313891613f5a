"""Transport interface: `Order` is one call, `Transport` addresses, signs and frames it. `unframe` converts a provider's
framing to server-sent events."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Protocol

from msgspec import Struct

from dragoman.http.upstream_call import HeaderList, UpstreamRequest
from dragoman.providers.provider import Endpoint, Provider


class Order(Struct, frozen=True):
    """One call. `body` and `headers` are complete, in the endpoint's protocol and without credentials. `key` is the
    selected key. `path` is another path below the base URL."""

    provider: Provider
    endpoint: Endpoint
    model: str
    stream: bool
    body: bytes
    headers: HeaderList
    key: str | None
    path: str = ""
    method: str = "POST"
    query: str = ""

    def __repr__(self) -> str:
        # Neither the key nor contents may reach a log.
        return f"Order(provider={self.provider.name!r}, model={self.model!r}, stream={self.stream}, path={self.path!r})"


class Unframer(Protocol):
    """Converts a provider's own framing of a stream to server-sent events, as bytes arrive."""

    def feed(self, chunk: bytes) -> bytes:
        """Return the events that these bytes complete. Invalid framing raises `BadResponse`."""
        ...

    def close(self) -> bytes:
        """Return the events that the end of the stream completes. A partial frame raises `Truncated`."""
        ...


class Transport(Struct, frozen=True, kw_only=True):
    """How calls to one kind of provider are addressed, signed and framed."""

    # Raises `ConfigError` for a provider that can never be called: an option or an installed extra is missing.
    check: Callable[[Provider], None]
    # Raises `ClientError` for a model or path that cannot be part of an address, `ConfigError` like `check` or without
    # credentials, and `Unreachable` if credentials cannot be fetched now.
    call: Callable[[Order], Coroutine[None, None, UpstreamRequest]]
    # Supported paths other than the protocol's; None for any path.
    paths: frozenset[str] | None = None
    # For successful streamed responses to orders without a path; None if they are server-sent events already.
    unframe: Callable[[], Unframer] | None = None
