"""What the tests of streams share: streams of each protocol, and their events."""

from __future__ import annotations

import json

from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.registry import PROTOCOL_NAMES

MESSAGES, CHAT, RESPONSES = PROTOCOL_NAMES


def sse(*events: dict[str, object], named: bool = True) -> bytes:
    frames = []
    for event in events:
        head = f"event: {event['type']}\n" if named else ""
        frames.append(f"{head}data: {json.dumps(event)}\n\n")
    return "".join(frames).encode()


CLAUDE = sse(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "one ST"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "OP two"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
)


def chat_chunks(*deltas: dict[str, object], finish: str | None = "stop") -> list[dict[str, object]]:
    base: dict[str, object] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish is not None:
        chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return chunks


def datas(stream: bytes) -> list[dict[str, object]]:
    found = []
    for line in stream.decode().splitlines():
        if line.startswith("data: {"):
            found.append(json.loads(line[6:]))
    return found


LAST: dict[str, tuple[bytes, bytes]] = {
    MESSAGES: (CLAUDE, b""),
    CHAT: (sse(*chat_chunks({"content": "one"}), named=False), b"data: [DONE]"),
    RESPONSES: (
        sse({"type": "response.created", "response": {"id": "resp_1"}}),
        sse({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}).strip(),
    ),
}


def member(event: dict[str, object], *path: str) -> object:
    value: object = event
    for step in path:
        assert isinstance(value, dict)
        value = value[step]
    return value


STOPS: dict[str, list[str]] = {
    MESSAGES: ["end_turn", "max_tokens", "tool_use", "refusal", "model_context_window_exceeded", "pause_turn", "odd"],
    CHAT: ["stop", "length", "tool_calls", "content_filter", "odd"],
    RESPONSES: ["completed", "incomplete"],
}


def whole_answer(protocol: str, stop: str) -> dict[str, object]:
    if protocol == MESSAGES:
        content: list[dict[str, object]] = [{"type": "text", "text": "Hello."}]
        if stop == "tool_use":
            content.append({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": 1}})
        usage: dict[str, object] = {"input_tokens": 3, "output_tokens": 1}
        body: dict[str, object] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
        return {**body, "content": content, "stop_reason": stop, "stop_sequence": None}
    if protocol == CHAT:
        message: dict[str, object] = {"role": "assistant", "content": "Hello."}
        if stop == "tool_calls":
            call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
            message["tool_calls"] = [call]
        choice = {"index": 0, "message": message, "finish_reason": stop}
        return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    text = {"type": "output_text", "text": "Hello.", "annotations": []}
    item = {"type": "message", "id": "m_1", "role": "assistant", "status": stop, "content": [text]}
    answer = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": [item], "status": stop}
    return {**answer, "incomplete_details": {"reason": "max_output_tokens"} if stop == "incomplete" else None}


QUESTIONS: dict[str, dict[str, object]] = {
    MESSAGES: {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], "stream": True},
    CHAT: {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True},
    RESPONSES: {"model": "m", "input": "Hi", "stream": True},
}


def call_fragments(*calls: JsonObject) -> bytes:
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]
    said = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    return (
        said + b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    )


def opened(index: int, call_id: str, arguments: str, name: str = "f") -> JsonObject:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


def events_of(*events: JsonObject) -> bytes:
    return b"".join(b"event: %b\ndata:%b\n\n" % (str(one["type"]).encode(), json.dumps(one).encode()) for one in events)


def input_delta(index: int, text: str) -> JsonObject:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


def tool_start(index: int, call_id: str) -> JsonObject:
    block: JsonObject = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


MESSAGE_START: JsonObject = {
    "type": "message_start",
    "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": {}},
}


MESSAGE_ENDS: tuple[JsonObject, ...] = (
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
)


ITEM: JsonObject = {"type": "function_call", "id": "i", "call_id": "a", "name": "f", "arguments": ""}


# Whose arguments are put where they belong; the others nobody can put together.
CONTINUED = "a call that begins with the rest of another's"


DOUBTFUL: dict[str, tuple[str, bytes]] = {
    CONTINUED: (CHAT, call_fragments(opened(0, "a", '{"x":'), opened(1, "b", "1}"))),
    "two values for one call": (CHAT, call_fragments(opened(0, "a", '{"x":1}'), opened(0, "a", '{"x":2}'))),
    "arguments of no call": (
        CHAT,
        call_fragments({"index": 0, "function": {"arguments": '{"x":2}'}}, opened(1, "a", "")),
    ),
    "two values for one block": (
        MESSAGES,
        events_of(
            MESSAGE_START, tool_start(0, "a"), input_delta(0, '{"x":1}'), input_delta(0, '{"x":2}'), *MESSAGE_ENDS
        ),
    ),
    "arguments at the index of no block": (
        MESSAGES,
        events_of(MESSAGE_START, tool_start(0, "a"), tool_start(1, "b"), input_delta(7, '{"x":2}'), *MESSAGE_ENDS),
    ),
    "arguments that end differently": (
        RESPONSES,
        events_of(
            {"type": "response.created", "response": {"id": "r", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
            {"type": "response.function_call_arguments.delta", "item_id": "i", "output_index": 0, "delta": '{"x":1}'},
            {"type": "response.output_item.done", "output_index": 0, "item": {**ITEM, "arguments": '{"x":2}'}},
            {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}},
        ),
    ),
}
