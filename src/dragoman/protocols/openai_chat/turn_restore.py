"""Turn restore: adds the signed reasoning of the earlier response to turns of clients that send back only content and
calls (mapping.md V4). The ID of its first call identifies a turn. IDs like `call_0` recur, so a digest of text and
calls must match, too. Restored reasoning is sent and reported as if the client had sent it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import InputForm, Part, Refusal, Text, Thinking, ToolCall
from dragoman.model.response import Response
from dragoman.protocols.codec import CachedTurn, TargetModel, TranslationContext
from dragoman.protocols.openai_chat.reasoning import encode_details, indexed, turn_entry
from dragoman.protocols.openai_chat.reasoning_details import nested_blocks, text_of
from dragoman.protocols.openai_chat.reasoning_history_decoder import decode_echo
from dragoman.protocols.openai_chat.response_parts import Paragraphs, client_name, seal_turn
from dragoman.protocols.openai_chat.shapes import BLOCKS, DETAILS, ITEMS, NAME, OPAQUE, REASONING_FIELDS
from dragoman.rules.arguments import or_empty
from dragoman.rules.input_wrapping import wrap_input
from dragoman.rules.seals import opens
from dragoman.wire.fields import Fields
from dragoman.wire.json import decode, encode, encode_text
from dragoman.wire.json_spans import JsonSpan, elements_of, named, object_members, replaced, with_member

# Every such turn contains it.
MARKER = b'"tool_calls"'
# Reasoning members of a message. A client that returns any of them is expected to return all of them.
_REASONING = (*REASONING_FIELDS, DETAILS, BLOCKS, ITEMS, OPAQUE)


class _Content(Struct, frozen=True, kw_only=True, array_like=True):
    """A cached turn in stored form. `exact` means that its calls must match literally."""

    protocol: str
    vendor: str
    model: str
    digest: bytes
    exact: bool
    details: Raw


_write = msgspec.json.Encoder().encode
_READER = msgspec.json.Decoder(_Content)


def build_cached_turn(response: Response, translation: TranslationContext) -> CachedTurn | None:
    """The turn of a response to cache for later requests; None without a call or signed reasoning."""
    if response.origin == NAME or translation.request.legacy_functions or translation.request.store is False:
        return None
    calls = [_response_call(part) for part in response.parts if isinstance(part, ToolCall)]
    if not calls or not calls[0][0] or any(isinstance(part, Refusal) for part in response.parts):
        return None
    carried = [encode_details(part) for part in response.parts if isinstance(part, Thinking)]
    sealed = [entries for entries in carried if _comes_back(entries, response.origin, translation.target)]
    if not sealed:
        return None
    entries = [entry for one in sealed for entry in one]
    turn = seal_turn(response.parts, response.origin, translation)
    if turn is not None:
        if len(sealed) < len(carried):
            # The exact turn also has reasoning that its own provider would not accept back.
            return None
        entries.append(turn_entry(turn))
    content = _Content(
        protocol=response.origin,
        vendor=translation.target.vendor,
        model=translation.target.model,
        digest=_digest(_text(response.parts), calls, exact=turn is not None),
        exact=turn is not None,
        details=Raw(encode([*indexed(entries)])),
    )
    return CachedTurn(call_id=calls[0][0], body=_write(content))


def lacking(body: bytes) -> list[str]:
    """The IDs of the first calls of assistant messages without reasoning, each once."""
    if MARKER not in body:
        return []
    try:
        if any(body[one.value_start : one.value_end] == b"false" for one in named(object_members(body), "store")):
            return []
        return list(dict.fromkeys([turn.calls[0][0] for turn in _bare_turns(body)]))
    except (WireError, RecursionError, UnicodeError):
        return []


def restore(body: bytes, cached: Mapping[str, bytes], protocol: str, target: TargetModel) -> bytes:
    """Restore cached turns in a request, each once, if this provider issued them and they match."""
    contents = {call_id: _read(encoded) for call_id, encoded in cached.items()}
    waiting = {
        call_id: content
        for call_id, content in contents.items()
        if content is not None and _is_issuer(content, protocol, target)
    }
    if not waiting:
        return body
    edits: list[tuple[JsonSpan, bytes]] = []
    for turn in _bare_turns(body):
        call_id = turn.calls[0][0]
        content = waiting.get(call_id)
        if content is not None and content.digest == _digest(turn.text, turn.calls, exact=content.exact):
            edits.append((turn.span, _with_details(body[turn.span.start : turn.span.end], bytes(content.details))))
            del waiting[call_id]
    return replaced(body, edits) if edits else body


def _read(encoded: bytes) -> _Content | None:
    try:
        return _READER.decode(encoded)
    except msgspec.DecodeError:
        # Another version wrote it.
        return None


def _comes_back(entries: list[JsonObject], origin: str, target: TargetModel) -> bool:
    """Whether the provider accepts the reasoning that a client returns in these entries."""
    if not entries:
        return False
    parts, _ = decode_echo(Fields({DETAILS: [*entries]}))
    seals = [part.seal for part in parts if isinstance(part, Thinking)]
    return all(seal is not None and opens(seal, origin, target.model, target.capabilities) for seal in seals)


def _is_issuer(content: _Content, protocol: str, target: TargetModel) -> bool:
    if (content.protocol, content.vendor) != (protocol, target.vendor):
        return False
    return content.model == target.model or content.model in target.capabilities.shares_thinking_with


def _with_details(message: bytes, details: bytes) -> bytes:
    empty = named(object_members(message), DETAILS)
    if empty:
        return replaced(message, [(member.value, details) for member in empty])
    return with_member(message, DETAILS, details)


_Call = tuple[str, str, str]


class _BareTurn(Struct, frozen=True):
    """An assistant message with calls and without reasoning: its span and content."""

    span: JsonSpan
    text: str
    calls: list[_Call]


def _bare_turns(body: bytes) -> Iterator[_BareTurn]:
    for _, span in elements_of(body, "messages"):
        if body.find(MARKER, span.start, span.end) < 0:
            continue
        message = decode(body[span.start : span.end])
        if not isinstance(message, dict) or message.get("role") != "assistant":
            continue
        if any(message.get(name) for name in _REASONING) or nested_blocks(message) or message.get("refusal"):
            continue
        content, calls = message.get("content"), _client_calls(message.get("tool_calls"))
        text = text_of(content) if content else ""
        if text is not None and calls:
            yield _BareTurn(span, text, calls)


def _client_calls(calls: JsonValue) -> list[_Call]:
    """The calls of a client's message; none if one of them is unreadable."""
    entries: list[_Call] = []
    for call in calls if isinstance(calls, list) else ():
        entry = _client_call(call) if isinstance(call, dict) else None
        if entry is None:
            return []
        entries.append(entry)
    return entries


def _client_call(call: JsonObject) -> _Call | None:
    call_id, custom = call.get("id"), call.get("custom")
    inner = custom if isinstance(custom, dict) else call.get("function")
    if not isinstance(call_id, str) or not call_id or not isinstance(inner, dict):
        return None
    name, arguments = inner.get("name"), inner.get("input" if inner is custom else "arguments")
    if not isinstance(name, str) or not isinstance(arguments, str):
        return None
    return call_id, name, wrap_input(arguments) if inner is custom else or_empty(arguments)


def _response_call(call: ToolCall) -> _Call:
    """A call of a response in the client's form. Streams send free text as the function for its tool."""
    text = call.form is InputForm.TEXT
    return call.call_id, client_name(call), wrap_input(call.arguments) if text else or_empty(call.arguments)


def _text(parts: tuple[Part, ...]) -> str:
    pieces: list[str] = []
    paragraphs = Paragraphs()
    for part in parts:
        if not isinstance(part, Text):
            paragraphs.interrupt()
        elif part.text:
            if paragraphs.separates(part.id):
                pieces.append("\n\n")
            pieces.append(part.text)
    return "".join(pieces)


def _digest(text: str, calls: list[_Call], *, exact: bool) -> bytes:
    """The digest that identifies a turn. Clients that re-encode arguments change the white space."""
    entries: JsonList = [
        [call_id, name, arguments if exact else _spelled(arguments)] for call_id, name, arguments in calls
    ]
    return sha256(encode([text, entries])).digest()


def _spelled(arguments: str) -> str:
    try:
        return encode_text(decode(arguments))
    except WireError:
        return arguments
