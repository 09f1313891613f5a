"""Whole answers: what the relay looks for in one, and the report that a client may ask for at its end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import BadAnswer, DragomanError, WireError
from dragoman.gateway.paths import CHAT, MESSAGES, RESPONSES
from dragoman.model.failure import Failure
from dragoman.model.losses import Ledger
from dragoman.model.response import Usage
from dragoman.protocols.codec import Codec
from dragoman.translate import LossLine, as_json, asked_by
from dragoman.wire.json import decode_object, encode, has_halves, without_halves
from dragoman.wire.spans import with_member
from dragoman.wire.sse import comment

REPORT = "dragoman"
_NULL = Raw(b"null")


class _Outline(Struct):
    """What is looked at in an answer that is passed on as it is."""

    error: Raw = _NULL
    usage: Raw = _NULL
    status: Raw = _NULL
    # What each protocol answers in.
    content: Raw = _NULL
    choices: Raw = _NULL
    output: Raw = _NULL
    # What servers that speak none of them tell errors in.
    detail: Raw = _NULL
    message: Raw = _NULL
    object: Raw = _NULL


_OUTLINE = msgspec.json.Decoder(_Outline)


def relayed_answer(raw: bytes, codec: Codec) -> tuple[Usage | None, Failure | None]:
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
    # Only Responses tells a failure as an answer of its own, which is passed on (S1).
    failed = codec.name == RESPONSES and bytes(outline.status) == b'"failed"'
    if outline.error != _NULL and not failed:
        # Only the protocol knows what an error without a status of its own means.
        try:
            told = codec.decode_response(decode_object(raw), asked_by(None, codec), Ledger())
        except DragomanError:
            raise BadAnswer("the provider's answer could not be read") from None
        if isinstance(told, Failure):
            return None, told
    if not failed and _answers_nothing(outline, codec.name, raw):
        raise BadAnswer("the provider's answer is none of its protocol")
    if outline.usage == _NULL:
        return None, None
    # Counts that cannot be read are no reason to fail.
    try:
        return codec.usage_of(decode_object(bytes(outline.usage))), None
    except WireError:
        return None, None


def own_failure(raw: bytes, codec: Codec) -> Failure | None:
    """The failure that a relayed answer tells as an answer of its own, if it does."""
    if b'"failed"' not in raw:
        return None
    try:
        if bytes(_outline(raw).status) != b'"failed"':
            return None
        told = codec.decode_response(decode_object(raw), asked_by(None, codec), Ledger())
    except (DragomanError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return told if isinstance(told, Failure) else None


def _outline(raw: bytes) -> _Outline:
    """What is looked at; half a character somewhere in the text, where the answer was cut, is no reason to fail."""
    try:
        return _OUTLINE.decode(raw)
    except msgspec.DecodeError:
        text = raw.decode()
        if not has_halves(text):
            raise
        return _OUTLINE.decode(without_halves(text))


def _answers_nothing(outline: _Outline, protocol: str, raw: bytes) -> bool:
    """Whether an object is empty, or an error in the words of a server that does not speak the protocol at all."""
    answer = {MESSAGES: outline.content, CHAT: outline.choices, RESPONSES: outline.output}[protocol]
    if answer != _NULL:
        return False
    told = outline.detail != _NULL or outline.message != _NULL or bytes(outline.object) == b'"error"'
    return told or not raw.strip(b"{} \t\r\n")


def is_object(raw: bytes) -> bool:
    """Whether a body is a JSON object to its end, and may be passed on as one."""
    try:
        decode_object(raw)
    except WireError:
        return False
    return True


def is_envelope(raw: bytes, protocol: str) -> bool:
    """Whether a body is an error as a client of a protocol looks for it."""
    try:
        body = decode_object(raw)
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
