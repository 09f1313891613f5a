"""What headers say of trying again, and how long keys rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.failure import Failure, FailureKind
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.cooldown import (
    DEFAULT_SECONDS,
    MIN_SECONDS,
    NO_HINT,
    Cooldown,
    Hint,
    cooldown_of,
    hint_of,
    names_the_key,
)
from dragoman.routing.health import MAX_KEY_COOLDOWN

NOW = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT

HINTS: dict[str, tuple[list[tuple[bytes, bytes]], Hint]] = {
    "nothing": ([(b"content-type", b"application/json")], Hint()),
    "seconds": ([(b"retry-after", b"20")], Hint(wait=20.0)),
    "part of a second": ([(b"retry-after", b"0.5")], Hint(wait=0.5)),
    "milliseconds, which are more exact": ([(b"retry-after", b"2"), (b"retry-after-ms", b"1500")], Hint(wait=1.5)),
    "a date": ([(b"retry-after", b"Sun, 09 Sep 2001 01:47:10 GMT")], Hint(wait=30.0)),
    "a date that is over": ([(b"retry-after", b"Sun, 09 Sep 2001 01:46:10 GMT")], Hint(wait=0.0)),
    "no": ([(b"x-should-retry", b"false")], Hint(should_retry=False)),
    "yes": ([(b"x-should-retry", b" True ")], Hint(should_retry=True)),
    "perhaps": ([(b"x-should-retry", b"perhaps")], Hint()),
    "an account's window": ([(b"anthropic-ratelimit-unified-status", b"rejected")], Hint(account=True)),
    "no number": ([(b"retry-after", b"soon")], Hint()),
    "less than nothing": ([(b"retry-after", b"-5")], Hint()),
    "no number that ends": ([(b"retry-after", b"inf"), (b"retry-after-ms", b"nan")], Hint()),
    "a month that is none": ([(b"retry-after", b"Sun, 09 Xxx 2001 01:46:10 GMT")], Hint()),
}


@pytest.mark.parametrize("case", HINTS)
def test_hints_are_read_from_headers(case: str) -> None:
    headers, hint = HINTS[case]
    assert hint_of(headers, NOW) == hint


@given(st.binary(max_size=60), st.sampled_from([b"retry-after", b"retry-after-ms"]))
def test_no_header_is_waited_for_without_end(value: bytes, name: bytes) -> None:
    wait = hint_of([(name, value)], NOW).wait
    assert wait is None or 0 <= wait < float("inf")


def failure(kind: FailureKind, status: int, *, code: str | None = None, native: str = "") -> Failure:
    return Failure(kind=kind, status=status, message="x", code=code, native=native)


LIMIT = failure(FailureKind.RATE_LIMITED, 429)
RESTS: dict[str, tuple[AttemptOutcome, Failure | None, Hint, Cooldown | None]] = {
    "a limit": (AttemptOutcome.RATE_LIMITED, LIMIT, NO_HINT, Cooldown(seconds=DEFAULT_SECONDS)),
    "a limit that says how long": (AttemptOutcome.RATE_LIMITED, LIMIT, Hint(wait=7.0), Cooldown(seconds=7.0)),
    "a limit of no time": (AttemptOutcome.RATE_LIMITED, LIMIT, Hint(wait=0.0), Cooldown(seconds=MIN_SECONDS)),
    "a limit for days": (
        AttemptOutcome.RATE_LIMITED,
        LIMIT,
        Hint(wait=600_000.0),
        Cooldown(seconds=MAX_KEY_COOLDOWN),
    ),
    "a limit of the account": (
        AttemptOutcome.RATE_LIMITED,
        failure(FailureKind.RATE_LIMITED, 429, code="account_rate_limit_exceeded"),
        NO_HINT,
        Cooldown(seconds=DEFAULT_SECONDS, every_model=True),
    ),
    "a window of the account": (
        AttemptOutcome.RATE_LIMITED,
        LIMIT,
        Hint(wait=60.0, account=True),
        Cooldown(seconds=60.0, every_model=True),
    ),
    "no money": (
        AttemptOutcome.INSUFFICIENT_QUOTA,
        failure(FailureKind.QUOTA, 429, code="insufficient_quota"),
        NO_HINT,
        Cooldown(seconds=MAX_KEY_COOLDOWN, every_model=True),
    ),
    "no money for days": (
        AttemptOutcome.INSUFFICIENT_QUOTA,
        failure(FailureKind.RATE_LIMITED, 429, native="usage_limit_reached"),
        Hint(wait=500_000.0),
        Cooldown(seconds=MAX_KEY_COOLDOWN, every_model=True),
    ),
    "no money, says the status alone": (
        AttemptOutcome.INSUFFICIENT_QUOTA,
        failure(FailureKind.QUOTA, 402),
        NO_HINT,
        None,
    ),
    "a bad key": (
        AttemptOutcome.INVALID_KEY,
        failure(FailureKind.UNAUTHENTICATED, 401),
        NO_HINT,
        Cooldown(seconds=MAX_KEY_COOLDOWN, every_model=True),
    ),
    "a key that may not be used here": (
        AttemptOutcome.INVALID_KEY,
        failure(FailureKind.FORBIDDEN, 403, code="api_key_disabled"),
        NO_HINT,
        Cooldown(seconds=MAX_KEY_COOLDOWN),
    ),
    "no money for so much, says a status twice": (
        AttemptOutcome.INSUFFICIENT_QUOTA,
        failure(FailureKind.QUOTA, 402, code="402"),
        NO_HINT,
        None,
    ),
    "what is forbidden to somebody": (
        AttemptOutcome.FORBIDDEN,
        failure(FailureKind.FORBIDDEN, 403, native="permission_error"),
        NO_HINT,
        None,
    ),
    "a page that forbids": (AttemptOutcome.INVALID_KEY, failure(FailureKind.FORBIDDEN, 403), NO_HINT, None),
    "no credentials at all": (AttemptOutcome.INVALID_KEY, None, NO_HINT, None),
    "overload": (AttemptOutcome.OVERLOADED, failure(FailureKind.OVERLOADED, 529), Hint(wait=5.0), None),
}


@pytest.mark.parametrize("case", RESTS)
def test_pitfall_313_316_345_346_which_key_rests_and_how_long(case: str) -> None:
    kind, failed, hint, rest = RESTS[case]
    assert cooldown_of(kind, failed, hint) == rest


@given(st.sampled_from(AttemptOutcome), st.floats(min_value=0, allow_infinity=False), st.integers(400, 599))
def test_pitfall_345_no_rest_is_longer_than_a_quarter_of_an_hour(
    kind: AttemptOutcome, wait: float, status: int
) -> None:
    rest = cooldown_of(kind, failure(FailureKind.OTHER, status, code="invalid_api_key"), Hint(wait=wait))
    assert (rest is None) == (
        kind not in (AttemptOutcome.RATE_LIMITED, AttemptOutcome.INSUFFICIENT_QUOTA, AttemptOutcome.INVALID_KEY)
    )
    assert rest is None or MIN_SECONDS <= rest.seconds <= MAX_KEY_COOLDOWN


@pytest.mark.parametrize(
    ("status", "code", "native", "names"),
    [
        (401, "invalid_api_key", "invalid_request_error", True),
        (401, None, "authentication_error", True),
        (401, None, "", False),
        (402, "Insufficient_Quota", "", True),
        (403, "account_deactivated", "", True),
        (403, "403", "", False),
        (403, None, "permission_error", False),
        (400, "context_length_exceeded", "invalid_request_error", False),
        # A request may be over a limit all by itself, whatever that is called.
        (429, "rate_limit_exceeded", "tokens", False),
        (429, "insufficient_quota", "insufficient_quota", False),
    ],
)
def test_pitfall_316_one_request_rests_more_than_one_key_only_for_what_names_the_key(
    status: int, code: str | None, native: str, names: bool
) -> None:
    assert names_the_key(failure(FailureKind.OTHER, status, code=code, native=native)) is names
