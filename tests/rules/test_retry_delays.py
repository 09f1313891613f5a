"""A delay that only an error's body or words tell is found, and nothing is taken for one that is none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.failure import Failure, FailureKind
from dragoman.rules.retry_delays import delay_of


def limited(message: str = "no", kind: FailureKind = FailureKind.RATE_LIMITED) -> Failure:
    return Failure(kind=kind, status=429, message=message)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Rate limit reached for gpt-5.1 on tokens per min. Please try again in 17s. Visit https://x.test/", 17.0),
        ("Please try again in 1.898s.", 1.898),
        ("Please try again in 250ms.", 0.25),
        ("Please try again in 6m0s.", 360.0),
        ("Please try again in 1h2m3.5s.", 3723.5),
        ("Please try again in 17 seconds.", 17.0),
        ("Try again in 2 minutes", 120.0),
        ("try again in 1 minute 5 seconds", 65.0),
        ("Please retry after 26 seconds.", 26.0),
        ("Please retry in 38.2s.", 38.2),
        ("please wait for 3 hours", 10800.0),
        ("try again in 500 milliseconds", 0.5),
        ("Please try again later", None),
        ("try again in a while", None),
        ("17 seconds ago you could have retried", None),
        ("try again in 5 messages", None),
        ("try again in 17", None),
        ("try again in 99999999 hours", None),
        ("", None),
    ],
)
def test_words_that_name_a_time(words: str, seconds: float | None) -> None:
    assert delay_of(limited(words)) == (None if seconds is None else pytest.approx(seconds))


INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"error": {"code": 429, "message": "no", "details": [{"@type": "x.google.rpc.Help"}, INFO]}}, 17.0),
        ([{"error": {"code": 429, "message": "no", "details": [INFO]}}], 17.0),
        ({"error": {"type": "usage_limit_reached", "resets_in_seconds": 600}}, 600.0),
        ({"error": {"message": "no", "metadata": {"retry_after": 2.5}}}, 2.5),
        ({"error": {"message": "no", "retry_after_ms": 1500}}, 1.5),
        ({"retry_after": 3, "message": "no"}, 3.0),
        ({"error": {"message": "no", "retry_after": True}}, None),
        ({"error": {"message": "no", "retry_after": "soon"}}, None),
        ({"error": {"message": "no", "retry_after": -1}}, None),
        ({"error": {"message": "no", "details": [{**INFO, "retryDelay": {"seconds": 1}}]}}, None),
        ({"error": {"message": "no", "retry_after": 10**400}}, None),
        ({"error": "no"}, None),
        ("no", None),
    ],
)
def test_members_that_name_a_time(body: object, seconds: float | None) -> None:
    assert delay_of(limited(), json.dumps(body).encode()) == seconds


def test_members_go_before_words() -> None:
    body = b'{"error":{"message":"try again in 5s","retry_after":7}}'
    assert delay_of(limited("try again in 5s"), body) == 7.0
    assert delay_of(limited("try again in 5s"), b"<html>busy</html>") == 5.0


@pytest.mark.parametrize("kind", FailureKind)
def test_only_what_passes_by_itself_has_a_time(kind: FailureKind) -> None:
    passes = kind.value in ("rate_limited", "overloaded", "quota", "unavailable")
    assert (delay_of(limited("try again in 5s", kind)) is not None) == passes


@given(st.text(), st.binary())
def test_nothing_that_is_said_breaks_it(words: str, body: bytes) -> None:
    delay = delay_of(limited(words), body)
    assert delay is None or delay > 0
