"""Provider: one service with its addresses, protocols, keys and quirks."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from dragoman.prices.book import ModelFacts, PriceBook
from dragoman.protocols.registry import PROTOCOL_NAMES
from dragoman.rules.capabilities import CapabilityRow

_PROTOCOLS = frozenset(PROTOCOL_NAMES)


class Endpoint(Struct, frozen=True, kw_only=True):
    """One protocol at one address. `base_url` has the form of that protocol's official SDK."""

    protocol: str
    base_url: str


class Provider(Struct, frozen=True, kw_only=True):
    """A configured provider. `endpoints` are in order of preference; the client's own protocol goes first."""

    name: str
    endpoints: tuple[Endpoint, ...]
    # "bearer", "x-api-key" (Messages), "api-key" (Azure), "none", "aws" or "google"; "" is the protocol's default.
    auth: str = ""
    # Several keys are used in turn. They are never shown, logged or sent to any other host.
    keys: tuple[str, ...] = ()
    # The name of each key: its environment variable, or its position in the file.
    key_names: tuple[str, ...] = ()
    # How calls are addressed and framed: "http", "azure", "bedrock", "vertex" or "echo".
    transport: str = "http"
    # When it streams: "on-request", "always" or "never".
    streaming: str = "on-request"
    # The label for capabilities and for issuers of reasoning; "" if it is the name.
    vendor: str = ""
    # Capabilities of its models that override the built-in rows.
    capabilities: tuple[CapabilityRow, ...] = ()
    # Headers of every call, in addition to those of the protocol.
    headers: Mapping[str, str] = {}
    # Models to list; None means the provider's model list.
    models: tuple[str, ...] | None = None
    # Whether it is Anthropic's own service. Only that gets clients' `x-claude-code-*` headers.
    anthropic: bool = False
    # Whether `stream_options.include_usage` is added to relayed Chat streams. Without it the gateway counts tokens.
    include_usage: bool = False
    # Whether it supports `/v1/messages/count_tokens` or `/responses/input_tokens`.
    counts_tokens: bool = False
    # Whether it stores Responses for `previous_response_id`; otherwise the gateway does.
    stores_responses: bool = True
    # Limits over all workers: concurrent calls (None is unlimited), queued requests, and seconds in the queue.
    concurrency: int | None = None
    queue_size: int = 256
    queue_timeout: float = 30.0
    # Seconds between health checks during cooldowns; None for never.
    health_check_interval: float | None = None
    # Settings of a transport, such as region, project and api_version.
    options: Mapping[str, str] = {}

    def __repr__(self) -> str:
        # Keys and headers must not reach a log.
        return f"Provider(name={self.name!r}, endpoints={self.endpoints!r}, keys={len(self.keys)})"

    @property
    def vendor_or_name(self) -> str:
        return self.vendor or self.name

    @property
    def protocols(self) -> tuple[str, ...]:
        return tuple(endpoint.protocol for endpoint in self.endpoints)

    def endpoint_for(self, protocol: str) -> Endpoint:
        """The endpoint of the client's own protocol, otherwise the preferred one."""
        for endpoint in self.endpoints:
            if endpoint.protocol == protocol:
                return endpoint
        return self.endpoints[0]


def split_protocol(model: str) -> tuple[str, str]:
    """Split `model@protocol`. Only known protocols count, because Vertex's models have an `@`:
    `claude-opus-4-1@20250805`."""
    name, _, protocol = model.rpartition("@")
    return (name, protocol) if protocol in _PROTOCOLS else (model, "")


def facts_of(book: PriceBook, provider: Provider, model: str, now: float) -> ModelFacts | None:
    """Prices and limits of a model at a provider, at a time (Unix seconds)."""
    region = provider.options.get("region", "")
    return book.find(provider.vendor_or_name, model, now, name=provider.name, region=region)
