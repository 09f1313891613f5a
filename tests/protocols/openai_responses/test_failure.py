"""Errors by one table, and the headers of rate limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.openai_responses import CODEC
from dragoman.protocols.openai_responses.failure import failure_of
from dragoman.wire.json import encode

VECTORS = json.loads((Path(__file__).parents[2] / "data/mapping-vectors.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", VECTORS["errors"], ids=lambda row: f"{row[2]} {row[4]}")
def test_pitfall_187_188_the_table_is_read_and_written(row: list[int | str | None]) -> None:
    _, _, status, kind, code = row
    assert isinstance(status, int)
    error: JsonObject = {"message": "the model x", "type": kind, "param": None, "code": code}
    failure = CODEC.decode_failure(status, encode({"error": error}))
    assert CODEC.encode_failure(failure, None) == (status, {"error": error})


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_class_has_a_status_and_a_message(kind: FailureKind) -> None:
    status, body = CODEC.encode_failure(Failure(kind=kind, message="", status=418), "req_1")
    error = body["error"]
    assert isinstance(error, dict)
    assert 400 <= status <= 599
    assert error["message"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (500, b"<html>oops</html>", FailureKind.INTERNAL, "<html>oops</html>"),
        (503, b"", FailureKind.OVERLOADED, "upstream answered 503"),
        (418, b"{}", FailureKind.OTHER, "upstream answered 418"),
        (429, b'{"error":"slow"}', FailureKind.RATE_LIMITED, "slow"),
        (
            400,
            b'{"error":{"message":"maximum context length is 5"}}',
            FailureKind.CONTEXT_OVERFLOW,
            "maximum context length is 5",
        ),
        (429, b'{"error":{"message":"x","code":"billing_hard_limit"}}', FailureKind.QUOTA, "x"),
        (400, b"\xff\xfe", FailureKind.INVALID, "\ufffd\ufffd"),
    ],
)
def test_bodies_of_any_kind_are_read(status: int, body: bytes, kind: FailureKind, message: str) -> None:
    failure = CODEC.decode_failure(status, body)
    assert (failure.kind, failure.message) == (kind, message)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 429, "message": "x"}, 429),
        ({"code": "invalid_prompt", "message": "x"}, 400),
        ({"type": "overloaded_error", "message": "x"}, 503),
        ({"code": "image_too_large", "message": "x"}, 400),
        ({"type": "too_many_requests"}, 429),
        ({"message": "x"}, 500),
    ],
)
def test_an_error_without_a_status_tells_one_by_its_words(error: JsonObject, status: int) -> None:
    assert failure_of(error).status == status


def test_pitfall_189_headers_keep_their_meaning() -> None:
    headers = {
        "X-RateLimit-Reset-Tokens": "6m0s",
        "x-ratelimit-limit-requests": "60",
        "Retry-After": "3",
        "server": "x",
    }
    common = CODEC.decode_limits(headers, 0)
    assert common == {"x-ratelimit-reset-tokens": "360", "x-ratelimit-limit-requests": "60", "retry-after": "3"}
    assert CODEC.encode_limits(common, 0)["x-ratelimit-reset-tokens"] == "6m0s"
    assert CODEC.decode_limits({"x-ratelimit-reset-requests": "120ms"}, 0) == {"x-ratelimit-reset-requests": "0.12"}
