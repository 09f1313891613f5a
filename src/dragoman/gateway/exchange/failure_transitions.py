"""Moves by which an exchange fails: what follows a failure, and how it is told in the end."""

from __future__ import annotations

import math
from abc import abstractmethod

from msgspec.structs import replace

from dragoman.errors import Busy, DragomanError, Overloaded, RefusedError, StrictError
from dragoman.gateway.advice import Advice, Called, of_error, of_refusal
from dragoman.gateway.exchange import error_responses
from dragoman.gateway.exchange.attempt import (
    Attempt,
    ErrorResponse,
    Missed,
)
from dragoman.gateway.exchange.client_responses import ClientResponse, FailureText
from dragoman.gateway.exchange.error_responses import EVENT_STREAM
from dragoman.gateway.exchange.events_commands import (
    Abort,
    AwaitStored,
    ClientDisconnected,
    Drop,
    End,
    Pause,
    Start,
    Stored,
    StoreStreamed,
    WaitFailed,
)
from dragoman.gateway.exchange.retry_state import MAX_UPSTREAM_CALLS
from dragoman.gateway.exchange.states import SentState, State
from dragoman.gateway.exchange.transitions import Transitions
from dragoman.gateway.model_list_fetch import models_of
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.observability.refusals import refusal_of
from dragoman.gateway.stored_responses.store_failures import NotStored
from dragoman.model.failure import Failure, FailureKind
from dragoman.routing.attempt_outcome import TABLE, AttemptOutcome, NextStep, SentSoFar, retry_delay
from dragoman.routing.cooldown import hint_of
from dragoman.routing.failure_classification import kind_of
from dragoman.routing.target import Target
from dragoman.rules.failures import bounded
from dragoman.rules.retry_delays import delay_of
from dragoman.translate import translate_failure

EMPTY = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="the provider's answer was empty")
_SHUTTING_DOWN = Failure(kind=FailureKind.UNAVAILABLE, status=503, message="the gateway is shutting down")
# Failures that are over after a while.
_PASSING = (FailureKind.RATE_LIMITED, FailureKind.OVERLOADED)
# What is told of a client that went away; nobody receives it.
CLIENT_CLOSED_REQUEST = 499
_SENT = {
    SentState.NOTHING: SentSoFar.NOTHING,
    SentState.STATUS: SentSoFar.STATUS,
    SentState.CONTENT: SentSoFar.CONTENT,
    SentState.ALL: SentSoFar.CONTENT,
}

# Members of an enumeration are slow to find, and these are looked for in every stream.
_NOTHING, _STATUS = SentState.NOTHING, SentState.STATUS


class FailureTransitions(Transitions):
    """What follows a failure is decided by its kind, by what the client was told, and by what is left of chances."""

    @abstractmethod
    def _search(self) -> None:
        """Ask the next target; if there is none, tell how it went."""

    @abstractmethod
    def _relieve(self, missed: Missed, failure: Failure) -> None:
        """Ask with another key, or without what was refused, if that is what a failure says; else it has failed."""

    def _fail_unsent(self, failure: Failure, *, has_content: bool = False) -> None:
        """An answer failed before the client was told anything of it.

        `has_content` says that there was content before the failure, which therefore is no refusal of the request.
        """
        self._record_stream()
        failure = bounded(failure)
        self.attempt.add_failure_delay(failure)
        missed = self._missed(self._responses.blamed(failure, self.attempt.prepared))
        if has_content or self.sent is SentState.CONTENT:
            self._miss(missed)
        else:
            self._relieve(missed, failure)

    def _failed(self, event: WaitFailed) -> None:
        if event.stalled and self.sent in (SentState.STATUS, SentState.CONTENT):
            # It was the client that stood still, and it would not read an error either.
            self._record_stream()
            failure = error_responses.failure_of(event.error)
            self._finalize(
                AttemptOutcome.CLIENT_DISCONNECTED, {"failure": failure.kind.value if failure is not None else ""}
            )
            self._do(Abort())
            self._over()
        else:
            self._fail(event.error)

    def _fail(self, error: DragomanError) -> None:
        """Something broke."""
        if self.state is State.PREPARING and self._is_left_out(error):
            self._search()
            return
        self._record_stream()
        failure = error_responses.failure_of(error)
        if failure is None:
            if self.sent is SentState.NOTHING:
                # The client's own words could not be translated: the library says where.
                failure = translate_failure(error, target=self._client_request.api_path.protocol).failure
            else:
                failure = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=str(error))
        self._miss(self._missed(failure or EMPTY, error=error))

    def _is_left_out(self, error: DragomanError) -> bool:
        """Whether the target cannot be asked this, so that others are: it did not fail."""
        cannot = isinstance(error, StrictError | RefusedError)
        return cannot and self._retry_state is not None and self._retry_state.leave_out(self.attempt.target, error)

    def _missed(
        self, failure: Failure, response: ErrorResponse | None = None, *, error: DragomanError | None = None
    ) -> Missed:
        """What is known of the present attempt, which has failed: by an error, or by what its provider says."""
        attempt = self.attempt if self.has_attempt else None
        final = isinstance(error, NotStored)
        what = error or failure
        kind = kind_of(what) if attempt is None else attempt.kind_of(what, cut=self._is_cut)
        advice = self._advice(kind, response, error)
        wait = error.retry_after if isinstance(error, Busy) else 0
        return Missed(
            failure=failure,
            attempt=attempt,
            response=response,
            kind=kind,
            final=final,
            retry_after=wait,
            queue_full=isinstance(error, Overloaded) and attempt is not None,
            advice=advice,
            broke=error is not None,
            refusal="" if error is None else refusal_of(error),
        )

    def _advice(
        self, kind: AttemptOutcome, response: ErrorResponse | None, error: DragomanError | None
    ) -> Advice | None:
        """What to do about the present attempt, which has failed, or about a name that leads nowhere."""
        if isinstance(error, UnknownModel):
            return error.advice
        if not self.has_attempt:
            return None
        attempt = self.attempt
        provider = attempt.target.provider
        called = Called(
            provider=provider,
            endpoint=attempt.target.endpoint,
            model=attempt.target.model,
            keys=attempt.tried_keys,
            models=models_of(self._runtime, provider),
        )
        if error is not None:
            return of_error(error, called)
        return of_refusal(kind, called, readable=response is None or response.readable)

    def _may_go_on(self, failure: Failure) -> bool:
        """Whether anything but to tell it may follow a failure of which nobody has heard."""
        self.attempt.add_failure_delay(failure)
        missed = self._missed(failure)
        return self._changes_key(missed) or self._next_step(missed) is not NextStep.RETURN_ERROR

    def _changes_key(self, missed: Missed) -> bool:
        """Whether another key is tried: at once, and as no attempt of its own."""
        # Each of the other targets is left one call.
        max_calls = (
            MAX_UPSTREAM_CALLS if self._retry_state is None else max(MAX_UPSTREAM_CALLS - self._retry_state.others, 1)
        )
        return TABLE[missed.kind].keys and self.calls.count < max_calls and self.attempt.has_another_key

    def _next_step(self, missed: Missed) -> NextStep:
        """What follows a failure: decided by its kind, by what the client was told, and by what is left."""
        if self._retry_state is None or missed.final:
            return NextStep.RETURN_ERROR
        wall = self._runtime.mint.now()
        return self._retry_state.next_step(
            missed, _SENT[self.sent], calls=self.calls.count, seconds=self._seconds_left, wall=wall
        )

    @property
    def _is_cut(self) -> bool:
        """Whether there was less time for the last call than a target is due."""
        timeouts, retry_state = self._runtime.settings.timeouts, self._retry_state
        due = timeouts.first_byte if retry_state is None or retry_state.first_byte is None else retry_state.first_byte
        return self.calls.started + due > self._builder.record.started + timeouts.effective_total

    @property
    def _seconds_left(self) -> float:
        """How many seconds are left of the exchange."""
        return self._builder.record.started + self._runtime.settings.timeouts.effective_total - self._runtime.clock()

    def _miss(self, missed: Missed) -> None:
        """An attempt has failed: another one may do better, unless the client has heard something of an answer."""
        self._end_call(missed.kind)
        if missed.queue_full:
            self._record_queue_full(missed)
        retry_state, step = self._retry_state, self._next_step(missed)
        if retry_state is None or missed.final or self.sent in (SentState.CONTENT, SentState.ALL):
            self._return_failure(missed)
            return
        retry_state.miss(missed)
        retry_state.take(step, missed)
        if step is NextStep.RETURN_ERROR:
            self._return_failure(retry_state.decisive() or missed)
            return
        # Nothing more is wanted of it, however long the next one takes to be found.
        self._do(Drop())
        if missed.attempt is not None:
            missed.attempt.let_go()
        if step is NextStep.NEXT_TARGET:
            self._search()
        else:
            wait = retry_state.hint(missed, self._runtime.mint.now()).wait
            seconds = retry_delay(retry_state.pauses - 1, wait, self._runtime.rng())
            self._wait(State.BACKING_OFF, Pause(seconds))

    def _record_queue_full(self, missed: Missed) -> None:
        """Have it in the record that a target had no place, and not among the attempts: nobody was asked."""
        assert missed.attempt is not None
        target = missed.attempt.target
        self._builder.update(
            queue_full=(*self._builder.record.queue_full, f"{target.provider.name}/{target.printable_model}")
        )
        if self._retry_state is not None:
            self._retry_state.tries -= 1

    def _return_failure(self, missed: Missed) -> None:
        advice, retry_state = missed.advice, self._retry_state
        if advice is not None:
            is_permanent = advice.is_permanent and (retry_state is None or retry_state.is_hopeless)
            missed = replace(missed, final=missed.final or is_permanent, is_permanent=is_permanent)
        self._is_sending_failure = True
        self._send_failure(missed)
        self._is_sending_failure = False

    def _send_failure(self, missed: Missed) -> None:
        if missed.attempt is not None and missed.attempt is not self.attempt:
            self._go_back(missed.attempt)
        if missed.advice is not None:
            self._builder.update(advice=missed.advice.operator)
        if missed.refusal:
            self._builder.update(refusal=missed.refusal)
        if missed.attempt is not None and missed.attempt.is_native_failure:
            self._open()
        if self.sent is SentState.NOTHING:
            if missed.response is not None:
                self._record_losses()
                response = self._responses.refusal(self.attempt.prepared, missed.response, missed.advice)
                self._respond(response, missed.kind)
            else:
                self._respond(self._error_response(missed), missed.kind)
            self._over()
        elif self.sent is SentState.ALL:
            self._over()
        else:
            failure = self._timed(missed)
            if missed.advice is not None:
                # What is told in a stream is searched for addresses as a whole.
                failure = FailureText(missed.advice.client, alone=missed.broke).added(failure)
            self._break_off(failure)

    def _error_response(self, missed: Missed) -> ClientResponse:
        """An HTTP error, with the advice as whoever asks may read it."""
        advice, wait = missed.advice, missed.retry_after
        text = None if advice is None else FailureText(self._responses.read(advice), alone=missed.broke)
        return self._failure(
            missed.failure, final=missed.final, retry_after=wait, text=text, is_permanent=missed.is_permanent
        )

    def _timed(self, missed: Missed) -> Failure:
        """A failure for whom no header reaches any more: its words say when to try again, if its provider did."""
        failure = missed.failure
        wait = None if missed.attempt is None else hint_of(missed.attempt.headers, self._runtime.mint.now()).wait
        if not wait or failure.kind not in _PASSING or delay_of(failure) is not None:
            return failure
        return replace(failure, message=f"{failure.message} (try again in {math.ceil(wait)} s)")

    def _open(self, *, first: float = 0.0, pending: bool = False) -> None:
        """From here on the status is 200.

        `first` is when content came, if any has; `pending` if another target may still be the one that answers.
        """
        if self.sent is _NOTHING:
            attempt = self.attempt
            self.sent = _STATUS
            self._builder.update(status=200, first_content=first)
            headers = (
                self._responses.pending()
                if pending
                else self._responses.headers(attempt.prepared, attempt.headers, EVENT_STREAM)
            )
            self._do(Start(headers))
        elif first:
            self._builder.update(first_content=first)

    def _go_back(self, attempt: Attempt) -> None:
        """Tell of an earlier attempt, in place of those after it."""
        self.attempt = attempt
        self._record_target(attempt.target)
        self._record_stream()

    def _record_target(self, target: Target) -> None:
        """Know whom the request goes to; what an earlier target said is not said of this one."""
        self._builder.update(
            provider=target.provider.name,
            model=target.printable_model,
            provider_protocol=target.endpoint.protocol,
            failure="",
            advice="",
            losses=(),
            usage=None,
        )

    def _failure(
        self,
        failure: Failure,
        *,
        final: bool = False,
        retry_after: int = 0,
        text: FailureText | None = None,
        is_permanent: bool = False,
    ) -> ClientResponse:
        """An HTTP error that the present attempt came to, if there is one."""
        prepared, headers = (self.attempt.prepared_or_none, self.attempt.headers) if self.has_attempt else (None, [])
        return self._responses.failure(
            failure, prepared, headers, final=final, retry_after=retry_after, text=text, is_permanent=is_permanent
        )

    def _break_off(self, failure: Failure) -> None:
        """End the client's stream in its own error form; what failed is kept, too."""
        attempt = self.attempt
        if self.state is State.BREAKING:
            self._send_broken()
            return
        if self.state in (State.FINALIZING, State.STORING):
            # The translator has told the end, which nobody has heard.
            attempt.held = [self._clean(self._storage.lost(b"".join(attempt.held), failure))]
        elif attempt.has_translator:
            out = attempt.error_form or self._as_sent(attempt.translator.fail(failure))
            failure = attempt.translator.failure or failure
            # The translator writes a failure that was searched already, perhaps behind all of the answer.
            attempt.held.append(self._clean(out) if attempt.prepared.relay else out)
            self._record_stream()
            self._builder.update(failure=failure.kind.value)
            if self._storage.writer is not None:
                self._do(StoreStreamed(out, at_once=True))
                self._wait(State.BREAKING, AwaitStored())
                return
        else:
            prepared = attempt.prepared_or_none
            if prepared is not None:
                self._builder.update(losses=prepared.translated.losses)
            attempt.held = [self._clean(self._responses.failed_stream(prepared, failure))]
        self._record_stream()
        self._builder.update(failure=failure.kind.value)
        self._send_broken()

    def _was_broken(self, _: Stored) -> None:
        """It is told however the store took it."""
        self._send_broken()

    def _send_broken(self) -> None:
        held, self.attempt.held = b"".join(self.attempt.held), []
        self._finalize(AttemptOutcome.STREAM_BROKEN, {})
        self._write(held)
        self.sent = SentState.ALL
        self._do(End())
        self._over()

    def _client_disconnected(self, event: ClientDisconnected) -> None:
        """The client went away, or the gateway is stopping under it."""
        self._record_stream()
        status = self._builder.record.status
        if not event.stopping:
            self._finalize(
                AttemptOutcome.CLIENT_DISCONNECTED, {"status": status or CLIENT_CLOSED_REQUEST, "failure": "cancelled"}
            )
            self._over()
        elif self.sent is SentState.NOTHING:
            failure = error_responses.failure_of(NotStored()) if self._storage.gave_up else None
            response = self._failure(failure or _SHUTTING_DOWN, final=failure is not None)
            self._respond(
                replace(response, record_changes={**response.record_changes, "failure": "shutdown"}),
                AttemptOutcome.GATEWAY_ERROR,
            )
            self._over()
        elif self.sent is SentState.ALL:
            if self.state is State.ENDING and self.attempt.prepared.relay:
                self._do(End())
            self._over()
        else:
            self._finalize(AttemptOutcome.GATEWAY_ERROR, {"failure": "shutdown"})
            self._break_off(_SHUTTING_DOWN)
