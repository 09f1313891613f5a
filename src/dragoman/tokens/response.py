"""The tokens of an answer, or of as much of it as there is: what was said, thought and called."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.model.events import ArgumentsDelta, Event, PartGrew, PartReplaced, PartStarted, TextDelta
from dragoman.model.parts import Part, Refusal, Text, Thinking, ToolCall
from dragoman.tokens.families import family_of
from dragoman.tokens.request import PER_CALL, CountedTokens, count_texts


def count_response(events: Iterable[Event], model: str) -> CountedTokens:
    """The tokens of an answer that is told by these events, as a model of this name counts them."""
    texts: dict[int, list[str]] = {}
    calls = 0
    for event in events:
        if isinstance(event, PartGrew):
            if isinstance(event.delta, TextDelta | ArgumentsDelta):
                texts.setdefault(event.index, []).append(event.delta.text)
            elif isinstance(event.delta, PartReplaced):
                texts[event.index] = _texts(event.delta.part)
        elif isinstance(event, PartStarted):
            calls += isinstance(event.part, ToolCall)
            texts[event.index] = _texts(event.part)
    # Words are cut between two deltas, and are one all the same.
    counted = count_texts(["".join(pieces) for pieces in texts.values()], family_of(model))
    return CountedTokens(tokens=counted.tokens + PER_CALL * calls, by=counted.by)


def _texts(part: Part) -> list[str]:
    if isinstance(part, Text | Thinking | Refusal):
        return [part.text]
    return [f"{part.name} ", part.arguments] if isinstance(part, ToolCall) else []
