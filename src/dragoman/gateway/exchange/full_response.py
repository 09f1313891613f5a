"""Full responses: the outline that the relay reads, and the report that a client may request."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import BadResponse, DragomanError, WireError
from dragoman.gateway.paths import CHAT, MESSAGES, RESPONSES
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.losses import Ledger
from dragoman.model.response import Usage
from dragoman.protocols.codec import Codec
from dragoman.rules.counts import UsageMembers
from dragoman.rules.surrogates import SurrogateJoiner
from dragoman.translate import LossLine, as_json, translation_context
from dragoman.wire.duplicate_keys import OBJECT
from dragoman.wire.json import decode_object, encode, has_surrogates, without_surrogates
from dragoman.wire.json_spans import with_member
from dragoman.wire.sse import comment

T = TypeVar("T")
REPORT = "dragoman"
_NULL, _FAILED = Raw(b"null"), Raw(b'"failed"')
# The replacement for an unpaired surrogate.
_NO_CHARACTER = "\ufffd"


class _Choice(Struct):
    finish_reason: str | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _ResponseOutline(UsageMembers):
    """The members that are read of a relayed response."""

    error: Raw = _NULL
    status: Raw = _NULL
    # The content member of each protocol.
    content: Raw = _NULL
    choices: list[_Choice] | None = None
    output: Raw = _NULL
    # Error members of servers outside the protocols.
    detail: Raw = _NULL
    message: Raw = _NULL
    object: Raw = _NULL
    # ID, model and stop reason.
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    incomplete_details: _Incomplete | None = None


class Relayed(Struct, frozen=True):
    """Counts, names and end of a relayed response, or the error that it is. `own` is a failure sent as a response of
    its own; `has_content` means that there is content next to a failure."""

    usage: Usage | None = None
    id: str = ""
    model: str = ""
    stop: str = ""
    failure: Failure | None = None
    own: Failure | None = None
    has_content: bool = False


_OUTLINE = msgspec.json.Decoder(_ResponseOutline)
# Decoders of single members, if one of them has an unexpected type; and the value that replaces it.
_NAME = msgspec.json.Decoder(str | None)
_COUNTS: msgspec.json.Decoder[JsonValue] = msgspec.json.Decoder(float_hook=Number)
_APART: dict[str, tuple[msgspec.json.Decoder[Any], object]] = {
    "choices": (msgspec.json.Decoder(list[_Choice] | None), []),
    "id": (_NAME, None),
    "model": (_NAME, None),
    "stop_reason": (_NAME, ""),
    "incomplete_details": (msgspec.json.Decoder(_Incomplete | None), _Incomplete()),
}
_CONTENT_FIELDS = {MESSAGES: "content", CHAT: "choices", RESPONSES: "output"}
_NOTHING = (b"null", b"[]")
# Longer values are not IDs; so many characters take no more bytes.
_MAX_NAME_BYTES = 510
_SHORT = _MAX_NAME_BYTES // 4
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)


def relayed_response(raw: bytes, codec: Codec) -> Relayed:
    """The token counts of a relayed response, or the error that it is in spite of its status (O2). A body that is no
    JSON object is no response; anything else is between the provider and its own protocol's client (decision 7)."""
    try:
        try:
            outline = _OUTLINE.decode(raw)
        except msgspec.DecodeError:
            outline = _odd_outline(raw)
        # The reader does not inspect skipped values, and clients cannot read JSON that is not UTF-8.
        if not raw.isascii():
            raw.decode()
    except _UNREADABLE:
        raise BadResponse("the provider's response is not JSON of its protocol") from None
    usage = None
    if outline.usage != _NULL or outline.x_groq != _NULL:
        usage = codec.usual_usage(outline) if codec.usual_usage is not None else None
        if usage is None:
            usage = codec.usage_of(_counts_in(outline))
    own, failed = None, outline.status == _FAILED and codec.name == RESPONSES
    if failed:
        # A failure that has a response form of its own is passed on (S1). Only Responses has one.
        with suppress(DragomanError):
            own = _failure_in(raw, codec)
    elif outline.error != _NULL:
        # Only the protocol knows what an error without a status of its own means.
        try:
            failure = _failure_in(raw, codec)
        except DragomanError:
            raise BadResponse("the provider's response cannot be read") from None
        if failure is not None:
            if failure.message and not failure.message.strip(_NO_CHARACTER):
                raise BadResponse("the provider's response cannot be read")
            return Relayed(usage, failure=failure, has_content=_has_content(outline))
    content = getattr(outline, _CONTENT_FIELDS[codec.name])
    if (content is None or content == _NULL) and not failed and _is_no_response(outline, raw):
        raise BadResponse("the provider's response does not follow its protocol")
    name, model, choices = outline.id or "", outline.model or "", outline.choices
    return Relayed(
        usage,
        name if len(name) <= _SHORT else _name(name),
        model if len(model) <= _SHORT else _name(model),
        choices[0].finish_reason or "" if choices else _stop_in(outline),
        None,
        own,
        failed and _has_content(outline),
    )


def _counts_in(outline: _ResponseOutline) -> JsonObject:
    """The members with counts. Counts that cannot be read are no reason to fail."""
    return {name: _read(_COUNTS, getattr(outline, name), None) for name in UsageMembers.__struct_fields__}


def _stop_in(outline: _ResponseOutline) -> str:
    """Why an answer ended, in its provider's own word; "" if that cannot be read."""
    if outline.stop_reason is not None:
        return _name(outline.stop_reason)
    if outline.choices is not None:
        return ""
    if outline.incomplete_details is not None:
        return outline.incomplete_details.reason or ""
    return _name(_read(_NAME, outline.status, "") or "")


def _name(name: str) -> str:
    return name if len(name.encode()) <= _MAX_NAME_BYTES else ""


def has_content(raw: bytes) -> bool:
    """Whether an answer that failed has something of an answer in it all the same."""
    try:
        return _has_content(_odd_outline(raw))
    except _UNREADABLE:
        return False


def _has_content(outline: _ResponseOutline) -> bool:
    return bool(outline.choices) or any(bytes(value) not in _NOTHING for value in (outline.output, outline.content))


def _failure_in(raw: bytes, codec: Codec) -> Failure | None:
    """The failure of an error response, decoded by its protocol; an error may contain an unpaired surrogate, too."""
    ledger = Ledger()
    decoded = codec.decode_response(SurrogateJoiner(ledger).read_object(raw), translation_context(None, codec), ledger)
    return decoded if isinstance(decoded, Failure) else None


def _odd_outline(raw: bytes) -> _ResponseOutline:
    """The outline, read leniently: an unpaired surrogate in a cut response is no reason to fail."""
    try:
        return _outline_by_member(raw)
    except msgspec.DecodeError:
        text = raw.decode()
        if not has_surrogates(text):
            raise
        return _outline_by_member(without_surrogates(text).encode())


def _outline_by_member(raw: bytes) -> _ResponseOutline:
    """The same of an answer that has something else in a place: of that nothing is known, and all of the rest."""
    members = OBJECT.decode(raw)
    fields: dict[str, Any] = {name: members[name] for name in _ResponseOutline.__struct_fields__ if name in members}
    for name, (decoder, instead) in _APART.items():
        if name in fields:
            fields[name] = _read(decoder, members[name], instead)
    return _ResponseOutline(**fields)


def _read(decoder: msgspec.json.Decoder[T], value: Raw, instead: T) -> T:
    try:
        return decoder.decode(value)
    except _UNREADABLE:
        return instead


def _is_no_response(outline: _ResponseOutline, raw: bytes) -> bool:
    """Whether an object without content is an empty response, or an error of a server outside the protocol."""
    is_error = outline.detail != _NULL or outline.message != _NULL or bytes(outline.object) == b'"error"'
    return is_error or not raw.strip(b"{} \t\r\n")


def is_envelope(body: bytes | JsonObject, protocol: str) -> bool:
    """Whether a body, read or not, is an error as a client of a protocol looks for it."""
    if isinstance(body, bytes):
        try:
            body = decode_object(body)
        except WireError:
            return False
    error = body.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return False
    return protocol != MESSAGES or (body.get("type") == "error" and isinstance(error.get("type"), str))


def with_report(body: bytes, losses: Sequence[LossLine]) -> bytes:
    """A whole answer with the full ledger as its last member, which the SDKs keep as an extra field."""
    return with_member(body, REPORT, encode({"losses": as_json(losses)}))


def report_comment(losses: Sequence[LossLine]) -> bytes:
    """The full ledger at the end of a stream: a comment, which every reader of events skips."""
    return comment(f"{REPORT} {encode({'losses': as_json(losses)}).decode()}")
