"""The transports, by the word that a provider's `transport` says. Extras that some need are imported on first use."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.errors import ConfigError
from dragoman.providers import azure, bedrock, plain, vertex
from dragoman.providers.order import Transport
from dragoman.providers.provider import Provider

TRANSPORTS: Mapping[str, Transport] = {
    "http": plain.TRANSPORT,
    "azure": azure.TRANSPORT,
    "bedrock": bedrock.TRANSPORT,
    "vertex": vertex.TRANSPORT,
}


def transport_of(name: str) -> Transport:
    """The transport of this name."""
    found = TRANSPORTS.get(name)
    if found is None:
        raise ConfigError(
            key="transport", problem=f"unknown transport {name!r}", remedy=f"use one of {', '.join(TRANSPORTS)}"
        )
    return found


def has_list(provider: Provider) -> bool:
    """Whether there is a list of models to ask for; clouds around a model have none that its protocol knows."""
    return provider.transport == "echo" or transport_of(provider.transport).paths is None
