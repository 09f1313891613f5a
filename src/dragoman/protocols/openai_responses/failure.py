"""Errors, one table both ways (§21), and rate-limit headers (§22)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from dragoman.errors import WireError
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.model.parts import Extras
from dragoman.protocols.openai_responses.shapes import ERROR, NAME, RESPONSE_FAILED
from dragoman.rules import overflow
from dragoman.rules.durations import format_duration, parse_duration
from dragoman.wire.json import decode_lenient, encode
from dragoman.wire.sse import DONE, frame

_INVALID = "invalid_request_error"
_SERVER = "server_error"


class _Row(Struct, frozen=True):
    kind: FailureKind
    status: int
    type: str
    code: str | None = None


_ROWS = (
    _Row(FailureKind.INVALID, 400, _INVALID),
    _Row(FailureKind.CONTEXT_OVERFLOW, 400, _INVALID, overflow.CODE),
    _Row(FailureKind.UNSUPPORTED, 400, _INVALID, "unsupported_parameter"),
    _Row(FailureKind.UNAUTHENTICATED, 401, _INVALID, "invalid_api_key"),
    _Row(FailureKind.QUOTA, 429, "insufficient_quota", "insufficient_quota"),
    _Row(FailureKind.FORBIDDEN, 403, _INVALID, "permission_denied"),
    _Row(FailureKind.NOT_FOUND, 404, _INVALID, "model_not_found"),
    _Row(FailureKind.CONFLICT, 409, _INVALID, "conflict"),
    _Row(FailureKind.TOO_LARGE, 413, _INVALID, "request_too_large"),
    _Row(FailureKind.UNPROCESSABLE, 422, _INVALID),
    _Row(FailureKind.RATE_LIMITED, 429, "rate_limit_error", "rate_limit_exceeded"),
    _Row(FailureKind.INTERNAL, 500, _SERVER),
    _Row(FailureKind.BAD_GATEWAY, 502, _SERVER, "upstream_error"),
    _Row(FailureKind.UPSTREAM_AUTH, 502, _SERVER, "upstream_auth"),
    _Row(FailureKind.BAD_CODING, 415, _INVALID, "unsupported_encoding"),
    _Row(FailureKind.OVERLOADED, 503, "service_unavailable_error", "server_is_overloaded"),
    _Row(FailureKind.UNAVAILABLE, 503, _SERVER),
    _Row(FailureKind.TIMEOUT, 504, _SERVER, "timeout"),
)
_BY_KIND = {row.kind: row for row in _ROWS}
_BY_CODE = {row.code: row.kind for row in _ROWS if row.code is not None} | {
    "slow_down": FailureKind.RATE_LIMITED,
    "invalid_prompt": FailureKind.INVALID,
    "overloaded": FailureKind.OVERLOADED,
}
# The class of a status that no code explains; others keep it and take the type of 400 or 500.
_BY_STATUS = {
    400: FailureKind.INVALID,
    401: FailureKind.UNAUTHENTICATED,
    402: FailureKind.QUOTA,
    403: FailureKind.FORBIDDEN,
    404: FailureKind.NOT_FOUND,
    408: FailureKind.TIMEOUT,
    409: FailureKind.CONFLICT,
    413: FailureKind.TOO_LARGE,
    415: FailureKind.BAD_CODING,
    422: FailureKind.UNPROCESSABLE,
    429: FailureKind.RATE_LIMITED,
    500: FailureKind.INTERNAL,
    502: FailureKind.BAD_GATEWAY,
    503: FailureKind.OVERLOADED,
    504: FailureKind.TIMEOUT,
    529: FailureKind.OVERLOADED,
}
_QUOTA_WORDS = ("quota", "billing", "credit", "spend")
# What an error inside a successful answer calls itself, by the beginning of its type or code (O2).
_WORDS: tuple[tuple[str, int], ...] = (
    ("invalid_request", 400),
    ("invalid_prompt", 400),
    ("invalid_", 400),
    ("image_", 400),
    ("unsupported_image", 400),
    ("empty_image", 400),
    ("failed_to_download_image", 400),
    ("bio_policy", 400),
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("insufficient_quota", 429),
    ("not_found", 404),
    ("overloaded", 503),
    ("service_unavailable", 503),
    ("server_is_overloaded", 503),
    ("authentication", 401),
    ("permission", 403),
)
_MESSAGE_LIMIT = 500


def decode_failure(status: int, body: bytes) -> Failure:
    """Read an error answer, JSON or not."""
    try:
        value = decode_lenient(body) if body.strip() else None
    except WireError:
        value = None
    if isinstance(value, dict):
        error = value.get("error", value)
        if isinstance(error, dict):
            return failure_of(error, status)
        if isinstance(error, str) and error:
            return failure_of({"message": error}, status)
    text = body.decode("utf-8", "replace").strip()[:_MESSAGE_LIMIT]
    return failure_of({"message": text}, status)


def failure_of(error: JsonObject, status: int | None = None) -> Failure:
    """The failure that an error object tells; without an HTTP status its own words give one (O2)."""
    kind_word, code, param = _text(error.get("type")), error.get("code"), _text(error.get("param"))
    code_word = _text(code) if not isinstance(code, int) else None
    if status is None:
        status = _told_status(error, kind_word, code_word)
    message = _text(error.get("message")) or _text(error.get("detail")) or f"upstream answered {status}"
    kind = _kind(status, kind_word or "", code_word or "", message)
    known = ("type", "code", "param", "message", "detail", "sequence_number")
    rest: JsonObject = {key: value for key, value in error.items() if key not in known and value is not None}
    return Failure(
        kind=kind,
        message=message,
        status=status,
        native=kind_word or "",
        code=code_word,
        param=param,
        extras=Extras(origin=NAME, fields=rest) if rest else None,
    )


def _told_status(error: JsonObject, kind: str | None, code: str | None) -> int:
    for member in (error.get("status"), error.get("status_code"), error.get("code")):
        if isinstance(member, int) and not isinstance(member, bool) and 400 <= member <= 599:
            return member
    for word in (code, kind):
        if word is None or word == ERROR:
            continue
        row = _BY_CODE.get(word)
        if row is not None:
            return _BY_KIND[row].status
        for opening, status in _WORDS:
            if word.startswith(opening):
                return status
    return 500


def _kind(status: int, kind: str, code: str, message: str) -> FailureKind:
    if overflow.is_context_overflow(status, code or None, message):
        return FailureKind.CONTEXT_OVERFLOW
    if any(word in code or word in kind for word in _QUOTA_WORDS):
        return FailureKind.QUOTA
    by_code = _BY_CODE.get(code)
    if by_code is not None and _BY_KIND[by_code].status == status:
        return by_code
    if status == 503 and kind in (_SERVER, "api_error"):
        return FailureKind.UNAVAILABLE
    return _BY_STATUS.get(status, FailureKind.OTHER)


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) and value else None


def encode_failure(failure: Failure, request_id: str | None) -> tuple[int, JsonObject]:
    """Write an error answer; the request's id travels in a header."""
    del request_id
    status, error = error_object(failure)
    return status, {"error": error}


def error_object(failure: Failure) -> tuple[int, JsonObject]:
    """The status and the error object of a failure."""
    row = _BY_KIND.get(failure.kind)
    if row is None:
        status = failure.status if 400 <= failure.status <= 599 else 500
        kind, code = (_INVALID if status < 500 else _SERVER), None
    else:
        status, kind, code = row.status, row.type, row.code
    if failure.kind is FailureKind.RATE_LIMITED and failure.code == "slow_down":
        code = failure.code
    if failure.kind is FailureKind.NOT_FOUND and failure.code is None and failure.native == _INVALID:
        # This family of servers names the code itself where it means a model.
        code = None
    if code is None and failure.code is not None and failure.kind in _KEEPS_CODE:
        code = failure.code
    message = failure.message or f"upstream answered {failure.status}"
    return status, {"message": message, "type": kind, "param": failure.param, "code": code}


# Classes without a code of their own tell the code they were given.
_KEEPS_CODE = frozenset({FailureKind.INVALID, FailureKind.UNPROCESSABLE, FailureKind.OTHER})


# The schema of a response's error knows few codes; agents compact on that of an overflow (O1).
_STREAM_CODES = {FailureKind.RATE_LIMITED: "rate_limit_exceeded", FailureKind.CONTEXT_OVERFLOW: overflow.CODE}


def failed_frames(failure: Failure, response: JsonObject, finished: JsonList, sequence: int) -> bytes:
    """The end of a stream that broke off: one flat `error`, then `response.failed` with the finished items (§21)."""
    _, error = error_object(failure)
    flat: JsonObject = {
        "type": ERROR,
        "code": error["code"] or error["type"],
        "message": error["message"],
        "param": error["param"],
        "sequence_number": sequence,
    }
    told: JsonObject = {"code": _STREAM_CODES.get(failure.kind, _SERVER), "message": error["message"]}
    body: JsonObject = {**response, "status": "failed", "error": told, "output": finished}
    failed: JsonObject = {"type": RESPONSE_FAILED, "response": body, "sequence_number": sequence + 1}
    return frame(encode(flat), ERROR) + frame(encode(failed), RESPONSE_FAILED) + DONE


_RESET = "x-ratelimit-reset-"
_KEPT = ("retry-after", "retry-after-ms", "x-should-retry")


def decode_limits(headers: Mapping[str, str], now: int) -> dict[str, str]:
    """Rate-limit headers in the common form: lower-case names, resets in seconds."""
    del now
    found: dict[str, str] = {}
    for name, value in headers.items():
        name = name.lower()
        if name.startswith(_RESET):
            seconds = parse_duration(value)
            if seconds is not None:
                found[name] = f"{seconds:.9f}".rstrip("0").rstrip(".")
        elif name.startswith("x-ratelimit-") or name in _KEPT:
            found[name] = value
    return found


def encode_limits(limits: Mapping[str, str], now: int) -> dict[str, str]:
    """Rate-limit headers as this protocol has them: resets as durations."""
    del now
    written: dict[str, str] = {}
    for name, value in limits.items():
        if name.startswith(_RESET):
            seconds = parse_duration(value)
            if seconds is not None:
                written[name] = format_duration(seconds)
        else:
            written[name] = value
    return written
