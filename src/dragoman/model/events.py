"""The stream algebra: an answer as it grows, and the table of legal orders.

    stream = Started (part event | note)* (Stopped note*)? (Ended | Failed)  |  Failed
    note   = UsageReported | Heartbeat | ChoicesTold, which comes before Stopped
    each index: PartStarted once, PartGrew while open, PartEnded once

Parts may overlap; an encoder whose protocol cannot express that serialises them first (`rules.part_serializer`).
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import Citation, Part, Seal
from dragoman.model.response import Stop, Usage


class TextDelta(Struct, frozen=True):
    """More text, thinking or refusal for the open part."""

    text: str
    logprobs: JsonList | None = None


class TextRun(TextDelta, frozen=True, gc=False):
    """Several text deltas at once, never the first of their part; `text` joins them. `strings` has the inside of each
    one's JSON string, as every encoder writes it (`rules.text_runs`)."""

    strings: list[bytes] = []


class ArgumentsDelta(Struct, frozen=True):
    """More of a call's arguments."""

    text: str


class ArgumentsRun(ArgumentsDelta, frozen=True, gc=False):
    """Several deltas of arguments at once, never the first of their call; as `TextRun` has text."""

    strings: list[bytes] = []


class CitationAdded(Struct, frozen=True):
    """A citation for the open text."""

    citation: Citation


class SealSet(Struct, frozen=True):
    """The seal of the open thinking part, known only at its end."""

    seal: Seal


class PartReplaced(Struct, frozen=True):
    """The open part as a whole, known only at its end: hosted calls, compactions, foreign parts."""

    part: Part


Delta: TypeAlias = TextDelta | ArgumentsDelta | CitationAdded | SealSet | PartReplaced


class Started(Struct, frozen=True, kw_only=True):
    """The answer begins."""

    id: str
    model: str
    created: int | None = None


class PartStarted(Struct, frozen=True):
    """A part opens; text, thinking and arguments are empty here unless the part is complete at its start."""

    index: int
    part: Part


class PartGrew(Struct, frozen=True):
    """An open part grows."""

    index: int
    delta: Delta


class PartEnded(Struct, frozen=True):
    """A part is complete."""

    index: int


class UsageReported(Struct, frozen=True):
    """Token counts so far; the latest wins."""

    usage: Usage


class ChoiceReported(Struct, frozen=True):
    """The further choices of a full response, in wire form (`Response.alternatives`)."""

    choices: tuple[JsonObject, ...]


class Stopped(Struct, frozen=True):
    """Why the answer ended; no part event follows."""

    stop: Stop


class Ended(Struct, frozen=True):
    """The answer is whole."""


class Failed(Struct, frozen=True):
    """The answer broke off; nothing follows. `usage` is the total, if it was reported with the failure."""

    failure: Failure
    usage: Usage | None = None


class Heartbeat(Struct, frozen=True):
    """A heartbeat of the provider without content."""


Event: TypeAlias = (
    Started | PartStarted | PartGrew | PartEnded | UsageReported | ChoiceReported | Stopped | Ended | Failed | Heartbeat
)
