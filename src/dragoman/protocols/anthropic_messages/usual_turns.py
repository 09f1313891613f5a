"""The usual conversation of another protocol, written in one pass exactly as `turns` writes it: plain text, and calls
whose results follow in their order. Nothing of it is lost, so any other can still be left to `turns`."""

from __future__ import annotations

from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.parts import InputForm, Part, Text, ToolCall, ToolResult
from dragoman.model.request import Message, Role
from dragoman.protocols.anthropic_messages.encode_context import RequestEncodeContext
from dragoman.rules.arguments import Wrapping, to_object
from dragoman.rules.extras import loses_nothing
from dragoman.rules.tool_table import Wrapped

# Members of enumerations by name cost a look-up each time.
_ASSISTANT, _USER = Role.ASSISTANT, Role.USER
_JSON, _UNWRAPPED, _WRAPPED_VALUE = InputForm.JSON, Wrapping.NONE, Wrapped.VALUE


def encode_usual(
    messages: tuple[Message, ...], writing: RequestEncodeContext
) -> tuple[list[JsonObject], JsonList] | None:
    """The messages, and the leading instructions; None if one of them is not usual."""
    written: list[JsonObject] = []
    system: JsonList = []
    # The author of the last message, and its blocks.
    author: Role | None = None
    blocks: JsonList = []
    seen: set[str] = set()
    # The calls of the last assistant message, with the ids under which they are sent; how many have their result.
    calls: list[tuple[str, str]] = []
    answered = 0
    for message in messages:
        parts, role = message.parts, message.role
        if not parts or message.turn is not None or message.name is not None or message.transient:
            return None
        if message.extras is not None and not loses_nothing(message.extras):
            return None
        if role is _USER:
            if author is not _USER:
                author, blocks = _USER, []
                written.append({"role": "user", "content": blocks})
            if type(parts[0]) is ToolResult:
                if len(parts) > 1 or answered == len(calls):
                    return None
                block = _encode_result(parts[0], *calls[answered])
                answered += 1
                if block is None:
                    return None
                blocks.append(block)
                continue
            if answered < len(calls):
                return None
        elif role is _ASSISTANT:
            if author is not _ASSISTANT:
                if answered < len(calls):
                    return None
                author, blocks, calls, answered = _ASSISTANT, [], [], 0
                written.append({"role": "assistant", "content": blocks})
        elif author is None:
            blocks = system
        else:
            return None
        for part in parts:
            if type(part) is Text:
                text = part.text
                if (
                    not text
                    or text.isspace()
                    or part.citations
                    or part.cache is not None
                    or part.extras is not None
                    or part.logprobs is not None
                ):
                    return None
                blocks.append({"type": "text", "text": text})
                continue
            if type(part) is not ToolCall or role is not _ASSISTANT or part.call_id in seen:
                return None
            sent_id = writing.call_id(part.call_id)
            block = _encode_call(part, sent_id, writing)
            if block is None:
                return None
            seen.add(part.call_id)
            calls.append((part.call_id, sent_id))
            blocks.append(block)
    if not written or answered < len(calls):
        return None
    for one in written:
        content = one["content"]
        if type(content) is list and len(content) == 1:
            only = content[0]
            if type(only) is dict and only["type"] == "text":
                one["content"] = only["text"]
    return written, system


def _encode_result(result: Part, call_id: str, sent_id: str) -> JsonObject | None:
    """The result of a call if it is one text."""
    if type(result) is not ToolResult or result.call_id != call_id or len(result.parts) != 1:
        return None
    only = result.parts[0]
    if (
        type(only) is not Text
        or only.cache is not None
        or only.extras is not None
        or only.citations
        or only.logprobs is not None
        or result.form is not _JSON
        or result.is_error
        or result.cache is not None
        or result.extras is not None
    ):
        return None
    return {"type": "tool_result", "tool_use_id": sent_id, "content": only.text}


def _encode_call(call: ToolCall, sent_id: str, writing: RequestEncodeContext) -> JsonObject | None:
    """A call of a declared function with an object."""
    entry = writing.table.entry(call.name, call.namespace)
    if (
        entry is None
        or entry.wrapped is _WRAPPED_VALUE
        or call.form is not _JSON
        or call.cache is not None
        or call.extras is not None
    ):
        return None
    value, wrapping = to_object(call.arguments)
    if wrapping is not _UNWRAPPED:
        return None
    return {"type": "tool_use", "id": sent_id, "name": entry.wire, "input": value}
