"""Stream events: a response as a sequence of frozen values, and the legal orders of these values.

stream = Started (part event | note)* (Stopped note*)? (Ended | Failed)  |  Failed
note   = UsageReported | Heartbeat | ChoiceReported, which comes before Stopped
each index: PartStarted once, PartGrew while open, PartEnded once

Parts may overlap. An encoder whose protocol has no overlapping parts serialises them first
(`rules.part_serializer`)."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import Citation, Part, Seal
from dragoman.model.response import Stop, Usage


class TextDelta(Struct, frozen=True):
    text: str
    logprobs: JsonList | None = None


class TextRun(TextDelta, frozen=True, gc=False):
    """Several text deltas at once, never the first of their part. `text` joins them. `strings` holds the inside of each
    delta's JSON string, as every encoder writes it (`rules.text_runs`)."""

    strings: list[bytes] = []


class ArgumentsDelta(Struct, frozen=True):
    text: str


class ArgumentsRun(ArgumentsDelta, frozen=True, gc=False):
    """Several deltas of arguments at once, never the first of their call. `strings` as in `TextRun`."""

    strings: list[bytes] = []


class CitationAdded(Struct, frozen=True):
    citation: Citation


class SealSet(Struct, frozen=True):
    """The signature of the open thinking part. Providers send it at the end of the part."""

    seal: Seal


class PartReplaced(Struct, frozen=True):
    """The final form of the open part, which replaces it: hosted calls, compactions, foreign parts."""

    part: Part


Delta: TypeAlias = TextDelta | ArgumentsDelta | CitationAdded | SealSet | PartReplaced


class Started(Struct, frozen=True, kw_only=True):
    """The first event of a response."""

    id: str
    model: str
    created: int | None = None


class PartStarted(Struct, frozen=True):
    """A part opens; text, thinking and arguments are empty here unless the part is complete at its start."""

    index: int
    part: Part


class PartGrew(Struct, frozen=True):
    index: int
    delta: Delta


class PartEnded(Struct, frozen=True):
    index: int


class UsageReported(Struct, frozen=True):
    """Token counts so far; the latest wins."""

    usage: Usage


class ChoiceReported(Struct, frozen=True):
    """The further choices of a full response, in wire form (`Response.alternatives`)."""

    choices: tuple[JsonObject, ...]


class Stopped(Struct, frozen=True):
    """The stop reason. No part event follows."""

    stop: Stop


class Ended(Struct, frozen=True):
    """The regular end of a response."""


class Failed(Struct, frozen=True):
    """The stream failed; no event follows. `usage` is the total, if the provider reported it with the failure."""

    failure: Failure
    usage: Usage | None = None


class Heartbeat(Struct, frozen=True):
    """The provider sent a heartbeat without content."""


Event: TypeAlias = (
    Started | PartStarted | PartGrew | PartEnded | UsageReported | ChoiceReported | Stopped | Ended | Failed | Heartbeat
)
