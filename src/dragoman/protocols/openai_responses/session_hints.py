"""Speaker of a Responses request: what it shows of who is speaking (decision 33)."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct, field

from dragoman.model.session_hints import NO_HINTS, HintQuery, SessionHints
from dragoman.wire.history_digest import ASSISTANT, INSTRUCTION, USER, Turn, joined, session_hints_in, without_reminders
from dragoman.wire.peek import NULL, length, peeked, text_in

_INSTRUCTING = frozenset({"system", "developer"})
_CALLS = frozenset({"function_call", "custom_tool_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
# Bytes of media that tell them from others, with how many there are.
_TAIL = 512
_MAX_KEY_LENGTH = 512
_MAX_METADATA_BYTES = 16 * 1024


class _Part(Struct, gc=False):
    kind: str = field(name="type", default="")
    text: str = ""
    image_url: Raw = NULL
    file_data: Raw = NULL
    file_id: Raw = NULL


class _Item(Struct, gc=False):
    kind: str = field(name="type", default="")
    role: str = ""
    content: str | list[_Part] | None = None
    id: str | None = None
    call_id: str | None = None
    name: str = ""
    arguments: Raw = NULL
    input: Raw = NULL
    output: Raw = NULL


class _Tool(Struct, gc=False):
    name: str = ""
    # Of a namespace.
    tools: list[_Tool] | None = None


class _Conversation(Struct, gc=False):
    id: str = ""


class _Request(Struct, gc=False):
    input: str | list[_Item] | None = None
    instructions: str | None = None
    tools: list[_Tool] | None = None
    prompt_cache_key: str | None = None
    previous_response_id: str | None = None
    conversation: str | _Conversation | None = None
    client_metadata: Raw = NULL


_REQUEST = msgspec.json.Decoder(_Request)
# Clients leave reasoning out as they like.
_NOTHING: Turn = (INSTRUCTION, "", "", ())


def session_hints_of(body: bytes, query: HintQuery) -> SessionHints:
    """What a request shows of its speaker; nothing of one that cannot be read."""
    request = peeked(body, _REQUEST)
    if request is None:
        return NO_HINTS
    content, conversation = request.input, request.conversation
    cache_key = request.prompt_cache_key or ""
    return session_hints_in(
        [_user_turn([content] if content else [])] if isinstance(content, str) else map(_turn, content or ()),
        query,
        instructions=request.instructions or "",
        tools=[inner.name for tool in request.tools or () for inner in (tool.tools or (tool,))],
        cache_key=cache_key if len(cache_key) <= _MAX_KEY_LENGTH else "",
        metadata=bytes(request.client_metadata) if 0 < length(request.client_metadata) <= _MAX_METADATA_BYTES else b"",
        conversation=conversation.id if isinstance(conversation, _Conversation) else conversation or "",
        previous=request.previous_response_id or "",
    )


def _turn(item: _Item) -> Turn:
    kind, role = item.kind, item.role
    if kind in _CALLS:
        call_id = item.call_id or ""
        return ASSISTANT, f"acall {call_id}", "", ((call_id, item.name, _arguments(item)),)
    if kind in _RESULTS:
        call_id = item.call_id or ""
        return USER, f"uresult {call_id}", "", ((call_id, "", item.output),)
    if role in _INSTRUCTING:
        return INSTRUCTION, "", "".join(_texts(item.content)), ()
    if role == "assistant":
        return ASSISTANT, joined("a", _texts(item.content)), "", ()
    if role == "user":
        return _user_turn(_texts(item.content), _media(item.content))
    if kind == "reasoning":
        return _NOTHING
    # Items of hosted tools, and of those that are not known: the model's, by their ids.
    return ASSISTANT, f"a{kind} {item.id or item.call_id or ''}", "", ()


def _user_turn(texts: list[str], media: Iterable[str] = ()) -> Turn:
    words = [text for text in map(without_reminders, texts) if text]
    return USER, joined("u", [*words, *media]), "\n".join(words), ()


def _arguments(item: _Item) -> Raw | str:
    """Arguments of a call, which are JSON in a string."""
    return text_in(item.arguments) if length(item.arguments) else text_in(item.input)


def _texts(content: str | list[_Part] | None) -> list[str]:
    if content is None or isinstance(content, str):
        return [content] if content else []
    return [part.text for part in content if part.text]


def _media(content: str | list[_Part] | None) -> list[str]:
    if content is None or isinstance(content, str):
        return []
    raws = [raw for part in content for raw in (part.image_url, part.file_data, part.file_id) if length(raw)]
    return [f"media {length(raw)} {bytes(memoryview(raw)[-_TAIL:]).hex()}" for raw in raws]
