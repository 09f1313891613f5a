"""Telling: a whole answer as the stream its provider would send, honestly or with the lies that servers are known for.

The streams are written from the protocol pages alone, without the library, so that they are a second opinion.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import Enum

from hypothesis import strategies as st
from msgspec import Struct

from dragoman.model.jsonvalue import JsonObject, JsonValue
from tests.laws.shapes import as_list, as_object, as_text
from tests.laws.strategies import CHAT, MESSAGES, RESPONSES, answers


class Lie(Enum):
    """How a provider departs from its protocol without meaning anything else (openai-chat-completions.md §18)."""

    STOP_WITH_CALLS = "finish_reason stop although there are calls"
    NO_DONE = "no [DONE] at the end"
    USAGE_EVERYWHERE = "usage on every chunk"
    ALL_AT_ZERO = "every call at index 0"
    INTERLEAVED = "fragments of several calls mixed"
    NAMES_REPEATED = "the name in every fragment"
    NO_IDS = "calls without ids"
    OBJECT_ARGUMENTS = "arguments as an object, in one fragment"
    EMPTY_CHUNKS = "chunks without choices, or without a delta"
    ROLE_EVERYWHERE = "the role in every delta"
    ARGUMENTS_AT_THE_END = "no deltas: text and arguments only in the done events"
    EMPTY_OUTPUT = "the terminal event has an empty output"
    NO_ITEM_DONE = "messages and calls end without output_item.done"


CHAT_LIES = (
    Lie.STOP_WITH_CALLS,
    Lie.NO_DONE,
    Lie.USAGE_EVERYWHERE,
    Lie.ALL_AT_ZERO,
    Lie.INTERLEAVED,
    Lie.NAMES_REPEATED,
    Lie.NO_IDS,
    Lie.OBJECT_ARGUMENTS,
    Lie.EMPTY_CHUNKS,
    Lie.ROLE_EVERYWHERE,
)
RESPONSES_LIES = (Lie.ARGUMENTS_AT_THE_END, Lie.EMPTY_OUTPUT, Lie.NO_ITEM_DONE)
LIES: dict[str, tuple[Lie, ...]] = {MESSAGES: (), CHAT: CHAT_LIES, RESPONSES: RESPONSES_LIES}

# Lies that cannot be told together: the fragments of several calls at one index need ids to be told apart, and so on.
EXCLUSIVE = (
    {Lie.ALL_AT_ZERO, Lie.INTERLEAVED},
    {Lie.ALL_AT_ZERO, Lie.NO_IDS},
    {Lie.EMPTY_OUTPUT, Lie.NO_ITEM_DONE},
)


class Told(Struct, frozen=True, kw_only=True):
    """A stream and the whole answer that it tells."""

    protocol: str
    answer: JsonObject
    frames: tuple[bytes, ...]
    lies: frozenset[Lie] = frozenset()

    @property
    def stream(self) -> bytes:
        return b"".join(self.frames)


def streams(protocol: str, *, lying: bool = False) -> st.SearchStrategy[Told]:
    """Streams of any answer, cut into deltas of any size."""
    lies = st.sets(st.sampled_from(LIES[protocol]), max_size=3) if lying and LIES[protocol] else st.just(set[Lie]())
    return st.builds(
        lambda answer, size, lied: tell(protocol, answer, size, frozenset(lied)),
        answers(protocol),
        st.sampled_from([1, 3, 8, 1000]),
        lies.filter(lambda chosen: not any(pair <= chosen for pair in EXCLUSIVE)),
    )


def tell(protocol: str, answer: JsonObject, size: int = 5, lies: frozenset[Lie] = frozenset()) -> Told:
    """One answer as a stream with deltas of `size` characters."""
    teller = {MESSAGES: _tell_messages, CHAT: _tell_chat, RESPONSES: _tell_responses}[protocol]
    return Told(protocol=protocol, answer=answer, frames=tuple(teller(answer, size, lies)), lies=lies)


def pieces(text: str, size: int) -> list[str]:
    """The text in pieces of a size; no piece for no text."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def frame(data: JsonObject, name: str | None = None) -> bytes:
    """One server-sent event."""
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + body + b"\n\n"


def _named(data: JsonObject) -> bytes:
    return frame(data, as_text(data["type"]))


# --- Messages -------------------------------------------------------------------------------------------------------


def _tell_messages(answer: JsonObject, size: int, lies: frozenset[Lie]) -> Iterator[bytes]:
    usage = as_object(answer["usage"])
    opening = {**usage, "output_tokens": 1}
    opening.pop("output_tokens_details", None)
    start: JsonObject = {**answer, "content": [], "stop_reason": None, "stop_sequence": None, "usage": opening}
    for late in ("stop_details", "context_management"):
        start.pop(late, None)
    yield _named({"type": "message_start", "message": start})
    yield _named({"type": "ping"})
    for index, block in enumerate(as_list(answer["content"])):
        yield from _tell_block(index, as_object(block), size)
    delta: JsonObject = {"stop_reason": answer["stop_reason"], "stop_sequence": answer.get("stop_sequence")}
    if answer.get("stop_details") is not None:
        delta["stop_details"] = answer["stop_details"]
    ending: JsonObject = {"type": "message_delta", "delta": delta, "usage": dict(usage)}
    if "context_management" in answer:
        ending["context_management"] = answer["context_management"]
    yield _named(ending)
    yield _named({"type": "message_stop"})


def _tell_block(index: int, block: JsonObject, size: int) -> Iterator[bytes]:
    start, deltas = _block_deltas(block, size)
    yield _named({"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        yield _named({"type": "content_block_delta", "index": index, "delta": delta})
    yield _named({"type": "content_block_stop", "index": index})


def _block_deltas(block: JsonObject, size: int) -> tuple[JsonObject, list[JsonObject]]:
    kind = block["type"]
    if kind == "text":
        texts: list[JsonObject] = [
            {"type": "text_delta", "text": piece} for piece in pieces(as_text(block["text"]), size)
        ]
        citations = as_list(block.get("citations") or [])
        texts += [{"type": "citations_delta", "citation": citation} for citation in citations]
        return {**block, "text": "", **({"citations": []} if citations else {})}, texts
    if kind == "thinking":
        thoughts: list[JsonObject] = [
            {"type": "thinking_delta", "thinking": piece} for piece in pieces(as_text(block["thinking"]), size)
        ]
        return {**block, "thinking": "", "signature": ""}, [
            *thoughts,
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
        text = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":")) if block["input"] else ""
        return {**block, "input": {}}, [
            {"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text, size)]
        ]
    return block, []


# --- Chat -----------------------------------------------------------------------------------------------------------


def _tell_chat(answer: JsonObject, size: int, lies: frozenset[Lie]) -> Iterator[bytes]:
    choice = as_object(as_list(answer["choices"])[0])
    message = as_object(choice["message"])
    usage = answer.get("usage")
    head: JsonObject = {
        name: answer[name]
        for name in ("id", "created", "model", "service_tier", "system_fingerprint")
        if name in answer
    }
    head["object"] = "chat.completion.chunk"
    everywhere: JsonObject = {"usage": usage} if Lie.USAGE_EVERYWHERE in lies and usage else {}

    def chunk(delta: JsonObject, **others: JsonValue) -> bytes:
        if Lie.ROLE_EVERYWHERE in lies:
            delta = {"role": "assistant", **delta}
        told: JsonObject = {"index": 0, "delta": delta, "finish_reason": None, **others}
        return frame({**head, "choices": [told], **everywhere})

    yield chunk({"role": "assistant", "content": ""})
    for delta, others in _chat_deltas(message, choice, size, lies):
        if Lie.EMPTY_CHUNKS in lies:
            yield frame({**head, "choices": []})
            yield frame({**head, "choices": [{"index": 0, "delta": None, "finish_reason": None}]})
        yield chunk(delta, **others)
    finish = choice["finish_reason"]
    if Lie.STOP_WITH_CALLS in lies and finish == "tool_calls":
        finish = "stop"
    last: JsonObject = {"finish_reason": finish}
    last |= {name: choice[name] for name in ("stop_reason", "native_finish_reason") if name in choice}
    yield chunk({}, **last)
    if usage and Lie.USAGE_EVERYWHERE not in lies:
        yield frame({**head, "choices": [], "usage": usage})
    if Lie.NO_DONE not in lies:
        yield b"data: [DONE]\n\n"


def _chat_deltas(
    message: JsonObject, choice: JsonObject, size: int, lies: frozenset[Lie]
) -> Iterator[tuple[JsonObject, JsonObject]]:
    for name in ("reasoning_content", "reasoning"):
        for piece in pieces(as_text(message.get(name) or ""), size):
            yield {name: piece}, {}
    if "reasoning_details" in message:
        yield {"reasoning_details": message["reasoning_details"]}, {}
    logprobs = as_object(choice.get("logprobs") or {})
    for name in ("content", "refusal"):
        entries = logprobs.get(name)
        for piece in pieces(as_text(message.get(name) or ""), size):
            # All probabilities ride on the first delta: how servers spread them says nothing.
            yield {name: piece}, {"logprobs": {name: entries}} if entries else {}
            entries = None
        if name == "content":
            for number, annotation in enumerate(as_list(message.get("annotations") or [])):
                yield {"annotations": [{"index": number, **as_object(annotation)}]}, {}
    if "audio" in message:
        yield {"audio": message["audio"]}, {}
    if "function_call" in message:
        legacy = as_object(message["function_call"])
        yield {"function_call": {"name": legacy["name"], "arguments": ""}}, {}
        for piece in pieces(as_text(legacy["arguments"]), size):
            yield {"function_call": {"arguments": piece}}, {}
    calls = [as_object(call) for call in as_list(message.get("tool_calls") or [])]
    told = [_call_fragments(index, call, size, lies) for index, call in enumerate(calls)]
    for fragment in _mixed(told) if Lie.INTERLEAVED in lies else (one for call in told for one in call):
        yield {"tool_calls": [fragment]}, {}


def _call_fragments(index: int, call: JsonObject, size: int, lies: frozenset[Lie]) -> list[JsonObject]:
    kind = as_text(call["type"])
    inner = as_object(call[kind])
    member = "arguments" if kind == "function" else "input"
    place: JsonObject = {"index": 0 if Lie.ALL_AT_ZERO in lies else index}
    opening: JsonObject = {**place, "id": call["id"], "type": kind}
    if Lie.NO_IDS in lies:
        del opening["id"]
    name: JsonObject = {"name": inner["name"]}
    if Lie.OBJECT_ARGUMENTS in lies and kind == "function":
        return [{**opening, kind: {**name, member: json.loads(as_text(inner[member]))}}]
    repeated = name if Lie.NAMES_REPEATED in lies else {}
    return [{**opening, kind: {**name, member: ""}}] + [
        {**place, kind: {**repeated, member: piece}} for piece in pieces(as_text(inner[member]), size)
    ]


def _mixed(told: list[list[JsonObject]]) -> Iterator[JsonObject]:
    """The fragments of all calls in turn."""
    for turn in range(max((len(fragments) for fragments in told), default=0)):
        for fragments in told:
            if turn < len(fragments):
                yield fragments[turn]


# --- Responses ------------------------------------------------------------------------------------------------------


class _Numbered:
    """Writes events with their sequence numbers."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, kind: str, **members: JsonValue) -> bytes:
        data: JsonObject = {"type": kind, "sequence_number": self._next, **members}
        self._next += 1
        return frame(data, kind)


def _tell_responses(answer: JsonObject, size: int, lies: frozenset[Lie]) -> Iterator[bytes]:
    event = _Numbered()
    opening: JsonObject = {**answer, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    opening.pop("completed_at", None)
    yield event("response.created", response=opening)
    yield event("response.in_progress", response=opening)
    items = [as_object(item) for item in as_list(answer["output"])]
    for index, item in enumerate(items):
        empty = _EMPTY.get(as_text(item["type"]), {})
        added: JsonObject = {
            **item,
            **{name: value for name, value in empty.items() if name in item or name == "status"},
        }
        yield event("response.output_item.added", output_index=index, item=added)
        yield from _tell_item(event, index, item, size, lies)
        if Lie.NO_ITEM_DONE not in lies or item["type"] not in _TOLD_BY_DELTAS:
            yield event("response.output_item.done", output_index=index, item=item)
    final: JsonObject = {**answer, "output": []} if Lie.EMPTY_OUTPUT in lies else answer
    yield event("response." + as_text(answer["status"]), response=final)
    if size % 2:
        # OpenAI closes the stream, Open Responses demands a last word; both are legal.
        yield b"data: [DONE]\n\n"


# Items whose own events tell them whole.
_TOLD_BY_DELTAS = ("message", "function_call", "custom_tool_call")

# What an item has when it is announced: zero values, not missing members.
_EMPTY: dict[str, JsonObject] = {
    "message": {"content": [], "status": "in_progress"},
    "reasoning": {"summary": [], "content": [], "encrypted_content": "partial"},
    "function_call": {"arguments": "", "status": "in_progress"},
    "custom_tool_call": {"input": ""},
    "mcp_call": {"arguments": "", "output": None},
    "code_interpreter_call": {"code": "", "outputs": None},
}


def _tell_item(event: _Numbered, index: int, item: JsonObject, size: int, lies: frozenset[Lie]) -> Iterator[bytes]:
    kind = as_text(item["type"])
    here: JsonObject = {"item_id": item["id"], "output_index": index}
    late = Lie.ARGUMENTS_AT_THE_END in lies

    def deltas(name: str, text: str, **others: JsonValue) -> Iterator[bytes]:
        for piece in [] if late else pieces(text, size):
            yield event(name, **here, **others, delta=piece)

    if kind == "message":
        for number, part in enumerate(as_list(item["content"])):
            yield from _tell_part(event, {**here, "content_index": number}, as_object(part), size, late)
    elif kind == "reasoning":
        for number, part in enumerate(as_list(item["summary"])):
            text, at = as_text(as_object(part)["text"]), {**here, "summary_index": number}
            yield event("response.reasoning_summary_part.added", **at, part={"type": "summary_text", "text": ""})
            yield from deltas("response.reasoning_summary_text.delta", text, summary_index=number)
            yield event("response.reasoning_summary_text.done", **at, text=text)
            yield event("response.reasoning_summary_part.done", **at, part=part)
        for number, part in enumerate(as_list(item.get("content") or [])):
            text = as_text(as_object(part)["text"])
            yield from deltas("response.reasoning_text.delta", text, content_index=number)
            yield event("response.reasoning_text.done", **here, content_index=number, text=text)
    elif kind == "function_call":
        yield from deltas("response.function_call_arguments.delta", as_text(item["arguments"]))
        yield event("response.function_call_arguments.done", **here, arguments=item["arguments"], name=item["name"])
    elif kind == "custom_tool_call":
        yield from deltas("response.custom_tool_call_input.delta", as_text(item["input"]))
        yield event("response.custom_tool_call_input.done", **here, input=item["input"])
    elif kind == "web_search_call":
        for stage in ("in_progress", "searching", "completed"):
            yield event(f"response.web_search_call.{stage}", **here)
    elif kind == "mcp_call":
        yield event("response.mcp_call.in_progress", **here)
        yield from deltas("response.mcp_call_arguments.delta", as_text(item["arguments"]))
        yield event("response.mcp_call_arguments.done", **here, arguments=item["arguments"])
        yield event("response.mcp_call.completed", **here)


def _tell_part(event: _Numbered, here: JsonObject, part: JsonObject, size: int, late: bool) -> Iterator[bytes]:
    if part["type"] == "refusal":
        text = as_text(part["refusal"])
        yield event("response.content_part.added", **here, part={"type": "refusal", "refusal": ""})
        for piece in [] if late else pieces(text, size):
            yield event("response.refusal.delta", **here, delta=piece)
        yield event("response.refusal.done", **here, refusal=text)
    else:
        text = as_text(part["text"])
        logprobs = as_list(part.get("logprobs") or [])
        yield event("response.content_part.added", **here, part={"type": "output_text", "text": "", "annotations": []})
        told: list[JsonValue] = logprobs
        for piece in [] if late else pieces(text, size):
            yield event("response.output_text.delta", **here, delta=piece, logprobs=told)
            told = []
        for number, annotation in enumerate(as_list(part.get("annotations") or [])):
            yield event("response.output_text.annotation.added", **here, annotation_index=number, annotation=annotation)
        yield event("response.output_text.done", **here, text=text, logprobs=logprobs)
    yield event("response.content_part.done", **here, part=part)
