"""Model description: the metadata of a model name, as a value that processes exchange."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

CAPABILITIES = ("tools", "images", "documents", "thinking", "structured")


class Price(Struct, frozen=True, kw_only=True):
    """The price of a million tokens in US dollars, as a decimal number."""

    input: str
    output: str


class DescribedTarget(Struct, frozen=True, kw_only=True):
    """A target that a name may lead to. Null is unknown."""

    # `provider/model`.
    target: str
    provider_protocol: str = ""
    window: int | None = None
    output_cap: int | None = None
    price: Price | None = None
    health: str | None = None


class DescribedName(Struct, frozen=True, kw_only=True):
    """A name, or a pattern of names. Sizes are the smallest of its targets."""

    name: str
    policy: str = ""
    targets: tuple[DescribedTarget, ...] = ()
    window: int | None = None
    output_cap: int | None = None
    # A capability holds if one target has it, because requests that need it go to that target.
    capabilities: Mapping[str, bool | None] = {}
