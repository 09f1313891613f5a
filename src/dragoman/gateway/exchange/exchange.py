"""Exchange: what one request and its response hold, and the verbs that all parts of an exchange share (decision 41).

The parts, in the order in which a request passes them:

    understanding    body ─▶ `UnderstoodRequest`: model, route, targets in their order
    calling          one target: prepare, reserve, call ─▶ a response head, or a failure
    full_delivery    a response that is sent at once
    stream_delivery  a response that is sent as it comes
    failing          a failure ─▶ the next target, the same one again, or an error for the client
    serving          the line through all of them, and its end: a client that disconnects, a gateway that stops

An `await` is a state. While a part waits, three other things can happen: a heartbeat is due (`heartbeat_due`), the
client disconnects or the gateway stops (both cancel the task, `serving`), and a stream delivers chunks by callback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar, TypeVarTuple

from msgspec import Struct

from dragoman.errors import DragomanError, bare
from dragoman.gateway.admission import Slot
from dragoman.gateway.byte_budget import ReaderCharge
from dragoman.gateway.exchange.attempt import UNNAMED, Attempt, Missed, PreparedAttempt, ResponseMode
from dragoman.gateway.exchange.call_log import Calls
from dragoman.gateway.exchange.client_responses import ClientResponse, ClientResponses, SentState
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.routing_inputs import conversation_of, thread_of
from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.exchange.usage_estimate import Counting
from dragoman.gateway.forwarding.client import Client, ClientRequest
from dragoman.gateway.forwarding.error_responses import EVENT_STREAM
from dragoman.gateway.forwarding.provider_request import strict_mode
from dragoman.gateway.observability.costs import record_calls
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.observability.unexpected_errors import traceback_summary
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage, ParsedRequest
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences
from dragoman.gateway.stored_responses.store_failures import NotStored
from dragoman.gateway.stored_responses.stored_state import owner_of
from dragoman.gateway.stored_responses.turn_lookup import is_sealed
from dragoman.gateway.thread_offload import INLINE, offload
from dragoman.http.upstream_call import UpstreamCall
from dragoman.model.failure import Failure
from dragoman.model.folding import Fold
from dragoman.model.jsonvalue import JsonObject
from dragoman.protocols.registry import codec_of
from dragoman.records.journal_entry import CallEntry
from dragoman.routing.affinity_key import response_key
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.plan_inputs import Affinity
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.rules.pauses import RESUMES
from dragoman.streaming import StreamPipeline, Tap

if TYPE_CHECKING:
    from dragoman.gateway.exchange.recording import Recording
    from dragoman.gateway.exchange.stream_delivery import StreamDelivery

T = TypeVar("T")
# Called with the error that prevented storing a response, or None.
OnStored: TypeAlias = Callable[[DragomanError | None], None]
Given = TypeVarTuple("Given")
# Members of an enumeration are slow to find, and these are looked for in every exchange.
_NOTHING, _STATUS, _ALL = SentState.NOTHING, SentState.STATUS, SentState.ALL
_ANSWERED = AttemptOutcome.ANSWERED
# Seconds that the store gets for a response whose exchange is cancelled.
_LAST_MOMENTS = 2.0
# Seconds that an exchange which has ended waits for a token count.
_COUNTING = 2.0


class UnderstoodRequest(Struct, frozen=True):
    """A request whose targets are chosen."""

    body: bytes
    parsed: ParsedRequest
    # Remaining targets, attempts and retry budgets.
    retry_state: RetryState
    # None if the target was fixed before.
    route: Route | None = None
    # The referenced items, if routing had to look them up.
    references: ResolvedReferences | None = None


class Unsent(Struct, frozen=True):
    """A response that failed before the client received any of it. `failure` is set if a remedy may apply."""

    missed: Missed
    failure: Failure | None = None


class Paused(Struct, frozen=True):
    """A response that its provider paused, with the content blocks to continue from."""

    blocks: tuple[JsonObject, ...]


class Exchange:
    """One exchange. Nothing that it holds refers back to it once it has ended."""

    def __init__(self, runtime: Runtime, client_request: ClientRequest, client: Client, builder: RecordBuilder) -> None:
        self.runtime = runtime
        self.client_request = client_request
        self.client = client
        self.builder = builder
        self.storage = ExchangeStorage(runtime, client_request.api_path, builder.record.key)
        self.limits = TimeLimits(runtime.timers, runtime.settings.timeouts, builder.record.started)
        self.responses = ClientResponses(runtime, client_request, builder)
        self.calls = Calls(runtime, builder)
        self.request: UnderstoodRequest | None = None
        self.attempt: Attempt | None = None
        # The stream that is delivered to the client, from the response head on.
        self.stream: StreamDelivery | None = None
        self.sent = _NOTHING
        # Whether heartbeats begin before a target has responded, because the route has several.
        self.has_early_heartbeats = False
        # Whether a provider key is in cooldown because of this exchange.
        self.has_cooled_key = False
        self.call: UpstreamCall | None = None
        # The capture of its contents, where they are recorded.
        self.recording: Recording | None = None
        # The right to call a provider with a concurrency limit.
        self.slot: Slot | None = None
        # Bytes of the response, and of stored input, that count against the key's budgets.
        self.charge: ReaderCharge | None = None
        self.reference_charge: ReaderCharge | None = None
        # The write of a streamed response to the store, or the token count before it.
        self.store_future: asyncio.Future[None] | None = None
        self._is_leaving = False
        # The error form of a failed stream that the store takes first; and whether nothing is sent any more.
        self.error_form = b""
        self.is_over = False
        # Strict mode as server, key and client state it; a route may add to it.
        self.strict = strict_mode(runtime.settings.server, client_request)

    def set_request(self, request: UnderstoodRequest) -> None:
        """Serve this request."""
        self.request, self.responses.retry_state = request, request.retry_state

    # Work on bytes.

    async def work(self, size: int, work: Callable[[*Given], T], *given: *Given, paid: bool = False) -> T:
        """Run work on this many bytes, in a thread if it would block the loop."""
        if size <= INLINE:
            return work(*given)
        return await offload(partial(work, *given), size, self.builder.record.key, paid=paid)

    # The record.

    def finalize(self, kind: AttemptOutcome, status: int | None = None, failure: str | None = None) -> None:
        """Finalize the record with the outcome of the last call, before the client can know its response complete."""
        attempt, record = self.attempt, self.builder.record
        if self.request is not None and self.request.retry_state.permitted is not None:
            self.request.retry_state.give_back()
        attempts = self.ended_calls(kind)
        if attempts:
            record_calls(record, attempts)
        if attempt is not None:
            seen = attempt.seen if attempt.translator is None else attempt.response_metadata
            if attempts and seen is not UNNAMED:
                record.stop_reason, record.response_model, record.response_id = seen.stop, seen.model, seen.id
            if kind is _ANSWERED and isinstance(attempt, PreparedAttempt):
                call = attempt.first_call()
                response_id = self.storage.stored_id if self.storage.writer is not None else ""
                if call or response_id:
                    record.facts = self.runtime.session_facts.with_response(record, call, response_id)
        self.builder.finalize(status, failure)

    def end_call(self, kind: AttemptOutcome) -> None:
        """Record the outcome of the last call; others may follow."""
        self.builder.record.attempts = self.ended_calls(kind)

    def ended_calls(self, kind: AttemptOutcome) -> tuple[CallEntry, ...]:
        """The recorded attempts, with the last call."""
        attempt = self.attempt
        if attempt is None:
            return self.builder.record.attempts
        if kind is _ANSWERED and self.request is not None and self.request.retry_state.stays:
            self._set_affinity(self.request, attempt)
        return self.calls.ended(attempt, kind)

    def abandon(self) -> None:
        """Record the last call of an exchange that an error of the gateway itself ends."""
        if self.request is not None:
            self.request.retry_state.give_back()
        if self.attempt is not None and self.calls.runs:
            record_calls(self.builder.record, self.calls.abandoned(self.attempt))

    def record_stream(self) -> None:
        """Record usage and losses of a stream."""
        attempt, record = self.attempt, self.builder.record
        if isinstance(attempt, PreparedAttempt) and (translator := attempt.translator) is not None:
            record.usage, record.losses = translator.usage, (*attempt.prepared.translated.losses, *translator.losses)

    def record_target(self, target: Target) -> None:
        """Record the present target; nothing of an earlier one holds for it."""
        record = self.builder.record
        record.set_target(target)
        record.failure = record.advice = ""
        record.losses, record.usage = (), None

    def _set_affinity(self, request: UnderstoodRequest, attempt: Attempt) -> None:
        """Have the conversation stay with the target that answered."""
        retry_state = request.retry_state
        routing_state, target, affinity = self.runtime.routing_state, attempt.target, retry_state.affinity
        conversation = retry_state.conversation or self._moved_conversation(request, target)
        if not conversation:
            return
        if (
            retry_state.is_sticky
            and affinity is not None
            and affinity.target != target.id
            and not retry_state.leaves(affinity)
        ):
            # Its target was passed over for a moment only, and has its cache.
            return
        # A conversation that is not sticky has no key and no rule of its own: only its cache is there.
        here = (
            Affinity(target.id, attempt.key_digest(), retry_state.rule)
            if retry_state.is_sticky
            else Affinity(target.id)
        )
        response_id = self.storage.stored_id
        if (
            affinity is not None
            and affinity == here
            and not response_id
            and routing_state.affinities.holds(conversation, affinity)
        ):
            return
        owner = owner_of(self.client_request.key).hex()
        routing_state.set_affinity(owner, conversation, here)
        if response_id:
            # The next request may refer to it, and not repeat how the conversation started.
            routing_state.set_affinity(owner, response_key(owner, response_id), here)

    def _moved_conversation(self, request: UnderstoodRequest, target: Target) -> str:
        """The affinity key of a conversation that the first target of its route did not answer."""
        retry_state, parsed = request.retry_state, request.parsed
        # Of a large request it was read in a thread, before the targets were chosen.
        if retry_state.moved(target) and len(request.body) <= INLINE:
            start = parsed.glance.conversation_start()
            thread = "" if request.route is None else thread_of(request.route, parsed.facts)
            named = bool(parsed.facts.session)
            retry_state.conversation = conversation_of(
                self.client_request, parsed, start, retry_state.name, thread, named
            )
        return retry_state.conversation

    # The client.

    def respond(self, response: ClientResponse, kind: AttemptOutcome) -> None:
        """Send a full response, the outcome of the last call."""
        failure = response.failure or None
        if self.sent is _NOTHING:
            self.finalize(kind, response.status, failure)
            self.client.respond(response.status, response.headers, response.body)
        else:
            # The status was sent, and the body is a stream that is known as a whole.
            self.finalize(kind, status=200, failure=failure)
            self.write(response.body)
            self.client.end()
        self.sent = _ALL

    def open(self, *, first: float = 0.0, pending: bool = False) -> None:
        """Commit status 200. `first` is the time of the first content; `pending` if another target may still be the
        one."""
        if self.sent is _NOTHING:
            self.sent = _STATUS
            self.builder.record.status, self.builder.record.first_content = 200, first
            if pending:
                headers = self.responses.pending()
            else:
                assert isinstance(self.attempt, PreparedAttempt)
                headers = self.responses.headers(self.attempt.prepared, self.attempt.headers, EVENT_STREAM)
            self.client.start(200, headers)
        elif first:
            self.builder.record.first_content = first

    def write(self, data: bytes) -> None:
        """Send a chunk of a streamed response."""
        if data:
            self.limits.sent_at = self.runtime.clock()
            self.client.write(data)

    def heartbeat_due(self) -> None:
        """Send a heartbeat to a client that waits for a stream; the first one commits the status."""
        streams = self.has_early_heartbeats or (self.attempt is not None and self.attempt.mode is ResponseMode.STREAM)
        if self.sent is _STATUS or (streams and self.sent is not _ALL):
            self.open(pending=self.has_early_heartbeats)
            self.write(codec_of(self.client_request.api_path.protocol).heartbeat)

    def clean(self, out: bytes) -> bytes:
        """Bytes without the provider's secrets."""
        assert self.attempt is not None
        return self.attempt.settings.redactor.clean(out)

    def cache_turn(self, attempt: PreparedAttempt) -> None:
        """Cache a turn with sealed reasoning before the client can send it back."""
        turn = attempt.turn
        if turn is not None and is_sealed(turn):
            self.storage.cache_turn(self.client_request.key, attempt.prepared, turn)

    def translator(self, attempt: PreparedAttempt, *, collect: bool) -> StreamPipeline:
        """Make the translator of the present stream."""
        prepared = attempt.prepared
        protocol = prepared.target.endpoint.protocol
        attempt.fold = Fold(protocol) if self.storage.watches(prepared) else None
        attempt.translator = StreamPipeline(
            source=protocol,
            target=prepared.client,
            request=prepared.translated,
            mint=self.runtime.mint_of(self.builder.record),
            collect=collect,
            limit=self.runtime.settings.limits.stream_event,
            resumes=RESUMES,
            tap=None if attempt.fold is None else Tap(events=attempt.fold.take),
            cleaned=attempt.settings.redactor.clean_failure,
            altered=codec_of(prepared.client).withhold_usage if prepared.metered and not collect else None,
        )
        return attempt.translator

    def renamed_frames(self, attempt: PreparedAttempt) -> Callable[[bytes], bytes] | None:
        """The function that replaces IDs in frames of a relayed stream by stored ones; None if nothing must be
        changed."""
        writer = self.storage.writer
        return writer.named if writer is not None and attempt.prepared.relay else None

    # The provider.

    def hang_up(self) -> None:
        """Close the present call."""
        self.limits.pausing()
        if self.call is not None:
            self.call.close()
            self.call = None

    def drop(self) -> None:
        """Close the present call and release its resources."""
        self.hang_up()
        self.release_slot()
        self.discharge()

    def release_slot(self) -> None:
        """Let another exchange call the provider."""
        if self.slot is not None:
            self.slot.release()
            self.slot = None

    def open_charge(self) -> ReaderCharge:
        """The charge of the present response."""
        if self.charge is None:
            budget = self.runtime.buffered.of(self.builder.record.key)
            self.charge = budget.open(self._stop_reading, self._read_on)
        return self.charge

    def _stop_reading(self) -> None:
        self.limits.suspend()
        assert self.call is not None
        self.call.pause()

    def _read_on(self) -> None:
        self.limits.resume()
        if self.stream is not None and self.stream.events is not None:
            self.stream.events.resume()
        elif self.call is not None:
            self.call.resume()

    def discharge(self) -> None:
        """Close the charge of the response, once the client has read it."""
        if self.stream is not None:
            self.stream.charged = 0
        if self.charge is not None:
            self.charge.complete()
            self.client.after_sending(self.charge.close)
            self.charge = None

    def forget_references(self) -> None:
        """Close the charge of stored input."""
        if self.reference_charge is not None:
            self.reference_charge.close()
            self.reference_charge = None

    # The store.

    def store_streamed(self, frames: bytes, on_stored: OnStored, *, at_once: bool = False) -> None:
        """Store a response by its last frames, unless `at_once` and the store is busy; `on_stored` gets an error."""
        self.store_future = None
        future = self.storage.finalize(frames, at_once=at_once)
        if future is None:
            on_stored(None)
        else:
            self.watch(future, on_stored)

    def watch(self, future: asyncio.Future[None], on_stored: OnStored) -> None:
        """Call `on_stored` when a future is done that the end of the response waits for."""
        self.store_future = future
        future.add_done_callback(partial(self._was_stored, on_stored))

    def _was_stored(self, on_stored: OnStored, future: asyncio.Future[None]) -> None:
        if future is not self.store_future or future.cancelled():
            return
        self.store_future = None
        error = future.exception()
        if error is None:
            on_stored(None)
        elif not self._is_leaving:
            on_stored(bare(error) if isinstance(error, DragomanError) else NotStored())

    async def await_stored(self) -> None:
        """Wait until the store has taken the response, or has failed to."""
        self.limits.storing()
        while self.store_future is not None:
            await asyncio.wait({self.store_future})

    async def last_moments(self) -> None:
        """Have the store try once more, for an exchange that cannot wait any longer."""
        if self.store_future is not None:
            self._is_leaving = True
            self.storage.expedite_now()
            await asyncio.wait({self.store_future}, timeout=_LAST_MOMENTS)

    # Token counts.

    async def count(self, attempt: PreparedAttempt, counting: Counting) -> None:
        """Count the tokens of a response that reported none; a failed count does not cost the response."""
        usage = None
        try:
            usage = await offload(counting.count, counting.size, self.builder.record.key, paid=True)
        except Exception as error:
            self.runtime.log.event(
                "error", "cannot count tokens", error=type(error).__name__, at=traceback_summary(error)
            )
        finally:
            attempt.count(usage)

    async def count_unfinished(self) -> None:
        """Count the tokens of a response that broke off, or that the client does not wait for."""
        attempt = self.attempt
        if not isinstance(attempt, PreparedAttempt) or not self.calls.runs:
            return
        is_ending = self.stream is not None and self.stream.is_finalizing
        if attempt.status >= 300 or is_ending or not attempt.lacks_counts():
            return
        counting = attempt.counting
        self.hang_up()
        alive, self.limits.alive = self.limits.alive, None
        try:
            await asyncio.wait_for(self.count(attempt, counting), _COUNTING)
        except TimeoutError:
            # Then the usage is unknown.
            return
        finally:
            self.limits.alive = alive

    def end(self) -> None:
        """Release everything that the exchange still holds."""
        self.limits.stop()
        self.limits.alive = None
        if self.call is not None:
            self.call.close()
        if self.slot is not None:
            self.release_slot()
        if self.charge is not None:
            self.discharge()
        if self.reference_charge is not None:
            self.forget_references()
        if self.storage.is_begun:
            self.storage.end()
        # The delivery refers back to its exchange.
        self.stream = None
