"""Response: the output of a model, its stop reason and its usage."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras, Part


class StopReason(Enum):
    """The normalised stop reason. `Stop.native` has the provider's value."""

    # Every response looks up its reason, and the default hash of an enum member is a slow call.
    __hash__ = object.__hash__

    END = "end"
    LENGTH = "length"
    SEQUENCE = "sequence"
    TOOL_CALL = "tool_call"
    REFUSAL = "refusal"
    FILTER = "filter"
    PAUSE = "pause"
    CONTEXT_FULL = "context_full"
    COMPACTED = "compacted"
    OTHER = "other"


class Stop(Struct, frozen=True, kw_only=True):
    """The end of a response. `native` is the provider's value, `sequence` the matched stop sequence, if known."""

    reason: StopReason
    native: str = ""
    sequence: str | None = None
    explanation: str | None = None
    category: str | None = None
    extras: Extras | None = None


# The two totals of `Usage`.
INPUT, OUTPUT = "input", "output"


class Usage(Struct, frozen=True):
    """Token counts. `input` and `output` are inclusive totals; the other fields are parts of them. None means "not
    reported", 0 means "reported as zero". A total that is not reported is 0 and named in `unreported`."""

    input: int = 0
    output: int = 0
    cache_read: int | None = None
    cache_write: int | None = None
    thinking: int | None = None
    web_searches: int | None = None
    service_tier: str | None = None
    extras: Extras | None = None
    # The totals (`INPUT`, `OUTPUT`) that the provider did not report.
    unreported: tuple[str, ...] = ()


class Response(Struct, frozen=True, kw_only=True):
    """One full response. `alternatives` are Chat's further choices."""

    origin: str
    id: str
    model: str
    parts: tuple[Part, ...]
    stop: Stop
    usage: Usage | None = None
    created: int | None = None
    alternatives: tuple[JsonObject, ...] = ()
    extras: Extras | None = None
