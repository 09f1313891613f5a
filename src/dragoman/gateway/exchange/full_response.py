"""Whole answers: what the relay looks for in one, and the report that a client may ask for at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import BadResponse, DragomanError, WireError
from dragoman.gateway.paths import CHAT, MESSAGES, RESPONSES
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject, Number
from dragoman.model.losses import Ledger
from dragoman.model.response import Response, Usage
from dragoman.protocols.codec import Codec
from dragoman.rules.surrogates import SurrogateJoiner
from dragoman.translate import LossLine, as_json, translation_context
from dragoman.wire.duplicate_keys import OBJECT
from dragoman.wire.json import decode_object, encode, has_surrogates, without_surrogates
from dragoman.wire.json_spans import with_member
from dragoman.wire.sse import comment

T = TypeVar("T")
REPORT = "dragoman"
_NULL = Raw(b"null")
# What stands for half a character.
_NO_CHARACTER = "\ufffd"


class _Choice(Struct):
    finish_reason: str | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _ResponseOutline(Struct):
    """What is looked at in an answer that is passed on as it is."""

    error: Raw = _NULL
    status: Raw = _NULL
    # What each protocol answers in.
    content: Raw = _NULL
    choices: list[_Choice] | None = None
    output: Raw = _NULL
    # What servers that speak none of them tell errors in.
    detail: Raw = _NULL
    message: Raw = _NULL
    object: Raw = _NULL
    # What it calls itself, whom it is from, and why it ended.
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    incomplete_details: _Incomplete | None = None
    # Its counts, and what tells beside them what it cost.
    usage: Any = None
    service_tier: Any = None
    tool_usage: Any = None
    x_groq: Any = None


class Relayed(Struct, frozen=True, kw_only=True):
    """What is known of an answer that is passed on as it is: its counts, or the error that it is.

    One that `failed` says so as an answer of its own.
    """

    usage: Usage | None = None
    failure: Failure | None = None
    failed: bool = False
    id: str = ""
    model: str = ""
    stop: str = ""


_OUTLINE = msgspec.json.Decoder(_ResponseOutline, float_hook=Number)
# Members that are read by themselves where one of them is not what it is everywhere else; and what then stands for it.
_NAME = msgspec.json.Decoder(str | None)
_COUNTS = msgspec.json.Decoder(float_hook=Number)
_APART: dict[str, tuple[msgspec.json.Decoder[Any], object]] = {
    "choices": (msgspec.json.Decoder(list[_Choice] | None), []),
    "id": (_NAME, None),
    "model": (_NAME, None),
    "stop_reason": (_NAME, ""),
    "incomplete_details": (msgspec.json.Decoder(_Incomplete | None), _Incomplete()),
    "usage": (_COUNTS, None),
    "service_tier": (_COUNTS, None),
    "tool_usage": (_COUNTS, None),
    "x_groq": (_COUNTS, None),
}
_CONTENT_FIELDS = {MESSAGES: "content", CHAT: "choices", RESPONSES: "output"}
_NOTHING = (b"null", b"[]")
# What is longer is no name.
_MAX_NAME_BYTES = 510


def relayed_response(raw: bytes, codec: Codec) -> Relayed:
    """The token counts of a relayed answer, or the error that it is in spite of its status (O2).

    A body that is no JSON object is no answer: a page of a proxy, half a body.
    What else an object says is between the provider and its own protocol's client (decision 7).
    """
    try:
        outline = _outline(raw)
        # What the reader passes over it does not look into, and no client reads JSON that is not UTF-8.
        raw.decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise BadResponse("the provider's answer is not JSON of its protocol") from None
    failed = _has_failed_status(codec) and bytes(outline.status) == b'"failed"'
    if outline.error != _NULL and not failed:
        # Only the protocol knows what an error without a status of its own means.
        try:
            decoded = _decode_response(raw, codec)
        except DragomanError:
            raise BadResponse("the provider's answer could not be read") from None
        if isinstance(decoded, Failure):
            if decoded.message and not decoded.message.strip(_NO_CHARACTER):
                raise BadResponse("the provider's answer could not be read")
            return Relayed(failure=decoded, usage=_usage_in(outline, codec))
    if not failed and _is_no_response(outline, codec.name, raw):
        raise BadResponse("the provider's answer is none of its protocol")
    return Relayed(
        usage=_usage_in(outline, codec),
        failed=failed,
        id=_name(outline.id),
        model=_name(outline.model),
        stop=_stop_in(outline),
    )


def _usage_in(outline: _ResponseOutline, codec: Codec) -> Usage | None:
    """The counts; those that cannot be read are no reason to fail."""
    if outline.usage is None and outline.x_groq is None:
        return None
    fields: JsonObject = {
        "usage": outline.usage,
        "service_tier": outline.service_tier,
        "tool_usage": outline.tool_usage,
        "x_groq": outline.x_groq,
    }
    try:
        return codec.usage_of(fields)
    except WireError:
        return None


def _stop_in(outline: _ResponseOutline) -> str:
    """Why an answer ended, in its provider's own word; "" if that cannot be read."""
    if outline.stop_reason is not None:
        return _name(outline.stop_reason)
    if outline.choices is not None:
        return (outline.choices[0].finish_reason or "") if outline.choices else ""
    if outline.incomplete_details is not None:
        return outline.incomplete_details.reason or ""
    return _name(_read(_NAME, outline.status, ""))


def _name(name: str | None) -> str:
    if name is None or len(name) > _MAX_NAME_BYTES:
        return ""
    return name if name.isascii() or len(name.encode()) <= _MAX_NAME_BYTES else ""


def own_failure(raw: bytes, codec: Codec) -> Failure | None:
    """The failure that a relayed answer tells as an answer of its own, if it does."""
    if not _has_failed_status(codec) or b'"failed"' not in raw:
        return None
    try:
        if bytes(_outline(raw).status) != b'"failed"':
            return None
        decoded = _decode_response(raw, codec)
    except (DragomanError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, Failure) else None


def has_content(raw: bytes) -> bool:
    """Whether an answer that failed has something of an answer in it all the same."""
    try:
        outline = _outline(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return bool(outline.choices) or any(bytes(value) not in _NOTHING for value in (outline.output, outline.content))


def _decode_response(raw: bytes, codec: Codec) -> Response | Failure:
    """All of an answer, as its protocol reads it; an error may quote half a character, too."""
    ledger = Ledger()
    return codec.decode_response(SurrogateJoiner(ledger).read_object(raw), translation_context(None, codec), ledger)


def _has_failed_status(codec: Codec) -> bool:
    """Whether a failure may be told as an answer of its own, which is passed on (S1): only Responses has that."""
    return codec.name == RESPONSES


def _outline(raw: bytes) -> _ResponseOutline:
    """What is looked at; half a character somewhere in the text, where the answer was cut, is no reason to fail."""
    try:
        try:
            return _OUTLINE.decode(raw)
        except msgspec.ValidationError:
            return _outline_by_member(raw)
    except msgspec.DecodeError:
        text = raw.decode()
        if not has_surrogates(text):
            raise
        return _outline(without_surrogates(text).encode())


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
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return instead


def _is_no_response(outline: _ResponseOutline, protocol: str, raw: bytes) -> bool:
    """Whether an object is empty, or an error in the words of a server that does not speak the protocol at all."""
    content = getattr(outline, _CONTENT_FIELDS[protocol])
    if content is not None and content != _NULL:
        return False
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
