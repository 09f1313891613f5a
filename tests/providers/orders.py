"""Providers and orders for tests."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.http.upstream_call import HeaderList
from dragoman.providers.provider import Endpoint, Provider
from dragoman.providers.transport_interface import Order

# An instant in 2096, in seconds of Unix time: credentials that end then do not run out within a test.
FAR_FUTURE = 4_000_000_000.0
BODY = b'{"model":"m","max_tokens":1.0,"messages":[]}'


def provider_of(
    base_url: str,
    *,
    protocol: str = "openai-chat",
    transport: str = "http",
    auth: str = "",
    keys: tuple[str, ...] = (),
    headers: Mapping[str, str] | None = None,
    options: Mapping[str, str] | None = None,
) -> Provider:
    """A provider with one endpoint."""
    return Provider(
        name="cloud",
        endpoints=(Endpoint(protocol=protocol, base_url=base_url),),
        transport=transport,
        auth=auth,
        keys=keys,
        headers=headers or {},
        options=options or {},
    )


def order_to(
    provider: Provider,
    *,
    model: str = "m",
    stream: bool = False,
    body: bytes = BODY,
    headers: HeaderList | None = None,
    key: str | None = None,
    path: str = "",
    method: str = "POST",
    query: str = "",
) -> Order:
    """An order to the provider's one endpoint."""
    return Order(
        provider=provider,
        endpoint=provider.endpoints[0],
        model=model,
        stream=stream,
        body=body,
        headers=headers or [],
        key=key,
        path=path,
        method=method,
        query=query,
    )
