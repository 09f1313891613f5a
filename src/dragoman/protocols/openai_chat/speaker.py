"""Speaker of a Chat request: what it shows of who is speaking (decision 33)."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.speech import SILENT, Sought, Speech
from dragoman.wire.history import History, without_reminders
from dragoman.wire.peek import NULL, length, peeked

_INSTRUCTING = frozenset({"system", "developer"})
# Bytes of media that tell them from others, with how many there are.
_TAIL = 512
_LONGEST_KEY = 512


class _Part(Struct):
    kind: str = field(name="type", default="")
    text: str = ""
    image_url: Raw = NULL
    file: Raw = NULL
    input_audio: Raw = NULL


class _Function(Struct):
    name: str = ""
    arguments: str | None = None


class _Call(Struct):
    id: str = ""
    function: _Function | None = None


class _Message(Struct):
    role: str = ""
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str = ""


class _Tool(Struct):
    function: _Function | None = None


class _Request(Struct):
    messages: list[_Message] = []
    tools: list[_Tool] | None = None
    prompt_cache_key: str | None = None


_REQUEST = msgspec.json.Decoder(_Request)
_NO_FUNCTION = _Function()


def speech_of(body: bytes, sought: Sought) -> Speech:
    """What a request shows of its speaker; nothing of one that cannot be read."""
    request = peeked(body, _REQUEST)
    if request is None:
        return SILENT
    history = History()
    for message in request.messages:
        content = message.content
        if message.role in _INSTRUCTING:
            for text in [content] if isinstance(content, str) else [part.text for part in content or ()]:
                history.instruct(text)
        elif message.role == "assistant":
            pieces = _words(content)
            for call in message.tool_calls or ():
                function = call.function or _NO_FUNCTION
                pieces.append(history.call(call.id, function.name, function.arguments or ""))
            history.answer(pieces)
        elif message.role == "tool":
            words = content if isinstance(content, str) else "".join([part.text for part in content or ()])
            history.ask([history.result(message.tool_call_id, words)])
        else:
            words_said = _words(content)
            history.ask([*words_said, *_media(content)], "\n".join(words_said))
    names = [tool.function.name for tool in request.tools or () if tool.function is not None]
    cache_key = request.prompt_cache_key or ""
    return history.speech(
        sought,
        tools=len(request.tools or ()),
        telling=tuple(dict.fromkeys([name for name in names if name in sought.telling])),
        cache_key=cache_key if len(cache_key) <= _LONGEST_KEY else "",
    )


def _words(content: str | list[_Part] | None) -> list[str]:
    if content is None or isinstance(content, str):
        texts = [content or ""]
    else:
        texts = [part.text for part in content if part.kind == "text"]
    return [text for text in map(without_reminders, texts) if text]


def _media(content: str | list[_Part] | None) -> list[str]:
    if content is None or isinstance(content, str):
        return []
    raws = [raw for part in content for raw in (part.image_url, part.file, part.input_audio) if length(raw)]
    return [f"media {length(raw)} {bytes(memoryview(raw)[-_TAIL:]).hex()}" for raw in raws]
