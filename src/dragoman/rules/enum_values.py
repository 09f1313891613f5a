"""Words: members of an answer whose values the client's types list (U7). A vendor's own word becomes its neighbour.

The lists are those of the official SDK's types; what stands in none of them would fail a client that checks.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonValue
from dragoman.model.losses import Ledger, Place


class EnumValues(Struct, frozen=True, kw_only=True):
    """The words of one member: those that are listed, how others are told, and what is told of words nobody knows."""

    feature: Feature
    legal: frozenset[str]
    others: Mapping[str, str] = {}
    # None leaves the member out.
    unknown: str | None = None

    def map_value(self, value: JsonValue, at: Place, ledger: Ledger | None) -> str | None:
        """The word as the client is told it; a word that is lost is reported."""
        if value is None:
            return None
        if type(value) is str:
            mapped = self.others.get(value, value)
            if mapped in self.legal:
                return mapped
        if ledger is not None:
            note = f"no word of this protocol: {str(value)[:40]!r}"
            if self.unknown is None:
                ledger.dropped(self.feature, at, note)
            else:
                ledger.approximated(self.feature, at, f"{note}; told as {self.unknown!r}")
        return self.unknown


# Tiers that OpenAI answers with; what other vendors call their ordinary one is the default.
ORDINARY_TIERS = {
    "standard": "default",
    "batch": "default",
    "standard_only": "default",
    # https://console.groq.com/docs/service-tiers
    "on_demand": "default",
    "performance": "priority",
}
