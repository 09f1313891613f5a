"""Outcomes: what became of an attempt, and what may follow it (decision 25).

    what broke or was answered ─▶ kind_of ─▶ Kind ─▶ TABLE ─▶ after: again, next, tell
                                                           ├▶ counts_for_health, maybe_billed
                                                           └▶ rest_of: which key rests, and how long

Each attempt has one kind, found in one place (`kinds.py`), from what is structured: the class of our own error, the
kind that the codec gave a failure, its status, type and code, and the headers beside it. Words decide nothing by
themselves: where a provider has no code for what it means, its status and its type must fit, too, and no key rests.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct


class AttemptOutcome(Enum):
    """What became of an attempt."""

    ANSWERED = "answered"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    NO_MONEY = "no_money"
    BAD_KEY = "bad_key"
    # Not allowed, and nobody says whether that is for the key, the model or the content.
    FORBIDDEN = "forbidden"
    TOO_LONG = "too_long"
    REFUSED = "refused"
    WRONG_REQUEST = "wrong_request"
    UNKNOWN_MODEL = "unknown_model"
    UNREACHABLE = "unreachable"
    # Name servers did not answer: not sent, and nothing is known of the target.
    UNRESOLVED = "unresolved"
    SILENT = "silent"
    # Silent, but asked for a whole answer, which may simply be long: nobody knows whether it works.
    SLOW = "slow"
    # An answer that nobody can read.
    UNREADABLE = "unreadable"
    NO_ANSWER = "no_answer"
    BROKEN = "broken"
    # So many wait for the target already that nobody else may: not sent.
    FULL = "full"
    OURS = "ours"
    # The client went away first.
    LEFT = "left"


class NextStep(Enum):
    """What follows an attempt."""

    AGAIN = "again"
    NEXT = "next"
    TELL = "tell"


class SentSoFar(Enum):
    """What the client was told by then."""

    NOTHING = "nothing"
    STATUS = "status"
    CONTENT = "content"


class RetryBudgets(Struct, frozen=True, kw_only=True):
    """What is left of all that is bounded."""

    # Of this target: how often it may be asked again, and was.
    retries: int = 0
    pauses: int = 0
    has_budget: bool = True
    # Of the exchange: other targets, attempts and calls, seconds, and replays of what may have been billed.
    others: bool = False
    # Whether one of the others is known to have a larger window.
    larger: bool = False
    attempts: int = 0
    calls: int = 0
    seconds: float = 0.0
    replays: int = 0
    # What the provider said: how long to wait, and whether to ask again at all.
    wait: float | None = None
    should_retry: bool | None = None
    # Of the line.
    refusals: bool = False


class OutcomeRule(Struct, frozen=True, kw_only=True):
    """One line of the table: what may follow, in the order in which it is preferred."""

    then: tuple[NextStep, ...] = ()
    # Whether another key of the provider is tried first, if it has one: at once, and as no retry.
    keys: bool = False
    # Whether it is a failure of the target, and an answer of one that lives.
    counts: bool = False
    lives: bool = False
    # Whether the provider may ask for money all the same.
    billed: bool = False


# What follows a failure, as decision 25 has it.
TABLE: dict[AttemptOutcome, OutcomeRule] = {
    AttemptOutcome.ANSWERED: OutcomeRule(lives=True),
    AttemptOutcome.RATE_LIMITED: OutcomeRule(then=(NextStep.NEXT,), keys=True, lives=True),
    AttemptOutcome.OVERLOADED: OutcomeRule(then=(NextStep.AGAIN, NextStep.NEXT), counts=True),
    AttemptOutcome.NO_MONEY: OutcomeRule(then=(NextStep.NEXT,), keys=True, lives=True),
    AttemptOutcome.BAD_KEY: OutcomeRule(then=(NextStep.NEXT,), keys=True, lives=True),
    # Other keys would be asked the same, and whoever asks could wear them all out.
    AttemptOutcome.FORBIDDEN: OutcomeRule(then=(NextStep.NEXT,), lives=True),
    # Next is one with a larger window.
    AttemptOutcome.TOO_LONG: OutcomeRule(then=(NextStep.NEXT,), lives=True),
    # Next only if the line says so.
    AttemptOutcome.REFUSED: OutcomeRule(then=(NextStep.NEXT,), lives=True),
    AttemptOutcome.WRONG_REQUEST: OutcomeRule(lives=True),
    AttemptOutcome.UNKNOWN_MODEL: OutcomeRule(then=(NextStep.NEXT,), lives=True),
    AttemptOutcome.UNREACHABLE: OutcomeRule(then=(NextStep.AGAIN, NextStep.NEXT), counts=True),
    AttemptOutcome.UNRESOLVED: OutcomeRule(then=(NextStep.AGAIN, NextStep.NEXT)),
    AttemptOutcome.SILENT: OutcomeRule(then=(NextStep.NEXT, NextStep.AGAIN), counts=True, billed=True),
    AttemptOutcome.SLOW: OutcomeRule(then=(NextStep.NEXT, NextStep.AGAIN), billed=True),
    AttemptOutcome.UNREADABLE: OutcomeRule(then=(NextStep.NEXT, NextStep.AGAIN), counts=True, billed=True),
    AttemptOutcome.NO_ANSWER: OutcomeRule(then=(NextStep.AGAIN, NextStep.NEXT), counts=True),
    AttemptOutcome.BROKEN: OutcomeRule(then=(NextStep.NEXT,), counts=True, billed=True),
    AttemptOutcome.FULL: OutcomeRule(then=(NextStep.NEXT,)),
    AttemptOutcome.OURS: OutcomeRule(),
    AttemptOutcome.LEFT: OutcomeRule(),
}
# The same as sets, which are asked for every attempt.
COUNTING = frozenset(kind for kind, row in TABLE.items() if row.counts)
OUR_OWN = frozenset({AttemptOutcome.FULL, AttemptOutcome.OURS, AttemptOutcome.LEFT})
LIVING = frozenset(kind for kind, row in TABLE.items() if row.lives)

# Seconds: the first pause, the longest one, and which part of it is left to the dice.
_FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
_JITTER = 0.25


def after(kind: AttemptOutcome, heard: SentSoFar, chances: RetryBudgets) -> NextStep:
    """What follows an attempt, by the table and by what is left."""
    row = TABLE[kind]
    if not _may_go_on(heard, chances) or (row.billed and chances.replays <= 0):
        return NextStep.TELL
    for then in row.then:
        if _may_ask_again(chances) if then is NextStep.AGAIN else _has_other(kind, chances):
            return then
    return NextStep.TELL


def counts_for_health(kind: AttemptOutcome) -> bool:
    """Whether it is the target's failure: never what depends on the client's words, on a key or on ourselves."""
    return kind in COUNTING


def maybe_billed(kind: AttemptOutcome) -> bool:
    """Whether the provider may ask for money although there was no answer."""
    return TABLE[kind].billed


def pause(number: int, wait: float | None, dice: float) -> float:
    """How long to wait before a target is asked again for the nth time, counted from 0; `dice` is of [0, 1)."""
    usual = min(_FIRST_PAUSE * 2.0 ** min(number, 10), LONGEST_PAUSE) * (1 - _JITTER * dice)
    return usual if wait is None else min(max(usual, wait), LONGEST_PAUSE)


def _may_go_on(heard: SentSoFar, chances: RetryBudgets) -> bool:
    return heard is not SentSoFar.CONTENT and chances.attempts > 0 and chances.calls > 0 and chances.seconds > 0


def _may_ask_again(chances: RetryBudgets) -> bool:
    wait = chances.wait
    # No pause is longer than the longest: who asks for more is not asked again. Nor is anybody after whose pause
    # nothing would be left.
    patient = (wait is None or wait <= LONGEST_PAUSE) and pause(chances.pauses, wait, 0.0) < chances.seconds
    return chances.retries > 0 and chances.has_budget and chances.should_retry is not False and patient


def _has_other(kind: AttemptOutcome, chances: RetryBudgets) -> bool:
    if kind is AttemptOutcome.TOO_LONG:
        return chances.others and chances.larger
    return chances.others and (chances.refusals or kind is not AttemptOutcome.REFUSED)


class TargetResult(Struct, frozen=True, kw_only=True):
    """How one target that was asked fared, and how many tokens it takes in, if that is known."""

    kind: AttemptOutcome
    window: int | None = None


def decisive(verdicts: Sequence[TargetResult]) -> int | None:
    """Which of several failures is told: the first of a provider, but too long only if that is what all say.

    A refusal of our own hides no failure of a provider. "Too long" is told if no target with a larger or unknown window
    failed in another way, since agents then shorten their conversation. None if nobody was asked.
    """
    asked = list(enumerate(verdicts))
    asked = [pair for pair in asked if pair[1].kind not in OUR_OWN] or asked
    other = [pair for pair in asked if pair[1].kind is not AttemptOutcome.TOO_LONG]
    for place, verdict in asked:
        if verdict.kind is AttemptOutcome.TOO_LONG and not any(_may_hold_more(rival, verdict) for _, rival in other):
            return place
    first = other or asked
    return first[0][0] if first else None


def _may_hold_more(rival: TargetResult, verdict: TargetResult) -> bool:
    return rival.window is None or verdict.window is None or rival.window > verdict.window
