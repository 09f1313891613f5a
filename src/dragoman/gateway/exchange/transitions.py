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
from dragoman.gateway.exchange.client_responses import FullReply, Replies
from dragoman.gateway.exchange.events_commands import (
    Command,
    Done,
    End,
    ExchangeEvent,
    Finalize,
    HangUp,
    KeepTurn,
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
    _looked: ParsedRequest | None = None
    # Whom it may go to, once it is known what it asks for.
    _route: Route | None = None
    # The provider that keeps what it refers to, if that is not kept here.
    _keeper = ""
    # Whether it goes on from what somebody keeps, and nobody knows who.
    _is_astray = False
    _course: RetryState | None = None
    # Whether a key rests because of it.
    _has_rested = False
    # Whether its client hears signs of life while targets are tried, since there are several.
    _is_held = False
    # What is told if nothing can be done about a refusal.
    _refusal: Missed | None = None
    state = State.FRESH
    told = SentState.NOTHING
    flowing = False
    _is_telling = False

    def __init__(self, service: Runtime, asked: ClientRequest, account: RecordBuilder, memory: ExchangeStorage) -> None:
        self._service = service
        self._asked = asked
        self._account = account
        self._memory = memory
        self._replies = Replies(service, asked, account)
        self.calls = Calls(service, account)
        self._out: list[Command] = []

    @abstractmethod
    def _move(self, event: ExchangeEvent) -> None:
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
            self._move(Done(work(*given)))

    def _nothing(self, _: ExchangeEvent) -> None:
        """Nothing comes of it."""
        return

    def _settle(self, kind: AttemptOutcome, changes: RecordChanges) -> None:
        """All is known, also what became of the last call."""
        if self._course is not None:
            self._course.give_back()
        attempts = self._ended_calls(kind)
        changes["attempts"] = attempts
        if attempts:
            changes.update(together(attempts))
            seen = self.attempt.answer_named
            if seen is not UNNAMED:
                changes["stop"], changes["answered_by"], changes["response_id"] = seen.stop, seen.model, seen.id
        if kind is _ANSWERED and self.has_attempt:
            call, told = self.attempt.first_call, self._memory.told_id
            if call or told:
                changes["facts"] = self._service.listener.answered(self._account.record, call, told)
        self._do(Finalize(changes))

    def _end_call(self, kind: AttemptOutcome) -> None:
        """The last call has ended, and others may follow."""
        self._account.update(attempts=self._ended_calls(kind))

    def _ended_calls(self, kind: AttemptOutcome) -> tuple[record.RecordedAttempt, ...]:
        if not self.has_attempt:
            return self._account.record.attempts
        if kind is _ANSWERED and self._course is not None and self._course.stays:
            self._pin(self._course, self.attempt)
        return self.calls.ended(self.attempt, kind)

    def abandon(self) -> None:
        """Have the last call in the record although nobody hears its end: an error of our own is that of all."""
        if self._course is not None:
            self._course.give_back()
        if self.has_attempt and self.calls.runs:
            attempts = self.calls.abandoned(self.attempt)
            self._account.update(**together(attempts))

    def unfinished(self) -> Counting | None:
        """What is to be counted of an answer that nobody hears the end of; None if nothing came of it."""
        if not self.has_attempt or not self.calls.runs or not self.attempt.is_prepared:
            return None
        attempt = self.attempt
        if attempt.status >= 300 or self.state in (State.SETTLING, State.STORING) or not attempt.lacks_counts:
            return None
        return attempt.counting

    def _pin(self, course: RetryState, attempt: Attempt) -> None:
        """Let the conversation stay with whoever answered."""
        traffic, target, pin = self._service.traffic, attempt.target, course.pin
        conversation = course.conversation or self._moved_conversation(course, target)
        if not conversation:
            return
        if course.is_sticky and pin is not None and pin.target != target.id and not course.leaves(pin):
            # It was only passed over for a moment, and its cache is there.
            return
        # A conversation that does not stay has no key and no rule of its own: only its cache is there.
        here = Affinity(target.id, attempt.key_digest(), course.rule) if course.is_sticky else Affinity(target.id)
        told = self._memory.told_id
        if pin is not None and pin == here and not told and traffic.pins.holds(conversation, pin):
            # It is where it was, and was used when it was looked for.
            return
        owner = owner_of(self._asked.key).hex()
        traffic.pin(owner, conversation, here)
        if told:
            # The next request may refer to it, and say nothing of how it all began.
            traffic.pin(owner, response_key(owner, told), here)

    def _moved_conversation(self, course: RetryState, target: Target) -> str:
        """What a conversation is known by of which nobody had to know until now, if it is not with the line's first."""
        looked = self._looked
        if looked is not None and course.moved(target):
            opening = codec_of(self._asked.api_path.protocol).opening_of(looked.outline.members)
            thread = "" if self._route is None else thread_of(self._route, looked.facts)
            named = bool(looked.facts.session)
            course.conversation = conversation_of(self._asked, looked, opening, course.name, thread, named)
        return course.conversation

    def _respond(self, reply: FullReply, kind: AttemptOutcome) -> None:
        """Send a whole reply, which the last call came to."""
        if self.told is _NOTHING:
            self._settle(kind, reply.noted)
            self._do(Respond(reply.status, reply.headers, reply.body))
        else:
            # The status is out, and this is a stream that came as a whole.
            self._settle(kind, {**reply.noted, "status": 200})
            self._do(Write(reply.body), End())
        self.told = _ALL

    def _translator(self, *, collect: bool) -> StreamPipeline:
        attempt, prepared = self.attempt, self.attempt.prepared
        protocol = prepared.target.endpoint.protocol
        attempt.fold = Fold(protocol) if self._memory.turns.watches(prepared) else None
        return StreamPipeline(
            source=protocol,
            target=prepared.client,
            request=prepared.translated,
            mint=self._service.mint_of(self._account.record),
            collect=collect,
            limit=self._service.settings.limits.event,
            resumes=RESUMES,
            tap=None if attempt.fold is None else Tap(events=attempt.fold.take),
            cleaned=self._service.redactor(prepared.target.provider).clean_failure,
            altered=codec_of(prepared.client).withhold_usage if prepared.metered and not collect else None,
        )

    def _keep_turn(self) -> None:
        """Have what was said kept, before the client can send it back."""
        turn = self.attempt.turn
        if turn is not None and is_sealed(turn):
            self._do(KeepTurn(self.attempt.prepared, turn))

    def _changed(self) -> Callable[[bytes], bytes] | None:
        """What must be done to the frames of a relayed stream, if anything must."""
        kept_answer = self._memory.kept_answer
        return kept_answer.named if kept_answer is not None and self.attempt.prepared.relay else None

    def _as_told(self, out: bytes) -> bytes:
        """Frames of a stream under the names that the client knows."""
        changed = self._changed()
        return out if changed is None else changed(out)

    def _note_losses(self) -> None:
        translated = self.attempt.prepared.translated
        if len(translated.ledger):
            self._account.update(losses=translated.losses)

    def _note_translator(self) -> None:
        """Keep what a stream told beside its text."""
        if self.has_attempt and self.attempt.is_heard:
            self._account.update(**self._heard())

    def _heard(self) -> RecordChanges:
        translator, translated = self.attempt.translator, self.attempt.prepared.translated
        return {"usage": translator.usage, "losses": (*translated.losses, *translator.losses)}

    @property
    def _error_reader(self) -> ErrorReader:
        """What reads the errors of the present call."""
        attempt = self.attempt
        redactor = self._service.redactor(attempt.target.provider)
        return ErrorReader(attempt.prepared, attempt.status, attempt.headers, redactor)

    def _clean(self, out: bytes) -> bytes:
        return self._service.redactor(self.attempt.target.provider).clean(out)

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
