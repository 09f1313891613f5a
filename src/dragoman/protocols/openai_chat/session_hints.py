"""Speaker of a Chat request: what it shows of who is speaking (decision 33)."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.session_hints import SILENT, HintQuery, SessionHints
from dragoman.wire.history_digest import ANSWERS, ASKS, INSTRUCTS, Told, Turn, joined, speech_in, without_reminders
from dragoman.wire.peek import NULL, length, peeked

_INSTRUCTING = frozenset({"system", "developer"})
# Bytes of media that tell them from others, with how many there are.
_TAIL = 512
_LONGEST_KEY = 512


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


def speech_of(body: bytes, sought: HintQuery) -> SessionHints:
    """What a request shows of its speaker; nothing of one that cannot be read."""
    request = peeked(body, _REQUEST)
    if request is None:
        return SILENT
    cache_key = request.prompt_cache_key or ""
    return speech_in(
        map(_turn, request.messages),
        sought,
        tools=[(tool.function or _NO_FUNCTION).name for tool in request.tools or ()],
        cache_key=cache_key if len(cache_key) <= _LONGEST_KEY else "",
    )


def _turn(message: _Message) -> Turn:
    content = message.content
    if not isinstance(content, str):
        return _turn_of_parts(message, content or [])
    role = message.role
    if role == "tool":
        return ASKS, f"uresult {message.tool_call_id}", "", ((message.tool_call_id, "", content),)
    if role in _INSTRUCTING:
        return INSTRUCTS, "", content, ()
    text = without_reminders(content)
    if role == "assistant":
        return _answered([text] if text else [], message.tool_calls)
    return ASKS, f"u{text}" if text else "", text, ()


def _turn_of_parts(message: _Message, content: list[_Part]) -> Turn:
    role = message.role
    if role in _INSTRUCTING:
        return INSTRUCTS, "", "".join([part.text for part in content]), ()
    if role == "tool":
        text = "".join([part.text for part in content])
        return ASKS, f"uresult {message.tool_call_id}", "", ((message.tool_call_id, "", text),)
    words = [text for part in content if part.kind == "text" and (text := without_reminders(part.text))]
    if role == "assistant":
        return _answered(words, message.tool_calls)
    return ASKS, joined("u", words + _media(content)), "\n".join(words), ()


def _answered(pieces: list[str], calls: list[_Call] | None) -> Turn:
    told: list[Told] = []
    for call in calls or ():
        function = call.function or _NO_FUNCTION
        pieces.append(f"call {call.id}")
        told.append((call.id, function.name, function.arguments or ""))
    return ANSWERS, joined("a", pieces), "", told


def _media(content: list[_Part]) -> list[str]:
    raws = [raw for part in content for raw in (part.image_url, part.file, part.input_audio) if length(raw)]
    return [f"media {length(raw)} {bytes(memoryview(raw)[-_TAIL:]).hex()}" for raw in raws]
