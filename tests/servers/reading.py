"""What a user of an official SDK reads in an answer, in words that are the same for all three."""

from __future__ import annotations

import json
from typing import Any

from anthropic.types import Message
from msgspec import Struct
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from tests.sdk.names import CHAT, MESSAGES, RESPONSES
from tests.servers.recordings import Counts, Says, Turn

# What an end is called by each protocol (mapping.md §17); a refusal that is said ends as any text does.
_CUT: dict[str, tuple[str, ...]] = {MESSAGES: ("max_tokens",), CHAT: ("length",), RESPONSES: ("max_output_tokens",)}
STOPS: dict[str, dict[str, tuple[str, ...]]] = {
    "end": {MESSAGES: ("end_turn",), CHAT: ("stop",), RESPONSES: ("completed",)},
    "tool_call": {MESSAGES: ("tool_use",), CHAT: ("tool_calls",), RESPONSES: ("completed",)},
    "length": _CUT,
    "context_full": {**_CUT, MESSAGES: ("model_context_window_exceeded", "max_tokens")},
    "pause": {**_CUT, MESSAGES: ("pause_turn", "max_tokens")},
    "sequence": {MESSAGES: ("stop_sequence",), CHAT: ("stop",), RESPONSES: ("completed",)},
    "filter": {MESSAGES: ("refusal",), CHAT: ("content_filter",), RESPONSES: ("content_filter",)},
    "refusal": {
        MESSAGES: ("refusal",),
        CHAT: ("stop", "content_filter"),
        RESPONSES: ("completed", "content_filter"),
    },
}


# Members in which servers of Chat tell reasoning; abroad it is always the first.
_REASONING = ("reasoning_content", "reasoning", "reasoning_text")


class Heard(Struct, kw_only=True):
    """One answer as its reader has it; calls are their ids, names and arguments."""

    protocol: str
    text: str = ""
    thinking: str = ""
    refusal: str = ""
    calls: list[tuple[str, str, Any]] = []
    stop: str = ""
    usage: Counts | None = None
    error: str = ""
    status: int = 0


def of_message(message: Message) -> Heard:
    """Anthropic's blocks."""
    heard = Heard(protocol=MESSAGES, stop=message.stop_reason or "")
    for block in message.content:
        if block.type == "text":
            heard.text += block.text
        elif block.type == "thinking":
            heard.thinking += block.thinking
        elif block.type == "tool_use":
            heard.calls.append((block.id, block.name, block.input))
    usage = message.usage
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    heard.usage = Counts(input=usage.input_tokens + read + written, output=usage.output_tokens, cache_read=read)
    return heard


def of_completion(completion: ChatCompletion) -> Heard:
    """The message of a Chat completion; a client of the server itself knows where that tells its reasoning."""
    choice = completion.choices[0]
    message = choice.message
    beside = message.model_extra or {}
    heard = Heard(
        protocol=CHAT,
        text=message.content or "",
        thinking=next((str(beside[name]) for name in _REASONING if beside.get(name)), ""),
        refusal=message.refusal or "",
        stop=choice.finish_reason,
    )
    for call in message.tool_calls or []:
        assert call.type == "function"
        heard.calls.append((call.id, call.function.name, json.loads(call.function.arguments or "{}")))
    usage = completion.usage
    if usage is not None:
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens if details is not None else None) or 0
        heard.usage = Counts(input=usage.prompt_tokens, output=usage.completion_tokens, cache_read=cached)
    return heard


def of_response(response: Response) -> Heard:
    """The items of a response."""
    cut = response.incomplete_details
    stop = cut.reason if cut is not None else response.status
    heard = Heard(protocol=RESPONSES, text=response.output_text, stop=stop or "")
    if response.error is not None:
        heard.error = response.error.message
    for item in response.output:
        if item.type == "reasoning":
            heard.thinking += "".join([part.text for part in item.summary or item.content or []])
        elif item.type == "function_call":
            heard.calls.append((item.call_id, item.name, json.loads(item.arguments)))
        elif item.type == "message":
            heard.refusal += "".join([part.refusal for part in item.content if part.type == "refusal"])
    usage = response.usage
    if usage is not None:
        cached = usage.input_tokens_details.cached_tokens
        heard.usage = Counts(input=usage.input_tokens, output=usage.output_tokens, cache_read=cached)
    return heard


def check(heard: Heard, turn: Turn) -> None:
    """Hold what was heard against what was meant."""
    says = turn.says
    if says.error:
        assert says.error in heard.error, f"the error told is {heard.error!r}"
        assert says.status in (0, heard.status) or not heard.status, heard.status
        return
    assert not heard.error, heard.error
    # Messages has no member for a refusal: its words are text.
    assert (heard.text + heard.refusal) == (says.text + says.refusal)
    assert not says.refusal or heard.protocol == MESSAGES or heard.refusal == says.refusal
    # Whoever joins pieces of reasoning does it with another white space.
    assert "".join(heard.thinking.split()) == "".join(says.thinking.split())
    assert [(name, arguments) for _, name, arguments in heard.calls] == [
        (call.name, call.arguments) for call in says.calls
    ]
    told = [found for (found, _, _), call in zip(heard.calls, says.calls, strict=True) if call.id]
    assert told == [call.id for call in says.calls if call.id]
    assert len({found for found, _, _ in heard.calls}) == len(heard.calls), "two calls of one id"
    stop = says.stop or ("tool_call" if says.calls else "end")
    assert heard.stop in STOPS[stop][heard.protocol], f"{heard.stop!r} is not how {stop!r} is told"
    _check_usage(heard.usage, says)


def _check_usage(heard: Counts | None, says: Says) -> None:
    if says.usage is None:
        return
    assert heard is not None, "no usage was told"
    for name in ("input", "output", "cache_read"):
        meant = getattr(says.usage, name)
        assert meant is None or getattr(heard, name) == meant, f"{name}: {heard}"
