"""Record: what is known of one exchange; the log line and the counters are made from it."""

from __future__ import annotations

from typing import TypedDict

from msgspec import Struct

from dragoman.model.failure import FailureKind
from dragoman.model.response import Usage
from dragoman.records.journal_entry import CONVERSATION, CandidateEntry, CostBreakdown, TokenCounts
from dragoman.sessions.facts import NOTHING, ExchangeFacts
from dragoman.translate import LossLine


class RecordedAttempt(Struct, frozen=True):
    """One call to a provider: when it was made, and the status of the answer, 0 if there was none."""

    provider: str
    model: str
    protocol: str
    started: float
    status: int = 0
    provider_request_id: str = ""
    # What became of it (`routing/attempt_outcome.py`), once it has ended; "" while it runs.
    kind: str = ""
    ended: float = 0.0
    # The first content that it gave, and what it says that it cost.
    first_content: float = 0.0
    usage: Usage | None = None
    # Which of the provider's keys it was made with, by its place among them; -1 is none of them.
    key: int = -1
    # Whether the provider may have worked for it, though nothing of that was heard.
    maybe_billed: bool = False
    # The usage as it is accounted for, whether it was counted here for want of one, and what it cost.
    tokens: TokenCounts | None = None
    estimated: bool = False
    cost: CostBreakdown | None = None


class Record(Struct, frozen=True):
    """One exchange. It grows by replacement (`RecordBuilder`); nothing here was said by the user or by the model."""

    id: str
    client_protocol: str
    path: str
    # By the loop's clock, as all times here but `time`, which is the wall's.
    started: float
    time: float
    # Kind of the exchange (`records/journal_entry.py`); "" for requests that are not recorded.
    kind: str = CONVERSATION
    # Where the client is, what program it says it is, and under which gateway key it asks.
    address: str = ""
    program: str = ""
    key: str = ""
    # The launch that it belongs to, as the client says.
    launch: str = ""
    # The model's name as the client said it, and whom it led to.
    requested_model: str = ""
    provider: str = ""
    model: str = ""
    provider_protocol: str = ""
    # The line that the name is of, where that has several targets, by which policy they were ordered, and why so.
    route: str = ""
    policy: str = ""
    reason: str = ""
    # Targets that it might have gone to, where they had to be ranked, and how many more there were, if any.
    candidates: tuple[CandidateEntry, ...] = ()
    candidates_more: int | None = None
    stream: bool = False
    attempts: tuple[RecordedAttempt, ...] = ()
    # Targets that had no place for a call, in time or at all: nobody was asked there.
    queue_full: tuple[str, ...] = ()
    status: int = 0
    # The first content sent to the client, and the end.
    first_content: float = 0.0
    ended: float = 0.0
    usage: Usage | None = None
    losses: tuple[LossLine, ...] = ()
    # What went wrong: a kind of failure, "cancelled" by the client, our "shutdown", or "truncated" on another path;
    # "" if nothing did.
    failure: str = ""
    # Why the gateway itself refused a request, in words, without contents; whether it did so before it knew the client.
    refusal: str = ""
    at_door: bool = False
    # What to do about what went wrong, for the operator.
    advice: str = ""
    # Of all attempts together: what they took (None if nobody said and nothing was counted), whether any of it was
    # counted here, and what it cost.
    tokens: TokenCounts | None = None
    estimated: bool = False
    cost: CostBreakdown | None = None
    # Why the answer ended, which model it says it is from, and what its provider calls it.
    stop_reason: str = ""
    response_model: str = ""
    response_id: str = ""
    # Bytes of the request, as far as it was read.
    size: int = 0
    # What it shows of who is speaking.
    facts: ExchangeFacts = NOTHING
    # The client's `traceparent` and `tracestate`, where it sent any that may be used.
    trace: str = ""
    trace_state: str = ""

    @property
    def is_fault(self) -> bool:
        """Whether the operator has to act: the gateway or a provider failed. A refused provider key is no 5xx."""
        return self.status >= 500 or self.failure == FailureKind.UPSTREAM_AUTH.value

    @property
    def provider_request_id(self) -> str:
        """What the last provider calls the exchange."""
        return self.attempts[-1].provider_request_id if self.attempts else ""


class RecordChanges(TypedDict, total=False):
    """Changes of a record's fields, as keyword arguments (`RecordBuilder.update`). Its keys are those that change."""

    kind: str
    address: str
    program: str
    key: str
    launch: str
    requested_model: str
    provider: str
    model: str
    provider_protocol: str
    route: str
    policy: str
    reason: str
    candidates: tuple[CandidateEntry, ...]
    candidates_more: int | None
    stream: bool
    attempts: tuple[RecordedAttempt, ...]
    queue_full: tuple[str, ...]
    status: int
    first_content: float
    usage: Usage | None
    losses: tuple[LossLine, ...]
    failure: str
    refusal: str
    at_door: bool
    advice: str
    tokens: TokenCounts | None
    estimated: bool
    cost: CostBreakdown | None
    stop_reason: str
    response_model: str
    response_id: str
    size: int
    facts: ExchangeFacts
    trace: str
    trace_state: str
