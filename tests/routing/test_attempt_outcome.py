"""What became of attempts, and what follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dragoman.routing.attempt_outcome import (
    COUNTING,
    GATEWAY_OUTCOMES,
    LIVING,
    MAX_RETRY_DELAY,
    TABLE,
    AttemptOutcome,
    NextStep,
    RetryBudgets,
    SentSoFar,
    TargetResult,
    counts_for_health,
    decisive_failure,
    maybe_billed,
    next_step,
    retry_delay,
)

NOTHING, STATUS, CONTENT = SentSoFar
AGAIN, NEXT, TELL = NextStep
ALL = RetryBudgets(
    retries=2, others=True, larger=True, attempts=8, calls=16, seconds=60.0, billed_retries=1, fallback_on_refusal=True
)
ALONE = replace(ALL, others=False)
ONCE = replace(ALL, retries=0)


def test_the_words_of_the_table_are_few() -> None:
    assert len({kind.value for kind in AttemptOutcome}) == len(AttemptOutcome)
    assert {then.value for then in NextStep} == {"again", "next", "tell"}
    assert {heard.value for heard in SentSoFar} == {"nothing", "status", "content"}
    assert RetryBudgets().retries == 0


# What follows if everything is left, if there is no other target, and if this one may not be asked again.
FOLLOWS: dict[AttemptOutcome, tuple[NextStep, NextStep, NextStep]] = {
    AttemptOutcome.ANSWERED: (TELL, TELL, TELL),
    AttemptOutcome.RATE_LIMITED: (NEXT, TELL, NEXT),
    AttemptOutcome.OVERLOADED: (AGAIN, AGAIN, NEXT),
    AttemptOutcome.INSUFFICIENT_QUOTA: (NEXT, TELL, NEXT),
    AttemptOutcome.INVALID_KEY: (NEXT, TELL, NEXT),
    AttemptOutcome.FORBIDDEN: (NEXT, TELL, NEXT),
    AttemptOutcome.CONTEXT_LENGTH_EXCEEDED: (NEXT, TELL, NEXT),
    AttemptOutcome.CONTENT_REFUSED: (NEXT, TELL, NEXT),
    AttemptOutcome.INVALID_REQUEST: (TELL, TELL, TELL),
    AttemptOutcome.UNKNOWN_MODEL: (NEXT, TELL, NEXT),
    AttemptOutcome.UNREACHABLE: (AGAIN, AGAIN, NEXT),
    AttemptOutcome.UNRESOLVED: (AGAIN, AGAIN, NEXT),
    AttemptOutcome.FIRST_BYTE_TIMEOUT: (NEXT, AGAIN, NEXT),
    AttemptOutcome.SLOW_RESPONSE: (NEXT, AGAIN, NEXT),
    AttemptOutcome.UNREADABLE: (NEXT, AGAIN, NEXT),
    AttemptOutcome.CONNECTION_LOST: (AGAIN, AGAIN, NEXT),
    AttemptOutcome.STREAM_BROKEN: (NEXT, TELL, NEXT),
    AttemptOutcome.QUEUE_FULL: (NEXT, TELL, NEXT),
    AttemptOutcome.GATEWAY_ERROR: (TELL, TELL, TELL),
    AttemptOutcome.CLIENT_DISCONNECTED: (TELL, TELL, TELL),
}


@pytest.mark.parametrize("kind", AttemptOutcome)
def test_pitfall_301_306_327_what_follows_is_one_table(kind: AttemptOutcome) -> None:
    assert set(FOLLOWS) == set(TABLE) == set(AttemptOutcome)
    for heard in (NOTHING, STATUS):
        assert tuple(next_step(kind, heard, chances) for chances in (ALL, ALONE, ONCE)) == FOLLOWS[kind]


@pytest.mark.parametrize("kind", AttemptOutcome)
def test_after_content_nothing_is_tried(kind: AttemptOutcome) -> None:
    assert next_step(kind, CONTENT, ALL) is TELL


def test_pitfall_319_too_long_goes_to_a_larger_window_only() -> None:
    assert next_step(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, NOTHING, ALL) is NEXT
    assert next_step(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, NOTHING, replace(ALL, larger=False)) is TELL
    assert not counts_for_health(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED)


def test_pitfall_320_a_refusal_is_told_unless_the_line_says_otherwise() -> None:
    assert next_step(AttemptOutcome.CONTENT_REFUSED, NOTHING, replace(ALL, fallback_on_refusal=False)) is TELL
    assert next_step(AttemptOutcome.CONTENT_REFUSED, NOTHING, ALL) is NEXT


def test_pitfall_307_what_may_have_been_billed_is_replayed_as_often_as_is_left() -> None:
    billed = {kind for kind in AttemptOutcome if maybe_billed(kind)}
    assert billed == {
        AttemptOutcome.FIRST_BYTE_TIMEOUT,
        AttemptOutcome.SLOW_RESPONSE,
        AttemptOutcome.UNREADABLE,
        AttemptOutcome.STREAM_BROKEN,
    }
    none = replace(ALL, billed_retries=0)
    assert {next_step(kind, NOTHING, none) for kind in billed} == {TELL}
    assert next_step(AttemptOutcome.UNREACHABLE, NOTHING, none) is AGAIN


LIMITS = {
    "attempts": replace(ALL, attempts=0),
    "calls": replace(ALL, calls=0),
    "seconds": replace(ALL, seconds=0.0),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_pitfall_308_every_chance_has_an_end(limit: str) -> None:
    assert {next_step(kind, NOTHING, LIMITS[limit]) for kind in AttemptOutcome} == {TELL}


@given(
    st.lists(st.sampled_from(AttemptOutcome), min_size=40, max_size=40),
    st.integers(0, 5),
    st.integers(0, 8),
    st.integers(0, 4),
)
def test_pitfall_308_309_an_exchange_ends_whatever_fails(
    kinds: list[AttemptOutcome], retries: int, attempts: int, targets: int
) -> None:
    made, others, left, replays = 1, targets, retries, 1
    for kind in kinds:
        chances = replace(ALL, retries=left, others=others > 0, attempts=attempts - made, billed_retries=replays)
        then = next_step(kind, NOTHING, chances)
        if then is TELL:
            break
        made += 1
        replays -= maybe_billed(kind)
        others, left = (others - 1, retries) if then is NEXT else (others, left - 1)
    else:
        pytest.fail("it went on for ever")
    assert made <= max(attempts, 1)
    assert replays >= 0


def test_pitfall_316_other_keys_are_tried_for_what_is_the_keys_alone() -> None:
    assert {kind for kind in AttemptOutcome if TABLE[kind].keys} == {
        AttemptOutcome.RATE_LIMITED,
        AttemptOutcome.INSUFFICIENT_QUOTA,
        AttemptOutcome.INVALID_KEY,
    }


@pytest.mark.parametrize(
    "chances",
    [
        replace(ALONE, retries=0),
        replace(ALONE, has_budget=False),
        replace(ALONE, should_retry=False),
        replace(ALONE, wait=61.0),
        replace(ALONE, wait=5.0, seconds=4.0),
        replace(ALONE, wait=MAX_RETRY_DELAY + 1),
    ],
    ids=["no retry", "no budget", "told not to", "a long wait", "a wait beyond what is left", "more than a pause"],
)
def test_pitfall_324_a_target_is_not_asked_again_where_something_speaks_against_it(chances: RetryBudgets) -> None:
    assert next_step(AttemptOutcome.OVERLOADED, NOTHING, chances) is TELL
    assert next_step(AttemptOutcome.OVERLOADED, NOTHING, replace(chances, others=True)) is NEXT


def test_a_target_that_asks_for_a_moment_gets_it() -> None:
    assert next_step(AttemptOutcome.OVERLOADED, NOTHING, replace(ALONE, wait=3.0, should_retry=True)) is AGAIN


@pytest.mark.parametrize("kind", [AttemptOutcome.GATEWAY_ERROR, AttemptOutcome.INVALID_REQUEST])
def test_pitfall_315_what_fails_here_or_by_its_own_words_goes_nowhere(kind: AttemptOutcome) -> None:
    assert next_step(kind, NOTHING, replace(ALL, should_retry=True)) is TELL
    assert not counts_for_health(kind)


def test_pitfall_338_only_the_targets_own_failures_count() -> None:
    counting = {
        AttemptOutcome.OVERLOADED,
        AttemptOutcome.UNREACHABLE,
        AttemptOutcome.FIRST_BYTE_TIMEOUT,
        AttemptOutcome.UNREADABLE,
        AttemptOutcome.CONNECTION_LOST,
        AttemptOutcome.STREAM_BROKEN,
    }
    assert counting == {kind for kind in AttemptOutcome if counts_for_health(kind)} == COUNTING
    assert not COUNTING & LIVING


@given(st.integers(0, 10_000), st.none() | st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
def test_a_pause_is_bounded_and_honours_a_hint(number: int, wait: float | None, dice: float) -> None:
    seconds = retry_delay(number, wait, dice)
    assert 0.375 <= seconds <= MAX_RETRY_DELAY
    assert wait is None or seconds >= min(wait, MAX_RETRY_DELAY)


def test_pauses_double_less_a_jitter() -> None:
    assert [retry_delay(number, None, 0.0) for number in range(6)] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0]
    assert retry_delay(1, None, 0.8) == pytest.approx(0.8)


def miss(kind: AttemptOutcome, window: int | None = None) -> TargetResult:
    return TargetResult(kind=kind, window=window)


DECISIVE: dict[str, tuple[list[TargetResult], int | None]] = {
    "one": ([miss(AttemptOutcome.CONNECTION_LOST)], 0),
    "the first": ([miss(AttemptOutcome.RATE_LIMITED), miss(AttemptOutcome.CONNECTION_LOST)], 0),
    "nobody was asked": ([], None),
    "a provider's before our own": ([miss(AttemptOutcome.GATEWAY_ERROR), miss(AttemptOutcome.CONNECTION_LOST)], 1),
    "a provider's before a full queue": ([miss(AttemptOutcome.QUEUE_FULL), miss(AttemptOutcome.CONNECTION_LOST)], 1),
    "our own if there is no other": ([miss(AttemptOutcome.GATEWAY_ERROR)], 0),
    "a limit, then too long for a smaller one": (
        [miss(AttemptOutcome.RATE_LIMITED, 200), miss(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, 100)],
        0,
    ),
    "a limit, then too long for a larger one": (
        [miss(AttemptOutcome.RATE_LIMITED, 100), miss(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, 200)],
        1,
    ),
    "a limit of who knows how large a one": (
        [miss(AttemptOutcome.RATE_LIMITED), miss(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, 200)],
        0,
    ),
    "too long, then a larger one fails": (
        [miss(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, 100), miss(AttemptOutcome.CONNECTION_LOST, 200)],
        1,
    ),
    "too long for all": (
        [miss(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, 100), miss(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, 200)],
        0,
    ),
    "too long, and nobody knows the window": (
        [miss(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED), miss(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED)],
        0,
    ),
    "too long, then our own": (
        [miss(AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, 100), miss(AttemptOutcome.GATEWAY_ERROR)],
        0,
    ),
}


@pytest.mark.parametrize("case", DECISIVE)
def test_pitfall_318_319_323_which_failure_is_told(case: str) -> None:
    verdicts, told = DECISIVE[case]
    assert decisive_failure(verdicts) == told


@given(st.lists(st.builds(miss, st.sampled_from(AttemptOutcome), st.none() | st.integers(1, 9))))
def test_pitfall_323_something_is_told_if_anybody_was_asked(verdicts: list[TargetResult]) -> None:
    told = decisive_failure(verdicts)
    assert (told is None) is not bool(verdicts)
    if told is not None:
        real = [verdict for verdict in verdicts if verdict.kind not in GATEWAY_OUTCOMES]
        assert not real or verdicts[told] in real
