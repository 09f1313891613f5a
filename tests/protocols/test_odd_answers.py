"""Answers without the frame that their protocol gives them: filtered, told at once, begun again."""

from __future__ import annotations

import json

import pytest

from dragoman.errors import WireError
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_response

CHAT, MESSAGES, RESPONSES = "openai-chat", "anthropic-messages", "openai-responses"
SEVERE = {"violence": {"filtered": True, "severity": "high"}, "hate": {"filtered": False, "severity": "safe"}}


def sse(*events: object) -> bytes:
    frames = []
    for event in events:
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        frames.append(f"{name}data: {json.dumps(event) if isinstance(event, dict) else event}\n\n")
    return "".join(frames).encode()


def collected(source: str, target: str, stream: bytes) -> dict[str, object]:
    translator = StreamPipeline(source=source, target=target, collect=True)
    translator.feed(stream)
    body: dict[str, object] = json.loads(translator.close())
    assert translator.failure is None
    return body


def told_end(target: str, body: dict[str, object]) -> object:
    return body["stop_reason"] if target == MESSAGES else body["incomplete_details"]


REFUSED = [(MESSAGES, "refusal"), (RESPONSES, {"reason": "content_filter"})]
FILTERED: dict[str, dict[str, object]] = {
    "a choice without message": {
        "choices": [{"finish_reason": "content_filter", "index": 0, "content_filter_results": SEVERE}]
    },
    "a choice whose message is null": {"choices": [{"finish_reason": "content_filter", "index": 0, "message": None}]},
    "no choice": {"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": SEVERE}]},
}


@pytest.mark.parametrize(("target", "end"), REFUSED)
@pytest.mark.parametrize("case", FILTERED)
def test_item_15_a_filtered_answer_is_a_refusal(case: str, target: str, end: object) -> None:
    body = {"id": "c", "model": "m", **FILTERED[case], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}
    told = translate_response(json.dumps(body).encode(), source=CHAT, target=target)
    assert not told.failed
    assert told_end(target, json.loads(told.body)) == end
    assert told.usage is not None
    assert told.usage.input == 3


@pytest.mark.parametrize(
    "body",
    [
        {"choices": []},
        {"choices": [], "prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": False}}}]},
        {"choices": [{"finish_reason": "stop", "index": 0}]},
        {"choices": [{"index": 0}]},
    ],
)
def test_what_is_neither_filtered_nor_an_answer_is_no_answer(body: dict[str, object]) -> None:
    with pytest.raises(WireError, match="choices"):
        translate_response(json.dumps(body).encode(), source=CHAT, target=MESSAGES)


@pytest.mark.parametrize(("target", "end"), REFUSED)
@pytest.mark.parametrize("filtered", [True, False])
def test_item_15_a_filtered_stream_is_a_refusal(target: str, end: object, filtered: bool) -> None:
    results = SEVERE if filtered else {"hate": {"filtered": False}}
    head = {"id": "", "object": "", "created": 0, "model": ""}
    opening = {**head, "choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": results}]}
    choice = {"index": 0, "finish_reason": "content_filter", "content_filter_results": SEVERE}
    ends = [] if filtered else [{**head, "choices": [choice]}]
    assert told_end(target, collected(CHAT, target, sse(opening, *ends, "[DONE]"))) == end


NOTHING_LEFT: dict[str, dict[str, object]] = {
    MESSAGES: {"type": "message", "content": None, "stop_reason": "refusal"},
    RESPONSES: {"status": "incomplete", "output": None, "incomplete_details": {"reason": "content_filter"}},
}


@pytest.mark.parametrize("source", NOTHING_LEFT)
def test_item_15_a_refusal_without_content_is_a_refusal_in_the_other_protocols_too(source: str) -> None:
    body = {"id": "x", "model": "m", **NOTHING_LEFT[source]}
    told = translate_response(json.dumps(body).encode(), source=source, target=CHAT)
    assert not told.failed
    assert json.loads(told.body)["choices"][0]["finish_reason"] == "content_filter"


def test_a_question_that_was_looked_at_and_answered_is_no_refusal() -> None:
    opening = {"choices": [], "prompt_filter_results": [{"content_filter_results": SEVERE}]}
    answer = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    assert collected(CHAT, MESSAGES, sse(opening, answer, "[DONE]"))["stop_reason"] == "end_turn"


# Messages streams.

CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
TEXT = {"type": "text", "text": "Hello"}


def start(*content: object, stop: str | None = None) -> dict[str, object]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [*content]}
    usage = {"input_tokens": 3, "output_tokens": 4}
    return {"type": "message_start", "message": {**message, "stop_reason": stop, "stop_sequence": None, "usage": usage}}


STOP = {"type": "message_stop"}


@pytest.mark.parametrize("ending", [[STOP], []])
def test_item_15_a_message_that_comes_whole_in_its_start_is_told(ending: list[object]) -> None:
    answer = collected(MESSAGES, CHAT, sse(start(THOUGHT, TEXT, CALL, stop="tool_use"), *ending))
    choices = answer["choices"]
    assert isinstance(choices, list)
    message = choices[0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Hello", "Hm.")
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"a":1}'}
    assert choices[0]["finish_reason"] == "tool_calls"


def delta(text: str, index: int = 0) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


def block(index: int, **body: object) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": body}


BEGUN: dict[str, tuple[list[object], str]] = {
    "all of it": ([start(TEXT, stop="end_turn"), STOP], "Hello"),
    "its first block": ([start(TEXT), block(1, type="text", text=""), delta(", you", 1)], "Hello, you"),
    "the beginning of a block": ([start(TEXT), delta(", you")], "Hello, you"),
    "a block that is told again": ([start(TEXT), block(0, type="text", text=""), delta("Hello")], "Hello"),
    "nothing": ([start(), block(0, type="text", text=""), delta("Hello")], "Hello"),
}


@pytest.mark.parametrize("target", [CHAT, RESPONSES])
@pytest.mark.parametrize("case", BEGUN)
def test_item_15_what_the_start_of_a_message_holds_is_told_once(case: str, target: str) -> None:
    events, text = BEGUN[case]
    ending = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    stream = sse(*events) if STOP in events else sse(*events, ending, STOP)
    answer = collected(MESSAGES, target, stream)
    if target == CHAT:
        choices = answer["choices"]
        assert isinstance(choices, list)
        assert choices[0]["message"]["content"] == text
    else:
        output = answer["output"]
        assert isinstance(output, list)
        assert "".join(part["text"] for item in output for part in item["content"]) == text


def test_a_stop_reason_in_the_start_does_not_make_a_cut_stream_whole() -> None:
    translator = StreamPipeline(source=MESSAGES, target=CHAT)
    translator.feed(sse(start(stop="end_turn"), block(0, type="text", text=""), delta("Hel")))
    translator.close()
    assert translator.failure is not None


CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "m"}}
ITEM = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": ""}
ADDED = {"type": "response.output_item.added", "output_index": 0, "item": ITEM}
AGAIN = {
    MESSAGES: (start(), block(0, type="tool_use", id="toolu_1", name="f", input={})),
    RESPONSES: (CREATED, ADDED),
}


@pytest.mark.parametrize("source", AGAIN)
@pytest.mark.parametrize("target", [CHAT, MESSAGES, RESPONSES])
def test_item_15_an_answer_that_begins_again_is_a_broken_stream(source: str, target: str) -> None:
    opening, begun = AGAIN[source]
    translator = StreamPipeline(source=source, target=target)
    translator.feed(sse(opening, opening, begun))
    assert translator.failure is None
    out = translator.feed(sse(opening))
    assert translator.failure is not None
    assert b"began inside the stream" in out
    assert b'"finish_reason":"tool_calls"' not in out
