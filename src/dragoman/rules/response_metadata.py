"""Response metadata: ID, model and time of a response (N4), and members whose values the clients' types list (U7). No
client acts on ID, model and time, so an unreadable one counts as absent and fails no response."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from msgspec import Struct

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonValue, Number
from dragoman.model.losses import Ledger, Place
from dragoman.wire.fields import Fields
from dragoman.wire.json import kind_of


def label(fields: Fields, key: str, ledger: Ledger) -> str | None:
    """A label that is text. Any other value is reported and counts as absent."""
    value = fields.value.get(key)
    if value is None:
        return None
    fields.skip(key)
    if type(value) is str:
        return value
    _report(key, value, ledger)
    return None


def moment(fields: Fields, key: str, ledger: Ledger) -> int | None:
    """A time in seconds. Any other value is reported and counts as absent."""
    value = fields.value.get(key)
    if value is None:
        return None
    fields.skip(key)
    seconds = seconds_of(value)
    if seconds is None:
        _report(key, value, ledger)
    return seconds


def seconds_of(value: JsonValue) -> int | None:
    """A time in any form that servers use, in seconds: a number or its text (Writer); otherwise None."""
    if type(value) is int:
        return value
    if isinstance(value, str | float | Number):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            return None
        return int(number) if isfinite(number) else None
    return None


def _report(key: str, value: JsonValue, ledger: Ledger) -> None:
    ledger.dropped(Feature.UNKNOWN_FIELD, (key,), f"what an answer says about itself cannot be read: {kind_of(value)}")


class EnumValues(Struct, frozen=True, kw_only=True):
    """The values of a member that the official SDK lists. A client that validates fails on any other."""

    feature: Feature
    legal: frozenset[str]
    others: Mapping[str, str] = {}
    # None drops the member.
    unknown: str | None = None

    def map_value(self, value: JsonValue, at: Place, ledger: Ledger | None) -> str | None:
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


# OpenAI's tiers for the ordinary tiers of other vendors.
ORDINARY_TIERS = {
    "standard": "default",
    "batch": "default",
    "standard_only": "default",
    # https://console.groq.com/docs/service-tiers
    "on_demand": "default",
    "performance": "priority",
}
