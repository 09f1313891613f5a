"""Embedded errors: finds the provider's error inside a proxy's error. Proxies use various members:

metadata.raw             OpenRouter: text or JSON, with `provider_name`
                         https://openrouter.ai/docs/api-reference/errors
message, error, details  JSON as text (Vertex and Copilot proxies): https://github.com/caozhiyuan/copilot-api/issues/339
message                  JSON after words (LiteLLM): https://github.com/openai/codex/issues/8100
error, innererror, …     objects: Azure, https://learn.microsoft.com/azure/ai-services/openai/how-to/content-filter
detail, errors, details  lists: FastAPI, https://fastapi.tiangolo.com/tutorial/handling-errors

Nesting depth and text length are limited."""

from __future__ import annotations

import re
from itertools import islice

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.wire.json import decode_lenient, encode_text
from dragoman.wire.json_spans import value_end

DEEPEST = 3
_MAX_TEXT_LENGTH = 64 * 1024
# Characters of a body that is no JSON, about as long as a proxy's own message.
_MAX_RAW_LENGTH = 500
_MEMBERS = ("error", "innererror", "upstreamResponse", "cause", "details", "response", "body", "data", "base_resp")
# Each proxy has its own name for the origin of an error: `upstream_error`, `provider_error`, `originalError`.
# https://github.com/ding113/claude-code-hub/issues/518
_is_named_error = re.compile(r"[A-Za-z]+_?[eE]rror").fullmatch
_MAX_MEMBERS = 64


# Members with an error's message; `status_msg` is MiniMax's: https://platform.minimax.io/docs/api-reference/errorcode
MESSAGE_MEMBERS = ("message", "Message", "detail", "msg", "error_message", "error_description", "status_msg")
# Members next to an `error` that is a string: https://www.rfc-editor.org/rfc/rfc6749#section-5.2
BESIDE = ("error_message", "error_description")


class Inner(Struct, frozen=True, kw_only=True):
    body: JsonObject
    provider: str = ""
    # Whether the outer message is the inner error as text, or contains it after other text.
    instead: bool = False
    within: bool = False

    def joined(self, outer: str, inner: str) -> str:
        if not inner or inner in outer or self.within:
            return outer
        if self.instead or not outer:
            return inner
        return f"{outer} ({self.provider}): {inner}" if self.provider else f"{outer}: {inner}"


def inner_of(error: JsonObject, body: JsonObject, message: str) -> Inner | None:
    metadata = error.get("metadata") or body.get("metadata")
    if isinstance(metadata, dict):
        raw, provider = metadata.get("raw"), metadata.get("provider_name")
        held = _as_error(raw) or ({"message": raw[:_MAX_RAW_LENGTH]} if isinstance(raw, str) and raw.strip() else None)
        if held is not None:
            return Inner(body=held, provider=provider if isinstance(provider, str) else "")
    for where in (error, body) if error is not body else (error,):
        for name in (*_MEMBERS, *filter(_is_named_error, islice(where, _MAX_MEMBERS))):
            held = _as_error(where.get(name)) if where.get(name) is not error else None
            if held is not None:
                return Inner(body=held, instead=where.get(name) == message)
    held = _as_error(message)
    if held is not None:
        return Inner(body=held, instead=True)
    held = _embedded_error(message)
    return None if held is None else Inner(body=held, within=True)


def line_of(value: JsonValue) -> str:
    """An error member as one line: text, a list of validation errors, or any value as JSON."""
    if isinstance(value, str):
        return value
    lines = [_complaint(entry) for entry in value] if isinstance(value, list) else []
    if lines and all(lines):
        return "; ".join(lines)
    return encode_text(value) if value else ""


def _complaint(entry: JsonValue) -> str:
    if isinstance(entry, str):
        return entry
    message = entry.get("msg") or entry.get("message") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(message, str):
        return ""
    place = entry.get("loc")
    if not isinstance(place, list) or not place:
        return message
    return f"{'.'.join(str(step) for step in place if isinstance(step, str | int))}: {message}"


def _as_error(value: JsonValue) -> JsonObject | None:
    """A member as an error, given as an object or as JSON text; else None."""
    if isinstance(value, str):
        readable = len(value) < _MAX_TEXT_LENGTH and value.lstrip().startswith(("{", "["))
        value = _parsed(value.encode("utf-8", "replace")) if readable else None
    if isinstance(value, list):
        value = next((entry for entry in value if isinstance(entry, dict) and _is_error(entry)), None)
    return value if isinstance(value, dict) and _is_error(value) else None


def _embedded_error(message: str) -> JsonObject | None:
    start = message.find("{")
    if start < 0 or len(message) > _MAX_TEXT_LENGTH:
        return None
    text = message[start:].encode("utf-8", "replace")
    try:
        value = _parsed(text[: value_end(text, 0)])
    except WireError:
        return None
    return value if isinstance(value, dict) and _is_error(value) else None


def _parsed(text: bytes) -> JsonValue:
    try:
        return decode_lenient(text)
    except WireError:
        return None


def _is_error(value: JsonObject) -> bool:
    """Whether an object is an error rather than data of one."""
    message = next(filter(None, (value.get(name) for name in MESSAGE_MEMBERS)), None) or value.get("error")
    return isinstance(message, str | dict) or isinstance(value.get("code"), str)
