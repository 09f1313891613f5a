"""Exchanges as programs get them."""

from __future__ import annotations

import msgspec

from dragoman.model.jsonvalue import JsonObject
from dragoman.records.exchanges import RecordedExchange
from dragoman.records.views.exchanges import exchange_view


def as_json(exchange: RecordedExchange) -> JsonObject:
    """The members of an exchange."""
    members: JsonObject = msgspec.to_builtins(exchange_view(exchange))
    return members
