"""An answer, read plainly: no code of the library, no rule but what the vendors' pages and the recordings say.

Reads what imitators send, too: other names of the reasoning, counts in other places. A client's SDK gives nothing but
its own protocol, so that the same reader serves both sides.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from tools.replaying.protocols import CHAT, MESSAGES, RESPONSES, Object
from tools.replaying.said import (
    CALLS,
    FILTERED,
    LENGTH,
    OTHER,
    PAUSE,
    STOP,
    Call,
    Counts,
    Said,
    argument_value,
    error_text,
    member,
    number,
    objects,
    text_of,
)


def read_whole(protocol: str, body: Object) -> Said:
    """What a whole answer says."""
    return _READERS[protocol](body)


def _messages(body: Object) -> Said:
    said = Said()
    if body.get("type") == "error" or (body.get("error") and "content" not in body):
        said.error = error_text(body.get("error"))
        return said
    for block in objects(body.get("content")):
        _messages_block(block, said)
    if body.get("stop_reason") == "refusal":
        # Messages tells beside the content why it refused; the other protocols have a part for it.
        why = text_of(member(body, "stop_details", "explanation"))
        said.beside = why if why not in said.text else ""
        said.texts.append(said.beside)
    said.end = messages_end(body.get("stop_reason"))
    said.counts = messages_counts(body.get("usage"))
    return said


def _messages_block(block: Object, said: Said) -> None:
    kind = text_of(block.get("type"))
    if kind == "text":
        said.texts.append(text_of(block.get("text")))
    elif kind == "thinking":
        said.reasoning += text_of(block.get("thinking"))
        if block.get("signature"):
            said.seals.append(text_of(block["signature"]))
    elif kind == "redacted_thinking":
        said.seals.append(text_of(block.get("data")))
    elif kind == "tool_use":
        said.calls.append(
            Call(text_of(block.get("id")), text_of(block.get("name")), argument_value(block.get("input")))
        )
    else:
        said.foreign.append(kind)


_MESSAGES_ENDS = {
    "end_turn": STOP,
    "stop_sequence": STOP,
    "compaction": STOP,
    "max_tokens": LENGTH,
    "model_context_window_exceeded": LENGTH,
    "tool_use": CALLS,
    "refusal": FILTERED,
    "pause_turn": PAUSE,
}


def messages_end(reason: object) -> str | None:
    """The class of a `stop_reason`."""
    return _MESSAGES_ENDS.get(text_of(reason), OTHER) if reason else None


def messages_counts(usage: object) -> Counts | None:
    """Messages tells the input without what the cache had; the total is what the others tell."""
    if not isinstance(usage, dict):
        return None
    read, wrote = number(usage.get("cache_read_input_tokens")), number(usage.get("cache_creation_input_tokens"))
    fresh = number(usage.get("input_tokens"))
    total = None if fresh is None else fresh + (read or 0) + (wrote or 0)
    return Counts(total, number(usage.get("output_tokens")), read)


def _chat(body: Object) -> Said:
    said = Said()
    choices = objects(body.get("choices"))
    if body.get("error") and not choices:
        said.error = error_text(body["error"])
        return said
    if not choices:
        said.error = error_text(body)
        return said
    choice = next((one for one in choices if one.get("index", 0) in (0, None)), choices[0])
    chat_message(choice.get("message"), said)
    if choice.get("error"):
        said.error = error_text(choice["error"])
    function = member(choice, "message", "function_call")
    for call in objects(member(choice, "message", "tool_calls")):
        said.calls.append(_chat_call(call))
        seal = member(call, "extra_content", "google", "thought_signature")
        if isinstance(seal, str):
            said.seals.append(seal)
    if isinstance(function, dict) and function.get("name") and not said.calls:
        said.calls.append(Call("", text_of(function["name"]), argument_value(function.get("arguments"))))
    said.end = chat_end(choice.get("finish_reason"))
    said.counts = chat_counts(body, choice)
    return said


def _chat_call(call: Object) -> Call:
    if isinstance(call.get("custom"), dict) and not member(call, "function", "name"):
        return Call(text_of(call.get("id")), text_of(member(call, "custom", "name")), member(call, "custom", "input"))
    function = member(call, "function")
    return Call(
        text_of(call.get("id")), text_of(member(function, "name")), argument_value(member(function, "arguments"))
    )


def chat_message(message: object, said: Said) -> None:
    """Text and reasoning of a message, or of a delta."""
    content = member(message, "content")
    if isinstance(content, str):
        said.texts.append(content)
    for part in objects(content):
        if part.get("type") == "thinking":
            inner = part.get("thinking")
            said.reasoning += (
                inner if isinstance(inner, str) else "".join(text_of(x.get("text")) for x in objects(inner))
            )
        elif part.get("type") in ("text", "output_text", None):
            said.texts.append(text_of(part.get("text")))
        elif part.get("type") == "refusal":
            said.texts.append(text_of(part.get("refusal")))
        else:
            said.foreign.append(text_of(part.get("type")))
    refusal = text_of(member(message, "refusal"))
    said.texts.append(refusal)
    said.refused |= bool(refusal)
    said.reasoning += _chat_reasoning(message, said)


def _chat_reasoning(message: object, said: Said) -> str:
    """The reasoning under the first of its names; details and blocks hold the same text again, and the seals."""
    details, blocks = objects(member(message, "reasoning_details")), objects(member(message, "thinking_blocks"))
    opaque = member(message, "reasoning_opaque")
    said.seals += [text_of(opaque)] if opaque else []
    for part in (*details, *blocks):
        seal = part.get("signature") or (part.get("data") if part.get("type") != "reasoning.text" else None)
        if isinstance(seal, str) and seal not in said.seals:
            said.seals.append(seal)
    for name in ("reasoning_content", "reasoning", "reasoning_text", "thinking"):
        value = member(message, name)
        if isinstance(value, str) and value:
            return value
    if details:
        return "".join(text_of(part.get("text")) or text_of(part.get("summary")) for part in details)
    return "".join(text_of(part.get("thinking")) for part in blocks)


_CHAT_ENDS = {
    "stop": STOP,
    "eos": STOP,
    "end_turn": STOP,
    "length": LENGTH,
    "max_tokens": LENGTH,
    "model_length": LENGTH,
    "model_context_window_exceeded": LENGTH,
    "tool_calls": CALLS,
    "function_call": CALLS,
    "tool_use": CALLS,
    "content_filter": FILTERED,
    "sensitive": FILTERED,
    "refusal": FILTERED,
}


def chat_end(reason: object) -> str | None:
    """The class of a `finish_reason`."""
    return _CHAT_ENDS.get(text_of(reason).lower(), OTHER) if reason else None


def chat_counts(body: Object, choice: object = None) -> Counts | None:
    """Counts, in the places where servers put them."""
    for usage in (body.get("usage"), member(choice, "usage"), member(body, "x_groq", "usage")):
        if isinstance(usage, dict) and ("prompt_tokens" in usage or "completion_tokens" in usage):
            cached = number(member(usage, "prompt_tokens_details", "cached_tokens"))
            for name in ("cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens"):
                cached = number(usage.get(name)) if cached is None else cached
            return Counts(number(usage.get("prompt_tokens")), _chat_output(usage), cached)
    return None


def _chat_output(usage: Object) -> int | None:
    """Tokens of the answer with its reasoning, which xAI counts beside it and only adds to the total.

    Where it is more than the answer (Vercel's gateway, of Gemini) it cannot be in it, whatever the total says.
    """
    output, total = number(usage.get("completion_tokens")), number(usage.get("total_tokens"))
    reasoning = number(member(usage, "completion_tokens_details", "reasoning_tokens"))
    asked = number(usage.get("prompt_tokens"))
    if output is None or total is None or reasoning is None or asked is None:
        return output
    return output + reasoning if reasoning > output or asked + output + reasoning == total else output


def _responses(body: Object) -> Said:
    said = Said()
    if body.get("error"):
        said.error = error_text(body["error"])
        if "output" not in body:
            return said
    for item in objects(body.get("output")):
        responses_item(item, said)
    said.end = responses_end(body, said)
    said.counts = responses_counts(body.get("usage"))
    return said


# Tools of the vendor that run at the client.
_VENDOR_CALLS = frozenset(("apply_patch_call", "shell_call", "local_shell_call", "computer_call", "tool_search_call"))


def responses_item(item: Object, said: Said) -> None:
    """One item of an output."""
    kind = text_of(item.get("type"))
    if kind == "message":
        for part in objects(item.get("content")):
            said.texts.append(text_of(part.get("text")) or text_of(part.get("refusal")))
            said.refused |= part.get("type") == "refusal"
    elif kind == "reasoning":
        summary = [text_of(part.get("text")) for part in objects(item.get("summary"))]
        content = [text_of(part.get("text")) for part in objects(item.get("content"))]
        said.reasoning += "".join(summary) or "".join(content)
        if item.get("encrypted_content"):
            said.seals.append(text_of(item["encrypted_content"]))
    elif kind == "function_call":
        arguments = argument_value(item.get("arguments"))
        said.calls.append(Call(text_of(item.get("call_id")), text_of(item.get("name")), arguments))
    elif kind == "custom_tool_call":
        said.calls.append(Call(text_of(item.get("call_id")), text_of(item.get("name")), item.get("input")))
    else:
        said.foreign.append(kind)
        call_id = text_of(item.get("call_id"))
        if kind in _VENDOR_CALLS and call_id and item.get("execution", "client") == "client":
            said.vendor.append(call_id)
        elif kind.endswith("_output") and call_id in said.vendor:
            # The vendor ran it after all.
            said.vendor.remove(call_id)


def responses_end(body: Object, said: Said) -> str | None:
    """The class of an end: Responses has no word for calls."""
    status = body.get("status")
    if status == "incomplete":
        reason = text_of(member(body, "incomplete_details", "reason"))
        return {"max_output_tokens": LENGTH, "content_filter": FILTERED}.get(reason, OTHER)
    if status == "failed":
        said.error = said.error or "failed"
        return None
    if status not in ("completed", None):
        return None
    return CALLS if said.calls or said.vendor else STOP


def responses_counts(usage: object) -> Counts | None:
    """Counts of a Responses body."""
    if not isinstance(usage, dict):
        return None
    cached = number(member(usage, "input_tokens_details", "cached_tokens"))
    return Counts(number(usage.get("input_tokens")), number(usage.get("output_tokens")), cached)


def read_failure(raw: bytes) -> Said:
    """What an HTTP error says; a body that is no JSON is its own message."""
    try:
        body: object = json.loads(raw)
    except ValueError:
        return Said(error=raw.decode("utf-8", "replace"))
    return Said(error=error_text(member(body, "error") or body))


_READERS: dict[str, Callable[[Object], Said]] = {MESSAGES: _messages, CHAT: _chat, RESPONSES: _responses}
