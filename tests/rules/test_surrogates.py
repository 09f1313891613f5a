"""Halves of surrogate pairs: joined where they belong together, and never lost in silence."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from dragoman.errors import WireError
from dragoman.gateway.exchange.full_response import relayed_response
from dragoman.model.jsonvalue import JsonValue, Number
from dragoman.model.losses import Ledger
from dragoman.protocols.registry import PROTOCOL_NAMES, codec_of
from dragoman.rules.surrogates import SurrogateJoiner
from dragoman.streaming import StreamPipeline
from dragoman.translate import translate_response

CHAT, MESSAGES, RESPONSES = "openai-chat", "anthropic-messages", "openai-responses"
NAMES = list(PROTOCOL_NAMES)
HIGH, LOW = "\ud83d", "\ude00"


def sse(*events: Mapping[str, object]) -> bytes:
    frames = []
    for event in events:
        name = f"event: {event['type']}\n" if "type" in event else ""
        frames.append(f"{name}data: {json.dumps(event)}\n\n")
    return "".join(frames).encode()


def chat(*deltas: Mapping[str, object], finish: str = "stop") -> bytes:
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    last = {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
    return sse(*chunks, last) + b"data: [DONE]\n\n"


def chat_calls(*pieces: str) -> bytes:
    opening = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    more = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    return chat({"tool_calls": [opening]}, *more, finish="tool_calls")


def messages(block: Mapping[str, object], *deltas: Mapping[str, object]) -> bytes:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}}
    return sse(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


def responses(kind: str, item: Mapping[str, object], *pieces: str) -> bytes:
    done = {"response": {"id": "resp_1", "model": "m", "status": "completed", "output": []}}
    place = {"output_index": 0, "content_index": 0, "summary_index": 0, "item_id": "i"}
    return sse(
        {"type": "response.created", "response": {"id": "resp_1", "model": "m", "created_at": 1}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"id": "i", **item}},
        *({"type": f"response.{kind}.delta", **place, "delta": piece} for piece in pieces),
        {"type": "response.completed", **done},
    )


ARGUMENTS = ('{"a":"x' + HIGH, LOW + 'y"}')
PIECES = ("x" + HIGH, LOW + "y")
FUNCTION = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": ""}
CUT: dict[str, tuple[str, bytes]] = {
    "chat content": (CHAT, chat(*({"content": piece} for piece in PIECES))),
    "chat content in parts": (CHAT, chat(*({"content": [{"type": "text", "text": piece}]} for piece in PIECES))),
    "chat reasoning": (CHAT, chat(*({"reasoning_content": piece} for piece in PIECES), {"content": "z"})),
    "chat refusal": (CHAT, chat(*({"refusal": piece} for piece in PIECES))),
    "chat arguments": (CHAT, chat_calls(*ARGUMENTS)),
    "chat, a half each": (CHAT, chat({"content": "x"}, {"content": HIGH}, {"content": LOW}, {"content": "y"})),
    "messages text": (
        MESSAGES,
        messages({"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in PIECES)),
    ),
    "messages thinking": (
        MESSAGES,
        messages(
            {"type": "thinking", "thinking": ""}, *({"type": "thinking_delta", "thinking": piece} for piece in PIECES)
        ),
    ),
    "messages input": (
        MESSAGES,
        messages(
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
            *({"type": "input_json_delta", "partial_json": piece} for piece in ARGUMENTS),
        ),
    ),
    "responses text": (RESPONSES, responses("output_text", {"type": "message"}, *PIECES)),
    "responses refusal": (RESPONSES, responses("refusal", {"type": "message"}, *PIECES)),
    "responses summary": (RESPONSES, responses("reasoning_summary_text", {"type": "reasoning"}, *PIECES)),
    "responses reasoning": (RESPONSES, responses("reasoning_text", {"type": "reasoning"}, *PIECES)),
    "responses arguments": (RESPONSES, responses("function_call_arguments", FUNCTION, *ARGUMENTS)),
}


def strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for member in inner for text in strings(member)]


# A relay reads nothing.
READ = [
    (case, target, collect)
    for case, (source, _) in CUT.items()
    for target in NAMES
    for collect in (False, True)
    if collect or source != target
]


@pytest.mark.parametrize(("case", "target", "collect"), READ)
def test_item_13_halves_in_two_deltas_are_one_character(case: str, target: str, collect: bool) -> None:
    source, stream = CUT[case]
    translator = StreamPipeline(source=source, target=target, collect=collect)
    out = translator.feed(stream) + translator.close()
    assert translator.failure is None
    assert "\ufffd" not in out.decode()
    lines = [out.decode()] if collect else [line[6:] for line in out.decode().split("\n") if line.startswith("data: {")]
    documents = [json.loads(line) for line in lines]
    text = "".join(text for document in documents for text in strings(document))
    assert "\U0001f600" in text or "\\ud83d\\ude00" in text
    assert not [loss for loss in translator.losses if loss["feature"] == "text"]


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("case", CUT)
def test_item_13_a_relay_passes_halves_as_they_came(case: str, size: int) -> None:
    source, stream = CUT[case]
    translator = StreamPipeline(source=source, target=source)
    out = b"".join(translator.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    assert out + translator.close() == stream
    assert translator.failure is None


@pytest.mark.parametrize("target", [MESSAGES, RESPONSES])
def test_item_13_an_answer_cut_inside_a_pair_ends_in_order_and_says_so(target: str) -> None:
    translator = StreamPipeline(source=CHAT, target=target)
    out = translator.feed(chat({"content": "x"}, {"content": "y" + HIGH}, finish="length")) + translator.close()
    assert translator.failure is None
    assert b'"y"' in out and b"ufffd" not in out
    assert [loss["feature"] for loss in translator.losses].count("text") == 1


def test_item_13_halves_of_two_calls_do_not_meet() -> None:
    def fragment(index: int, arguments: str, **more: str) -> dict[str, object]:
        return {"index": index, **more, "function": {"arguments": arguments, **({"name": "f"} if more else {})}}

    stream = chat(
        {"tool_calls": [fragment(0, '{"a":"' + HIGH, id="call_1"), fragment(1, '{"b":"\ud83c', id="call_2")]},
        {"tool_calls": [fragment(1, '\udf0d"}')]},
        {"tool_calls": [fragment(0, LOW + '"}')]},
        finish="tool_calls",
    )
    translator = StreamPipeline(source=CHAT, target=MESSAGES, collect=True)
    translator.feed(stream)
    answer = json.loads(translator.close())
    assert [block["input"] for block in answer["content"]] == [{"a": "\U0001f600"}, {"b": "\U0001f30d"}]


def test_item_13_a_half_does_not_reach_into_the_next_block() -> None:
    whole = messages({"type": "text", "text": ""}, {"type": "text_delta", "text": "x" + HIGH})
    second = sse(
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": LOW + "y"}},
        {"type": "content_block_stop", "index": 1},
    )
    at = whole.index(b"event: message_delta")
    translator = StreamPipeline(source=MESSAGES, target=CHAT, collect=True)
    translator.feed(whole[:at] + second + whole[at:])
    answer = json.loads(translator.close())
    assert answer["choices"][0]["message"]["content"] == "x\ufffdy"
    assert [loss["feature"] for loss in translator.losses].count("text") == 1


USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
WHOLE: dict[str, dict[str, object]] = {
    CHAT: {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "cut" + HIGH}, "finish_reason": "length"}],
        "usage": USAGE,
    },
    MESSAGES: {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "cut" + HIGH}],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
    RESPONSES: {
        "id": "resp_1",
        "object": "response",
        "model": "m",
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": [
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "incomplete",
                "content": [{"type": "output_text", "text": "cut" + HIGH, "annotations": []}],
            }
        ],
    },
}


@pytest.mark.parametrize("parsed", [False, True])
@pytest.mark.parametrize(
    ("source", "target", "stream"),
    [
        (source, target, stream)
        for source in NAMES
        for target in NAMES
        for stream in (False, True)
        if stream or source != target
    ],
)
def test_item_13_a_whole_answer_cut_inside_a_pair_is_not_lost(
    source: str, target: str, stream: bool, parsed: bool
) -> None:
    body: dict[str, JsonValue] = json.loads(json.dumps(WHOLE[source]))
    told = translate_response(
        body if parsed else json.dumps(body).encode(), source=source, target=target, stream=stream
    )
    assert not told.failed
    assert b'"cut"' in told.body
    assert b"\\ud83d" not in told.body
    assert [loss["feature"] for loss in told.losses].count("text") == 1


@pytest.mark.parametrize("source", NAMES)
def test_item_13_a_relayed_answer_cut_inside_a_pair_is_passed_on(source: str) -> None:
    judged = relayed_response(json.dumps(WHOLE[source]).encode(), codec_of(source))
    usage, failure = judged.usage, judged.failure
    assert failure is None
    assert (usage is not None) == ("usage" in WHOLE[source])


def test_item_13_arguments_with_the_escape_of_a_half_are_still_an_object() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":"x\\ud83d","b":1.50}'}}
    choice = {"index": 0, "message": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls"}
    body = json.dumps({"id": "c", "model": "m", "choices": [choice]}).encode()
    told = translate_response(body, source=CHAT, target=MESSAGES)
    assert b'"input":{"a":"x\\ufffd","b":1.50}' in told.body
    assert "arguments" in [loss["feature"] for loss in told.losses]


def test_a_whole_answer_without_halves_says_nothing_of_them() -> None:
    ledger = Ledger()
    halves = SurrogateJoiner(ledger)
    assert halves.read(b'{"text":"\\ud83d\\ude00","n":1.50}') == {"text": "\U0001f600", "n": Number("1.50")}
    assert halves.read(b'{"text":"a","n":1.50,"x":"\\ud83d"}') == {"text": "a", "n": Number("1.50"), "x": "\ufffd"}
    assert not len(ledger)
    halves.close()
    assert len(ledger) == 1
    halves.close()
    assert len(ledger) == 1


def test_halves_of_log_probabilities_stay_where_they_are() -> None:
    halves = SurrogateJoiner(Ledger())
    chunk = {"delta": {"content": HIGH}, "logprobs": {"content": [{"token": HIGH, "text": HIGH}]}}
    first, second = halves.read(json.dumps(chunk).encode()), json.dumps(chunk).replace("ud83d", "ude00")
    lone = {"content": [{"token": "\ufffd", "text": "\ufffd"}]}
    assert first == {"delta": {"content": ""}, "logprobs": lone}
    assert halves.read(second.encode()) == {"delta": {"content": "\U0001f600"}, "logprobs": lone}


@pytest.mark.parametrize("kind", [[], {}, [{}], 1, None, True])
def test_halves_are_mended_whatever_stands_where_a_type_does(kind: JsonValue) -> None:
    halves = SurrogateJoiner(Ledger())
    first = json.dumps({"type": kind, "delta": {"content": HIGH}}).encode()
    assert halves.read(first) == {"type": kind, "delta": {"content": ""}}
    assert halves.read(first.replace(b"ud83d", b"ude00")) == {"type": kind, "delta": {"content": "\U0001f600"}}


@pytest.mark.parametrize("body", [b'{"a":"\\ud83d', b'{"a":', b"[1,]"])
def test_what_is_no_json_is_none_with_halves_either(body: bytes) -> None:
    with pytest.raises(WireError, match="is not JSON"):
        SurrogateJoiner(Ledger()).read(body)
