"""Errors and rate limits of Messages, decoded and encoded by tables (mapping.md §21, §22)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Extras
from dragoman.protocols.anthropic_messages.shapes import NAME
from dragoman.rules.failures import STATUS_KINDS, ErrorReport, error_body, error_of, kind_by_keywords, report_of, silent
from dragoman.rules.overflow import anthropic_overflow_message
from dragoman.rules.stop_reasons import broken_off
from dragoman.rules.timestamps import format_instant, parse_instant

_ERROR_TYPES: dict[FailureKind, tuple[int, str]] = {
    FailureKind.INVALID: (400, "invalid_request_error"),
    FailureKind.CONTEXT_OVERFLOW: (400, "invalid_request_error"),
    FailureKind.UNSUPPORTED: (400, "invalid_request_error"),
    FailureKind.UNAUTHENTICATED: (401, "authentication_error"),
    FailureKind.QUOTA: (402, "billing_error"),
    FailureKind.FORBIDDEN: (403, "permission_error"),
    FailureKind.NOT_FOUND: (404, "not_found_error"),
    FailureKind.CONFLICT: (409, "conflict_error"),
    FailureKind.TOO_LARGE: (413, "request_too_large"),
    FailureKind.UNPROCESSABLE: (400, "invalid_request_error"),
    FailureKind.RATE_LIMITED: (429, "rate_limit_error"),
    FailureKind.INTERNAL: (500, "api_error"),
    FailureKind.BAD_GATEWAY: (502, "api_error"),
    # Never 401 or 403, because clients would suspect their own key. `x-should-retry: false` is sent with it.
    FailureKind.UPSTREAM_AUTH: (502, "api_error"),
    FailureKind.BAD_CODING: (400, "invalid_request_error"),
    FailureKind.OVERLOADED: (529, "overloaded_error"),
    FailureKind.UNAVAILABLE: (503, "api_error"),
    FailureKind.TIMEOUT: (504, "timeout_error"),
    # Agents retry after a 5xx, and replace the message of a 404 (decision 29).
    FailureKind.PERMANENT: (424, "invalid_request_error"),
}
# The failure kind of a provider's error type, and its status if none is known (an error inside a stream).
_TYPES: dict[str, tuple[FailureKind, int]] = {
    "invalid_request_error": (FailureKind.INVALID, 400),
    "authentication_error": (FailureKind.UNAUTHENTICATED, 401),
    "billing_error": (FailureKind.QUOTA, 402),
    "permission_error": (FailureKind.FORBIDDEN, 403),
    "not_found_error": (FailureKind.NOT_FOUND, 404),
    "conflict_error": (FailureKind.CONFLICT, 409),
    "request_too_large": (FailureKind.TOO_LARGE, 413),
    "rate_limit_error": (FailureKind.RATE_LIMITED, 429),
    "api_error": (FailureKind.INTERNAL, 500),
    "timeout_error": (FailureKind.TIMEOUT, 504),
    "overloaded_error": (FailureKind.OVERLOADED, 529),
}
_TYPE_STATUSES = {native: status for native, (_, status) in _TYPES.items()}
# Overload has a status of its own here, so a 503 is something else.
_STATUSES = STATUS_KINDS | {503: FailureKind.UNAVAILABLE}


def decode_failure(status: int, body: bytes | JsonObject) -> Failure:
    return _read(error_body(body), status)


def failure_in_body(body: JsonObject) -> Failure:
    return _read(body, None)


def is_error(body: JsonObject) -> bool:
    """Whether a full response, or the first message of a stream, is an error without content (O2)."""
    if body.get("type") == "error" or (body.get("error") and not body.get("content")):
        return True
    return body.get("error") is not None and "content" not in body


def broken_failure(word: str | None, error: JsonValue) -> Failure | None:
    """The failure of a response whose stop reason means that it broke off, with the text of the error next to it."""
    broken = broken_off(word)
    return broken if broken is None or not error else failure_in_body({"error": error})


def _read(body: JsonObject, status: int | None) -> Failure:
    details = error_of(body).get("details")
    exact = details.get("error_code") if isinstance(details, dict) else None
    report = report_of(body, status, _TYPE_STATUSES, exact if isinstance(exact, str) else None)
    request_id = body.get("request_id")
    return Failure(
        kind=kind_by_keywords(report) or _kind(report),
        message=report.message,
        status=report.status,
        native=report.native,
        code=report.code,
        request_id=request_id if isinstance(request_id, str) and request_id else None,
        extras=Extras(origin=NAME, fields={"details": details}) if details is not None else None,
    )


def _kind(report: ErrorReport) -> FailureKind:
    typed = _TYPES.get(report.native)
    by_status = _STATUSES.get(report.status)
    # `api_error` and `invalid_request_error` occur with many statuses, which then decide.
    if typed is None or (by_status is not None and report.native in ("api_error", "invalid_request_error")):
        return by_status or FailureKind.OTHER
    return typed[0]


def encode_failure(failure: Failure, request_id: str | None) -> tuple[int, JsonObject]:
    status, _ = _status_and_type(failure)
    body: JsonObject = {"type": "error", "error": error_object(failure)}
    body["request_id"] = request_id if request_id is not None else failure.request_id
    return status, body


def error_object(failure: Failure) -> JsonObject:
    """The inner object of an error, the same in bodies and in streams."""
    message = failure.message or silent(failure.status)
    if failure.kind is FailureKind.CONTEXT_OVERFLOW:
        message = anthropic_overflow_message(message)
    error: JsonObject = {"type": _status_and_type(failure)[1], "message": message}
    if failure.extras is not None and failure.extras.origin == NAME:
        error.update(failure.extras.fields)
    return error


def _status_and_type(failure: Failure) -> tuple[int, str]:
    entry = _ERROR_TYPES.get(failure.kind)
    if entry is not None:
        return entry
    if 500 <= failure.status <= 599:
        return failure.status, "api_error"
    return (failure.status if 400 <= failure.status <= 499 else 400), "invalid_request_error"


_SHARED = ("retry-after", "retry-after-ms", "x-should-retry")
_FIELDS = ("limit", "remaining", "reset")


def decode_limits(headers: Mapping[str, str], now: int) -> dict[str, str]:
    """Convert rate-limit headers to the common form: OpenAI's names, resets in seconds from now."""
    given = {name.lower(): value for name, value in headers.items()}
    common = {name: given[name] for name in _SHARED if name in given}
    for ours, theirs in (("requests", "requests"), ("tokens", "tokens"), ("input-tokens", "tokens")):
        for field in _FIELDS:
            value = given.get(f"anthropic-ratelimit-{ours}-{field}")
            name = f"x-ratelimit-{field}-{theirs}"
            if value is None or name in common:
                continue
            if field == "reset":
                instant = parse_instant(value)
                if instant is None:
                    continue
                value = _plain(max(0.0, instant - now))
            common[name] = value
    return common


def encode_limits(common: Mapping[str, str], now: int) -> dict[str, str]:
    """Convert the common form to this protocol's headers. Resets are timestamps, rounded up to whole seconds."""
    headers = {name: common[name] for name in _SHARED if name in common}
    wait = _number(headers.get("retry-after", ""))
    if wait is not None:
        # Clients of this protocol read whole seconds.
        headers["retry-after"] = str(math.ceil(wait))
    elif "retry-after" not in headers and "retry-after-ms" in headers:
        milliseconds = _number(headers["retry-after-ms"])
        if milliseconds is not None:
            headers["retry-after"] = str(math.ceil(milliseconds / 1000))
    for bucket in ("requests", "tokens"):
        for field in _FIELDS:
            value = common.get(f"x-ratelimit-{field}-{bucket}")
            if value is None:
                continue
            if field == "reset":
                seconds = _number(value)
                if seconds is None:
                    continue
                value = format_instant(math.ceil(now + max(0.0, seconds)))
            headers[f"anthropic-ratelimit-{bucket}-{field}"] = value
    return headers


_is_number = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII).fullmatch


def _number(text: str) -> float | None:
    return float(text) if _is_number(text.strip()) else None


def _plain(seconds: float) -> str:
    return str(int(seconds)) if seconds.is_integer() else f"{seconds:.3f}".rstrip("0")
