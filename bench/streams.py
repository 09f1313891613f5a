"""Streams of exactly 200 frames, as each provider sends them: text, thinking then text, and the arguments of a call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

from msgspec import json

from bench import prose
from bench.conversation import Call, Step
from bench.workloads import (
    CHAT,
    MESSAGES,
    MODELS,
    RESPONSES,
    chat_usage,
    messages_usage,
    responses_answer,
    responses_items,
)
from dragoman.model.jsonvalue import JsonList, JsonObject

FRAMES = 200
STREAMS = ("text", "thinking", "call")
_TOKEN = "0N7wq2Vd5sXyTz81LmPkRbGc"
_CALL = "8FhJ3aQe6UiWn4ZoCx9vYt2S"


@cache
def frames(stream: str, protocol: str) -> tuple[bytes, ...]:
    """The frames of a stream, each as it stands on the wire."""
    deltas = FRAMES
    # What the frames around the deltas leave room for is different in each protocol.
    while len(written := _WRITERS[protocol](_grown(stream, deltas))) > FRAMES:
        deltas -= len(written) - FRAMES
    return tuple(written)


def told(protocol: str, pieces: list[str]) -> list[bytes]:
    """The frames of a stream that says these pieces of text, one by one."""
    return _WRITERS[protocol](_Grown([], pieces, []))


class _Grown:
    """An answer in pieces: those of its thinking, its text and its call's arguments."""

    def __init__(self, thinking: list[str], text: list[str], arguments: list[str]) -> None:
        self.thinking, self.text, self.arguments = thinking, text, arguments
        call = Call(token=_CALL, name="read_file", arguments={}, result="")
        self.step = Step(
            token=_TOKEN,
            thinking="".join(thinking),
            proof=prose.opaque(Random(5), 600) if thinking else "",
            text="".join(text),
            calls=(call,) if arguments else (),
        )


def _grown(stream: str, deltas: int) -> _Grown:
    random = Random(21)
    running = prose.pieces(random, prose.sentences(random, 8 * FRAMES))
    if stream == "text":
        return _Grown([], running[:deltas], [])
    if stream == "thinking":
        return _Grown(running[: deltas // 2], running[deltas // 2 : deltas], [])
    # Cut so that the pieces are one JSON text however many there are.
    inside = prose.pieces(random, prose.token(random, 8 * FRAMES))[: deltas - 2]
    return _Grown([], [], ['{"file_path":"', *inside, '"}'])


def _named(event: JsonObject) -> bytes:
    """A frame of Messages and Responses, whose event line repeats the type."""
    return b"event: %s\ndata: %s\n\n" % (str(event["type"]).encode(), json.encode(event))


def _messages(grown: _Grown) -> list[bytes]:
    start: JsonObject = {
        "id": f"msg_{_TOKEN}",
        "type": "message",
        "role": "assistant",
        "model": MODELS[MESSAGES],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**messages_usage(), "output_tokens": 1},
    }
    events: list[JsonObject] = [{"type": "message_start", "message": start}]
    if grown.thinking:
        deltas: list[JsonObject] = [{"type": "thinking_delta", "thinking": piece} for piece in grown.thinking]
        deltas.append({"type": "signature_delta", "signature": grown.step.proof})
        events += _messages_block(0, {"type": "thinking", "thinking": "", "signature": ""}, deltas)
    if grown.text:
        deltas = [{"type": "text_delta", "text": piece} for piece in grown.text]
        events += _messages_block(1 if grown.thinking else 0, {"type": "text", "text": ""}, deltas)
    if grown.arguments:
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *grown.arguments)]
        opened: JsonObject = {"type": "tool_use", "id": f"toolu_{_CALL}", "name": "read_file", "input": {}}
        events += _messages_block(0, opened, deltas)
    events.insert(2, {"type": "ping"})
    reason = "tool_use" if grown.arguments else "end_turn"
    stop: JsonObject = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": messages_usage()})
    events.append({"type": "message_stop"})
    return [_named(event) for event in events]


def _messages_block(index: int, block: JsonObject, deltas: list[JsonObject]) -> list[JsonObject]:
    events: list[JsonObject] = [{"type": "content_block_start", "index": index, "content_block": block}]
    events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [*events, {"type": "content_block_stop", "index": index}]


def _chat(grown: _Grown) -> list[bytes]:
    deltas: list[JsonObject] = [{"role": "assistant", "content": None if grown.arguments else "", "refusal": None}]
    deltas += [{"reasoning_content": piece} for piece in grown.thinking]
    deltas += [{"content": piece} for piece in grown.text]
    if grown.arguments:
        opened: JsonObject = {"name": "read_file", "arguments": ""}
        call: JsonObject = {"index": 0, "id": f"call_{_CALL}", "type": "function", "function": opened}
        deltas[0]["tool_calls"] = [call]
        deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in grown.arguments]
    finish = "tool_calls" if grown.arguments else "stop"
    choices: list[JsonList] = [
        [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}] for delta in deltas
    ]
    choices.append([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": finish}])
    written = [_chunk(choice, None) for choice in choices]
    return [*written, _chunk([], chat_usage()), b"data: [DONE]\n\n"]


def _chunk(choices: JsonList, usage: JsonObject | None) -> bytes:
    chunk: JsonObject = {
        "id": f"chatcmpl-{_TOKEN}",
        "object": "chat.completion.chunk",
        "created": 1767225600,
        "model": MODELS[CHAT],
        "service_tier": "default",
        "system_fingerprint": None,
        "choices": choices,
        "usage": usage,
    }
    return b"data: %s\n\n" % json.encode(chunk)


def _responses(grown: _Grown) -> list[bytes]:
    whole = responses_answer(grown.step)
    items = responses_items(grown.step)
    if grown.arguments:
        call = items[-1]
        assert isinstance(call, dict)
        call["arguments"] = "".join(grown.arguments)
    begun: JsonObject = {**whole, "status": "in_progress", "completed_at": None, "output": [], "usage": None}
    events: list[JsonObject] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(items):
        assert isinstance(item, dict)
        events += _ITEMS[str(item["type"])](grown, index, item)
    events.append({"type": "response.completed", "response": {**whole, "output": items}})
    return [_named({**event, "sequence_number": number}) for number, event in enumerate(events)]


def _item(index: int, item: JsonObject, empty: JsonObject, inside: list[JsonObject]) -> list[JsonObject]:
    place: JsonObject = {"item_id": item["id"], "output_index": index}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**item, **empty}},
        *({"type": event["type"], **place, **event} for event in inside),
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]


def _reasoning(grown: _Grown, index: int, item: JsonObject) -> list[JsonObject]:
    name, text = "response.reasoning_summary_", grown.step.thinking
    part: JsonObject = {"type": "summary_text", "text": text}
    deltas: list[JsonObject] = [
        {"type": f"{name}text.delta", "summary_index": 0, "delta": piece} for piece in grown.thinking
    ]
    inside: list[JsonObject] = [
        {"type": f"{name}part.added", "summary_index": 0, "part": {**part, "text": ""}},
        *deltas,
        {"type": f"{name}text.done", "summary_index": 0, "text": text},
        {"type": f"{name}part.done", "summary_index": 0, "part": part},
    ]
    return _item(index, item, {"summary": [], "encrypted_content": ""}, inside)


def _message(grown: _Grown, index: int, item: JsonObject) -> list[JsonObject]:
    text = grown.step.text
    part: JsonObject = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    deltas: list[JsonObject] = [
        {"type": "response.output_text.delta", "content_index": 0, "delta": piece, "logprobs": []}
        for piece in grown.text
    ]
    inside: list[JsonObject] = [
        {"type": "response.content_part.added", "content_index": 0, "part": {**part, "text": ""}},
        *deltas,
        {"type": "response.output_text.done", "content_index": 0, "text": text, "logprobs": []},
        {"type": "response.content_part.done", "content_index": 0, "part": part},
    ]
    return _item(index, item, {"content": [], "status": "in_progress"}, inside)


def _call(grown: _Grown, index: int, item: JsonObject) -> list[JsonObject]:
    name = "response.function_call_arguments"
    inside: list[JsonObject] = [{"type": f"{name}.delta", "delta": piece} for piece in grown.arguments]
    inside.append({"type": f"{name}.done", "name": "read_file", "arguments": "".join(grown.arguments)})
    return _item(index, item, {"arguments": "", "status": "in_progress"}, inside)


_ITEMS: dict[str, Callable[[_Grown, int, JsonObject], list[JsonObject]]] = {
    "reasoning": _reasoning,
    "message": _message,
    "function_call": _call,
}
_WRITERS: dict[str, Callable[[_Grown], list[bytes]]] = {MESSAGES: _messages, CHAT: _chat, RESPONSES: _responses}
