"""What an answer says about itself: read where it can be, and never a reason to fail."""

from __future__ import annotations

import json

import pytest

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.losses import Ledger
from dragoman.rules.response_metadata import EnumValues, seconds_of
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_request, translate_response
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.oracles import check_answer, check_stream


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


PROTOCOLS = (MESSAGES, CHAT, RESPONSES)
PAIRS = [(provider, client) for provider in PROTOCOLS for client in PROTOCOLS if provider != client]
# Words of vendors, of older versions, and of nobody.
WORDS = ["on_demand", "default", "performance", "standard", "ultrafast", "provisioned", "", "finish", "done", "none"]


def answer(provider: str, word: str) -> JsonObject:
    """An answer that says this word wherever one of a list stands."""
    if provider == MESSAGES:
        page: JsonObject = {"type": word or "x", "cited_text": "Hi.", "url": "https://example.org/", "title": "T"}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [{"type": "text", "text": "Hi.", "citations": [page]}],
            "stop_reason": word,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1, "service_tier": word, "speed": word},
        }
    if provider == CHAT:
        message: JsonObject = {"role": "assistant", "content": "Hi.", "annotations": [{"type": word}]}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": word}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            "service_tier": word,
            "system_fingerprint": word,
        }
    text: JsonObject = {"type": "output_text", "text": "Hi.", "annotations": [{"type": word or "x"}]}
    search: JsonObject = {"type": "web_search_call", "id": "ws_1", "status": word, "action": {"type": word or "x"}}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "status": "completed" if word != "finish" else word,
        "incomplete_details": {"reason": word} if word == "done" else None,
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "x"}], "status": word},
            search,
            {"type": "message", "id": "m_1", "role": "assistant", "status": word, "content": [text], "phase": word},
        ],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
        "service_tier": word,
        "truncation": word,
        "reasoning": {"effort": word, "summary": word},
        "text": {"format": {"type": "text"}, "verbosity": word},
    }


def question(client: str, word: str, *, stream: bool) -> JsonObject:
    """A question whose own words are told back by some protocols."""
    user: JsonValue = [{"role": "user", "content": "Hi"}]
    if client == MESSAGES:
        return {"model": "m", "max_tokens": 9, "messages": user, "stream": stream}
    if client == CHAT:
        options: JsonValue = {"include_usage": True} if stream else None
        return {"model": "m", "messages": user, "stream": stream, "stream_options": options, "service_tier": word}
    echoed: JsonObject = {
        "service_tier": word,
        "truncation": word,
        "reasoning": {"effort": word, "summary": word},
        "text": {"verbosity": word},
    }
    return {"model": "m", "input": user, "stream": stream, **echoed}


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("provider", "client"), PAIRS)
def test_item_19_whole_answers_say_only_words_of_the_sdk(provider: str, client: str, word: str) -> None:
    request = translate_request(question(client, word, stream=False), source=client, target=provider)
    told = translate_response(answer(provider, word), source=provider, target=client, request=request)
    assert not told.failed
    check_answer(client, json.loads(told.body))


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize(("provider", "client"), PAIRS)
def test_item_19_streams_say_only_words_of_the_sdk(provider: str, client: str, word: str) -> None:
    request = translate_request(question(client, word, stream=True), source=client, target=provider)
    native = translate_response(answer(provider, word), source=provider, target=provider, stream=True).body
    translator = StreamPipeline(source=provider, target=client, request=request)
    frames = translator.feed(native) + translator.close()
    assert translator.failure is None
    check_stream(client, frames)


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_item_19_a_word_of_nobody_is_reported(client: str) -> None:
    provider = RESPONSES if client == CHAT else CHAT
    told = translate_response(answer(provider, "provisioned"), source=provider, target=client)
    assert ("service_tier", "usage.service_tier") in [(line["feature"], line["at"]) for line in told.losses]


def test_item_19_an_effort_of_nobody_is_left_out_of_the_echo() -> None:
    request = translate_request(question(RESPONSES, "default", stream=False), source=RESPONSES, target=CHAT)
    told = translate_response(answer(CHAT, "stop"), source=CHAT, target=RESPONSES, request=request)
    body = json.loads(told.body)
    assert body["reasoning"] == {"effort": None, "summary": None}
    assert body["truncation"] == "disabled"
    assert "verbosity" not in body["text"]
    assert {"effort", "thinking_display", "verbosity", "truncation"} <= {line["feature"] for line in told.losses}


def test_words_are_told_as_their_neighbours() -> None:
    words = EnumValues(feature=Feature.SERVICE_TIER, legal=frozenset({"a"}), others={"b": "a"})
    ledger = Ledger()
    assert [words.map_value(word, (), ledger) for word in ("a", "b", None)] == ["a", "a", None]
    assert len(ledger) == 0
    assert words.map_value(7, (), ledger) is None
    assert len(ledger) == 1
