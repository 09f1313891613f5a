"""Response: the output of a model, its stop reason, and its usage."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject
from dragoman.model.parts import Extras, Part


class StopReason(Enum):
    """The normalised stop reason; the provider's value is stored with it."""

    # It is looked up for every response, and the default hash of an enum member is a call.
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
    """The end of an answer; `native` is the provider's value, `sequence` the matched stop sequence, if known."""

    reason: StopReason
    native: str = ""
    sequence: str | None = None
    explanation: str | None = None
    category: str | None = None
    extras: Extras | None = None


# The two totals of a usage.
INPUT, OUTPUT = "input", "output"


class Usage(Struct, frozen=True):
    """Token counts: `input` and `output` are inclusive totals, the others parts of them. None is "not reported", 0 is
    "reported as zero"; a total that is not reported is 0 and named in `unreported`."""

    input: int = 0
    output: int = 0
    cache_read: int | None = None
    cache_write: int | None = None
    thinking: int | None = None
    web_searches: int | None = None
    service_tier: str | None = None
    extras: Extras | None = None
    # `INPUT` and `OUTPUT`, as far as the provider did not report them.
    unreported: tuple[str, ...] = ()


class Response(Struct, frozen=True, kw_only=True):
    """One whole answer; `alternatives` are Chat's further choices."""

    origin: str
    id: str
    model: str
    parts: tuple[Part, ...]
    stop: Stop
    usage: Usage | None = None
    created: int | None = None
    alternatives: tuple[JsonObject, ...] = ()
    extras: Extras | None = None
