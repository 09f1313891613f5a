"""Errors and rate limits of Chat, decoded and encoded (mapping.md §21, §22). `rules.failures` has the table of
errors."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.rules.failures import encode_openai_failure, openai_failure
from dragoman.rules.nested import MESSAGE_MEMBERS
from dragoman.rules.timestamps import parse_duration
from dragoman.wire.json import encode
from dragoman.wire.sse import frame


def failure_in(body: JsonObject) -> Failure | None:
    """The failure in a body or chunk of a successful response (O2), or None."""
    if body.get("error"):
        return openai_failure(body, None)
    choices = body.get("choices")
    if body.get("object") == "error" or (choices is None and any(body.get(name) for name in MESSAGE_MEMBERS)):
        return _bare_failure(body)
    first = choices[0] if isinstance(choices, list) and choices else None
    return failure_of(first) if isinstance(first, dict) else None


def _bare_failure(body: JsonObject) -> Failure:
    """The failure of an error without envelope (older vLLM, FastAPI). Without status and keyword it is a 502 (pitfall
    185)."""
    failure = openai_failure(body, None)
    if failure.kind is not FailureKind.INTERNAL:
        return failure
    return replace(failure, kind=FailureKind.BAD_GATEWAY, status=502)


def failure_of(choice: JsonObject) -> Failure | None:
    """The failure in a choice, where OpenRouter puts its provider's error."""
    return openai_failure(choice, None) if choice.get("error") else None


def error_frame(failure: Failure) -> bytes:
    """An error inside a stream: one frame, without `[DONE]` after it."""
    return frame(encode(encode_openai_failure(failure)[1]))


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
