"""Whole answers: what the relay looks for in one, and the report that a client may ask for at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import BadAnswer, DragomanError, WireError
from dragoman.gateway.paths import CHAT, MESSAGES, RESPONSES
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject, Number
from dragoman.model.losses import Ledger
from dragoman.model.response import Response, Usage
from dragoman.protocols.codec import Codec
from dragoman.rules.surrogates import SurrogateJoiner
from dragoman.translate import LossLine, as_json, asked_by
from dragoman.wire.duplicate_keys import OBJECT
from dragoman.wire.json import decode_object, encode, has_halves, without_halves
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


class _Outline(Struct):
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


_OUTLINE = msgspec.json.Decoder(_Outline, float_hook=Number)
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
_ANSWERS = {MESSAGES: "content", CHAT: "choices", RESPONSES: "output"}
_NOTHING = (b"null", b"[]")
# What is longer is no name.
_LONGEST_NAME = 510


def relayed_answer(raw: bytes, codec: Codec) -> Relayed:
    """The token counts of a relayed answer, or the error that it is in spite of its status (O2).

    A body that is no JSON object is no answer: a page of a proxy, half a body.
    What else an object says is between the provider and its own protocol's client (decision 7).
    """
    try:
        outline = _outline(raw)
        # What the reader passes over it does not look into, and no client reads JSON that is not UTF-8.
        raw.decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise BadAnswer("the provider's answer is not JSON of its protocol") from None
    failed = _tells_failures(codec) and bytes(outline.status) == b'"failed"'
    if outline.error != _NULL and not failed:
        # Only the protocol knows what an error without a status of its own means.
        try:
            told = _told(raw, codec)
        except DragomanError:
            raise BadAnswer("the provider's answer could not be read") from None
        if isinstance(told, Failure):
            if told.message and not told.message.strip(_NO_CHARACTER):
                raise BadAnswer("the provider's answer could not be read")
            return Relayed(failure=told, usage=_usage_in(outline, codec))
    if not failed and _answers_nothing(outline, codec.name, raw):
        raise BadAnswer("the provider's answer is none of its protocol")
    return Relayed(
        usage=_usage_in(outline, codec),
        failed=failed,
        id=_name(outline.id),
        model=_name(outline.model),
        stop=_stop_in(outline),
    )


def _usage_in(outline: _Outline, codec: Codec) -> Usage | None:
    """The counts; those that cannot be read are no reason to fail."""
    if outline.usage is None and outline.x_groq is None:
        return None
    said: JsonObject = {
        "usage": outline.usage,
        "service_tier": outline.service_tier,
        "tool_usage": outline.tool_usage,
        "x_groq": outline.x_groq,
    }
    try:
        return codec.usage_of(said)
    except WireError:
        return None


def _stop_in(outline: _Outline) -> str:
    """Why an answer ended, in its provider's own word; "" if that cannot be read."""
    if outline.stop_reason is not None:
        return _name(outline.stop_reason)
    if outline.choices is not None:
        return (outline.choices[0].finish_reason or "") if outline.choices else ""
    if outline.incomplete_details is not None:
        return outline.incomplete_details.reason or ""
    return _name(_read(_NAME, outline.status, ""))


def _name(said: str | None) -> str:
    if said is None or len(said) > _LONGEST_NAME:
        return ""
    return said if said.isascii() or len(said.encode()) <= _LONGEST_NAME else ""


def own_failure(raw: bytes, codec: Codec) -> Failure | None:
    """The failure that a relayed answer tells as an answer of its own, if it does."""
    if not _tells_failures(codec) or b'"failed"' not in raw:
        return None
    try:
        if bytes(_outline(raw).status) != b'"failed"':
            return None
        told = _told(raw, codec)
    except (DragomanError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return told if isinstance(told, Failure) else None


def says_something(raw: bytes) -> bool:
    """Whether an answer that failed has something of an answer in it all the same."""
    try:
        outline = _outline(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return bool(outline.choices) or any(bytes(said) not in _NOTHING for said in (outline.output, outline.content))


def _told(raw: bytes, codec: Codec) -> Response | Failure:
    """All of an answer, as its protocol reads it; an error may quote half a character, too."""
    ledger = Ledger()
    return codec.decode_response(SurrogateJoiner(ledger).read_object(raw), asked_by(None, codec), ledger)


def _tells_failures(codec: Codec) -> bool:
    """Whether a failure may be told as an answer of its own, which is passed on (S1): only Responses has that."""
    return codec.name == RESPONSES


def _outline(raw: bytes) -> _Outline:
    """What is looked at; half a character somewhere in the text, where the answer was cut, is no reason to fail."""
    try:
        try:
            return _OUTLINE.decode(raw)
        except msgspec.ValidationError:
            return _outline_apart(raw)
    except msgspec.DecodeError:
        text = raw.decode()
        if not has_halves(text):
            raise
        return _outline(without_halves(text).encode())


def _outline_apart(raw: bytes) -> _Outline:
    """The same of an answer that has something else in a place: of that nothing is known, and all of the rest."""
    members = OBJECT.decode(raw)
    found: dict[str, Any] = {name: members[name] for name in _Outline.__struct_fields__ if name in members}
    for name, (decoder, instead) in _APART.items():
        if name in found:
            found[name] = _read(decoder, members[name], instead)
    return _Outline(**found)


def _read(decoder: msgspec.json.Decoder[T], value: Raw, instead: T) -> T:
    try:
        return decoder.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return instead


def _answers_nothing(outline: _Outline, protocol: str, raw: bytes) -> bool:
    """Whether an object is empty, or an error in the words of a server that does not speak the protocol at all."""
    answer = getattr(outline, _ANSWERS[protocol])
    if answer is not None and answer != _NULL:
        return False
    told = outline.detail != _NULL or outline.message != _NULL or bytes(outline.object) == b'"error"'
    return told or not raw.strip(b"{} \t\r\n")


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
