"""Calls of one exchange, as its record has them: each is noted once, when it is known what became of it."""

from __future__ import annotations

from math import trunc

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.gateway.exchange.attempt import Attempt, ResponseMode
from dragoman.gateway.forwarding import header_forwarding
from dragoman.gateway.observability.costs import record_calls
from dragoman.gateway.observability.journal_entries import MAX_NAME_LENGTH, MICROSECONDS
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Runtime
from dragoman.model.response import Usage
from dragoman.records.journal_entry import CallEntry, CostBreakdown, TokenCounts
from dragoman.routing.attempt_outcome import AttemptOutcome, maybe_billed
from dragoman.wire.duplicate_keys import OBJECT

_TEXT = msgspec.json.Decoder(str)
# Outcomes of calls for which the provider has, or may have, worked.
_WORKED = frozenset({AttemptOutcome.ANSWERED, AttemptOutcome.CLIENT_DISCONNECTED})
# The status of a response that continues in the background.
_GOES_ON = frozenset({"queued", "in_progress"})


def requested_tier(body: bytes) -> str:
    """The requested service tier."""
    try:
        return _TEXT.decode(OBJECT.decode(body).get("service_tier", b'""'))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""


# Members of an enumeration are slow to find, and these are looked for in every exchange.
_ANSWERED, _STREAM = AttemptOutcome.ANSWERED, ResponseMode.STREAM


class Calls(Struct, eq=False):
    """Counts calls, and has them in the record as they end."""

    _runtime: Runtime
    _builder: RecordBuilder
    # Whether a response without usage is estimated; other paths report theirs later (`passthrough_usage`).
    conversation: bool = True
    # Whether a model works for it, since other calls are free; and whether it counts for the health of targets.
    works: bool = True
    learns: bool = True
    _runs: bool = False
    _is_queued: bool = False
    # Targets that this exchange was a failure for.
    _charged: set[str] = set()
    count: int = 0
    # When the last one was begun.
    started: float = 0.0

    def begin(self) -> None:
        """Know of a call that is about to be made."""
        self.count += 1
        self._runs = True
        self.started = self._runtime.clock()

    def queued(self) -> None:
        """Record that the call waits for a slot and was not sent."""
        self._is_queued = True

    def admitted(self) -> None:
        """Know that it is made now: how long it waited is nothing that its provider took."""
        self._is_queued = False
        self.started = self._runtime.clock()

    @property
    def runs(self) -> bool:
        """Whether a call is in progress."""
        return self._runs and not self._is_queued

    def ended(self, attempt: Attempt, kind: AttemptOutcome) -> tuple[CallEntry, ...]:
        """The attempts of the record with the last call and its outcome, once."""
        attempts = self._builder.record.attempts
        if not self._runs:
            return attempts
        self._runs = False
        if self._is_queued:
            self._take_back(attempt)
            return attempts
        runtime, target, key, usage = self._runtime, attempt.target, attempt.key, attempt.own_cost()
        if attempt.estimate is not None and usage is not None and not usage.unreported and attempt.is_final:
            # It broke off after the end of its content, and the estimate was made before that was known.
            attempt.estimate = None
        if self.learns:
            # Without names, which take longer than the look-ups that they are for.
            runtime.routing_state.record_outcome(
                target,
                kind,
                self.started,
                # The content of any other response is sent at its end, which says nothing about its beginning.
                attempt.first if attempt.mode is _STREAM else 0.0,
                usage,
                len(attempt.body),
                self._charged,
                attempt.is_slowed,
                attempt.permit,
            )
        tokens, cost = self._spent(attempt, kind, usage)
        provider, began = target.provider, self._builder.record.started
        # Whatever a provider calls the exchange is logged, but not if it is a secret.
        named = header_forwarding.provider_request_id(attempt.headers)
        closed = CallEntry(
            provider.name,
            target.printable_model[:MAX_NAME_LENGTH],
            target.endpoint.protocol,
            # `value` of an enumeration is a slow way to `_value_`.
            kind._value_,
            attempt.status,
            trunc((self.started - began) * MICROSECONDS),
            trunc((attempt.first - began) * MICROSECONDS) if attempt.first else 0,
            trunc((runtime.clock() - began) * MICROSECONDS),
            named and attempt.settings.redactor.clean_text(named),
            provider.keys.index(key) if key in provider.keys else -1,
            kind is not _ANSWERED and self.works and maybe_billed(kind),
            tokens,
            attempt.estimate is not None,
            cost,
        )
        return (*attempts, closed)

    def close(self, attempt: Attempt, kind: AttemptOutcome) -> None:
        """Record the outcome of the last call and the totals, once."""
        record_calls(self._builder.record, self.ended(attempt, kind))

    def abandoned(self, attempt: Attempt) -> tuple[CallEntry, ...]:
        """The same for a call that an internal error broke off: its usage is unknown, not zero."""
        *others, last = self.ended(attempt, AttemptOutcome.GATEWAY_ERROR)
        if last.cost is None and self.conversation and attempt.status < 300:
            last = replace(last, cost=self._runtime.costs.unreported(attempt.target), maybe_billed=True)
        return (*others, last)

    def _spent(
        self, attempt: Attempt, kind: AttemptOutcome, usage: Usage | None
    ) -> tuple[TokenCounts | None, CostBreakdown | None]:
        """The usage and cost of a call: as reported, else as estimated. Unknown is not free."""
        counted = attempt.estimate or usage
        if counted is not None:
            # For a full response, and for an uncounted stream, the size at the break is unknown. For one that is still
            # generated, the rest is unknown.
            is_cut = False
            if attempt.estimate is not None:
                is_cut = attempt.translator is None and (kind is not _ANSWERED or attempt.seen.stop in _GOES_ON)
            elif (attempt.is_uncountable or kind is not _ANSWERED) and not attempt.is_final:
                counted = replace(counted, output=0, thinking=None)
                is_cut = attempt.translator is not None and attempt.translator.answered
            target, costs = attempt.target, self._runtime.costs
            tier = requested_tier(attempt.body) if target.bills_requested_tier else ""
            seen = attempt.seen if attempt.translator is None else attempt.response_metadata
            tokens, cost = costs.spent(target, counted, seen.model, tier)
            if is_cut:
                cost = replace(cost, unpriced=(*cost.unpriced, "output"))
            return tokens, cost
        worked = kind in _WORKED if self.conversation else kind is AttemptOutcome.CLIENT_DISCONNECTED
        if self.works and (maybe_billed(kind) or attempt.has_worked or (worked and attempt.status < 300)):
            return None, self._runtime.costs.unreported(attempt.target)
        return None, None

    def _take_back(self, attempt: Attempt) -> None:
        """Have nothing in the record of a call that was never made."""
        self._is_queued = False
        self.count -= 1
        if attempt.permit is not None:
            self._runtime.routing_state.give_back(attempt.target, attempt.permit)
            attempt.permit = None
