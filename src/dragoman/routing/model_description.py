"""Described: all that is known of a name, as a value that one process tells another."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

# What a model may be able to do, by the words that rules of `[models]` have for it.
CAPABILITIES = ("tools", "images", "documents", "thinking", "structured")


class Price(Struct, frozen=True, kw_only=True):
    """What a million tokens cost, in US dollars, as a decimal number."""

    input: str
    output: str


class DescribedTarget(Struct, frozen=True, kw_only=True):
    """A target that a name may lead to; null is unknown."""

    # `provider/model`.
    target: str
    provider_protocol: str = ""
    window: int | None = None
    output_cap: int | None = None
    price: Price | None = None
    health: str | None = None


class DescribedName(Struct, frozen=True, kw_only=True):
    """A name, or a pattern of names; sizes are the least of its targets'."""

    name: str
    policy: str = ""
    targets: tuple[DescribedTarget, ...] = ()
    window: int | None = None
    output_cap: int | None = None
    # A request that needs one goes to a target that has it: one that has it is enough.
    capabilities: Mapping[str, bool | None] = {}
