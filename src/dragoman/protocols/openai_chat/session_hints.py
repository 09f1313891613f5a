"""Speaker of a Chat request: what it shows of who is speaking (decision 33)."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.wire.history_digest import (
    ASSISTANT,
    INSTRUCTION,
    USER,
    CallOrResult,
    Turn,
    joined,
    session_hints_in,
    without_reminders,
)
from dragoman.wire.peek import NULL, length, peeked

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
    request = peeked(body, _REQUEST)
    if request is None:
        return NO_HINTS
    cache_key = request.prompt_cache_key or ""
    return session_hints_in(
        map(_turn, request.messages),
        query,
        tools=[(tool.function or _NO_FUNCTION).name for tool in request.tools or ()],
        cache_key=cache_key if len(cache_key) <= _MAX_KEY_LENGTH else "",
    )


def _turn(message: _Message) -> Turn:
    content = message.content
    if not isinstance(content, str):
        return _turn_of_parts(message, content or [])
    role = message.role
    if role == "tool":
        return USER, f"uresult {message.tool_call_id}", "", ((message.tool_call_id, "", content),)
    if role in _INSTRUCTING:
        return INSTRUCTION, "", content, ()
    text = without_reminders(content)
    if role == "assistant":
        return _assistant_turn([text] if text else [], message.tool_calls)
    return USER, f"u{text}" if text else "", text, ()


def _turn_of_parts(message: _Message, content: list[_Part]) -> Turn:
    role = message.role
    if role in _INSTRUCTING:
        return INSTRUCTION, "", "".join([part.text for part in content]), ()
    if role == "tool":
        text = "".join([part.text for part in content])
        return USER, f"uresult {message.tool_call_id}", "", ((message.tool_call_id, "", text),)
    words = [text for part in content if part.kind == "text" and (text := without_reminders(part.text))]
    if role == "assistant":
        return _assistant_turn(words, message.tool_calls)
    return USER, joined("u", words + _media(content)), "\n".join(words), ()


def _assistant_turn(pieces: list[str], calls: list[_Call] | None) -> Turn:
    entries: list[CallOrResult] = []
    for call in calls or ():
        function = call.function or _NO_FUNCTION
        pieces.append(f"call {call.id}")
        entries.append((call.id, function.name, function.arguments or ""))
    return ASSISTANT, joined("a", pieces), "", entries


def _media(content: list[_Part]) -> list[str]:
    raws = [raw for part in content for raw in (part.image_url, part.file, part.input_audio) if length(raw)]
    return [f"media {length(raw)} {bytes(memoryview(raw)[-_TAIL:]).hex()}" for raw in raws]
