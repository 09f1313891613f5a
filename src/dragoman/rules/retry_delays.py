"""Retry delays that a provider states in its error body instead of a header (mapping.md §21). Members are read first,
then text: `retryDelay` of Google's `RetryInfo`, seconds under a few usual names, "try again in 17 s"."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.rules.failures import error_body, error_of
from dragoman.rules.timestamps import format_duration, parse_duration

# Failures that recover without a change of the request.
_PASSING = frozenset({FailureKind.RATE_LIMITED, FailureKind.OVERLOADED, FailureKind.QUOTA, FailureKind.UNAVAILABLE})
# Members with the delay, and their units per second.
_MEMBERS = (("retry_after_ms", 1000.0), ("retry_after", 1.0), ("retry_after_seconds", 1.0), ("resets_in_seconds", 1.0))
_RETRY_INFO = "google.rpc.RetryInfo"
# Limits: characters and details that are searched, and a delay of one month.
_MAX_TEXT_LENGTH = 2000
_MAX_DETAILS = 16
_MAX_DELAY_SECONDS = 31 * 86400.0
_MAX_NUMBER = 10**12

_STEP = r"\d{1,9}(?:\.\d{1,9})?\s?(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hours?)(?![a-z])\s?"
_in_words = re.compile(rf"(?:try again|retry|wait)\s(?:in|after|for)\s(?:about\s)?((?:{_STEP}){{1,3}})", re.I).search
# `6m0s` has no word boundary inside.
_in_short = re.compile(
    r"(?:try again|retry|wait)\s(?:in|after|for)\s((?:\d{1,9}(?:\.\d{1,9})?(?:ms|[hms])){1,4})\b"
).search
_steps = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s?(ms|milli|[hms])", re.I).findall
_UNITS = {"ms": 1e-3, "milli": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def delay_of(failure: Failure, body: bytes | JsonObject = b"") -> float | None:
    """The delay in seconds that a failure, or its full response `body`, requests. None if there is none, or if the
    failure is permanent."""
    if failure.kind not in _PASSING:
        return None
    delay = _structured_delay(error_body(body)) if body else None
    if delay is None:
        delay = _delay_in_text(failure.message[:_MAX_TEXT_LENGTH])
    return delay if delay is not None and 0.0 < delay <= _MAX_DELAY_SECONDS else None


def _structured_delay(body: JsonObject) -> float | None:
    error = error_of(body)
    details = error.get("details")
    for detail in details[:_MAX_DETAILS] if isinstance(details, list) else ():
        if isinstance(detail, dict) and str(detail.get("@type", "")).endswith(_RETRY_INFO):
            delay = detail.get("retryDelay")
            return parse_duration(delay) if isinstance(delay, str) else None
    for place in (error, error.get("metadata"), body):
        if isinstance(place, dict):
            for name, unit in _MEMBERS:
                number = _number(place.get(name))
                if number is not None:
                    return number / unit
    return None


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | Number):
        return None
    if isinstance(value, int) and value > _MAX_NUMBER:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


def _delay_in_text(text: str) -> float | None:
    match = _in_short(text) or _in_words(text)
    if match is None:
        return None
    return math.fsum(float(number) * _UNITS[unit.lower()] for number, unit in _steps(match[1]))


def encode_openai_limits(limits: Mapping[str, str], now: int) -> dict[str, str]:
    """Rate limits in the common form as headers of OpenAI's protocols, with resets as durations."""
    del now
    headers: dict[str, str] = {}
    for name, value in limits.items():
        if name.startswith("x-ratelimit-reset-"):
            seconds = parse_duration(value)
            if seconds is not None:
                headers[name] = format_duration(seconds)
        else:
            headers[name] = value
    return headers
