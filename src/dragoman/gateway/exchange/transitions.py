"""What all moves of an exchange share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TypeVarTuple

from dragoman.gateway.exchange.attempt import (
    UNNAMED,
    Attempt,
    Missed,
)
from dragoman.gateway.exchange.call_log import Calls
from dragoman.gateway.exchange.client import ClientRequest
from dragoman.gateway.exchange.client_responses import ClientResponse, ClientResponses
from dragoman.gateway.exchange.events_commands import (
    CacheTurn,
    Command,
    Done,
    End,
    ExchangeEvent,
    Finalize,
    HangUp,
    Offload,
    Respond,
    Waiting,
    Write,
)
from dragoman.gateway.exchange.provider_errors import ErrorReader
from dragoman.gateway.exchange.retry_state import RetryState
from dragoman.gateway.exchange.routing_inputs import conversation_of, thread_of
from dragoman.gateway.exchange.states import SentState, State
from dragoman.gateway.exchange.usage_estimate import Counting
from dragoman.gateway.observability import record
from dragoman.gateway.observability.costs import together
from dragoman.gateway.observability.record import RecordChanges
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Runtime
from dragoman.gateway.stored_responses.exchange_storage import ExchangeStorage, ParsedRequest
from dragoman.gateway.stored_responses.stored_state import owner_of
from dragoman.gateway.stored_responses.turn_lookup import is_sealed
from dragoman.gateway.thread_offload import INLINE
from dragoman.model.failure import FailureKind
from dragoman.model.folding import Fold
from dragoman.protocols.registry import codec_of
from dragoman.routing.affinity_key import response_key
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.plan_inputs import Affinity
from dragoman.routing.route import Route
from dragoman.routing.target import Target
from dragoman.rules.pauses import RESUMES
from dragoman.streaming import StreamPipeline, Tap

Given = TypeVarTuple("Given")
# Members of an enumeration are slow to find, and these are looked for in every exchange.
_NOTHING, _ALL, _OVER, _ANSWERED = SentState.NOTHING, SentState.ALL, State.OVER, AttemptOutcome.ANSWERED
_HANG_UP = HangUp()


class Transitions(ABC):
    """What all moves share. `flowing` is whether pieces of the stream go straight to the client."""

    # The present target, if there is one.
    attempt: Attempt
    has_attempt = False
    _body = b""
    _parsed: ParsedRequest | None = None
    # Whom it may go to, once it is known what it asks for.
    _route: Route | None = None
    # The provider that keeps what it refers to, if that is not kept here.
    _storing_provider = ""
    # Whether it goes on from what somebody keeps, and nobody knows who.
    _is_astray = False
    _retry_state: RetryState | None = None
    # Whether a key rests because of it.
    _has_cooled_key = False
    # Whether its client hears signs of life while targets are tried, since there are several.
    _is_held = False
    # What is told if nothing can be done about a refusal.
    _refusal: Missed | None = None
    state = State.FRESH
    sent = SentState.NOTHING
    flowing = False
    _is_sending_failure = False

    def __init__(
        self, runtime: Runtime, client_request: ClientRequest, builder: RecordBuilder, storage: ExchangeStorage
    ) -> None:
        self._runtime = runtime
        self._client_request = client_request
        self._builder = builder
        self._storage = storage
        self._responses = ClientResponses(runtime, client_request, builder)
        self.calls = Calls(runtime, builder)
        self._out: list[Command] = []

    @abstractmethod
    def _dispatch(self, event: ExchangeEvent) -> None:
        """Make the move that the table has for an event."""

    def _do(self, *commands: Command) -> None:
        self._out += commands

    def _wait(self, state: State, command: Waiting) -> None:
        self.state = state
        self._out.append(command)

    def _work(
        self, state: State, size: int, work: Callable[[*Given], object], *given: *Given, paid: bool = False
    ) -> None:
        """Have work done: at once, unless it takes so long that others would wait for it."""
        if size > INLINE:
            self._wait(state, Offload(partial(work, *given), size, paid))
        else:
            self.state = state
            self._dispatch(Done(work(*given)))

    def _nothing(self, _: ExchangeEvent) -> None:
        """Nothing comes of it."""
        return

    def _finalize(self, kind: AttemptOutcome, changes: RecordChanges) -> None:
        """All is known, also what became of the last call."""
        if self._retry_state is not None:
            self._retry_state.give_back()
        attempts = self._ended_calls(kind)
        changes["attempts"] = attempts
        if attempts:
            changes.update(together(attempts))
            seen = self.attempt.response_metadata
            if seen is not UNNAMED:
                changes["stop_reason"], changes["response_model"], changes["response_id"] = (
                    seen.stop,
                    seen.model,
                    seen.id,
                )
        if kind is _ANSWERED and self.has_attempt:
            call, response_id = self.attempt.first_call, self._storage.stored_id
            if call or response_id:
                changes["facts"] = self._runtime.session_facts.with_response(self._builder.record, call, response_id)
        self._do(Finalize(changes))

    def _end_call(self, kind: AttemptOutcome) -> None:
        """The last call has ended, and others may follow."""
        self._builder.update(attempts=self._ended_calls(kind))

    def _ended_calls(self, kind: AttemptOutcome) -> tuple[record.RecordedAttempt, ...]:
        if not self.has_attempt:
            return self._builder.record.attempts
        if kind is _ANSWERED and self._retry_state is not None and self._retry_state.stays:
            self._set_affinity(self._retry_state, self.attempt)
        return self.calls.ended(self.attempt, kind)

    def abandon(self) -> None:
        """Have the last call in the record although nobody hears its end: an error of our own is that of all."""
        if self._retry_state is not None:
            self._retry_state.give_back()
        if self.has_attempt and self.calls.runs:
            attempts = self.calls.abandoned(self.attempt)
            self._builder.update(**together(attempts))

    def unfinished(self) -> Counting | None:
        """What is to be counted of an answer that nobody hears the end of; None if nothing came of it."""
        if not self.has_attempt or not self.calls.runs or not self.attempt.is_prepared:
            return None
        attempt = self.attempt
        if attempt.status >= 300 or self.state in (State.FINALIZING, State.STORING) or not attempt.lacks_counts:
            return None
        return attempt.counting

    def _set_affinity(self, retry_state: RetryState, attempt: Attempt) -> None:
        """Let the conversation stay with whoever answered."""
        routing_state, target, affinity = self._runtime.routing_state, attempt.target, retry_state.affinity
        conversation = retry_state.conversation or self._moved_conversation(retry_state, target)
        if not conversation:
            return
        if (
            retry_state.is_sticky
            and affinity is not None
            and affinity.target != target.id
            and not retry_state.leaves(affinity)
        ):
            # It was only passed over for a moment, and its cache is there.
            return
        # A conversation that does not stay has no key and no rule of its own: only its cache is there.
        here = (
            Affinity(target.id, attempt.key_digest(), retry_state.rule)
            if retry_state.is_sticky
            else Affinity(target.id)
        )
        response_id = self._storage.stored_id
        if (
            affinity is not None
            and affinity == here
            and not response_id
            and routing_state.affinities.holds(conversation, affinity)
        ):
            # It is where it was, and was used when it was looked for.
            return
        owner = owner_of(self._client_request.key).hex()
        routing_state.set_affinity(owner, conversation, here)
        if response_id:
            # The next request may refer to it, and say nothing of how it all began.
            routing_state.set_affinity(owner, response_key(owner, response_id), here)

    def _moved_conversation(self, retry_state: RetryState, target: Target) -> str:
        """What a conversation is known by of which nobody had to know until now, if it is not with the line's first."""
        parsed = self._parsed
        if parsed is not None and retry_state.moved(target):
            start = codec_of(self._client_request.api_path.protocol).conversation_start_of(parsed.outline.members)
            thread = "" if self._route is None else thread_of(self._route, parsed.facts)
            named = bool(parsed.facts.session)
            retry_state.conversation = conversation_of(
                self._client_request, parsed, start, retry_state.name, thread, named
            )
        return retry_state.conversation

    def _respond(self, response: ClientResponse, kind: AttemptOutcome) -> None:
        """Send a whole reply, which the last call came to."""
        if self.sent is _NOTHING:
            self._finalize(kind, response.record_changes)
            self._do(Respond(response.status, response.headers, response.body))
        else:
            # The status is out, and this is a stream that came as a whole.
            self._finalize(kind, {**response.record_changes, "status": 200})
            self._do(Write(response.body), End())
        self.sent = _ALL

    def _translator(self, *, collect: bool) -> StreamPipeline:
        attempt, prepared = self.attempt, self.attempt.prepared
        protocol = prepared.target.endpoint.protocol
        attempt.fold = Fold(protocol) if self._storage.turns.watches(prepared) else None
        return StreamPipeline(
            source=protocol,
            target=prepared.client,
            request=prepared.translated,
            mint=self._runtime.mint_of(self._builder.record),
            collect=collect,
            limit=self._runtime.settings.limits.stream_event,
            resumes=RESUMES,
            tap=None if attempt.fold is None else Tap(events=attempt.fold.take),
            cleaned=self._runtime.redactor(prepared.target.provider).clean_failure,
            altered=codec_of(prepared.client).withhold_usage if prepared.metered and not collect else None,
        )

    def _cache_turn(self) -> None:
        """Have what was said kept, before the client can send it back."""
        turn = self.attempt.turn
        if turn is not None and is_sealed(turn):
            self._do(CacheTurn(self.attempt.prepared, turn))

    def _changed(self) -> Callable[[bytes], bytes] | None:
        """What must be done to the frames of a relayed stream, if anything must."""
        writer = self._storage.writer
        return writer.named if writer is not None and self.attempt.prepared.relay else None

    def _as_sent(self, out: bytes) -> bytes:
        """Frames of a stream under the names that the client knows."""
        changed = self._changed()
        return out if changed is None else changed(out)

    def _record_losses(self) -> None:
        translated = self.attempt.prepared.translated
        if len(translated.ledger):
            self._builder.update(losses=translated.losses)

    def _record_stream(self) -> None:
        """Keep what a stream told beside its text."""
        if self.has_attempt and self.attempt.has_translator:
            self._builder.update(**self._stream_changes())

    def _stream_changes(self) -> RecordChanges:
        translator, translated = self.attempt.translator, self.attempt.prepared.translated
        return {"usage": translator.usage, "losses": (*translated.losses, *translator.losses)}

    @property
    def _error_reader(self) -> ErrorReader:
        """What reads the errors of the present call."""
        attempt = self.attempt
        redactor = self._runtime.redactor(attempt.target.provider)
        return ErrorReader(attempt.prepared, attempt.status, attempt.headers, redactor)

    def _clean(self, out: bytes) -> bytes:
        return self._runtime.redactor(self.attempt.target.provider).clean(out)

    def _clean_failed(self, out: bytes) -> bytes:
        """Frames of a stream that failed, without secrets.

        Only a relayed error is in its provider's own bytes; the translator writes a failure that was searched already.
        """
        failure = self.attempt.translator.failure
        native = failure is not None and (failure.kind is not FailureKind.BAD_GATEWAY or bool(failure.native))
        return self._clean(out) if self.attempt.prepared.relay and native else out

    def _write(self, data: bytes) -> None:
        if data:
            self._do(Write(data))

    def _over(self) -> None:
        self.state = _OVER
        self._do(_HANG_UP)
