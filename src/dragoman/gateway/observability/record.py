"""Record: the fields of one exchange while it runs. `RecordBuilder.finalize` makes its journal entry of them, once."""

from __future__ import annotations

from msgspec import Struct

from dragoman.model.response import Usage
from dragoman.records.journal_entry import CONVERSATION, CallEntry, CandidateEntry, CostBreakdown, TokenCounts
from dragoman.routing.target import Target
from dragoman.sessions.facts import NOTHING, ExchangeFacts
from dragoman.translate import LossLine


class RouteDecision(Struct, frozen=True, gc=False):
    """The route of a request, and how its targets were ordered."""

    route: str
    policy: str
    reason: str
    candidates: tuple[CandidateEntry, ...] = ()
    candidates_more: int | None = None


class Record(Struct):
    """One exchange. Its parts set the fields as they learn them; no field holds content of a prompt or a response."""

    id: str
    # Seconds of the loop's clock, as all times here but `time`: microseconds of the wall clock.
    started: float
    time: int
    # From here on, up to `tags`, as its head says.
    client_protocol: str
    path: str
    # Kind of the exchange (`records/journal_entry.py`); "" for requests that are not recorded.
    kind: str = CONVERSATION
    # Address, user agent and gateway key of the client.
    address: str = ""
    program: str = ""
    key: str = ""
    # The launch, as the client states it.
    launch: str = ""
    # Session facts of the request.
    facts: ExchangeFacts = NOTHING
    # The client's `traceparent` and `tracestate`, where it sent any that may be used.
    trace: str = ""
    trace_state: str = ""
    # The tags of its key, as one text.
    tags: str = ""
    # The requested model, and its target.
    requested_model: str = ""
    provider: str = ""
    model: str = ""
    provider_protocol: str = ""
    # The route of the name, if it has several targets, its policy, and the reason of the choice.
    route: str = ""
    policy: str = ""
    reason: str = ""
    # Targets that it might have gone to, where they had to be ranked, and how many more there were, if any.
    candidates: tuple[CandidateEntry, ...] = ()
    candidates_more: int | None = None
    stream: bool = False
    # Calls to providers that have ended.
    attempts: tuple[CallEntry, ...] = ()
    # Targets without a free slot, in time or at all. They were not called.
    queue_full: tuple[str, ...] = ()
    status: int = 0
    # The first content sent to the client, and the end.
    first_content: float = 0.0
    ended: float = 0.0
    usage: Usage | None = None
    losses: tuple[LossLine, ...] = ()
    # The error: a kind of failure, "cancelled" by the client, our "shutdown", "truncated" on another path, or "".
    failure: str = ""
    # Why the gateway itself rejected a request, without contents; and whether it did so before it knew the client.
    refusal: str = ""
    at_door: bool = False
    # The remedy of a problem, for the operator.
    advice: str = ""
    # Usage of all attempts (None if neither reported nor counted), whether any of it was counted here, and the cost.
    tokens: TokenCounts | None = None
    estimated: bool = False
    cost: CostBreakdown | None = None
    # Stop reason, model and ID of the response, as reported.
    stop_reason: str = ""
    response_model: str = ""
    response_id: str = ""
    # Bytes of the request, as far as it was read.
    size: int = 0

    def set_target(self, target: Target) -> None:
        """Record the target that is called."""
        self.provider, self.model = target.provider.name, target.printable_model
        self.provider_protocol = target.endpoint.protocol

    def set_route(self, decision: RouteDecision) -> None:
        """Record how the target was chosen."""
        self.route, self.policy, self.reason = decision.route, decision.policy, decision.reason
        self.candidates, self.candidates_more = decision.candidates, decision.candidates_more


class LogDetails(Struct, frozen=True, gc=False):
    """Details for the log alone: full address, path and refusal, and advice."""

    address: str = ""
    path: str = ""
    refusal: str = ""
    advice: str = ""
    at_door: bool = False
