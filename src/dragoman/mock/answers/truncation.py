"""Truncation: an answer ends at the first stop string, or where its tokens are used up."""

from __future__ import annotations

from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from dragoman.mock.answers.tokens import count, tokens
from dragoman.model.losses import Ledger
from dragoman.model.parts import Part, Refusal, Text, Thinking, ToolCall
from dragoman.model.response import StopReason
from dragoman.rules.stop_sequences import StopScanner, watched


class Cut(Struct, frozen=True, kw_only=True):
    """What is left of an answer, and why it ended there."""

    parts: tuple[Part, ...]
    reason: StopReason
    sequence: str | None = None


def cut(parts: tuple[Part, ...], stops: tuple[str, ...], cap: int) -> Cut:
    """Cut an answer at a stop string in its text, and at `cap` tokens in all; a call that does not fit is not made."""
    retained: list[Part] = []
    remaining = cap
    for part in parts:
        if isinstance(part, ToolCall):
            remaining -= 1 + count(part.arguments)
            if remaining < 0:
                return Cut(parts=tuple(retained), reason=StopReason.LENGTH)
            retained.append(part)
            continue
        if not isinstance(part, Text | Thinking | Refusal):
            retained.append(part)
            continue
        text, sequence = _until_stop(part.text, stops) if isinstance(part, Text) else (part.text, None)
        pieces = list(islice(tokens(text), remaining + 1))
        if pieces[:remaining]:
            retained.append(replace(part, text="".join(pieces[:remaining])))
        if len(pieces) > remaining:
            return Cut(parts=tuple(retained), reason=StopReason.LENGTH)
        if sequence is not None:
            return Cut(parts=tuple(retained), reason=StopReason.SEQUENCE, sequence=sequence)
        remaining -= len(pieces)
    return Cut(parts=tuple(retained), reason=_reason(parts))


def _reason(parts: tuple[Part, ...]) -> StopReason:
    """Why an answer ended that was not cut."""
    if any(isinstance(part, Refusal) for part in parts):
        return StopReason.REFUSAL
    return StopReason.TOOL_CALL if any(isinstance(part, ToolCall) for part in parts) else StopReason.END


def _until_stop(text: str, stops: tuple[str, ...]) -> tuple[str, str | None]:
    if not stops:
        return text, None
    scanner = StopScanner(watched(stops, Ledger()))
    before = scanner.feed(text)
    return (before, scanner.matched) if scanner.matched is not None else (text, None)
