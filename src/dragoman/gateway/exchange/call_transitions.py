"""Moves of an exchange from a choice up to an answer: targets, calls, remedies, pauses."""

from __future__ import annotations

from abc import abstractmethod

from msgspec.structs import replace

from dragoman.errors import BadAnswer
from dragoman.gateway.advice import redirected
from dragoman.gateway.exchange.attempt import (
    Attempt,
    ErrorAnswer,
    Missed,
    ResponseMode,
    is_stream,
    unframer_of,
)
from dragoman.gateway.exchange.error_responses import EVENT_STREAM, JSON, failure_of
from dragoman.gateway.exchange.events_commands import (
    CallTarget,
    Detach,
    Done,
    Follow,
    ReadError,
    Recall,
    Reserve,
    Resume,
)
from dragoman.gateway.exchange.provider_request import ProviderRequest, able
from dragoman.gateway.exchange.selection_transitions import SelectionTransitions
from dragoman.gateway.exchange.states import SentState, State
from dragoman.gateway.exchange.usage_estimate import Passed
from dragoman.gateway.observability.record import RecordChanges
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences
from dragoman.http.upstream_call import UpstreamCall
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from dragoman.model.losses import strictest
from dragoman.protocols.registry import codec_of
from dragoman.routing.attempt_outcome import TABLE, AttemptOutcome
from dragoman.routing.cooldown import USUAL, Cooldown, hint_of, names_the_key, rest_of
from dragoman.routing.target import Target

# Members of an enumeration are slow to find, and these are looked for in every exchange.
_RECALLING, _PREPARING, _RESERVING = State.RECALLING, State.PREPARING, State.RESERVING
_CALLING, _UNKNOWN = State.CALLING, ResponseMode.UNKNOWN


class CallTransitions(SelectionTransitions):
    """A request on its way to a target, until that answers."""

    @abstractmethod
    def _hear(self, *, comes_whole: bool) -> None:
        """Hear an answer whose head is there; `comes_whole` by its content type."""

    def _resume(self, event: Resume) -> None:
        self._body, self._looked, self._course = event.body, event.looked, event.course
        self._begun(event.prepared.target)
        self.attempt.put(event.prepared)
        self._ask(event.prepared.translated.body)

    # The request, as one target gets it.

    def _search(self) -> None:
        """Ask the next target; if there is none, tell how it went."""
        course = self._course
        assert course is not None
        target = course.next()
        if target is not None:
            self._try(target)
            return
        decisive = course.decisive()
        if decisive is None:
            if course.noted is not None:
                self._account.update(**course.noted)
            self._account.update(asked=self._asked_for, provider="", model="", served="")
            if self._looked is not None:
                self._account.update(facts=self._looked.facts)
            error = course.nobody()
            failure = failure_of(error)
            assert failure is not None
            decisive = self._missed(failure, error=error)
        self._tell_failure(decisive)

    @property
    def _asked_for(self) -> str:
        return "" if self._looked is None else self._looked.model

    def _try(self, target: Target) -> None:
        """Ask a target: everything that is its own is made afresh."""
        looked = self._looked
        assert looked is not None
        target = able(target, looked.outline)
        self._memory.retarget()
        self._begun(target)
        course = self._course
        if course is not None:
            course.tries += 1
        if course is not None and course.tries > 1:
            self._note_target(target)
        else:
            known: RecordChanges = {
                "asked": looked.model,
                "size": len(self._body),
                "stream": bytes(looked.outline.stream) == b"true",
                "provider": target.provider.name,
                "model": target.shown,
                "served": target.endpoint.protocol,
                "facts": looked.facts,
            }
            if course is not None and course.noted is not None:
                known |= course.noted
            self._account.update(**known)
        if self._found is not None and target.kept_here:
            # It was looked up before the choice, and is the same whoever of the line is asked.
            self._prepare(self._found)
        elif self._memory.recalls(self._asked.key, self._body, looked, target):
            self._wait(_RECALLING, Recall(self._body, looked, target))
        else:
            self._prepare(None)

    def _again(self, _: Done) -> None:
        """Ask the same target again, after a pause."""
        self._try(self.attempt.target)

    def _begun(self, target: Target) -> None:
        pin = None if self._course is None else self._course.pin
        preferred = pin.key if pin is not None and pin.target == target.id else ""
        self.attempt, self.has_attempt = Attempt(target, self._service.rotation(target.provider), preferred), True

    def _recalled(self, event: Done) -> None:
        assert event.value is None or isinstance(event.value, ResolvedReferences)
        self._prepare(event.value)

    def _prepare(self, found: ResolvedReferences | None) -> None:
        looked, target = self._looked, self.attempt.target
        assert looked is not None
        body, memory = self._body, self._memory
        size = len(body) + memory.turns.size
        if found is not None:
            size += found.size
        strict = strictest(target.strict, self._own_strict)
        self._work(_PREPARING, size, memory.prepare, self._asked, body, looked, found, target, strict)

    def _prepared(self, event: Done) -> None:
        assert isinstance(event.value, ProviderRequest)
        self.attempt.put(event.value)
        if self._looked is not None and self._looked.said is None:
            # Nothing of it is kept.
            self._ask(event.value.translated.body)
        else:
            self._wait(_RESERVING, Reserve(event.value))

    def _reserved(self, event: Done) -> None:
        prepared = event.value
        assert isinstance(prepared, ProviderRequest)
        self.attempt.put(prepared)
        if self._memory.in_background:
            self._account.update(losses=prepared.translated.losses)
            looked, course = self._looked, self._course
            assert looked is not None and course is not None
            self._wait(State.LEAVING, Detach(prepared, Resume(prepared, self._body, looked, course)))
        else:
            self._ask(prepared.translated.body)

    def _left(self, event: Done) -> None:
        """The client is told how the response begins, or follows its stream."""
        prepared = self.attempt.prepared
        assert isinstance(event.value, bytes)
        if prepared.stream:
            # From here on whoever follows it tells.
            self.told = SentState.ALL
            self._wait(State.FOLLOWING, Follow(self._replies.headers(prepared, [], EVENT_STREAM)))
        else:
            reply = self._replies.answer(prepared, [], [JSON], event.value, prepared.translated.losses)
            self._respond(reply, AttemptOutcome.ANSWERED)
            self._over()

    def _followed(self, _: Done) -> None:
        self._over()

    # Calls.

    def _ask(self, body: bytes) -> None:
        self.attempt.ask(body)
        self._call()

    def _call(self) -> None:
        attempt = self.attempt
        attempt.status, attempt.headers, attempt.passed = 0, [], Passed()
        self.calls.begin()
        if self._course is not None and attempt.permit is None:
            attempt.permit = self._course.use_permit()
        first_byte = None if self._course is None else self._course.first_byte
        self._wait(_CALLING, CallTarget(attempt.prepared, attempt.body, attempt.key, first_byte))

    def _called(self, event: Done) -> None:
        flight: UpstreamCall = event.value  # type: ignore[assignment]  # as the driver gives it
        attempt = self.attempt
        attempt.status, attempt.headers = flight.status, flight.headers
        if attempt.status >= 300:
            self._wait(State.REFUSED, ReadError(self._error_reader))
            return
        if attempt.lane is _UNKNOWN:
            self._note_losses()
        attempt.unframer = unframer_of(attempt.prepared, flight)
        self._hear(comes_whole=attempt.unframer is None and not is_stream(flight))

    def _refused(self, event: Done) -> None:
        attempt = self.attempt
        answer = event.value
        assert isinstance(answer, ErrorAnswer)
        if attempt.status < 400:
            raise redirected(attempt.headers)
        if attempt.status > 599:
            raise BadAnswer(f"the provider answered with the status {attempt.status}, which means nothing")
        failure = answer.failure
        attempt.note_wait(answer.delay)
        # What goes on after a pause is no answer of its own, and is told in the client's words.
        own = replace(answer, headers=attempt.headers) if attempt.lane is ResponseMode.UNKNOWN else None
        told = failure if own is not None else self._replies.blamed(failure, attempt.prepared)
        self._relieve(self._missed(told, own), failure)

    def _relieve(self, missed: Missed, failure: Failure) -> None:
        """Ask with another key, or without what was refused, if that is what a failure says; else it has failed."""
        attempt = self.attempt
        self._rest_key(missed, failure)
        if self._changes_key(missed):
            self._end_call(missed.kind)
            if attempt.status < 400:
                self._forget_answer()
            attempt.change_key()
            self._call()
            return
        remedy = attempt.remedy(failure)
        if remedy is None:
            self._miss(missed)
            return
        self._refusal = missed
        self._end_call(missed.kind)
        self._work(State.RELIEVING, len(attempt.body), attempt.relieved(remedy), paid=True)

    def _rest_key(self, missed: Missed, failure: Failure) -> None:
        """Leave a key alone that was refused: of one request one key, unless it is named as the cause."""
        if not TABLE[missed.kind].keys:
            return
        hint = hint_of(self.attempt.headers, self._service.mint.now())
        rest = rest_of(missed.kind, failure, hint)
        if rest is None and missed.kind is AttemptOutcome.BAD_KEY and self.attempt.target.provider.transport != "http":
            # A cloud forbids by its credentials alone, never for what was said.
            rest = Cooldown(seconds=USUAL)
        if rest is not None and (not self._has_rested or names_the_key(failure)):
            self._has_rested = True
            self.attempt.rest_key(rest, missed.kind, hint.wait)

    def _relieved(self, event: Done) -> None:
        attempt, body = self.attempt, event.value
        missed, self._refusal = self._refusal, None
        assert missed is not None
        if not isinstance(body, bytes):
            self._miss(missed)
        elif attempt.status >= 400:
            attempt.use_key(body)
            self._call()
        else:
            self._forget_answer()
            attempt.ask(body, anew=False)
            self._call()

    def _forget_answer(self) -> None:
        """Begin again after an error in spite of its status, of which nobody has heard."""
        self.attempt.forget()
        self._account.update(failure="")
        self._memory.anew()

    # Pauses.

    def _go_on(self, blocks: tuple[JsonObject, ...]) -> None:
        """Ask a provider that paused to go on from what it said (mapping.md §13)."""
        attempt = self.attempt
        codec = codec_of(attempt.target.endpoint.protocol)
        if codec.resume_request is None:
            raise BadAnswer("the provider paused in a protocol that knows no pauses")
        body = attempt.prepared.translated.body
        self._end_call(AttemptOutcome.ANSWERED)
        attempt.before, attempt.estimate = attempt.cost, None
        self._work(State.RESUMING, len(body), codec.resume_request, body, blocks, paid=True)

    def _resumed(self, event: Done) -> None:
        assert isinstance(event.value, bytes)
        self._ask(event.value)
