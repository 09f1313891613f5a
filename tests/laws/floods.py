"""Floods: streams that are as long as one likes and of a kind that invites to look again at what came before."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES

# So many units of a kind, as the bytes of a stream.
Flood: TypeAlias = Callable[[int], bytes]


def frame(event: JsonObject, *, named: bool = True) -> bytes:
    head = f"event: {event.get('type')!s}\n" if named else ""
    return f"{head}data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def each(count: int, write: Callable[[int], bytes]) -> bytes:
    return b"".join(map(write, range(count)))


# --- Messages ---------------------------------------------------------------------------------------------------------

_MESSAGE = frame({"type": "message_start", "message": {"id": "m", "model": "x", "usage": {"input_tokens": 1}}})
_MESSAGE_END = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) + frame({"type": "message_stop"})
_WEB: JsonObject = {"type": "web_search_result_location", "url": "http://a", "title": "t", "cited_text": "c"}


def block(index: int, start: JsonObject, *deltas: bytes) -> bytes:
    opening = frame({"type": "content_block_start", "index": index, "content_block": start})
    return opening + b"".join(deltas) + frame({"type": "content_block_stop", "index": index})


def delta(index: int, kind: str, **members: JsonValue) -> bytes:
    return frame({"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}})


def call_block(name: str, piece: str, count: int) -> bytes:
    start: JsonObject = {"type": "tool_use", "id": "t", "name": name, "input": {}}
    return block(0, start, delta(0, "input_json_delta", partial_json=piece) * count)


def message(inner: bytes) -> bytes:
    return _MESSAGE + inner + _MESSAGE_END


_TEXT: JsonObject = {"type": "text", "text": ""}
_CITED = delta(0, "text_delta", text="x") + delta(0, "citations_delta", citation=_WEB)
_MESSAGES: dict[str, Flood] = {
    "blank text": lambda n: message(block(0, _TEXT, delta(0, "text_delta", text=" ") * n)),
    "one letter that begins a stop string": lambda n: message(block(0, _TEXT, delta(0, "text_delta", text="a") * n)),
    "arguments that are no object": lambda n: message(call_block("get_weather", "[", n)),
    "arguments that are complete again and again": lambda n: message(call_block("get_weather", "{}", n)),
    "free text that never opens": lambda n: message(call_block("patch", " ", n)),
    "citations": lambda n: message(block(0, _TEXT, _CITED * n)),
    "blocks": lambda n: message(each(n, lambda i: block(i, {"type": "text", "text": "a"}))),
    "cited blocks": lambda n: message(
        each(n, lambda i: block(i, {"type": "text", "text": "a"}, delta(i, "citations_delta", citation=_WEB)))
    ),
    "blocks that were never begun": lambda n: message(each(n, lambda i: delta(i, "text_delta", text="a"))),
    "counts with ever more members": lambda n: message(
        each(n, lambda i: frame({"type": "message_delta", "delta": {}, "usage": {f"k{i}": i}}))
    ),
    "one large count and many small": lambda n: message(
        frame({"type": "message_delta", "usage": {"output_tokens_details": {f"k{i}": i for i in range(5 * n)}}})
        + frame({"type": "message_delta", "usage": {"output_tokens": 5}}) * n
    ),
    "events that nobody knows": lambda n: message(each(n, lambda i: frame({"type": f"k{i}"}))),
}

# --- Chat -------------------------------------------------------------------------------------------------------------


def chunk(delta: JsonObject, finish: str | None = None, **members: JsonValue) -> bytes:
    choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish, **members}
    return frame({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}, named=False)


_CHAT_END = chunk({}, "stop") + b"data: [DONE]\n\n"


def fragment(index: int, arguments: str, name: str | None = None, identity: str | None = None) -> bytes:
    function: JsonObject = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    call: JsonObject = {"index": index, "function": function}
    return chunk({"tool_calls": [call if identity is None else {**call, "id": identity}]})


def passed_call(opening: str, piece: str, count: int) -> bytes:
    """A call that something else interrupts: from then on each fragment may be its last."""
    begun = fragment(0, opening, "get_weather", "a") + chunk({"content": "x"})
    return begun + fragment(0, piece) * count + _CHAT_END


def detail(**members: JsonValue) -> bytes:
    return chunk({"reasoning_details": [{"type": "reasoning.text", **members}]})


def annotation(start: int, end: int) -> JsonObject:
    cited: JsonObject = {"url": "http://a", "title": "t", "start_index": start, "end_index": end}
    return {"type": "url_citation", "url_citation": cited}


_LOGGED: JsonObject = {"content": [{"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": []}]}
_COUNTED = frame({"choices": [], "usage": {"prompt_tokens": 1}}, named=False)
_CHATS: dict[str, Flood] = {
    "content between counts": lambda n: chunk({"content": "a"}) + (chunk({"content": "a"}) + _COUNTED) * n + _CHAT_END,
    "counts with ever more members": lambda n: (
        each(n, lambda i: frame({"choices": [], "usage": {f"k{i}": 2}}, named=False)) + _CHAT_END
    ),
    "log probabilities": lambda n: chunk({"content": "a"}, logprobs=_LOGGED) * n + _CHAT_END,
    "blank refusal": lambda n: chunk({"refusal": " "}) * n + _CHAT_END,
    "blank text": lambda n: chunk({"content": " "}) * n + _CHAT_END,
    "arguments that may be complete": lambda n: passed_call('{"a":{}', ',"a":{}', n),
    "arguments in a list": lambda n: passed_call("[", "[1],", n),
    "a number in digits": lambda n: passed_call("1", "1", n),
    "the same call again and again": lambda n: fragment(0, '{"a":{}', "get_weather", "a") * n + _CHAT_END,
    "a name in pieces": lambda n: fragment(0, "", "x", "a") + each(n, lambda i: fragment(0, "", f"y{i}")) + _CHAT_END,
    "calls that stay open": lambda n: (
        each(n, lambda i: fragment(i, "{", "get_weather", f"a{i}")) + each(n, lambda i: fragment(i, "}")) + _CHAT_END
    ),
    "thinking and text in turn": lambda n: (
        (chunk({"reasoning_content": "x"}) + chunk({"content": "y"})) * n + _CHAT_END
    ),
    "one detail in pieces": lambda n: detail(text="x", index=0) * n + _CHAT_END,
    "many details": lambda n: each(n, lambda i: detail(text="x", index=i)) + _CHAT_END,
    "annotations": lambda n: (chunk({"content": "y"}) + chunk({"annotations": [annotation(0, 5)]})) * n + _CHAT_END,
    "annotations within each other": lambda n: (
        chunk({"content": "x" * n}) + chunk({"annotations": [annotation(i, n - i) for i in range(n // 2)]}) + _CHAT_END
    ),
    "members that nobody knows": lambda n: each(n, lambda i: chunk({"content": "x", f"k{i}": 1})) + _CHAT_END,
}

# --- Responses --------------------------------------------------------------------------------------------------------

_RESPONSE: JsonObject = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
_CREATED = frame({"type": "response.created", "response": {**_RESPONSE, "status": "in_progress"}})
_COMPLETED = frame({"type": "response.completed", "response": {**_RESPONSE, "status": "completed"}})


def added(index: int, kind: str, **members: JsonValue) -> bytes:
    item: JsonObject = {"type": kind, "id": f"i{index}", **members}
    return frame({"type": "response.output_item.added", "output_index": index, "item": item})


def done(index: int, kind: str, **members: JsonValue) -> bytes:
    item: JsonObject = {"type": kind, "id": f"i{index}", **members}
    return frame({"type": "response.output_item.done", "output_index": index, "item": item})


def grown(kind: str, index: int = 0, **members: JsonValue) -> bytes:
    return frame({"type": f"response.{kind}", "output_index": index, **members})


def response(inner: bytes) -> bytes:
    return _CREATED + inner + _COMPLETED


_SAID = grown("output_text.delta", content_index=0, delta="hello ")
_URL: JsonObject = {"type": "url_citation", "url": "http://a", "title": "t", "start_index": 0, "end_index": 1}
_ANNOTATED = grown("output_text.annotation.added", content_index=0, annotation=_URL)
_CALLED = added(0, "function_call", call_id="c", name="get_weather", arguments="")
_RESPONSES: dict[str, Flood] = {
    "a text told again and again": lambda n: response(
        added(0, "message") + _SAID * n + grown("output_text.done", content_index=0, text="h") * n
    ),
    "parts": lambda n: response(
        added(0, "message") + each(n, lambda i: grown("output_text.delta", content_index=i, delta="x"))
    ),
    "messages that stay open": lambda n: response(
        each(n, lambda i: added(i, "message") + grown("output_text.delta", i, content_index=0, delta="x"))
    ),
    "summaries and reasoning": lambda n: response(
        added(0, "reasoning", summary=[])
        + each(n, lambda i: grown("reasoning_summary_text.delta", summary_index=i, delta="s"))
        + each(n, lambda i: grown("reasoning_text.delta", content_index=i, delta="s"))
    ),
    "arguments told again and again": lambda n: response(
        _CALLED
        + grown("function_call_arguments.delta", delta="{") * n
        + grown("function_call_arguments.done", arguments="x") * n
    ),
    "calls": lambda n: response(
        each(n, lambda i: added(i, "function_call", call_id="c", name="get_weather", arguments=""))
        + each(n, lambda i: grown("function_call_arguments.delta", i, delta="{}"))
    ),
    "annotations": lambda n: response(added(0, "message") + (_SAID + _ANNOTATED) * n),
    "an item that ends again and again": lambda n: response(
        each(n, lambda i: done(0, "message", content=[{"type": "output_text", "text": f"x{i}"}]))
    ),
}

FLOODS: dict[str, dict[str, Flood]] = {MESSAGES: _MESSAGES, CHAT: _CHATS, RESPONSES: _RESPONSES}

# Bytes that are no stream of anybody's, by hundreds.
NOISE: dict[str, Flood] = {
    "line feeds": lambda n: b"\n" * (100 * n),
    "returns": lambda n: b"\r" * (100 * n),
    "both": lambda n: b"\r\n" * (50 * n),
    "one comment": lambda n: b":" + b"x" * (100 * n),
    "comments": lambda n: b": x\n\n\n" * (17 * n),
    "one event": lambda n: b"data: {" + b"x" * (100 * n),
    "lines of data": lambda n: b"data: x\n" * (12 * n) + b"\n",
    "brackets": lambda n: b"data: " + b"[" * (100 * n) + b"\n\n",
    "a number": lambda n: b'data: {"a":' + b"1" * (100 * n) + b"}\n\n",
    "escapes": lambda n: b'data: {"a":"' + b"\\ud800" * (16 * n) + b'"}\n\n',
    "byte order marks": lambda n: b"\xef\xbb\xbf" * (33 * n),
}
