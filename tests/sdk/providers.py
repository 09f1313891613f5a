"""Scripted providers: one assistant turn, told as each protocol's own service tells it, whole and streamed.

Written by hand from the protocols' documentation and not with the library, so that both can be wrong only apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from msgspec import Struct

from tests.sdk.digging import Object, dig_object, dig_objects, dig_text
from tests.sdk.samples import SAMPLES, as_stream

SIGNATURE = "EosnCkYICxIMMb3LzNrMu/+=="
ENCRYPTED = "gAAAAABmc3Bva2Vu_-w=="
CREATED = 1_700_000_000


class Call(Struct, frozen=True):
    """One call; empty arguments are what providers send when a tool takes none."""

    id: str
    name: str
    arguments: str = ""


class Turn(Struct, frozen=True, kw_only=True):
    """What a provider says. `stop` is its own word; for Responses `status` or `status:reason`."""

    stop: str | None
    reasoning: str = ""
    text: str = ""
    refusal: str = ""
    calls: tuple[Call, ...] = ()
    usage: Object | None = None


def answer(protocol: str, turn: Turn) -> Object:
    """The whole answer."""
    return _ANSWERS[protocol](turn)


def stream(protocol: str, turn: Turn) -> bytes:
    """The same answer as a stream."""
    return stream_of(protocol, answer(protocol, turn), turn)


def stream_of(protocol: str, body: Object, turn: Turn) -> bytes:
    """A whole answer as a stream; `turn` has the calls of it as they were spelled."""
    return as_stream(protocol, list(_STREAMS[protocol](body, turn)))


def pieces(text: str) -> list[str]:
    """A text in three fragments, as providers cut it: anywhere."""
    third = max(1, len(text) // 3)
    return [piece for piece in (text[:third], text[third : 2 * third], text[2 * third :]) if piece]


def _message(turn: Turn) -> Object:
    content: list[Object] = []
    if turn.reasoning:
        content.append({"type": "thinking", "thinking": turn.reasoning, "signature": SIGNATURE})
    if turn.text:
        content.append({"type": "text", "text": turn.text, "citations": None})
    for call in turn.calls:
        given = json.loads(call.arguments or "{}")
        content.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
    return {
        "id": "msg_0123456789abcdefABCDEF",
        "type": "message",
        "role": "assistant",
        "model": "served",
        "content": content,
        "stop_reason": turn.stop,
        "stop_sequence": "END" if turn.stop == "stop_sequence" else None,
        "usage": turn.usage or {"input_tokens": 11, "output_tokens": 7},
    }


def _message_events(message: Object, turn: Turn) -> Iterator[Object]:
    opening = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**opening, "usage": {"input_tokens": 1, "output_tokens": 1}}}
    for index, block in enumerate(dig_objects(message, "content")):
        kind = block["type"]
        empty: Object = {"thinking": "", "signature": ""} if kind == "thinking" else {"input": {}}
        empty = {"text": ""} if kind == "text" else empty
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
        for delta in _block_deltas(block, turn):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"], "stop_details": None}
    yield {"type": "message_delta", "delta": delta, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _block_deltas(block: Object, turn: Turn) -> Iterator[Object]:
    if block["type"] == "thinking":
        for piece in pieces(dig_text(block, "thinking")):
            yield {"type": "thinking_delta", "thinking": piece}
        yield {"type": "signature_delta", "signature": block["signature"]}
    elif block["type"] == "text":
        for piece in pieces(dig_text(block, "text")):
            yield {"type": "text_delta", "text": piece}
    else:
        arguments = next(call.arguments for call in turn.calls if call.id == block["id"])
        for piece in pieces(arguments):
            yield {"type": "input_json_delta", "partial_json": piece}


def _completion(turn: Turn) -> Object:
    message: Object = {"role": "assistant", "content": turn.text or None, "refusal": turn.refusal or None}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
    return {
        "id": "chatcmpl-0123456789abcdefABCDEF",
        "object": "chat.completion",
        "created": CREATED,
        "model": "served",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": turn.stop}],
        "usage": turn.usage or {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def _chunks(completion: Object, turn: Turn) -> Iterator[Object]:
    common = {name: completion[name] for name in ("id", "created", "model")}
    common["object"] = "chat.completion.chunk"

    def chunk(delta: Object, finish: str | None = None) -> Object:
        return {**common, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}

    yield chunk({"role": "assistant", "content": ""})
    for name, text in (("reasoning_content", turn.reasoning), ("content", turn.text), ("refusal", turn.refusal)):
        for piece in pieces(text):
            yield chunk({name: piece})
    for index, call in enumerate(turn.calls):
        opening: Object = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": opening}]})
        for piece in pieces(call.arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, turn.stop)
    yield {**common, "choices": [], "usage": completion["usage"]}


def _response(turn: Turn) -> Object:
    status, _, reason = (turn.stop or "completed").partition(":")
    output: list[Object] = []
    if turn.reasoning:
        summary = [{"type": "summary_text", "text": turn.reasoning}]
        output.append({"id": "rs_up_0", "type": "reasoning", "summary": summary, "encrypted_content": ENCRYPTED})
    content: list[Object] = []
    if turn.text:
        content.append({"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []})
    if turn.refusal:
        content.append({"type": "refusal", "refusal": turn.refusal})
    if content:
        said: Object = {"id": "msg_up_1", "type": "message", "role": "assistant", "status": status}
        output.append({**said, "content": content})
    for count, call in enumerate(turn.calls):
        named: Object = {"call_id": call.id, "name": call.name, "arguments": call.arguments or "{}", "status": status}
        output.append({"id": f"fc_up_{count}", "type": "function_call", **named})
    details: Object = {"cached_tokens": 0, "cache_write_tokens": 0}
    counted: Object = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18, "input_tokens_details": details}
    return {
        # A provider that fills in all that Open Responses demands, as the sample does.
        **dig_object(SAMPLES["openai-responses"][0], "response"),
        "id": "resp_0123456789abcdefABCDEF",
        "created_at": CREATED,
        "completed_at": CREATED + 1 if status == "completed" else None,
        "status": status,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": "served",
        "output": output,
        "usage": turn.usage or {**counted, "output_tokens_details": {"reasoning_tokens": 0}},
    }


def _response_events(response: Object, turn: Turn) -> Iterator[Object]:
    opening = {
        **response,
        "status": "in_progress",
        "output": [],
        "usage": None,
        "incomplete_details": None,
        "completed_at": None,
    }
    told: list[Object] = [
        {"type": "response.created", "response": opening},
        {"type": "response.in_progress", "response": opening},
    ]
    for index, item in enumerate(dig_objects(response, "output")):
        place: Object = {"item_id": item["id"], "output_index": index}
        empty: Object = {name: type(item[name])() for name in ("summary", "content", "arguments") if name in item}
        begun: Object = {**item, **empty, **({"status": "in_progress"} if "status" in item else {})}
        told.append({"type": "response.output_item.added", "output_index": index, "item": begun})
        told += ({**event, **place} for event in _item_events(item))
        told.append({"type": "response.output_item.done", "output_index": index, "item": item})
    told.append({"type": f"response.{response['status']}", "response": response})
    for count, event in enumerate(told):
        yield {**event, "sequence_number": count}


def _item_events(item: Object) -> Iterator[Object]:
    if item["type"] == "function_call":
        yield from _deltas("response.function_call_arguments", dig_text(item, "arguments"), "arguments", {})
        return
    if item["type"] == "reasoning":
        for index, part in enumerate(dig_objects(item, "summary")):
            at: Object = {"summary_index": index}
            event = "response.reasoning_summary_part"
            yield {"type": f"{event}.added", "part": {**part, "text": ""}, **at}
            yield from _deltas("response.reasoning_summary_text", dig_text(part, "text"), "text", at)
            yield {"type": f"{event}.done", "part": part, **at}
        return
    for index, part in enumerate(dig_objects(item, "content")):
        at = {"content_index": index}
        member = "refusal" if part["type"] == "refusal" else "text"
        more: Object = {} if member == "refusal" else {"logprobs": []}
        event = "response.refusal" if member == "refusal" else "response.output_text"
        yield {"type": "response.content_part.added", "part": {**part, member: ""}, **at}
        yield from _deltas(event, dig_text(part, member), member, {**at, **more})
        yield {"type": "response.content_part.done", "part": part, **at}


def _deltas(event: str, text: str, member: str, more: Object) -> Iterator[Object]:
    for piece in pieces(text):
        yield {"type": f"{event}.delta", "delta": piece, **more}
    yield {"type": f"{event}.done", member: text, **more}


_ANSWERS: dict[str, Callable[[Turn], Object]] = {
    "anthropic-messages": _message,
    "openai-chat": _completion,
    "openai-responses": _response,
}
_STREAMS: dict[str, Callable[[Object, Turn], Iterator[Object]]] = {
    "anthropic-messages": _message_events,
    "openai-chat": _chunks,
    "openai-responses": _response_events,
}
