"""Errors and rate limits, both ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.openai_chat import CODEC
from dragoman.protocols.openai_chat.failure import failure_in
from dragoman.rules.failures import OPENAI_ERRORS
from dragoman.wire.json import encode
from tests.protocols.openai_chat.room import dig

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "mapping-vectors.json").read_text())


@pytest.mark.parametrize(
    "kind", [kind for kind in FailureKind if kind is not FailureKind.OTHER], ids=lambda kind: kind.value
)
def test_every_kind_is_read_as_it_was_written(kind: FailureKind) -> None:
    status, body = CODEC.encode_failure(Failure(kind=kind, message="m", status=418), None)
    found = CODEC.decode_failure(status, encode(body))
    # A 503 of this protocol always says that the server is overloaded.
    assert found.kind is (FailureKind.OVERLOADED if kind is FailureKind.UNAVAILABLE else kind)
    assert found.message == "m"


@pytest.mark.parametrize("row", VECTORS["errors"], ids=lambda row: row[1])
def test_the_vectors_hold(row: list[object]) -> None:
    assert (row[2], row[3], row[4]) in OPENAI_ERRORS.values()


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (500, b"<html>oops</html>", FailureKind.INTERNAL, "<html>oops</html>"),
        (502, b"", FailureKind.BAD_GATEWAY, "upstream answered 502"),
        (400, b'{"error":"bad"}', FailureKind.INVALID, "bad"),
        (400, b'{"error":{"message":""}}', FailureKind.INVALID, "upstream answered 400"),
        (422, b'{"detail":[{"msg":"x"}]}', FailureKind.UNPROCESSABLE, "x"),
        (400, b'{"message":"flat"}', FailureKind.INVALID, "flat"),
        (429, b'{"error":{"message":"q","type":"insufficient_quota"}}', FailureKind.QUOTA, "q"),
        (402, b'{"error":{"message":"pay","code":402}}', FailureKind.QUOTA, "pay"),
        (
            400,
            b'{"error":{"message":"maximum context length is 5"}}',
            FailureKind.CONTEXT_OVERFLOW,
            "maximum context length is 5",
        ),
        (418, b'{"error":{"message":"tea"}}', FailureKind.OTHER, "tea"),
        (503, b"{}", FailureKind.OVERLOADED, "upstream answered 503"),
        (400, b"[1]", FailureKind.INVALID, "[1]"),
    ],
)
def test_pitfall_187_whatever_the_body_is_there_is_a_kind_and_a_message(
    status: int, body: bytes, kind: FailureKind, message: str
) -> None:
    found = CODEC.decode_failure(status, body)
    assert (found.kind, found.message, found.status) == (kind, message, status)


def test_other_statuses_are_kept_with_the_type_of_their_class() -> None:
    assert CODEC.encode_failure(Failure(kind=FailureKind.OTHER, message="m", status=418), None) == (
        418,
        {"error": {"message": "m", "type": "invalid_request_error", "param": None, "code": None}},
    )
    assert CODEC.encode_failure(Failure(kind=FailureKind.OTHER, message="m", status=599), None)[0] == 599


def test_a_code_of_the_same_family_is_kept() -> None:
    failure = Failure(kind=FailureKind.RATE_LIMITED, message="m", code="slow_down")
    assert dig(CODEC.encode_failure(failure, None)[1], "error", "code") == "slow_down"


def test_pitfall_189_limits_pass_through_the_common_form() -> None:
    headers = {
        "X-RateLimit-Limit-Requests": "10",
        "x-ratelimit-remaining-tokens": "5",
        "x-ratelimit-reset-requests": "6m0s",
        "x-ratelimit-reset-tokens": "120ms",
        "x-ratelimit-limit-project-tokens": "1",
        "retry-after": "3",
        "set-cookie": "no",
    }
    common = CODEC.decode_limits(headers, 0)
    assert common == {
        "retry-after": "3",
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-reset-requests": "360",
        "x-ratelimit-remaining-tokens": "5",
        "x-ratelimit-reset-tokens": "0.12",
    }
    assert CODEC.encode_limits(common, 0) == {
        **common,
        "x-ratelimit-reset-requests": "6m0s",
        "x-ratelimit-reset-tokens": "120ms",
    }


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        ("invalid_api_key", FailureKind.UNAUTHENTICATED, 401),
        ("permission_denied", FailureKind.FORBIDDEN, 403),
        ("model_not_found", FailureKind.NOT_FOUND, 404),
        ("conflict", FailureKind.CONFLICT, 409),
        ("request_too_large", FailureKind.TOO_LARGE, 413),
        ("rate_limit_exceeded", FailureKind.RATE_LIMITED, 429),
        ("server_is_overloaded", FailureKind.OVERLOADED, 503),
        (None, FailureKind.INVALID, 400),
    ],
)
def test_without_a_status_the_code_is_asked_before_the_type(code: str | None, kind: FailureKind, status: int) -> None:
    body: JsonObject = {"error": {"message": "No.", "type": "invalid_request_error", "param": None, "code": code}}
    failure = failure_in(body)
    assert failure is not None
    assert (failure.kind, failure.status) == (kind, status)
