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
    ErrorAnswer,
    Missed,
)
from dragoman.gateway.exchange.client_responses import FailureText, FullReply
from dragoman.gateway.exchange.error_responses import EVENT_STREAM
from dragoman.gateway.exchange.events_commands import (
    Abort,
    AwaitStored,
    ClientDisconnected,
    Drop,
    End,
    Keep,
    Pause,
    Start,
    Stored,
    WaitFailed,
)
from dragoman.gateway.exchange.retry_state import MOST_CALLS
from dragoman.gateway.exchange.states import SentState, State
from dragoman.gateway.exchange.transitions import Transitions
from dragoman.gateway.model_list_fetch import models_of
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.observability.refusals import refusal_of
from dragoman.gateway.stored_responses.store_failures import NotStored
from dragoman.model.failure import Failure, FailureKind
from dragoman.routing.attempt_outcome import TABLE, AttemptOutcome, NextStep, SentSoFar, pause
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
GONE = 499
_HEARD = {
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

    def _unsaid(self, failure: Failure, *, heard: bool = False) -> None:
        """An answer failed before the client was told anything of it.

        `heard` says that there was content before the failure, which therefore is no refusal of the request.
        """
        self._note_translator()
        failure = bounded(failure)
        self.attempt.note_delay(failure)
        missed = self._missed(self._replies.blamed(failure, self.attempt.prepared))
        if heard or self.told is SentState.CONTENT:
            self._miss(missed)
        else:
            self._relieve(missed, failure)

    def _failed(self, event: WaitFailed) -> None:
        if event.stalled and self.told in (SentState.STATUS, SentState.CONTENT):
            # It was the client that stood still, and it would not read an error either.
            self._note_translator()
            failure = error_responses.failure_of(event.error)
            self._settle(AttemptOutcome.LEFT, {"failure": failure.kind.value if failure is not None else ""})
            self._do(Abort())
            self._over()
        else:
            self._fail(event.error)

    def _fail(self, error: DragomanError) -> None:
        """Something broke."""
        if self.state is State.PREPARING and self._is_left_out(error):
            self._search()
            return
        self._note_translator()
        failure = error_responses.failure_of(error)
        if failure is None:
            if self.told is SentState.NOTHING:
                # The client's own words could not be translated: the library says where.
                failure = translate_failure(error, target=self._asked.api_path.protocol).failure
            else:
                failure = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=str(error))
        self._miss(self._missed(failure or EMPTY, error=error))

    def _is_left_out(self, error: DragomanError) -> bool:
        """Whether the target cannot be asked this, so that others are: it did not fail."""
        cannot = isinstance(error, StrictError | RefusedError)
        return cannot and self._course is not None and self._course.leave_out(self.attempt.target, error)

    def _missed(
        self, failure: Failure, answer: ErrorAnswer | None = None, *, error: DragomanError | None = None
    ) -> Missed:
        """What is known of the present attempt, which has failed: by an error, or by what its provider says."""
        attempt = self.attempt if self.has_attempt else None
        final = isinstance(error, NotStored)
        what = error or failure
        kind = kind_of(what) if attempt is None else attempt.kind_of(what, cut=self._is_cut)
        advice = self._advice(kind, answer, error)
        wait = error.retry_after if isinstance(error, Busy) else 0
        return Missed(
            failure=failure,
            attempt=attempt,
            answer=answer,
            kind=kind,
            final=final,
            retry_after=wait,
            unasked=isinstance(error, Overloaded) and attempt is not None,
            advice=advice,
            broke=error is not None,
            refusal="" if error is None else refusal_of(error),
        )

    def _advice(self, kind: AttemptOutcome, answer: ErrorAnswer | None, error: DragomanError | None) -> Advice | None:
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
            models=models_of(self._service, provider),
        )
        if error is not None:
            return of_error(error, called)
        return of_refusal(kind, called, readable=answer is None or answer.readable)

    def _may_go_on(self, failure: Failure) -> bool:
        """Whether anything but to tell it may follow a failure of which nobody has heard."""
        self.attempt.note_delay(failure)
        missed = self._missed(failure)
        return self._changes_key(missed) or self._then(missed) is not NextStep.TELL

    def _changes_key(self, missed: Missed) -> bool:
        """Whether another key is tried: at once, and as no attempt of its own."""
        # Each of the other targets is left one call.
        most = MOST_CALLS if self._course is None else max(MOST_CALLS - self._course.others, 1)
        return TABLE[missed.kind].keys and self.calls.count < most and self.attempt.has_another_key

    def _then(self, missed: Missed) -> NextStep:
        """What follows a failure: decided by its kind, by what the client was told, and by what is left."""
        if self._course is None or missed.final:
            return NextStep.TELL
        wall = self._service.mint.now()
        return self._course.then(
            missed, _HEARD[self.told], calls=self.calls.count, seconds=self._seconds_left, wall=wall
        )

    @property
    def _is_cut(self) -> bool:
        """Whether there was less time for the last call than a target is due."""
        timeouts, course = self._service.settings.timeouts, self._course
        due = timeouts.first_byte if course is None or course.first_byte is None else course.first_byte
        return self.calls.started + due > self._account.record.started + timeouts.whole

    @property
    def _seconds_left(self) -> float:
        """How many seconds are left of the exchange."""
        return self._account.record.started + self._service.settings.timeouts.whole - self._service.clock()

    def _miss(self, missed: Missed) -> None:
        """An attempt has failed: another one may do better, unless the client has heard something of an answer."""
        self._end_call(missed.kind)
        if missed.unasked:
            self._note_unasked(missed)
        course, then = self._course, self._then(missed)
        if course is None or missed.final or self.told in (SentState.CONTENT, SentState.ALL):
            self._tell_failure(missed)
            return
        course.miss(missed)
        course.take(then, missed)
        if then is NextStep.TELL:
            self._tell_failure(course.decisive() or missed)
            return
        # Nothing more is wanted of it, however long the next one takes to be found.
        self._do(Drop())
        if missed.attempt is not None:
            missed.attempt.let_go()
        if then is NextStep.NEXT:
            self._search()
        else:
            wait = course.hint(missed, self._service.mint.now()).wait
            seconds = pause(course.pauses - 1, wait, self._service.chance())
            self._wait(State.BACKING_OFF, Pause(seconds))

    def _note_unasked(self, missed: Missed) -> None:
        """Have it in the record that a target had no place, and not among the attempts: nobody was asked."""
        assert missed.attempt is not None
        target = missed.attempt.target
        self._account.update(full=(*self._account.record.full, f"{target.provider.name}/{target.shown}"))
        if self._course is not None:
            self._course.tries -= 1

    def _tell_failure(self, missed: Missed) -> None:
        advice, course = missed.advice, self._course
        if advice is not None:
            lasting = advice.lasting and (course is None or course.is_hopeless)
            missed = replace(missed, final=missed.final or lasting, lasting=lasting)
        self._is_telling = True
        self._tell(missed)
        self._is_telling = False

    def _tell(self, missed: Missed) -> None:
        if missed.attempt is not None and missed.attempt is not self.attempt:
            self._go_back(missed.attempt)
        if missed.advice is not None:
            self._account.update(advice=missed.advice.operator)
        if missed.refusal:
            self._account.update(why=missed.refusal)
        if missed.attempt is not None and missed.attempt.tells_itself:
            self._open()
        if self.told is SentState.NOTHING:
            if missed.answer is not None:
                self._note_losses()
                reply = self._replies.refusal(self.attempt.prepared, missed.answer, missed.advice)
                self._respond(reply, missed.kind)
            else:
                self._respond(self._reply(missed), missed.kind)
            self._over()
        elif self.told is SentState.ALL:
            self._over()
        else:
            failure = self._timed(missed)
            if missed.advice is not None:
                # What is told in a stream is searched for addresses as a whole.
                failure = FailureText(missed.advice.client, alone=missed.broke).added(failure)
            self._break_off(failure)

    def _reply(self, missed: Missed) -> FullReply:
        """An HTTP error, with the advice as whoever asks may read it."""
        advice, wait = missed.advice, missed.retry_after
        words = None if advice is None else FailureText(self._replies.read(advice), alone=missed.broke)
        return self._failure(missed.failure, final=missed.final, retry_after=wait, words=words, lasting=missed.lasting)

    def _timed(self, missed: Missed) -> Failure:
        """A failure for whom no header reaches any more: its words say when to try again, if its provider did."""
        failure = missed.failure
        wait = None if missed.attempt is None else hint_of(missed.attempt.headers, self._service.mint.now()).wait
        if not wait or failure.kind not in _PASSING or delay_of(failure) is not None:
            return failure
        return replace(failure, message=f"{failure.message} (try again in {math.ceil(wait)} s)")

    def _open(self, *, first: float = 0.0, pending: bool = False) -> None:
        """From here on the status is 200.

        `first` is when content came, if any has; `pending` if another target may still be the one that answers.
        """
        if self.told is _NOTHING:
            attempt = self.attempt
            self.told = _STATUS
            self._account.update(status=200, first=first)
            headers = (
                self._replies.pending()
                if pending
                else self._replies.headers(attempt.prepared, attempt.headers, EVENT_STREAM)
            )
            self._do(Start(headers))
        elif first:
            self._account.update(first=first)

    def _go_back(self, attempt: Attempt) -> None:
        """Tell of an earlier attempt, in place of those after it."""
        self.attempt = attempt
        self._note_target(attempt.target)
        self._note_translator()

    def _note_target(self, target: Target) -> None:
        """Know whom the request goes to; what an earlier target said is not said of this one."""
        self._account.update(
            provider=target.provider.name,
            model=target.shown,
            served=target.endpoint.protocol,
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
        words: FailureText | None = None,
        lasting: bool = False,
    ) -> FullReply:
        """An HTTP error that the present attempt came to, if there is one."""
        known, headers = (self.attempt.known, self.attempt.headers) if self.has_attempt else (None, [])
        return self._replies.failure(
            failure, known, headers, final=final, retry_after=retry_after, words=words, lasting=lasting
        )

    def _break_off(self, failure: Failure) -> None:
        """End the client's stream in its own error form; what failed is kept, too."""
        attempt = self.attempt
        if self.state is State.BREAKING:
            self._tell_broken()
            return
        if self.state in (State.SETTLING, State.STORING):
            # The translator has told the end, which nobody has heard.
            attempt.held = [self._clean(self._memory.lost(b"".join(attempt.held), failure))]
        elif attempt.is_heard:
            out = attempt.error_form or self._as_told(attempt.translator.fail(failure))
            failure = attempt.translator.failure or failure
            # The translator writes a failure that was searched already, perhaps behind all of the answer.
            attempt.held.append(self._clean(out) if attempt.prepared.relay else out)
            self._note_translator()
            self._account.update(failure=failure.kind.value)
            if self._memory.kept_answer is not None:
                self._do(Keep(out, at_once=True))
                self._wait(State.BREAKING, AwaitStored())
                return
        else:
            prepared = attempt.known
            if prepared is not None:
                self._account.update(losses=prepared.translated.losses)
            attempt.held = [self._clean(self._replies.failed_stream(prepared, failure))]
        self._note_translator()
        self._account.update(failure=failure.kind.value)
        self._tell_broken()

    def _was_broken(self, _: Stored) -> None:
        """It is told however the store took it."""
        self._tell_broken()

    def _tell_broken(self) -> None:
        held, self.attempt.held = b"".join(self.attempt.held), []
        self._settle(AttemptOutcome.BROKEN, {})
        self._write(held)
        self.told = SentState.ALL
        self._do(End())
        self._over()

    def _gone(self, event: ClientDisconnected) -> None:
        """The client went away, or the gateway is stopping under it."""
        self._note_translator()
        status = self._account.record.status
        if not event.stopping:
            self._settle(AttemptOutcome.LEFT, {"status": status or GONE, "failure": "cancelled"})
            self._over()
        elif self.told is SentState.NOTHING:
            failure = error_responses.failure_of(NotStored()) if self._memory.gave_up else None
            reply = self._failure(failure or _SHUTTING_DOWN, final=failure is not None)
            self._respond(replace(reply, noted={**reply.noted, "failure": "shutdown"}), AttemptOutcome.OURS)
            self._over()
        elif self.told is SentState.ALL:
            if self.state is State.ENDING and self.attempt.prepared.relay:
                self._do(End())
            self._over()
        else:
            self._settle(AttemptOutcome.OURS, {"failure": "shutdown"})
            self._break_off(_SHUTTING_DOWN)
