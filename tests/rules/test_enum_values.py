"""Every word of an answer whose values the SDK's types list is one of those, whatever words a vendor has."""

from __future__ import annotations

import json

import pytest

from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.rules.enum_values import EnumValues
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_request, translate_response
from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.sdk.oracles import check_answer, check_stream

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
