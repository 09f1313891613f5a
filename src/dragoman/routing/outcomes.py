"""Outcomes: what became of an attempt, and what may follow it (decision 25)."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Kind(Enum):
    """What became of an attempt."""

    ANSWERED = "answered"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    NO_MONEY = "no_money"
    BAD_KEY = "bad_key"
    TOO_LONG = "too_long"
    REFUSED = "refused"
    WRONG_REQUEST = "wrong_request"
    UNKNOWN_MODEL = "unknown_model"
    UNREACHABLE = "unreachable"
    SILENT = "silent"
    NO_ANSWER = "no_answer"
    BROKEN = "broken"
    OURS = "ours"
    # The client went away first.
    LEFT = "left"


class Then(Enum):
    """What follows an attempt."""

    AGAIN = "again"
    NEXT = "next"
    TELL = "tell"


class Heard(Enum):
    """What the client was told by then."""

    NOTHING = "nothing"
    STATUS = "status"
    CONTENT = "content"


class Chances(Struct, frozen=True, kw_only=True):
    """What is left of all that is bounded."""

    # Of this target.
    retries: int = 0
    has_budget: bool = True
    # Of the exchange: other targets, attempts and calls, seconds, and replays of what may have been billed.
    others: bool = False
    attempts: int = 0
    calls: int = 0
    seconds: float = 0.0
    replays: int = 0
    # What the provider said: how long to wait, and whether to ask again at all.
    wait: float | None = None
    should_retry: bool | None = None
    # Of the line.
    refusals: bool = False
