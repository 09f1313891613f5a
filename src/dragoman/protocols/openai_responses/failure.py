"""Errors of Responses, full and in streams (§21), and rate-limit headers (§22). `rules.failures` has the table of
errors."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonList, JsonObject, JsonValue
from dragoman.protocols.openai_responses.shapes import ERROR, FAILED, RESPONSE_FAILED
from dragoman.rules import overflow
from dragoman.rules.failures import openai_error, openai_failure
from dragoman.rules.nested import line_of
from dragoman.rules.timestamps import parse_duration
from dragoman.wire.json import encode
from dragoman.wire.sse import DONE, frame


def failure_of(error: JsonObject) -> Failure:
    """The failure of an error object inside a successful response (O2)."""
    return openai_failure(error, None)


def has_failed(response: JsonObject, event: JsonObject | None = None) -> bool:
    """Whether a response failed: by its status, or by an error in it or next to it in its event."""
    beside = event.get("error") if event is not None else None
    return response.get("status") == FAILED or _is_reported(response.get("error")) or _is_reported(beside)


def failure_in(response: JsonObject, event: JsonObject | None = None) -> Failure:
    """The failure of a failed response, full or in a stream's terminal event. The error is in the response, next to it
    in the event, or flat in either; it is an object, a string or a list. A second error is the cause of the first."""
    holders = (response,) if event is None else (response, event)
    errors = [holder.get("error") for holder in holders] + [_flat(holder) for holder in reversed(holders)]
    reported_errors: list[JsonObject] = [
        error if isinstance(error, dict) else {"message": line_of(error)} for error in errors if _is_reported(error)
    ]
    if not reported_errors:
        return failure_of({"message": "the response failed"})
    first, *others = reported_errors
    cause = next((error for error in others if error != first), None)
    return failure_of(first if cause is None else {"cause": cause, **first})


def _is_reported(error: JsonValue) -> bool:
    """Whether a member `error` has content: some servers always send one with empty members."""
    if isinstance(error, dict):
        return any(error.values())
    return bool(error.strip() if isinstance(error, str) else error)


def _flat(holder: JsonObject) -> JsonObject:
    return {name: holder[name] for name in ("code", "message", "param") if holder.get(name)}


# The schema of a response's error has few codes. Agents compact if they see that of an overflow (O1).
_STREAM_CODES = {FailureKind.RATE_LIMITED: "rate_limit_exceeded", FailureKind.CONTEXT_OVERFLOW: overflow.CODE}


def response_error(failure: Failure) -> JsonObject:
    _, error = openai_error(failure)
    return {"code": _STREAM_CODES.get(failure.kind, "server_error"), "message": error["message"]}


def failed_frames(failure: Failure, response: JsonObject, finished: JsonList, sequence: int) -> bytes:
    """The end of a stream that broke off: one flat `error`, then `response.failed` with the finished items (§21)."""
    _, error = openai_error(failure)
    flat: JsonObject = {
        "type": ERROR,
        "code": error["code"] or error["type"],
        "message": error["message"],
        "param": error["param"],
        "sequence_number": sequence,
    }
    body: JsonObject = {**response, "status": "failed", "error": response_error(failure), "output": finished}
    failed: JsonObject = {"type": RESPONSE_FAILED, "response": body, "sequence_number": sequence + 1}
    return frame(encode(flat), ERROR) + frame(encode(failed), RESPONSE_FAILED) + DONE


_RESET = "x-ratelimit-reset-"
_RETRY_HEADERS = ("retry-after", "retry-after-ms", "x-should-retry")


def decode_limits(headers: Mapping[str, str], now: int) -> dict[str, str]:
    """Rate-limit headers in the common form: lower-case names, resets in seconds."""
    del now
    limits: dict[str, str] = {}
    for name, value in headers.items():
        name = name.lower()
        if name.startswith(_RESET):
            seconds = parse_duration(value)
            if seconds is not None:
                limits[name] = f"{seconds:.9f}".rstrip("0").rstrip(".")
        elif name.startswith("x-ratelimit-") or name in _RETRY_HEADERS:
            limits[name] = value
    return limits
