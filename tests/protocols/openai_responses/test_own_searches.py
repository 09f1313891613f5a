"""What xAI ran itself it tells as calls in free text: no client may be asked to run them."""

from __future__ import annotations

import json

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedRequest, translate_request, translate_response

CHAT, MESSAGES, RESPONSES = "openai-chat", "anthropic-messages", "openai-responses"

SEARCH: JsonObject = {
    "call_id": "xs_call_1", "input": '{"query":"trams of Porto"}', "name": "x_keyword_search",
    "type": "custom_tool_call", "id": "ctc_1_xs_call_1", "status": "completed",
}  # fmt: skip
SAID: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
SAID["content"] = [{"type": "output_text", "text": "Line 1 runs.", "annotations": []}]
ANSWER: JsonObject = {
    "id": "resp_1", "object": "response", "created_at": 5, "model": "grok-4", "status": "completed",
    "output": [SEARCH, SAID], "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
}  # fmt: skip


def asked(source: str) -> TranslatedRequest:
    body: JsonObject = {"model": "grok-4", "max_tokens": 9, "messages": [{"role": "user", "content": "Which line?"}]}
    return translate_request(json.dumps(body), source=source, target=RESPONSES, vendor="xai")


def stream() -> bytes:
    opened = {**SEARCH, "input": "", "status": "in_progress"}
    item: JsonObject = {"item_id": SEARCH["id"], "output_index": 0}
    place: JsonObject = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    events: list[JsonObject] = [
        {"type": "response.created", "response": {**ANSWER, "output": [], "status": "in_progress"}},
        {"type": "response.output_item.added", "item": opened, "output_index": 0},
        {"type": "response.custom_tool_call_input.delta", **item, "delta": SEARCH["input"]},
        {"type": "response.custom_tool_call_input.done", **item, "input": SEARCH["input"]},
        {"type": "response.output_item.done", "item": SEARCH, "output_index": 0},
        {"type": "response.output_item.added", "item": {**SAID, "content": []}, "output_index": 1},
        {"type": "response.output_text.delta", **place, "delta": "Line 1 runs."},
        {"type": "response.output_item.done", "item": SAID, "output_index": 1},
        {"type": "response.completed", "response": ANSWER},
    ]  # fmt: skip
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


@pytest.mark.parametrize("client", [MESSAGES, CHAT])
def test_item_23_what_the_provider_ran_itself_is_no_call_of_the_client(client: str) -> None:
    answer = translate_response(json.dumps(ANSWER), source=RESPONSES, target=client, request=asked(client))
    assert b"x_keyword_search" not in answer.body
    assert b"Line 1 runs." in answer.body
    assert (b'"stop_reason":"end_turn"' if client == MESSAGES else b'"finish_reason":"stop"') in answer.body
    assert [loss["feature"] for loss in answer.losses if loss["at"] == "parts[0]"] == ["unsupported_content"]


@pytest.mark.parametrize("client", [MESSAGES, CHAT])
def test_item_23_nor_is_it_one_in_a_stream(client: str) -> None:
    translator = StreamPipeline(source=RESPONSES, target=client, request=asked(client))
    told = translator.feed(stream()) + translator.close()
    assert b"x_keyword_search" not in told
    assert b"Line 1 runs." in told
    assert (b'"stop_reason":"end_turn"' if client == MESSAGES else b'"finish_reason":"stop"') in told
    assert [loss["feature"] for loss in translator.losses if loss["at"] == "parts[0]"] == ["unsupported_content"]


def test_item_23_a_tool_in_free_text_that_was_declared_is_still_called() -> None:
    body: JsonObject = {"model": "grok-4", "messages": [{"role": "user", "content": "Which line?"}]}
    body["tools"] = [{"type": "custom", "custom": {"name": "x_keyword_search"}}]
    request = translate_request(json.dumps(body), source=CHAT, target=RESPONSES, vendor="openai")
    answer = translate_response(json.dumps(ANSWER), source=RESPONSES, target=CHAT, request=request)
    assert b"x_keyword_search" in answer.body
    translator = StreamPipeline(source=RESPONSES, target=CHAT, request=request)
    assert b"x_keyword_search" in translator.feed(stream()) + translator.close()
