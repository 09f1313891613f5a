"""Which kind of outcome an error or a failure is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import errors
from dragoman.model.failure import Failure, FailureKind
from dragoman.protocols.codec import Codec
from dragoman.protocols.registry import codec_of, load_codecs
from dragoman.routing.attempt_outcome import COUNTING, AttemptOutcome
from dragoman.routing.failure_classification import kind_of

ERRORS: dict[str, tuple[errors.DragomanError, AttemptOutcome]] = {
    "no connection": (errors.Unreachable("x"), AttemptOutcome.UNREACHABLE),
    "no connection in time": (errors.Unconnected("x"), AttemptOutcome.UNREACHABLE),
    "no word of an answer": (errors.Unanswered("x"), AttemptOutcome.STREAM_BROKEN),
    "no first byte": (errors.TimedOut("x"), AttemptOutcome.FIRST_BYTE_TIMEOUT),
    "the end of all patience": (errors.Overdue("x"), AttemptOutcome.FIRST_BYTE_TIMEOUT),
    "an answer that stands still": (errors.Stalled("x"), AttemptOutcome.STREAM_BROKEN),
    "half an answer": (errors.Truncated("x"), AttemptOutcome.STREAM_BROKEN),
    "no answer that can be read": (errors.BadResponse("x"), AttemptOutcome.UNREADABLE),
    "an answer beyond our limit": (errors.Oversized("x"), AttemptOutcome.GATEWAY_ERROR),
    "a full queue": (errors.Overloaded("x", waited=0.0, retry_after=1), AttemptOutcome.QUEUE_FULL),
    "no place in time": (errors.Overloaded("x", waited=1.0, retry_after=1), AttemptOutcome.GATEWAY_ERROR),
    "no descriptor": (errors.Exhausted("x"), AttemptOutcome.GATEWAY_ERROR),
    "silent name servers": (errors.Unresolved("x"), AttemptOutcome.UNRESOLVED),
    "no credentials": (errors.Unconfigured("x"), AttemptOutcome.INVALID_KEY),
    "no credentials, as the file says": (
        errors.ConfigError(key="k", problem="p", remedy="r"),
        AttemptOutcome.INVALID_KEY,
    ),
    "a store that fails": (errors.ClientError(500, "x"), AttemptOutcome.GATEWAY_ERROR),
    "a body that breaks the rules": (errors.WireError("/a", "b", "c"), AttemptOutcome.GATEWAY_ERROR),
    "what the target cannot say": (errors.RefusedError("a", "b", "c"), AttemptOutcome.GATEWAY_ERROR),
}


@pytest.mark.parametrize("case", ERRORS)
def test_pitfall_349_every_error_has_one_kind(case: str) -> None:
    error, kind = ERRORS[case]
    assert kind_of(error) is kind


def classes(parent: type[errors.DragomanError]) -> list[type[errors.DragomanError]]:
    return [parent, *(kind for child in parent.__subclasses__() for kind in classes(child))]


def test_pitfall_349_no_error_of_a_providers_side_is_taken_for_an_answer() -> None:
    known = [kind for kind in classes(errors.UpstreamError) if kind.__module__ == "dragoman.errors"]
    assert len(known) > 10
    assert AttemptOutcome.ANSWERED not in {kind_of(kind("x")) for kind in known}


def test_pitfall_341_what_runs_short_here_counts_for_nobody() -> None:
    own = [errors.Exhausted("x"), errors.Unresolved("x"), errors.Oversized("x"), errors.ClientError(503, "x")]
    assert not {kind_of(error) for error in own} & COUNTING


def test_what_breaks_after_content_is_broken() -> None:
    assert kind_of(errors.TimedOut("x"), content=True) is AttemptOutcome.STREAM_BROKEN
    assert kind_of(errors.BadResponse("x"), content=True) is AttemptOutcome.STREAM_BROKEN
    assert kind_of(errors.Oversized("x"), content=True) is AttemptOutcome.GATEWAY_ERROR
    assert (
        kind_of(Failure(kind=FailureKind.OVERLOADED, status=529, message="x"), content=True)
        is AttemptOutcome.STREAM_BROKEN
    )


def test_pitfall_326_a_target_that_got_less_time_than_it_is_due_did_not_fail() -> None:
    assert kind_of(errors.Overdue("x"), cut=True) is AttemptOutcome.GATEWAY_ERROR
    assert kind_of(errors.TimedOut("x"), cut=True) is AttemptOutcome.FIRST_BYTE_TIMEOUT


def test_pitfall_307_silence_of_a_whole_answer_is_not_held_against_its_target() -> None:
    slow = Failure(kind=FailureKind.TIMEOUT, status=504, message="x")
    for what in (errors.TimedOut("x"), errors.Overdue("x"), slow):
        assert kind_of(what) is AttemptOutcome.FIRST_BYTE_TIMEOUT
        assert kind_of(what, non_streaming=True) is AttemptOutcome.SLOW_RESPONSE
    assert kind_of(errors.Overdue("x"), cut=True, non_streaming=True) is AttemptOutcome.GATEWAY_ERROR
    assert kind_of(errors.Unconnected("x"), non_streaming=True) is AttemptOutcome.UNREACHABLE
    assert AttemptOutcome.SLOW_RESPONSE not in COUNTING


# What a provider answers: its status and its error.
M, C = "anthropic-messages", "openai-chat"
ANSWERS: dict[str, tuple[str, int, object, AttemptOutcome]] = {
    "a rate limit": (M, 429, {"type": "rate_limit_error", "message": "x"}, AttemptOutcome.RATE_LIMITED),
    "a rate limit of tokens": (C, 429, {"type": "tokens", "code": "rate_limit_exceeded"}, AttemptOutcome.RATE_LIMITED),
    "a bare 429": (C, 429, {}, AttemptOutcome.RATE_LIMITED),
    "overload": (M, 529, {"type": "overloaded_error", "message": "x"}, AttemptOutcome.OVERLOADED),
    "overload as a 503": (M, 503, {"type": "api_error"}, AttemptOutcome.OVERLOADED),
    "overload of Chat": (C, 503, {"type": "server_error"}, AttemptOutcome.OVERLOADED),
    "overload as a rate limit": (C, 429, {"type": "engine_overloaded_error"}, AttemptOutcome.OVERLOADED),
    "no quota": (
        C,
        429,
        {"type": "insufficient_quota", "code": "insufficient_quota"},
        AttemptOutcome.INSUFFICIENT_QUOTA,
    ),
    "a plan that is used up": (C, 429, {"type": "usage_limit_reached"}, AttemptOutcome.INSUFFICIENT_QUOTA),
    "a bare 402": (C, 402, {}, AttemptOutcome.INSUFFICIENT_QUOTA),
    "no credit, in words": (
        M,
        400,
        {"type": "invalid_request_error", "message": "Your credit balance is too low to access the API."},
        AttemptOutcome.INSUFFICIENT_QUOTA,
    ),
    "a bad key": (C, 401, {"code": "invalid_api_key"}, AttemptOutcome.INVALID_KEY),
    "a bad key with a 400": (C, 400, {"code": "API_KEY_INVALID"}, AttemptOutcome.INVALID_KEY),
    "a bad key, in words": (
        C,
        400,
        {"code": 400, "message": "API key not valid. Please pass one."},
        AttemptOutcome.INVALID_KEY,
    ),
    "a bare 403": (C, 403, {}, AttemptOutcome.FORBIDDEN),
    "a 403 of Messages": (M, 403, {"type": "permission_error", "message": "x"}, AttemptOutcome.FORBIDDEN),
    "a 403 that names the key": (C, 403, {"code": "api_key_disabled"}, AttemptOutcome.INVALID_KEY),
    "a 403 for what was said": (C, 403, {"code": "content_filter"}, AttemptOutcome.CONTENT_REFUSED),
    "a 403 for what was said, by its reasons": (
        C,
        403,
        {"code": 403, "message": "no", "metadata": {"reasons": ["violence"], "flagged_input": "x"}},
        AttemptOutcome.CONTENT_REFUSED,
    ),
    "a 403 with no reasons": (
        C,
        403,
        {"code": 403, "metadata": {"reasons": [], "provider_name": "x"}},
        AttemptOutcome.FORBIDDEN,
    ),
    "a 403 that says so in words alone": (
        C,
        403,
        {"code": 403, "message": "some/model requires moderation and your input was flagged for violence"},
        AttemptOutcome.FORBIDDEN,
    ),
    "a 403 whose words mean something else": (
        C,
        403,
        {"type": "permission_error", "message": "your input was flagged"},
        AttemptOutcome.FORBIDDEN,
    ),
    "a model that the key may not use": (C, 403, {"code": "model_not_found"}, AttemptOutcome.INVALID_KEY),
    "too long": (C, 400, {"code": "context_length_exceeded"}, AttemptOutcome.CONTEXT_LENGTH_EXCEEDED),
    "too long, in words": (
        M,
        400,
        {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
        AttemptOutcome.CONTEXT_LENGTH_EXCEEDED,
    ),
    "a filter": (C, 400, {"code": "content_filter"}, AttemptOutcome.CONTENT_REFUSED),
    "a policy": (C, 400, {"code": "content_policy_violation"}, AttemptOutcome.CONTENT_REFUSED),
    "a wrong request": (C, 400, {"type": "invalid_request_error", "param": "tools"}, AttemptOutcome.INVALID_REQUEST),
    "a large request": (C, 413, {}, AttemptOutcome.INVALID_REQUEST),
    "a wrong method": (C, 405, {}, AttemptOutcome.INVALID_REQUEST),
    "a conflict": (C, 409, {}, AttemptOutcome.INVALID_REQUEST),
    "a wrong value": (C, 422, {}, AttemptOutcome.INVALID_REQUEST),
    "an odd status": (C, 418, {}, AttemptOutcome.INVALID_REQUEST),
    "an unknown model": (C, 404, {"code": "model_not_found", "param": "model"}, AttemptOutcome.UNKNOWN_MODEL),
    "an unknown model of Messages": (
        M,
        404,
        {"type": "not_found_error", "message": "model: x"},
        AttemptOutcome.UNKNOWN_MODEL,
    ),
    "a model that is no good here": (
        C,
        400,
        {"type": "invalid_request_error", "param": "model"},
        AttemptOutcome.UNKNOWN_MODEL,
    ),
    "an unknown response": (C, 404, {"code": "response_not_found", "param": "id"}, AttemptOutcome.INVALID_REQUEST),
    "a broken server": (C, 500, {}, AttemptOutcome.CONNECTION_LOST),
    "a broken way": (C, 502, {"message": "x"}, AttemptOutcome.CONNECTION_LOST),
    "a slow server": (C, 504, {}, AttemptOutcome.FIRST_BYTE_TIMEOUT),
    "a slow server of Messages": (M, 504, {"type": "timeout_error"}, AttemptOutcome.FIRST_BYTE_TIMEOUT),
    "a slow server behind a proxy": (C, 524, {}, AttemptOutcome.FIRST_BYTE_TIMEOUT),
    "a slow request": (C, 408, {}, AttemptOutcome.CONNECTION_LOST),
    "a status of a proxy": (C, 520, {}, AttemptOutcome.CONNECTION_LOST),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_pitfall_312_313_314_319_what_a_provider_answers_has_one_kind(case: str) -> None:
    protocol, status, error, kind = ANSWERS[case]
    failure = codec_of(protocol).decode_failure(status, json.dumps({"error": error}).encode())
    assert kind_of(failure, cloud=False) is kind
    assert kind_of(failure, cloud=True) is (AttemptOutcome.INVALID_KEY if kind is AttemptOutcome.FORBIDDEN else kind)


@pytest.mark.parametrize(
    "words", ["INSUFFICIENT QUOTA for concurrency", "quota exceeded: requests per minute", "check your billing"]
)
@pytest.mark.parametrize("codec", load_codecs(), ids=lambda codec: codec.name)
def test_pitfall_314_words_alone_make_no_rate_limit_final(codec: Codec, words: str) -> None:
    failure = codec.decode_failure(429, json.dumps({"error": {"message": words}}).encode())
    assert kind_of(failure) is AttemptOutcome.RATE_LIMITED


@given(st.sampled_from(FailureKind), st.integers(400, 599), st.text(max_size=40), st.booleans())
def test_pitfall_338_340_no_words_of_a_client_make_its_error_the_targets(
    kind: FailureKind, status: int, words: str, stream: bool
) -> None:
    # A provider repeats what it was asked in its message, and nowhere else.
    bare = kind_of(Failure(kind=kind, status=status, message=""), stream=stream)
    told = kind_of(Failure(kind=kind, status=status, message=words), stream=stream)
    assert (told in COUNTING) == (bare in COUNTING)


@pytest.mark.parametrize("status", [400, 404, 405, 409, 413, 415, 422])
@pytest.mark.parametrize("codec", load_codecs(), ids=lambda codec: codec.name)
def test_pitfall_338_a_4xx_is_never_the_targets_failure(codec: Codec, status: int) -> None:
    assert kind_of(codec.decode_failure(status, b"")) not in COUNTING


IN_STREAMS: dict[str, tuple[Failure, AttemptOutcome]] = {
    "overload": (Failure(kind=FailureKind.OVERLOADED, status=529, message="x"), AttemptOutcome.OVERLOADED),
    "a limit": (Failure(kind=FailureKind.RATE_LIMITED, status=429, message="x"), AttemptOutcome.RATE_LIMITED),
    "a broken server": (Failure(kind=FailureKind.INTERNAL, status=500, message="x"), AttemptOutcome.CONNECTION_LOST),
    "an end too early": (Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="x"), AttemptOutcome.STREAM_BROKEN),
    "a broken way": (
        Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="x", code="upstream"),
        AttemptOutcome.CONNECTION_LOST,
    ),
}


@pytest.mark.parametrize("case", IN_STREAMS)
def test_pitfall_301_329_an_error_event_counts_as_the_status_that_it_names(case: str) -> None:
    failure, kind = IN_STREAMS[case]
    assert kind_of(failure, stream=True) is kind
