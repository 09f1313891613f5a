"""Relay repairs of a request from a Chat client to a Chat provider, and of its stream (§1, rule 1).

reasoning_details        entries with an envelope, or written by the gateway for another protocol's signature: removed,
                         together with their reasoning text
call IDs                 of another provider, if this one rejects them: replaced by a hash (N2)
max_tokens               renamed for models that reject the older name (pitfall 124)
stream_options           `include_usage` is added where usage is counted
the usage chunk          withheld from a client that did not request it

A message without content is removed, too. After a rejected signature all signatures are removed (V11). For calls
without a signature, the placeholder that the provider documents is sent."""

from __future__ import annotations

import re

from dragoman.errors import WireError
from dragoman.model.features import Feature
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger, Place
from dragoman.protocols.openai_chat.shapes import (
    BESIDE,
    BLOCKS,
    DETAILS,
    FORMAT_ANTHROPIC,
    FORMAT_RESPONSES,
    FORMAT_TURN,
    ITEMS,
    NAME,
    REASONING_FIELDS,
    REASONING_SIGNATURE_MEMBERS,
    THINKING_PARTS,
)
from dragoman.rules.capabilities import ID_RULES, NO_CALL_SIGNATURE, Capabilities
from dragoman.rules.repairs import ENVELOPE, Ids, finder_of, is_ours, rename_ids, rewritten
from dragoman.wire.json import decode, decode_lenient, encode
from dragoman.wire.json_spans import (
    JsonSpan,
    Member,
    elements_of,
    gaps,
    last_value,
    named,
    object_members,
    replaced,
    with_member,
    without,
)
from dragoman.wire.sse import SseReader


def relay_request(body: bytes, capabilities: Capabilities, _vendor: str, ledger: Ledger) -> bytes:
    """Apply all repairs that a model needs; most bodies need none."""
    # `find`, because `in` first tries each marker as a number, which takes 2,000 more instructions.
    if body.find(_DETAILS) >= 0:
        body = repair_request(body, ledger)
    body = rename_ids(body, ID_RULES[NAME, capabilities.call_ids], CALL_IDS, ledger)
    return rename_cap(body) if capabilities.max_completion_tokens and body.find(_CAP) >= 0 else body


def repair_request(body: bytes, ledger: Ledger) -> bytes:
    def rewrite(message: bytes, number: int) -> list[bytes] | None:
        entries = elements_of(message, DETAILS)
        foreign = [span for _, span in entries if _is_foreign(message, span, number, ledger)]
        if not foreign:
            return None
        if len(foreign) == len(entries):
            foreign = _members(message, DETAILS, *REASONING_FIELDS)
        return _unless_empty(without(message, foreign))

    return rewritten(body, "messages", _is_suspect, rewrite) or body


def without_reasoning(body: bytes, ledger: Ledger) -> bytes | None:
    def rewrite(message: bytes, number: int) -> list[bytes] | None:
        parsed = decode(message)
        if not isinstance(parsed, dict) or parsed.get("role") != "assistant":
            return None
        cut = [
            *_members(message, *(name for name in REASONING_SIGNATURE_MEMBERS if parsed.get(name))),
            *_signed_parts(message),
        ]
        edits = [(span, _STAND_IN) for _, call in _calls(message) for span in _signatures(message, call)]
        for member in named(object_members(message), BESIDE):
            remaining = _without_signatures(last_value(message, [member]))
            if remaining is not None:
                edits += [(member.value, encode(remaining))] if remaining else []
                cut += [] if remaining else [member.whole]
        if not cut and not edits:
            return None
        note = "the provider refused proof of reasoning in this conversation"
        ledger.dropped(Feature.THINKING_SIGNATURE, _thinking(number), note)
        return _unless_empty(replaced(message, [*edits, *((gap, b"") for gap in gaps(message, cut))]))

    return rewritten(body, "messages", _may_have_signatures, rewrite)


def sign_calls(body: bytes, ledger: Ledger) -> bytes | None:
    """Add a placeholder signature to the first call of each message without one; None if all have one."""

    def rewrite(message: bytes, number: int) -> list[bytes] | None:
        calls = _calls(message)
        if not calls or any(_has_signature(message, span) for _, span in calls):
            return None
        note = "the provider demands proof of its calls, which is not to be had"
        ledger.invented(Feature.THINKING_SIGNATURE, ("messages", number), note)
        first = calls[0][1]
        return [replaced(message, [(first, _with_stand_in(message, first))])]

    return rewritten(body, "messages", _may_call, rewrite)


def rename_cap(body: bytes) -> bytes:
    """Rename the output limit to its newer name, unless that is present."""
    members = object_members(body)
    older = named(members, "max_tokens")
    if named(members, "max_completion_tokens"):
        # The newer name wins if a server accepts both.
        return without(body, [member.whole for member in older])
    return replaced(body, [(JsonSpan(member.key_start, member.value_start), _NEWER_CAP) for member in older])


def include_usage(body: bytes) -> bytes | None:
    """Request usage in a streamed request; None if it is already requested, or without a stream."""
    members = object_members(body)
    stream, options = named(members, "stream"), named(members, "stream_options")
    if last_value(body, stream) is not True:
        return None
    if not options:
        return with_member(body, "stream_options", _INCLUDE_USAGE)
    value = last_value(body, options)
    if value is None:
        return replaced(body, [(member.value, _INCLUDE_USAGE) for member in options])
    if not isinstance(value, dict) or value.get("include_usage") is True:
        return None
    return _with_usage(body, options[-1])


def withhold_usage(frames: bytes) -> bytes:
    """Remove the frame that only reports usage. All other bytes stay."""
    if _find_no_choices(frames) is None:
        return frames
    remaining: list[bytes] = []
    at = 0
    while at < len(frames):
        blank = _find_blank(frames, at)
        end = blank.end() if blank is not None else len(frames)
        frame = frames[at:end]
        if _find_no_choices(frame) is None or not _has_only_usage(frame):
            remaining.append(frame)
        elif frame.startswith(b"\n"):
            # The rest of a cut line end belongs to the frame before.
            remaining.append(b"\n")
        at = end
    return b"".join(remaining)


def plain_end(chunk: bytes, start: int) -> int:
    """The end of the run of content chunks at `start`, without end, usage or error; the first chunk must have content.
    A chunk without content is parsed, because it may be a heartbeat."""
    end = chunk.find(b"\n\n", start)
    delta = chunk.find(_DELTA, start, end)
    # If one choice is empty, another one may not be.
    if delta < 0 or (_is_empty(chunk, delta) is not None and chunk.find(_DELTA, delta + 1, end) < 0):
        return start
    # The search before each parsed chunk is limited, because every chunk may be one.
    run = _find_chunks(chunk, start, start + _LOOKED_THROUGH)
    if run is None:
        return start
    loud = _find_loud(chunk, start, run.end())
    if loud is None:
        return run.end()
    before = chunk.rfind(b"\n\n", start, loud.start())
    return start if before < 0 else before + 2


_LOOKED_THROUGH = 16 * 1024
# A frame that does not end like an object is parsed, and detected as incomplete.
_find_chunks = re.compile(rb"(?:data: \{[^\n]*+(?<=\})\n\n)++").match
_DELTA = b'"delta"'
_is_empty = re.compile(
    rb'"delta"[ \t]*+:[ \t]*+\{(?:[ \t]*+"\w++"[ \t]*+:[ \t]*+(?:null|""|"assistant"|\[[ \t]*+\])[ \t]*+,?+)*+[ \t]*+\}'
).match
_find_loud = re.compile(rb'"(?:finish_reason|usage|error)"[ \t]*+:[ \t]*+(?!null)').search
_CAP, _NEWER_CAP = b'"max_tokens"', b'"max_completion_tokens":'
_INCLUDE_USAGE = b'{"include_usage":true}'
# The data of a frame may be spread over lines.
_WHITE = rb"(?:[\n\r]data:|[ \t\n\r])*+"
_find_no_choices = re.compile(_WHITE.join((rb'"choices"', rb":", rb"\[", rb"\]"))).search
# A return and its line feed are one line end and never separated.
_find_blank = re.compile(rb"(?>\r\n?|\n)(?>\r\n?|\n)").search


def _with_usage(body: bytes, options: Member) -> bytes:
    members = named(object_members(body, options.value_start, options.value_end), "include_usage")
    if members:
        return replaced(body, [(member.value, b"true") for member in members])
    return with_member(body, "include_usage", b"true", options.value_end)


def _has_only_usage(frame: bytes) -> bool:
    reader = SseReader(limit=len(frame))
    for event in [*reader.feed(frame), *reader.close()]:
        try:
            chunk = decode_lenient(event.data)
        except WireError:
            return False
        if isinstance(chunk, dict) and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict):
            return True
    return False


def _is_foreign(message: bytes, span: JsonSpan, number: int, ledger: Ledger) -> bool:
    """Whether an entry of the details contains an envelope, which is then reported."""
    if not _is_suspect(message, span.start, span.end):
        return False
    entry = decode(message[span.start : span.end])
    if not isinstance(entry, dict) or not (
        _is_minted(entry) or any(is_ours(entry.get(key)) for key in _ENTRY_SIGNATURES)
    ):
        return False
    at = ("messages", number, "turn") if entry.get("format") == FORMAT_TURN else _thinking(number)
    ledger.dropped(Feature.THINKING_SIGNATURE, at, "this provider did not issue it")
    return True


_ENTRY_SIGNATURES = ("data", "signature")
_FOREIGN_FORMATS = (FORMAT_ANTHROPIC, FORMAT_RESPONSES)
_DETAILS = encode(DETAILS)
_CLAUDE, _RESPONSES = FORMAT_ANTHROPIC.encode(), FORMAT_RESPONSES.encode()


def _is_suspect(body: bytes, start: int, end: int) -> bool:
    find = body.find
    return find(ENVELOPE, start, end) >= 0 or find(_CLAUDE, start, end) >= 0 or find(_RESPONSES, start, end) >= 0


def _is_minted(entry: JsonObject) -> bool:
    """Whether the gateway wrote an entry for a client: only its own entries name the issuing model (§11)."""
    return entry.get("format") in _FOREIGN_FORMATS and isinstance(entry.get("model"), str)


def _thinking(number: int) -> Place:
    # The details of a message are decoded as its first thinking part.
    return ("messages", number, "parts", 0)


def _members(message: bytes, *names: str) -> list[JsonSpan]:
    members = object_members(message)
    return [member.whole for name in names for member in named(members, name)]


def _may_have_signatures(body: bytes, start: int, end: int) -> bool:
    return any(body.find(b'"%b"' % name.encode(), start, end) >= 0 for name in _SIGNED_MEMBERS)


_SIGNED_MEMBERS = (*REASONING_SIGNATURE_MEMBERS, BESIDE, "thought_signature", *THINKING_PARTS)


def _may_call(body: bytes, start: int, end: int) -> bool:
    return body.find(b'"tool_calls"', start, end) >= 0


def _calls(message: bytes) -> list[tuple[int, JsonSpan]]:
    return [(number, span) for number, span in elements_of(message, "tool_calls") if message[span.start] == _BRACE]


def _signatures(message: bytes, call: JsonSpan) -> list[JsonSpan]:
    """The spans of a call's real signatures: on the call, on its function, or in their extras."""
    spans: list[JsonSpan] = []
    holders = [(call, 0)]
    for holder, depth in holders:
        for member in object_members(message, holder.start, holder.end):
            if member.key == _SIGNATURE:
                spans.append(member.value)
            elif message[member.value_start] == _BRACE and (depth or member.key in _HOLDERS) and depth < _DEEPEST:
                holders.append((member.value, depth + 1))
    values = [(span, decode(message[span.start : span.end])) for span in spans]
    return [
        span for span, signature in values if isinstance(signature, str) and signature not in ("", NO_CALL_SIGNATURE)
    ]


def _has_signature(message: bytes, call: JsonSpan) -> bool:
    return bool(_signatures(message, call)) or message.find(_STAND_IN, call.start, call.end) >= 0


def _with_stand_in(message: bytes, span: JsonSpan) -> bytes:
    call = message[span.start : span.end]
    stand_in = encode({"google": {_SIGNATURE: NO_CALL_SIGNATURE}})
    members = named(object_members(call), "extra_content")
    if members:
        return replaced(call, [(member.value, stand_in) for member in members])
    return with_member(call, "extra_content", stand_in)


def _signed_parts(message: bytes) -> list[JsonSpan]:
    parts = [span for _, span in elements_of(message, "content")]
    return [span for span in parts if _is_signed(decode(message[span.start : span.end]))]


def _is_signed(part: JsonValue) -> bool:
    if not isinstance(part, dict) or part.get("type") not in THINKING_PARTS:
        return False
    return any(isinstance(part.get(name), str) and part[name] != "" for name in _ENTRY_SIGNATURES)


def _without_signatures(fields: JsonValue) -> JsonObject | None:
    """A member of LiteLLM's without its signatures; None if it has none."""
    if not isinstance(fields, dict) or not any(fields.get(name) for name in _BESIDE_SIGNATURES):
        return None
    return {key: value for key, value in fields.items() if key not in _BESIDE_SIGNATURES}


def _ids(message: bytes) -> tuple[list[JsonSpan], list[JsonSpan]]:
    if not message.startswith(b"{"):
        return [], []
    calls = [
        member.value
        for _, span in _calls(message)
        for member in named(object_members(message, span.start, span.end), "id")
    ]
    return calls, [member.value for member in named(object_members(message), "tool_call_id")]


_RESULT = b'"tool_call_id"'
CALL_IDS = Ids("messages", finder_of(_RESULT), _ids)
_SIGNATURE = "thought_signature"
_STAND_IN = encode(NO_CALL_SIGNATURE)
_HOLDERS = frozenset({"extra_content", BESIDE, "function"})
_DEEPEST = 3
_BESIDE_SIGNATURES = frozenset({BLOCKS, ITEMS, _SIGNATURE, "thought_signatures"})
_BRACE = ord("{")


def _unless_empty(message: bytes) -> list[bytes]:
    """The message, or none if only its role is left."""
    parsed = decode(message)
    assert isinstance(parsed, dict)
    return [message] if any(value for key, value in parsed.items() if key not in _NO_CONTENT) else []


_NO_CONTENT = frozenset({"role", "name", "id"})
