"""Attempt outcomes, and the next step after each (decision 25). The table states the next step, whether the outcome
counts for health, and whether it may be billed. `failure_classification` derives the outcome from error class, status,
type, code and headers. Text alone never decides: status and type must match, too, and no key gets a cooldown from
text."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct


class AttemptOutcome(Enum):
    ANSWERED = "answered"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    INSUFFICIENT_QUOTA = "insufficient_quota"
    INVALID_KEY = "invalid_key"
    # Rejected for an unknown reason: the key, the model or the content.
    FORBIDDEN = "forbidden"
    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    CONTENT_REFUSED = "content_refused"
    INVALID_REQUEST = "invalid_request"
    UNKNOWN_MODEL = "unknown_model"
    UNREACHABLE = "unreachable"
    # Name servers did not respond: not sent, and the target's health is unknown.
    UNRESOLVED = "unresolved"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    # Timeout of a full response, which may only be long. It does not count for the target's health.
    SLOW_RESPONSE = "slow_response"
    UNREADABLE = "unreadable"
    CONNECTION_LOST = "connection_lost"
    STREAM_BROKEN = "stream_broken"
    # Not sent, because the queue of the target is full.
    QUEUE_FULL = "queue_full"
    GATEWAY_ERROR = "gateway_error"
    CLIENT_DISCONNECTED = "client_disconnected"


class NextStep(Enum):
    RETRY = "again"
    NEXT_TARGET = "next"
    RETURN_ERROR = "tell"


class SentSoFar(Enum):
    """What the client got before the failure."""

    NOTHING = "nothing"
    STATUS = "status"
    CONTENT = "content"


class RetryBudgets(Struct, frozen=True, kw_only=True):
    # Retries on this target: allowed, and done.
    retries: int = 0
    retry_count: int = 0
    has_budget: bool = True
    # Of the exchange: whether there are other targets, and the remaining attempts, calls, seconds and billed retries.
    others: bool = False
    # Whether one of the other targets has a larger context window.
    larger: bool = False
    attempts: int = 0
    calls: int = 0
    seconds: float = 0.0
    billed_retries: int = 0
    # The provider's hint: the delay, and whether to retry at all.
    wait: float | None = None
    should_retry: bool | None = None
    fallback_on_refusal: bool = False


class OutcomeRule(Struct, frozen=True, kw_only=True):
    """One row of the table: possible next steps, the preferred one first."""

    next_steps: tuple[NextStep, ...] = ()
    # Whether another key of the provider is tried first, if there is one: at once, and not counted as a retry.
    keys: bool = False
    # Whether it is a failure of the target, and whether it proves that the target is alive.
    counts: bool = False
    lives: bool = False
    billed: bool = False


TABLE: dict[AttemptOutcome, OutcomeRule] = {
    AttemptOutcome.ANSWERED: OutcomeRule(lives=True),
    AttemptOutcome.RATE_LIMITED: OutcomeRule(next_steps=(NextStep.NEXT_TARGET,), keys=True, lives=True),
    AttemptOutcome.OVERLOADED: OutcomeRule(next_steps=(NextStep.RETRY, NextStep.NEXT_TARGET), counts=True),
    AttemptOutcome.INSUFFICIENT_QUOTA: OutcomeRule(next_steps=(NextStep.NEXT_TARGET,), keys=True, lives=True),
    AttemptOutcome.INVALID_KEY: OutcomeRule(next_steps=(NextStep.NEXT_TARGET,), keys=True, lives=True),
    # Other keys would get the same response, and one client could exhaust them all.
    AttemptOutcome.FORBIDDEN: OutcomeRule(next_steps=(NextStep.NEXT_TARGET,), lives=True),
    # The next target must have a larger window.
    AttemptOutcome.CONTEXT_LENGTH_EXCEEDED: OutcomeRule(next_steps=(NextStep.NEXT_TARGET,), lives=True),
    # The next target is tried only if the route permits it.
    AttemptOutcome.CONTENT_REFUSED: OutcomeRule(next_steps=(NextStep.NEXT_TARGET,), lives=True),
    AttemptOutcome.INVALID_REQUEST: OutcomeRule(lives=True),
    AttemptOutcome.UNKNOWN_MODEL: OutcomeRule(next_steps=(NextStep.NEXT_TARGET,), lives=True),
    AttemptOutcome.UNREACHABLE: OutcomeRule(next_steps=(NextStep.RETRY, NextStep.NEXT_TARGET), counts=True),
    AttemptOutcome.UNRESOLVED: OutcomeRule(next_steps=(NextStep.RETRY, NextStep.NEXT_TARGET)),
    AttemptOutcome.FIRST_BYTE_TIMEOUT: OutcomeRule(
        next_steps=(NextStep.NEXT_TARGET, NextStep.RETRY), counts=True, billed=True
    ),
    AttemptOutcome.SLOW_RESPONSE: OutcomeRule(next_steps=(NextStep.NEXT_TARGET, NextStep.RETRY), billed=True),
    AttemptOutcome.UNREADABLE: OutcomeRule(next_steps=(NextStep.NEXT_TARGET, NextStep.RETRY), counts=True, billed=True),
    AttemptOutcome.CONNECTION_LOST: OutcomeRule(next_steps=(NextStep.RETRY, NextStep.NEXT_TARGET), counts=True),
    AttemptOutcome.STREAM_BROKEN: OutcomeRule(next_steps=(NextStep.NEXT_TARGET,), counts=True, billed=True),
    AttemptOutcome.QUEUE_FULL: OutcomeRule(next_steps=(NextStep.NEXT_TARGET,)),
    AttemptOutcome.GATEWAY_ERROR: OutcomeRule(),
    AttemptOutcome.CLIENT_DISCONNECTED: OutcomeRule(),
}
COUNTING = frozenset(kind for kind, row in TABLE.items() if row.counts)
GATEWAY_OUTCOMES = frozenset(
    {AttemptOutcome.QUEUE_FULL, AttemptOutcome.GATEWAY_ERROR, AttemptOutcome.CLIENT_DISCONNECTED}
)
LIVING = frozenset(kind for kind, row in TABLE.items() if row.lives)

# Seconds of the first and of the longest retry delay, and the random part of the delay.
_FIRST_RETRY_DELAY = 0.5
MAX_RETRY_DELAY = 10.0
_JITTER = 0.25


def next_step(kind: AttemptOutcome, sent: SentSoFar, budgets: RetryBudgets) -> NextStep:
    """The next step after an attempt, by the table and the remaining limits."""
    rule = TABLE[kind]
    if not _may_continue(sent, budgets) or (rule.billed and budgets.billed_retries <= 0):
        return NextStep.RETURN_ERROR
    for step in rule.next_steps:
        if _may_retry(budgets) if step is NextStep.RETRY else _has_other(kind, budgets):
            return step
    return NextStep.RETURN_ERROR


def counts_for_health(kind: AttemptOutcome) -> bool:
    """Whether the target is to blame: not the client's input, a key or the gateway."""
    return kind in COUNTING


def maybe_billed(kind: AttemptOutcome) -> bool:
    return TABLE[kind].billed


def retry_delay(number: int, wait: float | None, draw: float) -> float:
    """The delay before retry `number` on a target, counted from 0. `draw` is in [0, 1)."""
    usual = min(_FIRST_RETRY_DELAY * 2.0 ** min(number, 10), MAX_RETRY_DELAY) * (1 - _JITTER * draw)
    return usual if wait is None else min(max(usual, wait), MAX_RETRY_DELAY)


def _may_continue(sent: SentSoFar, budgets: RetryBudgets) -> bool:
    return sent is not SentSoFar.CONTENT and budgets.attempts > 0 and budgets.calls > 0 and budgets.seconds > 0


def _may_retry(budgets: RetryBudgets) -> bool:
    wait = budgets.wait
    # A target that requests a longer delay is not retried, nor is one whose delay would use up the remaining time.
    has_time = (wait is None or wait <= MAX_RETRY_DELAY) and retry_delay(
        budgets.retry_count, wait, 0.0
    ) < budgets.seconds
    return budgets.retries > 0 and budgets.has_budget and budgets.should_retry is not False and has_time


def _has_other(kind: AttemptOutcome, budgets: RetryBudgets) -> bool:
    if kind is AttemptOutcome.CONTEXT_LENGTH_EXCEEDED:
        return budgets.others and budgets.larger
    return budgets.others and (budgets.fallback_on_refusal or kind is not AttemptOutcome.CONTENT_REFUSED)


class TargetResult(Struct, frozen=True, kw_only=True):
    kind: AttemptOutcome
    window: int | None = None


def decisive_failure(results: Sequence[TargetResult]) -> int | None:
    """The index of the failure that the client gets: the first one of a provider. A context overflow is returned only
    if no target with a larger or unknown window failed otherwise, because agents then shorten their conversation. A
    failure of the gateway hides none of a provider. None if no target was called."""
    indexed = list(enumerate(results))
    indexed = [pair for pair in indexed if pair[1].kind not in GATEWAY_OUTCOMES] or indexed
    other = [pair for pair in indexed if pair[1].kind is not AttemptOutcome.CONTEXT_LENGTH_EXCEEDED]
    for index, result in indexed:
        if result.kind is AttemptOutcome.CONTEXT_LENGTH_EXCEEDED and not any(
            (rival.window is None or result.window is None or rival.window > result.window) for _, rival in other
        ):
            return index
    first = other or indexed
    return first[0][0] if first else None
