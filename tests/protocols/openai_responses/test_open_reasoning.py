"""Reasoning while it grows: its summaries are told once, whatever their numbers."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Thinking
from tests.protocols.openai_responses.asking import read, response_body
from tests.protocols.openai_responses.numbering import (
    event,
    folded,
    item_event,
    meaning,
    vendor,
)


def test_item_8_summaries_numbered_from_elsewhere_are_told_once() -> None:
    parts: list[JsonValue] = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]
    whole: JsonObject = {"type": "reasoning", "id": "rs", "summary": parts}
    stream = [vendor()[0], item_event("added", 0, {**whole, "summary": []})]
    for place, text in ((3, "One."), (7, "Two.")):
        stream.append(event("reasoning_summary_text.delta", 0, "rs", summary_index=place, delta=text))
        stream.append(event("reasoning_summary_text.done", 0, "rs", summary_index=place - 3, text=text))
    stream += [item_event("done", 0, whole), {"type": "response.completed", "response": response_body(whole)}]
    assert meaning(folded(read(stream)))[1] == ["One.\n\nTwo."]


def test_item_8_reasoning_that_came_with_its_announcement_is_not_lost() -> None:
    whole: JsonObject = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "One."}]}
    stream = [vendor()[0], item_event("added", 0, whole)]
    stream.append({"type": "response.completed", "response": response_body()})
    assert meaning(folded(read(stream)))[1] == ["One."]


def test_item_8_reasoning_that_ends_as_an_empty_shell_keeps_its_words() -> None:
    shell: JsonObject = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "gAAAx"}
    stream = [vendor()[0], item_event("added", 0, {"type": "reasoning", "id": "rs", "summary": []})]
    stream.append(event("reasoning_summary_text.delta", 0, "rs", summary_index=0, delta="One."))
    stream += [item_event("done", 0, shell), {"type": "response.completed", "response": response_body()}]
    (part,) = folded(read(stream)).parts
    assert isinstance(part, Thinking) and part.seal is not None
    assert (part.text, part.seal.body.get("summary")) == ("One.", [{"type": "summary_text", "text": "One."}])
