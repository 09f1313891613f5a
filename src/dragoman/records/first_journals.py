"""First journals: entries of version 1 have their members in another order, and may lack the last ones."""

from __future__ import annotations

import msgspec
from msgspec import Raw
from msgspec.structs import astuple

from dragoman.records.journal_entry import JournalEntry

# The members of version 1, in their order.
FIRST_MEMBERS = (
    *("id", "time", "outcome", "kind", "key", "client", "program", "address", "launch", "client_protocol", "path"),
    *("stream", "requested_model", "provider", "model", "provider_protocol", "response_model", "route", "policy"),
    *("reason", "status", "failure", "refusal", "stop_reason", "first_content", "duration", "tokens", "estimated"),
    *("cost", "calls", "queue_full", "losses", "provider_request_id", "response_id", "size", "facts", "trace"),
    *("candidates", "candidates_more", "tags"),
)
# Id and time are always there.
_REQUIRED = 2

_decode = msgspec.json.Decoder(list[Raw]).decode
_DEFAULTS = {
    name: msgspec.json.encode(value)
    for name, value in zip(JournalEntry.__struct_fields__, astuple(JournalEntry("", 0)), strict=True)
}


def in_present_order(encoded: bytes) -> bytes:
    """An entry of version 1 with its members in the present order."""
    values = _decode(encoded)
    if len(values) < _REQUIRED:
        raise msgspec.ValidationError("an entry without id or time")
    stored = dict(zip(FIRST_MEMBERS, values, strict=False))
    return b"[" + b",".join([stored.get(name, default) for name, default in _DEFAULTS.items()]) + b"]"
