"""What the deltas of a stream tell: each kind in its part, and nothing twice."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Refusal, Text, Thinking, ToolCall
from dragoman.model.response import StopReason
from tests.protocols.openai_chat.room import answer, ask, chunk, fragment


def test_pitfall_058_059_nothing_opens_for_nothing() -> None:
    response = answer(
        chunk({"role": "assistant", "content": ""}),
        chunk({"role": "assistant", "content": "a", "tool_calls": []}),
        chunk({"content": None, "refusal": None, "reasoning_content": ""}),
        chunk({"content": "b"}),
        chunk(None, "stop"),
    )
    assert response.parts == (Text(text="ab"),)


def test_pitfall_060_061_each_change_of_kind_is_a_new_part() -> None:
    response = answer(
        chunk({"reasoning_content": "r"}),
        chunk({"content": "a"}),
        chunk({"reasoning_content": "s"}),
        fragment(id="c", name="f", arguments="{}"),
        chunk({"reasoning_content": "t"}),
        chunk({"content": "b"}, "stop"),
    )
    assert [type(part) for part in response.parts] == [Thinking, Text, Thinking, ToolCall, Thinking, Text]


def test_citations_before_the_text_are_told_with_its_beginning() -> None:
    cited: JsonObject = {"type": "url_citation", "url_citation": {"url": "https://example.com", "title": "t"}}
    (text,) = answer(chunk({"annotations": [cited]}), chunk({"content": "a"}), chunk({}, "stop")).parts
    assert isinstance(text, Text)
    assert [citation.url for citation in text.citations] == ["https://example.com"]


def test_reasoning_after_text_is_sealed_without_the_text() -> None:
    alone = answer(chunk({"reasoning_content": "r"}), chunk({"reasoning_content": "s"}), chunk({}, "stop"))
    after = answer(
        *(chunk({"content": text}) for text in ("a", "b", "c")),
        chunk({"reasoning_content": "r"}),
        chunk({"reasoning_content": "s"}),
        chunk({}, "stop"),
    )
    assert after.parts == (Text(text="abc"), *alone.parts)


def test_item_7_a_list_of_calls_that_is_none_and_entries_that_are_null() -> None:
    call: JsonObject = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    shapes: list[JsonValue] = [call, [None, call]]
    for calls in shapes:
        (part,) = answer(chunk({"tool_calls": calls}), chunk({}, "tool_calls")).parts
        assert isinstance(part, ToolCall) and part.call_id == "a"


def test_item_3_reasoning_that_is_said_again_at_the_end_is_told_once() -> None:
    begun = [chunk({"reasoning_content": "a"}), chunk({"reasoning_content": "b"}), chunk({"content": "c"})]
    told = answer(*begun, chunk({"reasoning_content": "ab", "content": ""}, "stop"))
    assert [part.text for part in told.parts if isinstance(part, Thinking | Text)] == ["ab", "c"]
    more = answer(*begun, chunk({"reasoning_content": "b"}, "stop"))
    assert [part.text for part in more.parts if isinstance(part, Thinking | Text)] == ["ab", "c", "b"]


def test_pitfall_114_reasoning_in_two_members_is_told_once() -> None:
    details: list[JsonValue] = [{"type": "reasoning.text", "text": "r", "index": 0, "format": "anthropic-claude-v1"}]
    response = answer(
        chunk({"reasoning": "r", "reasoning_details": details}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "signature": "s", "index": 0}]}),
        chunk({"content": "x"}, "stop"),
    )
    thinking, _ = response.parts
    assert isinstance(thinking, Thinking) and thinking.text == "r" and thinking.seal is not None
    assert thinking.seal.body == {
        "field": "reasoning",
        "text": "r",
        "details": [
            {"type": "reasoning.text", "text": "r", "index": 0, "format": "anthropic-claude-v1", "signature": "s"}
        ],
    }


def test_text_repeated_at_the_end_of_reasoning_is_told_once() -> None:
    response = answer(
        chunk({"reasoning_content": "a"}),
        chunk({"reasoning_content": "b"}),
        chunk({"reasoning_details": [{"type": "reasoning.text", "text": "ab", "signature": "s", "index": 0}]}),
        chunk({"content": "x"}, "stop"),
    )
    assert isinstance(response.parts[0], Thinking) and response.parts[0].text == "ab"


def test_refusals_citations_and_logprobs_come_along() -> None:
    annotation: JsonObject = {
        "type": "url_citation",
        "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1},
    }
    first = chunk({"content": "a"}, logprobs={"content": [{"token": "a"}]})
    response = answer(first, chunk({"annotations": [annotation]}), chunk({"refusal": "no"}), chunk({}, "stop"))
    text, refusal = response.parts
    assert isinstance(text, Text) and text.logprobs == [{"token": "a"}]
    assert [citation.url for citation in text.citations] == ["u"]
    assert refusal == Refusal(text="no")
    assert response.stop.reason is StopReason.REFUSAL


def test_inline_thinking_is_split_in_pieces() -> None:
    pieces = ["<th", "ink>wh", "y</thi", "nk>\n", "\nx"]
    response = answer(*(chunk({"content": piece}) for piece in pieces), asked=ask(inline_thinking=True))
    thinking, text = response.parts
    assert isinstance(thinking, Thinking) and thinking.text == "why"
    assert text == Text(text="x")
