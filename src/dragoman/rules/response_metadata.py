"""Labels: what an answer says about itself beside what was said (N4): its id, its model, its time.

No client acts on them, so one that cannot be read is no reason to fail an answer that can be: it counts as not given.
"""

from __future__ import annotations

from math import isfinite

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonValue, Number
from dragoman.model.losses import Ledger
from dragoman.wire.fields import Fields
from dragoman.wire.json import kind_of


def label(fields: Fields, key: str, ledger: Ledger) -> str | None:
    """A label that is text; anything else is reported and not there."""
    value = fields.value.get(key)
    if value is None:
        return None
    fields.skip(key)
    if type(value) is str:
        return value
    _report(key, value, ledger)
    return None


def moment(fields: Fields, key: str, ledger: Ledger) -> int | None:
    """A time in whole seconds; anything else is reported and not there."""
    value = fields.value.get(key)
    if value is None:
        return None
    fields.skip(key)
    seconds = seconds_of(value)
    if seconds is None:
        _report(key, value, ledger)
    return seconds


def seconds_of(value: JsonValue) -> int | None:
    """A time in seconds as servers spell it: whole or not, a number or its text (Writer); None if it is none."""
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
