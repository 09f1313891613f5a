"""Transport table: the transports by their name in `transport`. Extras that some need are imported on first use."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.errors import ConfigError
from dragoman.providers import azure, bedrock, http_transport, vertex
from dragoman.providers.provider import Provider
from dragoman.providers.transport_interface import Transport

TRANSPORTS: Mapping[str, Transport] = {
    "http": http_transport.TRANSPORT,
    "azure": azure.TRANSPORT,
    "bedrock": bedrock.TRANSPORT,
    "vertex": vertex.TRANSPORT,
}


def transport_of(name: str) -> Transport:
    transport = TRANSPORTS.get(name)
    if transport is None:
        raise ConfigError(
            key="transport", problem=f"unknown transport {name!r}", remedy=f"use one of {', '.join(TRANSPORTS)}"
        )
    return transport


def has_list(provider: Provider) -> bool:
    """Whether the provider has a model list. Clouds have none in the model's protocol."""
    return provider.transport == "echo" or transport_of(provider.transport).paths is None
