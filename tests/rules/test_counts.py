"""Token counts as servers spell and add them up: read the same whole and streamed, in every client's protocol."""

from __future__ import annotations

import json

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.losses import Ledger
from dragoman.model.response import Usage
from dragoman.protocols.openai_chat.usage import decode_usage, encode_usage
from dragoman.rules.counts import count_of, spelled, updated_counts
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_request, translate_response

CHAT, MESSAGES, RESPONSES = "openai-chat", "anthropic-messages", "openai-responses"


@pytest.mark.parametrize(
    ("value", "count"),
    [(3, 3), (3.0, 3), (Number("3.0"), 3), ("3", 3), (" 3 ", 3), (3.5, None), ("many", None), (-1, None), (True, None)],
)
def test_item_17_a_count_may_be_spelled_in_many_ways(value: JsonValue, count: int | None) -> None:
    assert count_of(value) == count


def test_item_17_zeros_say_nothing_against_what_is_known() -> None:
    assert updated_counts({"a": 5, "b": 0}, {"a": 0, "b": 0, "c": None, "d": 0, "e": {}}) == {"b": 0, "d": 0, "e": {}}
    assert updated_counts({"a": 5}, {"a": 7}) == {"a": 7}


def test_text_of_numbers_becomes_numbers_and_nothing_else_does() -> None:
    usage: JsonObject = {"input_tokens": "3", "details": {"cached": "2", "tier": "7b"}, "n": 1, "none": None}
    assert spelled(usage) == {"input_tokens": 3, "details": {"cached": 2, "tier": "7b"}, "n": 1, "none": None}


# input, output, read, written, thinking
SPELLINGS: dict[str, tuple[JsonObject, tuple[int, int, int | None, int | None, int | None], int]] = {
    "Kimi": (
        {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, "cached_tokens": 80},
        (100, 5, 80, None, None),
        0,
    ),
    "DeepSeek": (
        {"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 80, "prompt_cache_miss_tokens": 20},
        (100, 5, 80, None, None),
        0,
    ),
    "details that are null": (
        {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": None, "completion_tokens_details": None},
        (7, 5, None, None, None),
        0,
    ),
    "LiteLLM": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 30,
        },
        (100, 5, 60, 30, None),
        0,
    ),
    "names of Responses": (
        {
            "input_tokens": 100,
            "output_tokens": 5,
            "input_tokens_details": {"cached_tokens": 80},
            "output_tokens_details": {"reasoning_tokens": 2},
        },
        (100, 5, 80, None, 2),
        0,
    ),
    "reasoning beside the totals": (
        {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "reasoning_tokens": 3},
        (7, 5, None, None, 3),
        0,
    ),
    "floats and text": (
        {"prompt_tokens": Number("7.0"), "completion_tokens": "5", "total_tokens": "12"},
        (7, 5, None, None, None),
        0,
    ),
    "OpenRouter's Gemini": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "total_tokens": 105,
            "cost": 0.1,
            "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 40},
        },
        (100, 5, 40, 0, None),
        1,
    ),
    "the same tokens, more than there are": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 80},
        },
        (100, 5, 80, 0, None),
        1,
    ),
    "cached tokens beside the total, by the sum": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "total_tokens": 185,
            "prompt_tokens_details": {"cached_tokens": 80},
        },
        (180, 5, 80, None, None),
        1,
    ),
    "a count that is none": (
        {"prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": "some"}},
        (7, 5, None, None, None),
        1,
    ),
}


def counts(usage: Usage | None) -> tuple[int, int, int | None, int | None, int | None]:
    assert usage is not None
    return usage.input, usage.output, usage.cache_read, usage.cache_write, usage.thinking


@pytest.mark.parametrize("case", SPELLINGS)
def test_item_17_counts_are_read_in_every_spelling(case: str) -> None:
    told, expected, lines = SPELLINGS[case]
    ledger = Ledger()
    usage = decode_usage(told, None, ledger)
    assert counts(usage) == expected
    assert len(ledger) == lines
    home = encode_usage(usage, Ledger())
    for key, value in told.items():
        if not isinstance(value, dict | None):
            assert home[key] in (value, count_of(value))


USAGE = {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105, "cached_tokens": 80}
NOTHING = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def chunk(delta: dict[str, str], finish: str | None = None, **more: object) -> dict[str, object]:
    inner = more.pop("inner", {})
    assert isinstance(inner, dict)
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **inner}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice], **more}


EMPTY = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
STREAMS: dict[str, list[dict[str, object]]] = {
    "Kimi's choice": [chunk({"content": "a"}), chunk({}, "stop", inner={"usage": USAGE})],
    "Groq's member": [
        chunk({"content": "a"}, x_groq={"id": "req_1"}),
        chunk({}, "stop", x_groq={"id": "req_1", "usage": USAGE}),
    ],
    "null but in the last": [
        chunk({"content": "a"}, usage=None),
        chunk({}, "stop", usage=None),
        {**EMPTY, "usage": USAGE},
    ],
    "cumulative": [
        chunk({"content": "a"}, usage={**USAGE, "completion_tokens": 1}),
        chunk({"content": "b"}, usage={**USAGE, "completion_tokens": 4}),
        chunk({}, "stop", usage=USAGE),
    ],
    "said again": [chunk({"content": "a"}), chunk({}, "stop", usage=USAGE), {**EMPTY, "usage": USAGE}],
    "zeros after it": [chunk({"content": "a"}), chunk({}, "stop", usage=USAGE), {**EMPTY, "usage": NOTHING}],
    "zeros before it": [chunk({"content": "a"}, usage=NOTHING), chunk({}, "stop"), {**EMPTY, "usage": USAGE}],
}


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES, CHAT])
@pytest.mark.parametrize("case", STREAMS)
def test_item_17_counts_are_found_wherever_a_stream_tells_them(case: str, target: str) -> None:
    stream = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in STREAMS[case]) + b"data: [DONE]\n\n"
    translator = StreamPipeline(source=CHAT, target=target)
    out = translator.feed(stream) + translator.close()
    assert counts(translator.usage) == (100, 5, 80, None, None)
    assert not translator.losses
    if target == CHAT:
        assert out == stream
    elif target == MESSAGES:
        assert b'"input_tokens":20' in out
        assert b'"cache_read_input_tokens":80' in out


@pytest.mark.parametrize("member", ["usage", "choice", "groq"])
def test_item_17_counts_are_found_wherever_an_answer_tells_them(member: str) -> None:
    choice: dict[str, object] = {"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}
    body: dict[str, object] = {"id": "c", "model": "m", "choices": [choice]}
    if member == "choice":
        choice["usage"] = USAGE
    else:
        body |= {"usage": USAGE} if member == "usage" else {"x_groq": {"id": "r", "usage": USAGE}}
    told = translate_response(json.dumps(body).encode(), source=CHAT, target=MESSAGES)
    assert counts(told.usage) == (100, 5, 80, None, None)


WHOLE: dict[str, dict[str, object]] = {
    CHAT: {"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]},
    MESSAGES: {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"},
    RESPONSES: {"status": "completed", "output": []},
}


@pytest.mark.parametrize("usage", ["none", [1], {"input_tokens": {"a": 1}, "prompt_tokens": {"a": 1}}])
@pytest.mark.parametrize("source", WHOLE)
def test_item_17_counts_that_cannot_be_read_do_not_lose_the_answer(source: str, usage: object) -> None:
    body = {"id": "x", "model": "m", **WHOLE[source], "usage": usage}
    target = RESPONSES if source != RESPONSES else CHAT
    told = translate_response(json.dumps(body).encode(), source=source, target=target)
    assert not told.failed
    assert "usage" in [loss["feature"] for loss in told.losses]


@pytest.mark.parametrize("source", [MESSAGES, RESPONSES])
def test_item_17_counts_may_be_text_in_the_other_protocols(source: str) -> None:
    body = {"id": "x", "model": "m", **WHOLE[source], "usage": {"input_tokens": "3", "output_tokens": "2"}}
    told = translate_response(json.dumps(body).encode(), source=source, target=CHAT)
    assert counts(told.usage)[:2] == (3, 2)


def test_item_17_a_zero_at_the_end_of_a_messages_stream_does_not_undo_its_start() -> None:
    events: list[dict[str, object]] = [
        {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 30, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"input_tokens": 0, "output_tokens": 9},
        },
        {"type": "message_stop"},
    ]
    translator = StreamPipeline(source=MESSAGES, target=CHAT)
    translator.feed(b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events))
    assert counts(translator.usage)[:2] == (30, 9)


def test_item_17_the_same_tokens_count_once_in_responses_too() -> None:
    details = {"cached_tokens": 80, "cache_write_tokens": 80}
    usage = {"input_tokens": 100, "output_tokens": 5, "input_tokens_details": details}
    body = {"id": "x", "model": "m", **WHOLE[RESPONSES], "usage": usage}
    question = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
    request = translate_request(json.dumps(question).encode(), source=MESSAGES, target=RESPONSES)
    told = translate_response(json.dumps(body).encode(), source=RESPONSES, target=MESSAGES, request=request)
    assert counts(told.usage) == (100, 5, 80, 0, None)
