"""Target: whom a request goes to, a model at an endpoint of a provider."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from dragoman.model.losses import Strict
from dragoman.providers.provider import Endpoint, Provider
from dragoman.rules.capabilities import Capabilities, capabilities_of


class Target(Struct, frozen=True, kw_only=True, dict=True):
    """Whom a request goes to. `kept_here` says that what it answers is kept by the gateway, whoever could keep it."""

    provider: Provider
    endpoint: Endpoint
    model: str
    strict: Strict
    kept_here: bool = False

    @cached_property
    def id(self) -> str:
        """What health, prices and pins know it by."""
        return f"{self.provider.name}/{self.model}"

    @cached_property
    def denies(self) -> frozenset[str]:
        """The signs of requests that it is known not to take."""
        known = self.abilities
        able = {
            "tools": known.tool_limit != 0,
            "images": known.images,
            "documents": known.documents,
            "thinking": known.reasons is not False,
            "structured": known.output_schema or known.json_mode,
        }
        return frozenset(sign for sign, can in able.items() if not can)

    @property
    def can_keep(self) -> bool:
        """Whether the provider keeps responses, unless it is asked not to."""
        return self.endpoint.protocol == "openai-responses" and self.provider.stores

    @property
    def keeps_responses(self) -> bool:
        """Whether ids of stored responses are the provider's to know."""
        return self.can_keep and not self.kept_here

    @cached_property
    def shown(self) -> str:
        """The model's name as answers and logs may show it."""
        return shown_model(self.model)

    @cached_property
    def abilities(self) -> Capabilities:
        """What is known of the model."""
        return capabilities_of(self.endpoint.protocol, self.model, self.provider.upstream, self.provider.rows)


def shown_model(model: str) -> str:
    """A model's name as answers and logs may show it: of an ARN, what stands behind region and account."""
    return model.split(":", 5)[-1] if model.startswith("arn:") else model
