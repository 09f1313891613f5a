"""Errors as every protocol tells them alike: bodies of any shape, statuses by words, one OpenAI table."""

from __future__ import annotations

import pytest

from dragoman.model.failure import Failure, FailureKind
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.losses import Ledger
from dragoman.protocols.registry import codec_of
from dragoman.rules.failures import (
    OPENAI_ERRORS,
    STATUS_KINDS,
    ErrorReport,
    error_body,
    kind_by_keywords,
    openai_error,
    openai_failure,
    report_of,
)
from dragoman.streaming import StreamPipeline
from dragoman.translate import translation_context
from dragoman.wire.json import encode
from dragoman.wire.sse import frame

CHAT, RESPONSES, MESSAGES = "openai-chat", "openai-responses", "anthropic-messages"


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"error":{"message":"m","detail":"d"},"message":"outer"}', "m"),
        (b'{"error":{"message":"","detail":"d"}}', "d"),
        (b'{"error":"bare"}', "bare"),
        (b'{"detail":"flat detail"}', "flat detail"),
        (b'{"detail":[{"msg":"x"}]}', "x"),
        (b'{"message":"flat"}', "flat"),
        (b'{"Message":"Capital"}', "Capital"),
        (b'{"error":true,"message":"beside"}', "beside"),
        (b'{"error":{"type":"t"},"message":"beside"}', "beside"),
        (b'{"error":{"message":{"text":"an object"}}}', '{"text":"an object"}'),
        (b'{"error":{"message":"  "}}', "upstream answered 418"),
        (b'{"error":{"message":"lone \\ud800"}}', "lone \ufffd"),
        (b"{}", "upstream answered 418"),
        (b"", "upstream answered 418"),
        (b" \n", "upstream answered 418"),
        (b"[1]", "[1]"),
        (b"  <html>" + b"x" * 900, "<html>" + "x" * 494),
        ("é".encode() * 900, "é" * 500),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_pitfall_187_a_body_of_any_shape_has_a_message(raw: bytes, message: str) -> None:
    for protocol in (CHAT, RESPONSES, MESSAGES):
        failure = codec_of(protocol).decode_failure(418, raw)
        assert (failure.message, failure.status, failure.kind) == (message, 418, FailureKind.OTHER)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"code": 429}}, 429),
        ({"error": {"code": "502"}}, 502),
        ({"error": {"status": 404, "code": "x"}}, 404),
        ({"error": {"status_code": 422}}, 422),
        ({"error": {"code": True, "status": 200}}, 500),
        ({"error": {"code": 1113}}, 500),
        ({"error": "x", "status": 503}, 503),
        ({"error": {"code": "image_file_not_found"}}, 400),
        ({"error": {"code": "image_file_too_large"}}, 400),
        ({"error": {"code": "invalid_prompt"}}, 400),
        ({"error": {"code": "bio_policy"}}, 400),
        ({"error": {"code": "vector_store_timeout"}}, 504),
        ({"error": {"type": "Invalid_Request_Error"}}, 400),
        ({"error": {"type": "invalid_request_error", "code": "invalid_api_key"}}, 401),
        ({"error": {"type": "invalid_request_error", "code": "unheard_of"}}, 400),
        ({"error": {"type": "rate_limit_error"}}, 429),
        ({"error": {"code": "slow_down"}}, 429),
        ({"error": {"type": "insufficient_quota"}}, 429),
        ({"error": {"code": "billing_hard_limit_reached"}}, 402),
        ({"error": {"type": "insufficient_balance_error"}}, 402),
        ({"error": {"code": "Arrearage"}}, 402),
        ({"error": {"code": "AccountOverdueError"}}, 402),
        ({"error": {"type": "overloaded_error"}}, 503),
        ({"error": {"type": "server_error"}}, 500),
        ({"type": "error", "message": "m"}, 500),
        ({"error": "x"}, 500),
    ],
)
def test_an_error_inside_a_success_has_a_status(body: JsonObject, status: int) -> None:
    assert openai_failure(body, None).status == status


def test_the_words_of_a_protocol_go_before_those_said_everywhere() -> None:
    body: JsonObject = {"error": {"type": "overloaded_error"}}
    assert report_of(body, None, {"overloaded_error": 529}).status == 529
    assert report_of(body, 500, {"overloaded_error": 529}).status == 500


@pytest.mark.parametrize(
    ("status", "native", "code", "quota"),
    [
        (400, "", "Billing_hard_limit", True),
        (402, "credits_spent", None, True),
        (403, "", "spend_limit", True),
        (429, "insufficient_quota", None, True),
        (429, "insufficient_balance_error", None, True),
        (400, "Arrearage", "Arrearage", True),
        (403, "Forbidden", "AccountOverdueError", True),
        (404, "insufficient_quota", None, False),
        (500, "", "insufficient_quota", False),
        (429, "rate_limit_error", "rate_limit_exceeded", False),
    ],
)
def test_quota_is_told_from_a_rate_limit_by_words(status: int, native: str, code: str | None, quota: bool) -> None:
    report = ErrorReport(
        status=status, message="a quota in the message says nothing", native=native, code=code, param=None
    )
    assert kind_by_keywords(report) is (FailureKind.QUOTA if quota else None)


@pytest.mark.parametrize(
    ("status", "native", "code", "message"),
    [
        (429, "Throttling.RateQuota", "Throttling.RateQuota", "slower, please"),
        (429, "insufficient_quota", "insufficient_quota", "For details see https://example.org/error-code#token-limit"),
        (429, "too_many_tokens", "token_quota", "Tokens per minute limit exceeded - too many tokens processed."),
    ],
)
def test_a_rate_that_is_called_a_quota_stays_a_rate(status: int, native: str, code: str, message: str) -> None:
    for protocol in (CHAT, RESPONSES, MESSAGES):
        body = encode({"error": {"type": native, "code": code, "message": message}})
        assert codec_of(protocol).decode_failure(status, body).kind is FailureKind.RATE_LIMITED


@pytest.mark.parametrize("status", [402, 429, 500])
def test_an_empty_account_is_told_by_the_message_alone(status: int) -> None:
    told: JsonObject = {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}
    for protocol in (CHAT, RESPONSES, MESSAGES):
        assert codec_of(protocol).decode_failure(status, encode({"error": told})).kind is FailureKind.QUOTA
        other = encode({"error": {"message": "the tool says: insufficient balance"}})
        assert (codec_of(protocol).decode_failure(status, other).kind is FailureKind.QUOTA) is (status == 402)


@pytest.mark.parametrize("kind", [*OPENAI_ERRORS], ids=lambda kind: kind.value)
def test_the_table_is_read_both_ways(kind: FailureKind) -> None:
    status, word, code = OPENAI_ERRORS[kind]
    error: JsonObject = {"message": "m", "type": word, "param": None, "code": code}
    failure = openai_failure({"error": error}, status)
    # A 503 of these protocols always says that the server is overloaded.
    assert failure.kind is (FailureKind.OVERLOADED if kind is FailureKind.UNAVAILABLE else kind)
    if kind is not FailureKind.UNAVAILABLE:
        assert openai_error(failure) == (status, error)


@pytest.mark.parametrize("status", [0, 200, 399, 600])
def test_a_failure_without_a_status_of_errors_is_one_of_the_server(status: int) -> None:
    kind = next(kind for kind in FailureKind if kind not in OPENAI_ERRORS)
    answered, error = openai_error(Failure(kind=kind, status=status, message="m"))
    assert (answered, error["type"]) == (500, "server_error")


def test_a_status_outside_the_table_is_kept() -> None:
    assert 408 not in STATUS_KINDS
    for protocol in (CHAT, RESPONSES, MESSAGES):
        for status, word in ((408, "invalid_request_error"), (507, "api_error")):
            failure = codec_of(protocol).decode_failure(status, b"late")
            told, body = codec_of(MESSAGES).encode_failure(failure, None)
            assert (told, body["error"]) == (status, {"type": word, "message": "late"})


def test_pitfall_188_a_503_means_overload_except_where_overload_has_its_own_status() -> None:
    body = encode({"error": {"type": "api_error", "message": "m"}})
    assert codec_of(MESSAGES).decode_failure(503, body).kind is FailureKind.UNAVAILABLE
    assert codec_of(CHAT).decode_failure(503, body).kind is FailureKind.OVERLOADED
    assert codec_of(RESPONSES).decode_failure(503, body).kind is FailureKind.OVERLOADED


def test_codes_of_the_same_family_are_kept_where_the_table_has_none() -> None:
    def told(status: int, error: JsonObject) -> JsonValue:
        return openai_error(openai_failure({"error": error}, status))[1]["code"]

    assert told(400, {"code": "invalid_value"}) == "invalid_value"
    assert told(429, {"code": "slow_down"}) == "slow_down"
    assert told(429, {"code": "tokens"}) == "rate_limit_exceeded"
    assert told(404, {"type": "invalid_request_error"}) is None
    assert told(500, {"code": 500}) is None


ROWS: list[JsonValue] = [
    {"message": "m", "type": word, "param": None, "code": code} for _, word, code in OPENAI_ERRORS.values()
]
ERRORS: list[JsonValue] = [
    *ROWS,
    {"message": "m", "type": "server_error"},
    {"message": "m", "type": "api_error", "param": "p"},
    {"message": "m", "code": "billing_hard_limit_reached"},
    {"message": "m", "code": "slow_down"},
    {"message": "m", "code": "invalid_value", "param": "tools[0]"},
    {"message": "m", "code": 429},
    {"message": "m", "code": "1113"},
    {"message": {"text": "an object"}},
    {"message": ["a", "list"]},
    {"message": 7},
    {"message": "This model's maximum context length is 5 tokens, you sent 9."},
    {"detail": "d"},
    {"type": 3, "code": [], "param": {}},
    {"message": "m", "metadata": {"raw": "x"}, "status": 503},
    "a bare string",
]
STATUSES = [400, 401, 402, 403, 404, 408, 409, 413, 415, 418, 422, 424, 429, 500, 501, 502, 503, 504, 524, 529]
FLAT = [b"", b"<html>", b"[]", b"null", b'"text"', b'{"detail":[{"msg":"x"}]}', b'{"message":"m"}', b'{"error":null}']


@pytest.mark.parametrize("client", [MESSAGES, CHAT, RESPONSES])
@pytest.mark.parametrize("status", STATUSES)
def test_both_openai_rooms_tell_a_providers_error_alike(client: str, status: int) -> None:
    for raw in [*FLAT, *(encode({"error": error}) for error in ERRORS)]:
        chat, responses = (codec_of(provider).decode_failure(status, raw) for provider in (CHAT, RESPONSES))
        inner = codec_of(client)
        assert inner.encode_failure(chat, "req_1") == inner.encode_failure(responses, "req_1"), raw


@pytest.mark.parametrize("client", [MESSAGES, CHAT, RESPONSES])
def test_both_openai_rooms_tell_an_error_inside_a_success_alike(client: str) -> None:
    for error in ERRORS:
        told: list[tuple[int, JsonObject]] = []
        for provider in (CHAT, RESPONSES):
            outer = codec_of(provider)
            failure = outer.decode_response({"error": error}, translation_context(None, outer), Ledger())
            assert isinstance(failure, Failure)
            told.append(codec_of(client).encode_failure(failure, None))
        assert told[0] == told[1], error


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: encode(error).decode())
def test_both_openai_rooms_tell_an_error_inside_a_stream_alike(error: JsonValue) -> None:
    told: list[bytes] = []
    for provider, event in ((CHAT, None), (RESPONSES, "error")):
        body: JsonObject = {"error": error} if event is None else {"type": event, "error": error}
        translator = StreamPipeline(source=provider, target=MESSAGES)
        told.append((translator.feed(frame(encode(body), event)) + translator.close()).split(b"event: error")[-1])
    assert told[0] == told[1]
    assert b'"message"' in told[0]


@pytest.mark.parametrize("status", STATUSES)
def test_openai_clients_are_told_alike(status: int) -> None:
    for error in ERRORS:
        failure = openai_failure(error_body(encode({"error": error})), status)
        assert codec_of(CHAT).encode_failure(failure, None) == codec_of(RESPONSES).encode_failure(failure, None)


@pytest.mark.parametrize(
    "body",
    [[{"error": {"message": "no"}}], {"error": {"error": {"message": "no"}}}, {"errors": ["no"]}],
    ids=["in a list", "in an error", "in a list of errors"],
)
def test_an_error_in_a_wrapping_of_its_own_is_still_heard(body: JsonValue) -> None:
    assert "no" in openai_failure(error_body(encode(body)), 400).message
