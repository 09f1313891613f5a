"""The tokens of answers, told whole or in pieces."""

from __future__ import annotations

from dragoman.model.events import (
    ArgumentsDelta,
    Event,
    PartEnded,
    PartGrew,
    PartReplaced,
    PartStarted,
    Started,
    TextDelta,
)
from dragoman.model.parts import Refusal, Text, Thinking, ToolCall
from dragoman.tokens.families import family_of
from dragoman.tokens.request import PER_CALL, count_response, count_texts

SAID = "It is sunny in Ulm, and the cathedral is as tall as ever."


def told(text: str, size: int) -> list[Event]:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    grown = [PartGrew(0, TextDelta(piece)) for piece in pieces]
    return [Started(id="x", model="m"), PartStarted(0, Text(text="")), *grown, PartEnded(0)]


def test_an_answer_has_as_many_tokens_however_it_is_cut() -> None:
    whole = count_response([PartStarted(0, Text(text=SAID))], "gpt-5.1")
    assert whole == count_texts([SAID], family_of("gpt-5.1"))
    assert {count_response(told(SAID, size), "gpt-5.1") for size in (1, 3, 7, 1000)} == {whole}


def test_what_was_thought_refused_and_called_counts_too() -> None:
    call = ToolCall(call_id="c", name="weather", arguments="")
    events: list[Event] = [
        PartStarted(0, Thinking(text="")),
        PartGrew(0, TextDelta("Sunny?")),
        PartStarted(1, Refusal(text="No.")),
        PartStarted(2, call),
        PartGrew(2, ArgumentsDelta('{"city":')),
        PartGrew(2, ArgumentsDelta('"Ulm"}')),
        PartStarted(3, Text(text="")),
        PartGrew(3, PartReplaced(Text(text="Yes."))),
    ]
    texts = ["Sunny?", "No.", 'weather {"city":"Ulm"}', "Yes."]
    assert count_response(events, "m").tokens == count_texts(texts, family_of("m")).tokens + PER_CALL


def test_nothing_has_no_tokens() -> None:
    assert count_response([], "gpt-5.1").tokens == 0
