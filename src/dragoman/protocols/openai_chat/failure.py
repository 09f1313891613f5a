"""Failures, both ways: status and body to a `Failure` and back by one table (mapping.md §21), and rate limits (§22)."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.errors import WireError
from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.rules.durations import format_duration, parse_duration
from dragoman.rules.overflow import CODE as OVERFLOW_CODE
from dragoman.rules.overflow import is_context_overflow
from dragoman.wire.json import decode, encode, encode_text
from dragoman.wire.sse import frame

_INVALID = "invalid_request_error"
_SERVER = "server_error"

# Kind -> status (None: kept), type, code.
ERRORS: dict[FailureKind, tuple[int | None, str, str | None]] = {
    FailureKind.INVALID: (400, _INVALID, None),
    FailureKind.CONTEXT_OVERFLOW: (400, _INVALID, OVERFLOW_CODE),
    FailureKind.UNSUPPORTED: (400, _INVALID, "unsupported_parameter"),
    FailureKind.UNAUTHENTICATED: (401, _INVALID, "invalid_api_key"),
    FailureKind.QUOTA: (429, "insufficient_quota", "insufficient_quota"),
    FailureKind.FORBIDDEN: (403, _INVALID, "permission_denied"),
    FailureKind.NOT_FOUND: (404, _INVALID, "model_not_found"),
    FailureKind.CONFLICT: (409, _INVALID, "conflict"),
    FailureKind.TOO_LARGE: (413, _INVALID, "request_too_large"),
    FailureKind.UNPROCESSABLE: (422, _INVALID, None),
    FailureKind.RATE_LIMITED: (429, "rate_limit_error", "rate_limit_exceeded"),
    FailureKind.INTERNAL: (500, _SERVER, None),
    FailureKind.BAD_GATEWAY: (502, _SERVER, "upstream_error"),
    FailureKind.UPSTREAM_AUTH: (502, _SERVER, "upstream_auth"),
    FailureKind.BAD_CODING: (415, _INVALID, "unsupported_encoding"),
    FailureKind.OVERLOADED: (503, "service_unavailable_error", "server_is_overloaded"),
    FailureKind.UNAVAILABLE: (503, _SERVER, None),
    FailureKind.TIMEOUT: (504, _SERVER, "timeout"),
    FailureKind.OTHER: (None, "", None),
}

_BY_STATUS: dict[int, FailureKind] = {
    400: FailureKind.INVALID,
    401: FailureKind.UNAUTHENTICATED,
    402: FailureKind.QUOTA,
    403: FailureKind.FORBIDDEN,
    404: FailureKind.NOT_FOUND,
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
# Codes that say more than the status.
_BY_CODE: dict[str, FailureKind] = {
    "upstream_auth": FailureKind.UPSTREAM_AUTH,
    "unsupported_parameter": FailureKind.UNSUPPORTED,
}
_QUOTA_WORDS = ("quota", "billing", "credit", "spend")
# Words of an error without a status, and the status they stand for (O2).
_STATUS_WORDS: tuple[tuple[str, int], ...] = (
    ("invalid_request", 400),
    ("invalid_prompt", 400),
    ("invalid_image", 400),
    ("image_", 400),
    ("context_length", 400),
    ("rate_limit", 429),
    ("quota", 429),
    ("overloaded", 503),
    ("service_unavailable", 503),
    ("billing", 402),
    ("conflict", 409),
    ("too_large", 413),
    ("authentication", 401),
    ("invalid_api_key", 401),
    ("permission", 403),
    ("not_found", 404),
    ("timeout", 504),
)
# Codes of this protocol name one status each.
_STATUS_BY_CODE = {code: status for status, _, code in ERRORS.values() if code is not None and status is not None}
_MESSAGE_LIMIT = 500


def decode_failure(status: int, body: bytes) -> Failure:
    """An error answer; whatever the body is, the status says the class and there is a message."""
    try:
        value = decode(body) if body else None
    except WireError:
        value = None
    if isinstance(value, dict):
        return _failure(status, value)
    text = body.decode("utf-8", "replace").strip()[:_MESSAGE_LIMIT]
    return _classified(status, text, "", None, None)


def failure_in(body: JsonObject) -> Failure | None:
    """The failure that a body or chunk of a successful answer tells (O2); None if it tells none."""
    error = body.get("error")
    if not error:
        return None
    return _failure(_status_of(error), body)


def _status_of(error: JsonValue) -> int:
    if not isinstance(error, dict):
        return 500
    for key in ("code", "status"):
        status = error.get(key)
        if isinstance(status, str) and status.isdecimal() and len(status) == 3:
            status = int(status)
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599:
            return status
    # The code is the more exact of the two: all kinds of errors are called `invalid_request_error`.
    for key in ("code", "type"):
        named = str(error.get(key) or "").lower()
        if named in _STATUS_BY_CODE:
            return _STATUS_BY_CODE[named]
        for word, status in _STATUS_WORDS:
            if word in named:
                return status
    return 500


def _failure(status: int, body: JsonObject) -> Failure:
    error = body.get("error")
    inner: JsonObject = error if isinstance(error, dict) else body
    message = error if isinstance(error, str) else inner.get("message") or inner.get("detail") or body.get("message")
    if message is not None and not isinstance(message, str):
        message = encode_text(message)
    code, param, native = inner.get("code"), inner.get("param"), inner.get("type")
    return _classified(
        status,
        (message or "").strip(),
        native if isinstance(native, str) else "",
        str(code) if isinstance(code, str | int) and not isinstance(code, bool) and code != "" else None,
        param if isinstance(param, str) else None,
    )


def _classified(status: int, message: str, native: str, code: str | None, param: str | None) -> Failure:
    words = f"{native} {code or ''}".lower()
    if is_context_overflow(status, code, message):
        kind = FailureKind.CONTEXT_OVERFLOW
    elif status in (402, 403, 429) and any(word in words for word in _QUOTA_WORDS):
        kind = FailureKind.QUOTA
    elif code is not None and code in _BY_CODE:
        kind = _BY_CODE[code]
    else:
        kind = _BY_STATUS.get(status, FailureKind.OTHER)
    # A code that only repeats the status says nothing.
    return Failure(
        kind=kind,
        message=message or f"upstream answered {status}",
        status=status,
        native=native,
        code=None if code == str(status) else code,
        param=param,
    )


# Kinds whose code clients act on: it is always the table's.
_FIXED_CODES = frozenset({FailureKind.QUOTA, FailureKind.CONTEXT_OVERFLOW})


def encode_failure(failure: Failure, request_id: str | None = None) -> tuple[int, JsonObject]:
    """An error in this protocol's form: status and body; the request id travels in a header here."""
    status, kind, code = ERRORS[failure.kind]
    if status is None:
        status = failure.status if 400 <= failure.status <= 599 else 500
        kind = _INVALID if status < 500 else _SERVER
    if failure.code is not None and failure.kind not in _FIXED_CODES:
        code = failure.code
    error: JsonObject = {
        "message": failure.message or f"upstream answered {failure.status}",
        "type": kind,
        "param": failure.param,
        "code": code,
    }
    return status, {"error": error}


def error_frame(failure: Failure) -> bytes:
    """An error in the middle of a stream: one frame, and no `[DONE]` after it."""
    return frame(encode(encode_failure(failure)[1]))


_BUCKETS = ("requests", "tokens")
_PASSED = ("retry-after", "retry-after-ms", "x-should-retry")


def decode_limits(headers: Mapping[str, str], now: int) -> dict[str, str]:
    """Rate limits in the common form: these names in lower case, resets as decimal seconds."""
    lowered = {name.lower(): value for name, value in headers.items()}
    limits = {name: lowered[name] for name in _PASSED if name in lowered}
    for bucket in _BUCKETS:
        for what in ("limit", "remaining"):
            name = f"x-ratelimit-{what}-{bucket}"
            if name in lowered:
                limits[name] = lowered[name]
        name = f"x-ratelimit-reset-{bucket}"
        seconds = parse_duration(lowered[name]) if name in lowered else None
        if seconds is not None:
            limits[name] = f"{seconds:.6f}".rstrip("0").rstrip(".")
    return limits


def encode_limits(limits: Mapping[str, str], now: int) -> dict[str, str]:
    """Rate limits as headers of this protocol: resets are durations."""
    headers: dict[str, str] = {}
    for name, value in limits.items():
        if name.startswith("x-ratelimit-reset-"):
            seconds = parse_duration(value)
            if seconds is not None:
                headers[name] = format_duration(seconds)
        elif name in _PASSED or name.startswith("x-ratelimit-"):
            headers[name] = value
    return headers
