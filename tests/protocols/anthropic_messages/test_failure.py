"""Errors and rate limits, both ways."""

from __future__ import annotations

import pytest

from dragoman.model.failure import Failure, FailureKind
from dragoman.protocols.anthropic_messages import CODEC
from dragoman.rules.timestamps import format_instant
from dragoman.wire.json import encode
from tests.protocols.anthropic_messages.support import at

KINDS = [
    (FailureKind.INVALID, 400, "invalid_request_error"),
    (FailureKind.UNAUTHENTICATED, 401, "authentication_error"),
    (FailureKind.QUOTA, 402, "billing_error"),
    (FailureKind.FORBIDDEN, 403, "permission_error"),
    (FailureKind.NOT_FOUND, 404, "not_found_error"),
    (FailureKind.CONFLICT, 409, "conflict_error"),
    (FailureKind.TOO_LARGE, 413, "request_too_large"),
    (FailureKind.RATE_LIMITED, 429, "rate_limit_error"),
    (FailureKind.INTERNAL, 500, "api_error"),
    (FailureKind.BAD_GATEWAY, 502, "api_error"),
    (FailureKind.UNAVAILABLE, 503, "api_error"),
    (FailureKind.TIMEOUT, 504, "timeout_error"),
    (FailureKind.OVERLOADED, 529, "overloaded_error"),
]


@pytest.mark.parametrize(("kind", "status", "word"), KINDS)
def test_the_table_is_read_both_ways(kind: FailureKind, status: int, word: str) -> None:
    told_status, body = CODEC.encode_failure(Failure(kind=kind, message="m", status=418), "req_1")
    assert (told_status, at(body, "error", "type"), body["request_id"]) == (status, word, "req_1")
    failure = CODEC.decode_failure(status, encode(body))
    assert (failure.kind, failure.status, failure.message, failure.native) == (kind, status, "m", word)


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (529, b"", FailureKind.OVERLOADED, "upstream answered 529"),
        (502, b"<html>bad</html>", FailureKind.BAD_GATEWAY, "<html>bad</html>"),
        (413, b"too big \xff", FailureKind.TOO_LARGE, "too big \ufffd"),
        (418, b"{}", FailureKind.OTHER, "upstream answered 418"),
        (400, b'{"error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 5 maximum"}}',
         FailureKind.CONTEXT_OVERFLOW, "prompt is too long: 9 tokens > 5 maximum"),
        (429, b'{"error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit"}}}',
         FailureKind.QUOTA, "m"),
        (500, b'{"error":"boom"}', FailureKind.INTERNAL, "boom"),
        (500, b"[1]", FailureKind.INTERNAL, "[1]"),
    ],
    ids=["nothing", "a page", "broken text", "unknown status", "too long", "spend limit", "a bare string", "a list"],
)  # fmt: skip
def test_pitfall_187_every_error_has_a_kind_and_a_message(
    status: int, body: bytes, kind: FailureKind, message: str
) -> None:
    failure = CODEC.decode_failure(status, body)
    assert (failure.kind, failure.message, failure.status) == (kind, message, status)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "This server's context window is 32768 tokens, the request has 40112 tokens.",
            "prompt is too long: 40112 tokens > 32768 maximum "
            "(This server's context window is 32768 tokens, the request has 40112 tokens.)",
        ),
        ("Input exceeds the context window.", "prompt is too long (Input exceeds the context window.)"),
    ],
)
def test_pitfall_190_an_overflow_is_told_in_the_words_agents_know(message: str, told: str) -> None:
    status, body = CODEC.encode_failure(Failure(kind=FailureKind.CONTEXT_OVERFLOW, message=message), None)
    assert (status, at(body, "error", "message")) == (400, told)


@pytest.mark.parametrize(
    ("status", "told", "word"),
    [(418, 418, "invalid_request_error"), (599, 599, "api_error"), (0, 400, "invalid_request_error")],
)
def test_other_statuses_are_kept(status: int, told: int, word: str) -> None:
    found, body = CODEC.encode_failure(Failure(kind=FailureKind.OTHER, message="m", status=status), None)
    assert (found, at(body, "error", "type")) == (told, word)


NOW = 1_700_000_000


def test_pitfall_189_limits_go_both_ways() -> None:
    headers = {
        "Anthropic-RateLimit-Requests-Limit": "50",
        "anthropic-ratelimit-requests-reset": format_instant(NOW + 90),
        "anthropic-ratelimit-input-tokens-remaining": "7",
        "retry-after": "12",
        "set-cookie": "secret",
    }
    common = CODEC.decode_limits(headers, NOW)
    assert common == {
        "retry-after": "12",
        "x-ratelimit-limit-requests": "50",
        "x-ratelimit-reset-requests": "90",
        "x-ratelimit-remaining-tokens": "7",
    }
    assert CODEC.encode_limits(common, NOW) == {
        "retry-after": "12",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-reset": format_instant(NOW + 90),
        "anthropic-ratelimit-tokens-remaining": "7",
    }


def test_a_delay_in_milliseconds_is_told_in_seconds_too() -> None:
    told = CODEC.encode_limits({"retry-after-ms": "1200", "x-ratelimit-reset-tokens": "0.25"}, NOW)
    assert told["retry-after"] == "2"
    assert told["anthropic-ratelimit-tokens-reset"] == format_instant(NOW + 1)


@pytest.mark.parametrize(
    ("given", "told"), [("0.5", "1"), ("12", "12"), ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT")]
)
def test_a_wait_is_told_in_whole_seconds(given: str, told: str) -> None:
    assert CODEC.encode_limits({"retry-after": given}, NOW)["retry-after"] == told
