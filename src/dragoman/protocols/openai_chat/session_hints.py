"""Speaker of a Chat request: what it shows of who is speaking (decision 33)."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.wire.history_digest import (
    ASSISTANT,
    INSTRUCTION,
    REMINDER,
    SEPARATOR,
    USER,
    CallOrResult,
    Turn,
    joined,
    session_hints_in,
    without_reminders,
)
from dragoman.wire.peek import NULL, UNREADABLE, length

_INSTRUCTING = frozenset({"system", "developer"})
# Bytes of media that tell them from others, with how many there are.
_TAIL = 512
_MAX_KEY_LENGTH = 512


class _Part(Struct, gc=False):
    kind: str = field(name="type", default="")
    text: str = ""
    image_url: Raw = NULL
    file: Raw = NULL
    input_audio: Raw = NULL


class _Function(Struct, gc=False):
    name: str = ""
    arguments: str | None = None


class _Call(Struct, gc=False):
    id: str = ""
    function: _Function | None = None


class _Message(Struct, gc=False):
    role: str = ""
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""


class _Tool(Struct, gc=False):
    function: _Function | None = None


class _Request(Struct, gc=False):
    messages: list[_Message] = []
    tools: list[_Tool] | None = None
    prompt_cache_key: str | None = None


_REQUEST = msgspec.json.Decoder(_Request)
_NO_FUNCTION = _Function()


def session_hints_of(body: bytes, query: HintQuery) -> SessionHints:
    """What a request shows of its speaker; nothing of one that cannot be read."""
    try:
        request = _REQUEST.decode(body)
    except UNREADABLE:
        return NO_HINTS
    cache_key = request.prompt_cache_key or ""
    return session_hints_in(
        _turns(request.messages),
        query,
        tools=[(tool.function or _NO_FUNCTION).name for tool in request.tools] if request.tools else (),
        cache_key=cache_key if len(cache_key) <= _MAX_KEY_LENGTH else "",
    )


def _turns(messages: list[_Message]) -> list[Turn]:
    turns: list[Turn] = []
    for message in messages:
        role, content = message.role, message.content
        if content is None:
            content = ""
        elif not isinstance(content, str):
            turns.append(_turn_of_parts(message, content))
            continue
        if role == "tool":
            result = message.tool_call_id
            turns.append((USER, f"uresult {result}", "", ((result, "", content),)))
        elif role in _INSTRUCTING:
            turns.append((INSTRUCTION, "", content, ()))
        else:
            if REMINDER in content:
                content = without_reminders(content)
            if role != "assistant":
                turns.append((USER, f"u{content}" if content else "", content, ()))
            elif message.tool_calls:
                turns.append(_calling_turn([content] if content else [], message.tool_calls))
            else:
                turns.append((ASSISTANT, f"a{content}" if content else "", "", ()))
    return turns


def _turn_of_parts(message: _Message, content: list[_Part]) -> Turn:
    role = message.role
    if role in _INSTRUCTING:
        return INSTRUCTION, "", "".join([part.text for part in content]), ()
    if role == "tool":
        text = "".join([part.text for part in content])
        return USER, f"uresult {message.tool_call_id}", "", ((message.tool_call_id, "", text),)
    words = [text for part in content if part.kind == "text" and (text := without_reminders(part.text))]
    if role == "assistant":
        return _calling_turn(words, message.tool_calls or [])
    return USER, joined("u", words + _media(content)), "\n".join(words), ()


def _calling_turn(pieces: list[str], calls: list[_Call]) -> Turn:
    entries: list[CallOrResult] = []
    for call in calls:
        function = call.function or _NO_FUNCTION
        pieces.append(f"call {call.id}")
        entries.append((call.id, function.name, function.arguments or ""))
    return ASSISTANT, "a" + SEPARATOR.join(pieces) if pieces else "", "", entries


def _media(content: list[_Part]) -> list[str]:
    raws = [raw for part in content for raw in (part.image_url, part.file, part.input_audio) if length(raw)]
    return [f"media {length(raw)} {bytes(memoryview(raw)[-_TAIL:]).hex()}" for raw in raws]
