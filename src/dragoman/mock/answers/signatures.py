"""Signatures of reasoning: the mock signs its reasoning, and verifies returned reasoning.

protocol             signature                                what is verified
anthropic-messages   `signature` of a thinking block          that it belongs to the block's text
openai-responses     `encrypted_content` of an item           that the mock issued it, and its content
openai-chat          none: `reasoning_content` is text        nothing

The signing key is public and constant, so that every process accepts the signatures of another one."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from hashlib import blake2b

from msgspec.structs import replace

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Seal, Thinking, ThinkingKind
from dragoman.model.request import Request

MESSAGES, CHAT, RESPONSES = "anthropic-messages", "openai-chat", "openai-responses"

_KEY = b"dragoman echo"
# The prefix of signatures of the real services.
_SIGNED = "EqsD"
_ENCRYPTED = "gAAAAAB"
_DIGEST = 32


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), key=_KEY, digest_size=_DIGEST).digest()


def signature(text: str) -> str:
    return _SIGNED + b64encode(_digest(text) + _digest(text[::-1])).decode()


def encrypted(text: str) -> str:
    """Encode a thought so that clients cannot change it."""
    return _ENCRYPTED + urlsafe_b64encode(_digest(text) + text.encode()).decode()


def opened(token: str) -> str | None:
    if not token.startswith(_ENCRYPTED):
        return None
    try:
        data = urlsafe_b64decode(token[len(_ENCRYPTED) :])
        text = data[_DIGEST:].decode()
    except (Base64Error, UnicodeError, ValueError):
        return None
    return text if data[:_DIGEST] == _digest(text) else None


def sealed(part: Thinking, protocol: str, item_id: str, *, token: str = "", visible: bool = True) -> Thinking:
    """A reasoning part in a protocol's form, with the given signature or that of its text. Hidden reasoning has no
    text."""
    text = part.text if visible else ""
    kind = ThinkingKind.SUMMARY if text else ThinkingKind.WITHHELD
    if protocol == MESSAGES:
        block: JsonObject = {"type": "thinking", "thinking": text, "signature": token or signature(text)}
        return replace(part, text=text, kind=kind, seal=Seal(origin=MESSAGES, kind="thinking", body=block))
    if protocol == RESPONSES:
        item: JsonObject = {
            "id": item_id,
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text}] if visible else [],
            "encrypted_content": token or encrypted(text),
        }
        seal = Seal(origin=RESPONSES, kind="item", body=item)
        return replace(part, text=text, kind=kind, seal=seal, id=item_id)
    body: JsonObject = {"field": "reasoning_content", "text": text}
    return replace(part, seal=Seal(origin=CHAT, kind="text", body=body))


def check(request: Request) -> int | Failure:
    """The number of returned thoughts, or the failure for a foreign one."""
    count = 0
    for position, message in enumerate(request.messages):
        for index, part in enumerate(message.parts):
            if not isinstance(part, Thinking):
                continue
            place = f"messages.{position}.content.{index}" if request.origin == MESSAGES else f"input[{position}]"
            failure = _checked(part, request.origin, place)
            if failure is not None:
                return failure
            count += 1
    return count


def _checked(part: Thinking, protocol: str, place: str) -> Failure | None:
    body = part.seal.body if part.seal is not None and part.seal.origin == protocol else {}
    if protocol == MESSAGES:
        if body.get("type") == "redacted_thinking":
            return _invalid(f"{place}: Invalid `data` in `redacted_thinking` block")
        if body.get("signature") != signature(part.text):
            return _invalid(f"{place}: Invalid `signature` in `thinking` block")
    elif protocol == RESPONSES and not _is_genuine(
        body, carried=part.seal is not None and part.seal.origin != protocol
    ):
        message = "The encrypted content of a reasoning item could not be verified: it was not issued by this provider."
        return _invalid(message, code="invalid_encrypted_content", param=place)
    return None


def _is_genuine(item: JsonObject, *, carried: bool) -> bool:
    """Whether a reasoning item is genuine. An item without a signature counts as text, as at the real service."""
    token: JsonValue = item.get("encrypted_content")
    if token is None:
        return not carried
    return isinstance(token, str) and opened(token) is not None


def _invalid(message: str, code: str | None = None, param: str | None = None) -> Failure:
    return Failure(kind=FailureKind.INVALID, status=400, message=message, code=code, param=param)
