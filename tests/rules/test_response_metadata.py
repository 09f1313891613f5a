"""What an answer says about itself: read where it can be, and never a reason to fail."""

from __future__ import annotations

import json

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.rules.response_metadata import seconds_of
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_request, translate_response

CHAT, MESSAGES, RESPONSES = "openai-chat", "anthropic-messages", "openai-responses"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (7, 7),
        (7.9, 7),
        (Number("1700000000.25"), 1700000000),
        (Number("1e999"), None),
        ("1715361795", 1715361795),
        ("2026-04-09T12:15:28Z", None),
        (True, None),
        ({}, None),
    ],
)
def test_seconds_are_whole_however_servers_spell_them(value: JsonValue, number: int | None) -> None:
    assert seconds_of(value) == number


CHOICE: JsonObject = {"index": 0, "message": {"role": "assistant", "content": "Porto."}, "finish_reason": "stop"}
ITEM: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
ITEM["content"] = [{"type": "output_text", "text": "Porto.", "annotations": []}]
ANSWERS: dict[str, JsonObject] = {
    CHAT: {"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "m", "choices": [CHOICE]},
    RESPONSES: {
        "id": "resp_1", "object": "response", "created_at": 5, "model": "m", "status": "completed", "output": [ITEM]
    },
    MESSAGES: {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Porto."}],
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "member", "value"),
    [
        (CHAT, "created", "<string>"),
        (CHAT, "created", "2026-04-09T12:15:28Z"),
        (CHAT, "id", 17),
        (CHAT, "model", ["m"]),
        (CHAT, "service_tier", 1),
        (RESPONSES, "created_at", "2026-04-09T12:15:28Z"),
        (RESPONSES, "id", 17),
        (MESSAGES, "model", {}),
        (MESSAGES, "id", 17),
    ],
)
def test_item_23_a_label_that_cannot_be_read_fails_no_answer(source: str, member: str, value: JsonValue) -> None:
    target = MESSAGES if source != MESSAGES else CHAT
    body = {**ANSWERS[source], member: value}
    answer = translate_response(json.dumps(body), source=source, target=target)
    assert not answer.failed
    assert b"Porto." in answer.body
    reported = {(loss["feature"], loss["at"]) for loss in answer.losses}
    assert ("unknown_field", member) in reported


def test_item_23_a_time_in_text_is_told_as_a_number() -> None:
    body = {**ANSWERS[CHAT], "created": "1715361795"}
    answer = translate_response(json.dumps(body), source=CHAT, target=RESPONSES)
    assert json.loads(answer.body)["created_at"] == 1715361795


def test_item_23_a_label_that_cannot_be_read_fails_no_stream() -> None:
    question = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Where?"}]})
    request = translate_request(question, source=MESSAGES, target=RESPONSES)
    stream = StreamPipeline(source=RESPONSES, target=MESSAGES, request=request)
    response = {**ANSWERS[RESPONSES], "created_at": "2026-04-09T12:15:28Z", "id": 17}
    told = b""
    for event in (
        {"type": "response.created", "response": {**response, "output": [], "status": "in_progress"}},
        {"type": "response.completed", "response": response},
    ):
        told += stream.feed(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    told += stream.close()
    assert b"Porto." in told
    assert b"message_stop" in told
