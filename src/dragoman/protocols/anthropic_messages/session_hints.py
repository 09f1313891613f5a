"""Speaker of a Messages request: what it shows of who is speaking (decision 33)."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.rules.instructions import without_telemetry
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

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
# Bytes of media that tell them from others, with how many there are.
_TAIL = 512
# Bytes of `metadata.user_id`, which holds a few ids.
_MAX_USER_ID_LENGTH = 2048


class _Block(Struct, gc=False):
    kind: str = field(name="type", default="")
    text: str = ""
    id: str = ""
    name: str = ""
    tool_use_id: str = ""
    input: Raw = NULL
    content: Raw = NULL
    source: Raw = NULL


class _Message(Struct, gc=False):
    role: str = ""
    content: str | list[_Block] | None = None


class _Tool(Struct, gc=False):
    name: str = ""


class _Metadata(Struct, gc=False):
    user_id: str | None = None


class _Request(Struct, gc=False):
    messages: list[_Message] = []
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = None
    metadata: _Metadata | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def session_hints_of(body: bytes, query: HintQuery) -> SessionHints:
    """What a request shows of its speaker; nothing of one that cannot be read."""
    request = peeked(body, _REQUEST)
    if request is None:
        return NO_HINTS
    system, user = request.system, None if request.metadata is None else request.metadata.user_id
    texts = [system] if isinstance(system, str) else [block.text for block in system or ()]
    return session_hints_in(
        map(_turn, request.messages),
        query,
        instructions="".join(map(without_telemetry, texts)),
        tools=[tool.name for tool in request.tools or ()],
        user=user if user is not None and len(user) <= _MAX_USER_ID_LENGTH else "",
    )


def _turn(message: _Message) -> Turn:
    role, content = message.role, message.content
    if content is None or isinstance(content, str):
        text = content or ""
        if role == "system":
            return INSTRUCTION, "", text, ()
        if role == "assistant":
            return ASSISTANT, f"a{text}" if text else "", "", ()
        text = without_reminders(text)
        return USER, f"u{text}" if text else "", text, ()
    if role == "system":
        return INSTRUCTION, "", "".join([block.text for block in content]), ()
    return _assistant_turn(content) if role == "assistant" else _user_turn(content)


def _assistant_turn(content: list[_Block]) -> Turn:
    pieces: list[str] = []
    calls: list[CallOrResult] = []
    for block in content:
        kind = block.kind
        if kind == "text":
            pieces.append(block.text)
        elif kind == "tool_use":
            pieces.append(f"call {block.id}")
            calls.append((block.id, block.name, block.input))
        elif kind not in _THOUGHTS:
            pieces.append(f"{kind} {block.id or block.tool_use_id}")
    return ASSISTANT, joined("a", pieces), "", calls


def _user_turn(content: list[_Block]) -> Turn:
    pieces: list[str] = []
    texts: list[str] = []
    results: list[CallOrResult] = []
    for block in content:
        kind = block.kind
        if kind == "text":
            text = without_reminders(block.text)
            if text:
                pieces.append(text)
                texts.append(text)
        elif kind == "tool_result":
            pieces.append(f"result {block.tool_use_id}")
            results.append((block.tool_use_id, "", block.content))
        else:
            tail = bytes(memoryview(block.source)[-_TAIL:]).hex()
            pieces.append(f"{kind} {length(block.source)} {tail}")
    return USER, joined("u", pieces), "\n".join(texts), results
