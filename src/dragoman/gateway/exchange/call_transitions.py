"""Moves of an exchange from a choice up to an answer: targets, calls, remedies, pauses."""

from __future__ import annotations

from abc import abstractmethod

from msgspec.structs import replace

from dragoman.errors import BadResponse
from dragoman.gateway.advice import redirected
from dragoman.gateway.exchange.attempt import (
    Attempt,
    ErrorResponse,
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
    Reserve,
    ResolveReferences,
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
from dragoman.routing.cooldown import DEFAULT_SECONDS, Cooldown, cooldown_of, hint_of, names_the_key
from dragoman.routing.target import Target

# Members of an enumeration are slow to find, and these are looked for in every exchange.
_RESOLVING, _PREPARING, _RESERVING = State.RESOLVING, State.PREPARING, State.RESERVING
_CALLING, _UNKNOWN = State.CALLING, ResponseMode.UNKNOWN


class CallTransitions(SelectionTransitions):
    """A request on its way to a target, until that answers."""

    @abstractmethod
    def _read_response(self, *, is_full: bool) -> None:
        """Hear an answer whose head is there; `is_full` by its content type."""

    def _resume(self, event: Resume) -> None:
        self._body, self._parsed, self._retry_state = event.body, event.parsed, event.retry_state
        self._begun(event.prepared.target)
        self.attempt.put(event.prepared)
        self._send_request(event.prepared.translated.body)

    # The request, as one target gets it.

    def _search(self) -> None:
        """Ask the next target; if there is none, tell how it went."""
        retry_state = self._retry_state
        assert retry_state is not None
        target = retry_state.next()
        if target is not None:
            self._try(target)
            return
        decisive = retry_state.decisive()
        if decisive is None:
            if retry_state.record_changes is not None:
                self._builder.update(**retry_state.record_changes)
            self._builder.update(requested_model=self._requested_model, provider="", model="", provider_protocol="")
            if self._parsed is not None:
                self._builder.update(facts=self._parsed.facts)
            error = retry_state.no_target_error()
            failure = failure_of(error)
            assert failure is not None
            decisive = self._missed(failure, error=error)
        self._return_failure(decisive)

    @property
    def _requested_model(self) -> str:
        return "" if self._parsed is None else self._parsed.model

    def _try(self, target: Target) -> None:
        """Ask a target: everything that is its own is made afresh."""
        parsed = self._parsed
        assert parsed is not None
        target = able(target, parsed.outline)
        self._storage.retarget()
        self._begun(target)
        retry_state = self._retry_state
        if retry_state is not None:
            retry_state.tries += 1
        if retry_state is not None and retry_state.tries > 1:
            self._record_target(target)
        else:
            changes: RecordChanges = {
                "requested_model": parsed.model,
                "size": len(self._body),
                "stream": bytes(parsed.outline.stream) == b"true",
                "provider": target.provider.name,
                "model": target.printable_model,
                "provider_protocol": target.endpoint.protocol,
                "facts": parsed.facts,
            }
            if retry_state is not None and retry_state.record_changes is not None:
                changes |= retry_state.record_changes
            self._builder.update(**changes)
        if self._references is not None and target.stored_here:
            # It was looked up before the choice, and is the same whoever of the line is asked.
            self._prepare(self._references)
        elif self._storage.needs_lookup(self._client_request.key, self._body, parsed, target):
            self._wait(_RESOLVING, ResolveReferences(self._body, parsed, target))
        else:
            self._prepare(None)

    def _again(self, _: Done) -> None:
        """Ask the same target again, after a pause."""
        self._try(self.attempt.target)

    def _begun(self, target: Target) -> None:
        affinity = None if self._retry_state is None else self._retry_state.affinity
        preferred = affinity.key if affinity is not None and affinity.target == target.id else ""
        self.attempt, self.has_attempt = Attempt(target, self._runtime.rotation(target.provider), preferred), True

    def _references_resolved(self, event: Done) -> None:
        assert event.value is None or isinstance(event.value, ResolvedReferences)
        self._prepare(event.value)

    def _prepare(self, references: ResolvedReferences | None) -> None:
        parsed, target = self._parsed, self.attempt.target
        assert parsed is not None
        body, storage = self._body, self._storage
        size = len(body) + storage.turns.size
        if references is not None:
            size += references.size
        strict = strictest(target.strict, self._own_strict)
        self._work(_PREPARING, size, storage.prepare, self._client_request, body, parsed, references, target, strict)

    def _prepared(self, event: Done) -> None:
        assert isinstance(event.value, ProviderRequest)
        self.attempt.put(event.value)
        if self._parsed is not None and self._parsed.references is None:
            # Nothing of it is kept.
            self._send_request(event.value.translated.body)
        else:
            self._wait(_RESERVING, Reserve(event.value))

    def _reserved(self, event: Done) -> None:
        prepared = event.value
        assert isinstance(prepared, ProviderRequest)
        self.attempt.put(prepared)
        if self._storage.in_background:
            self._builder.update(losses=prepared.translated.losses)
            parsed, retry_state = self._parsed, self._retry_state
            assert parsed is not None and retry_state is not None
            self._wait(State.DETACHING, Detach(prepared, Resume(prepared, self._body, parsed, retry_state)))
        else:
            self._send_request(prepared.translated.body)

    def _detached(self, event: Done) -> None:
        """The client is told how the response begins, or follows its stream."""
        prepared = self.attempt.prepared
        assert isinstance(event.value, bytes)
        if prepared.stream:
            # From here on whoever follows it tells.
            self.sent = SentState.ALL
            self._wait(State.FOLLOWING, Follow(self._responses.headers(prepared, [], EVENT_STREAM)))
        else:
            response = self._responses.full_response(prepared, [], [JSON], event.value, prepared.translated.losses)
            self._respond(response, AttemptOutcome.ANSWERED)
            self._over()

    def _followed(self, _: Done) -> None:
        self._over()

    # Calls.

    def _send_request(self, body: bytes) -> None:
        self.attempt.begin_request(body)
        self._call()

    def _call(self) -> None:
        attempt = self.attempt
        attempt.status, attempt.headers, attempt.passed = 0, [], Passed()
        self.calls.begin()
        if self._retry_state is not None and attempt.permit is None:
            attempt.permit = self._retry_state.use_permit()
        first_byte = None if self._retry_state is None else self._retry_state.first_byte
        self._wait(_CALLING, CallTarget(attempt.prepared, attempt.body, attempt.key, first_byte))

    def _called(self, event: Done) -> None:
        call: UpstreamCall = event.value  # type: ignore[assignment]  # as the driver gives it
        attempt = self.attempt
        attempt.status, attempt.headers = call.status, call.headers
        if attempt.status >= 300:
            self._wait(State.REFUSED, ReadError(self._error_reader))
            return
        if attempt.mode is _UNKNOWN:
            self._record_losses()
        attempt.unframer = unframer_of(attempt.prepared, call)
        self._read_response(is_full=attempt.unframer is None and not is_stream(call))

    def _refused(self, event: Done) -> None:
        attempt = self.attempt
        response = event.value
        assert isinstance(response, ErrorResponse)
        if attempt.status < 400:
            raise redirected(attempt.headers)
        if attempt.status > 599:
            raise BadResponse(f"the provider answered with the status {attempt.status}, which means nothing")
        failure = response.failure
        attempt.add_retry_after(response.delay)
        # What goes on after a pause is no answer of its own, and is told in the client's words.
        own = replace(response, headers=attempt.headers) if attempt.mode is ResponseMode.UNKNOWN else None
        client_failure = failure if own is not None else self._responses.blamed(failure, attempt.prepared)
        self._relieve(self._missed(client_failure, own), failure)

    def _relieve(self, missed: Missed, failure: Failure) -> None:
        """Ask with another key, or without what was refused, if that is what a failure says; else it has failed."""
        attempt = self.attempt
        self._cool_key(missed, failure)
        if self._changes_key(missed):
            self._end_call(missed.kind)
            if attempt.status < 400:
                self._discard_response()
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

    def _cool_key(self, missed: Missed, failure: Failure) -> None:
        """Leave a key alone that was refused: of one request one key, unless it is named as the cause."""
        if not TABLE[missed.kind].keys:
            return
        hint = hint_of(self.attempt.headers, self._runtime.mint.now())
        cooldown = cooldown_of(missed.kind, failure, hint)
        if (
            cooldown is None
            and missed.kind is AttemptOutcome.INVALID_KEY
            and self.attempt.target.provider.transport != "http"
        ):
            # A cloud forbids by its credentials alone, never for what was said.
            cooldown = Cooldown(seconds=DEFAULT_SECONDS)
        if cooldown is not None and (not self._has_cooled_key or names_the_key(failure)):
            self._has_cooled_key = True
            self.attempt.cool_key(cooldown, missed.kind, hint.wait)

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
            self._discard_response()
            attempt.begin_request(body, anew=False)
            self._call()

    def _discard_response(self) -> None:
        """Begin again after an error in spite of its status, of which nobody has heard."""
        self.attempt.forget()
        self._builder.update(failure="")
        self._storage.anew()

    # Pauses.

    def _go_on(self, blocks: tuple[JsonObject, ...]) -> None:
        """Ask a provider that paused to go on from what it said (mapping.md §13)."""
        attempt = self.attempt
        codec = codec_of(attempt.target.endpoint.protocol)
        if codec.resume_request is None:
            raise BadResponse("the provider paused in a protocol that knows no pauses")
        body = attempt.prepared.translated.body
        self._end_call(AttemptOutcome.ANSWERED)
        attempt.before, attempt.estimate = attempt.cost, None
        self._work(State.RESUMING, len(body), codec.resume_request, body, blocks, paid=True)

    def _resumed(self, event: Done) -> None:
        assert isinstance(event.value, bytes)
        self._send_request(event.value)
