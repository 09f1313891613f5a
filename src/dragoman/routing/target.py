"""Target of a request: a model at an endpoint of a provider."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct
from msgspec.structs import force_setattr

from dragoman.model.losses import Strict
from dragoman.prices.classes import BILLED_BY_REQUESTED_TIER
from dragoman.protocols.codec import Codec
from dragoman.protocols.registry import codec_of
from dragoman.providers.provider import Endpoint, Provider
from dragoman.rules.capabilities import Capabilities, capabilities_of


class Target(Struct, frozen=True, kw_only=True, dict=True):
    """A target. `stored_here` means that the gateway stores its responses, even if the provider could."""

    provider: Provider
    endpoint: Endpoint
    model: str
    strict: Strict
    stored_here: bool = False
    # The key for health, prices and affinities, and the model's name for responses and logs. Both are derived.
    id: str = ""
    printable_model: str = ""

    def __post_init__(self) -> None:
        force_setattr(self, "id", f"{self.provider.name}/{self.model}")
        force_setattr(self, "printable_model", printable_model_name(self.model))

    @cached_property
    def codec(self) -> Codec:
        return codec_of(self.endpoint.protocol)

    @cached_property
    def denies(self) -> frozenset[str]:
        """The request features that it does not support."""
        capabilities = self.capabilities
        able = {
            "tools": capabilities.tool_limit != 0,
            "images": capabilities.images,
            "documents": capabilities.documents,
            "thinking": capabilities.reasons is not False,
            "structured": capabilities.output_schema or capabilities.json_mode,
        }
        return frozenset(feature for feature, can in able.items() if not can)

    @property
    def can_store(self) -> bool:
        """Whether the provider stores responses by default."""
        return self.endpoint.protocol == "openai-responses" and self.provider.stores_responses

    @property
    def stores_at_provider(self) -> bool:
        """Whether the provider, not the gateway, resolves the IDs of stored responses."""
        return self.can_store and not self.stored_here

    @cached_property
    def bills_requested_tier(self) -> bool:
        """Whether a response is billed by the requested tier instead of the reported one."""
        return self.provider.vendor_or_name in BILLED_BY_REQUESTED_TIER

    @cached_property
    def capabilities(self) -> Capabilities:
        return capabilities_of(
            self.endpoint.protocol, self.model, self.provider.vendor_or_name, self.provider.capabilities
        )


def printable_model_name(model: str) -> str:
    """A model's name for responses and logs: of an ARN, the part after region and account."""
    return model.split(":", 5)[-1] if model.startswith("arn:") else model
