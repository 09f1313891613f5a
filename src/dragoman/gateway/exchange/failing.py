"""Failures of an exchange: what follows one, and how the client learns of the last.

What follows is decided by the kind of the failure, by what the client was sent, and by what is left of the retry
budgets (`routing/attempt_outcome.py`): the same target again after a pause, the next target, or an error. An error is
sent by what the client was sent before:

    sent        a failure is
    NOTHING     an HTTP error in the client's envelope
    STATUS      the held opening frames, then the error form of the stream
    CONTENT     the error form of the stream
    ALL         nothing
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection

from msgspec.structs import replace

from dragoman.errors import (
    Busy,
    ConfigError,
    DragomanError,
    Overloaded,
    TimedOut,
    Unconfigured,
    bare,
)
from dragoman.gateway.advice import Advice, Called, of_error, of_refusal
from dragoman.gateway.exchange.attempt import Attempt, ErrorResponse, Missed, PreparedAttempt
from dragoman.gateway.exchange.client_responses import ClientResponse, FailureText, SentState
from dragoman.gateway.exchange.exchange import Exchange, UnderstoodRequest, Unsent
from dragoman.gateway.exchange.retry_state import MAX_UPSTREAM_CALLS
from dragoman.gateway.forwarding import error_responses
from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.model_list_fetch import models_of
from dragoman.gateway.model_resolver import UnknownModel
from dragoman.gateway.observability.refusals import refusal_of
from dragoman.gateway.stored_responses.store_failures import NotStored, unreadable
from dragoman.http.upstream_call import HeaderList
from dragoman.identities.identity import rights_of
from dragoman.identities.permissions import limits_models
from dragoman.model.failure import Failure, FailureKind
from dragoman.providers.provider import Provider
from dragoman.routing.attempt_outcome import TABLE, AttemptOutcome, NextStep, SentSoFar, retry_delay
from dragoman.routing.cooldown import hint_of
from dragoman.routing.failure_classification import kind_of
from dragoman.routing.target import Target
from dragoman.rules.failures import bounded
from dragoman.rules.retry_delays import delay_of
from dragoman.store import StoreError
from dragoman.translate import translate_failure

EMPTY = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message="the provider's response was empty")
_SHUTTING_DOWN = Failure(kind=FailureKind.UNAVAILABLE, status=503, message="the gateway is shutting down")
# Failures that are over after a while.
_PASSING = (FailureKind.RATE_LIMITED, FailureKind.OVERLOADED)
# The status of a client that disconnected, in the record alone.
CLIENT_CLOSED_REQUEST = 499
_SENT = {
    SentState.NOTHING: SentSoFar.NOTHING,
    SentState.STATUS: SentSoFar.STATUS,
    SentState.CONTENT: SentSoFar.CONTENT,
    SentState.ALL: SentSoFar.CONTENT,
}


# The failure.


def unsent(exchange: Exchange, attempt: PreparedAttempt, failure: Failure, *, has_content: bool = False) -> Unsent:
    """A response that failed before the client got any of it; one that `has_content` is no refusal of the request."""
    exchange.record_stream()
    failure = bounded(failure)
    attempt.add_failure_delay(failure)
    missed = missed_of(exchange, exchange.responses.blamed(failure, attempt.prepared))
    is_final = has_content or exchange.sent is SentState.CONTENT
    return Unsent(missed, None if is_final else failure)


def failed(exchange: Exchange, error: DragomanError) -> Missed | None:
    """The failure that an error is; None if it was the client that stalled, and its connection is closed."""
    is_stalled = isinstance(error, TimedOut) and exchange.client.paused
    error = _reported(exchange, error)
    failure = error_responses.failure_of(error)
    exchange.record_stream()
    if is_stalled and exchange.sent in (SentState.STATUS, SentState.CONTENT):
        exchange.finalize(AttemptOutcome.CLIENT_DISCONNECTED, failure=failure.kind.value if failure is not None else "")
        exchange.client.abort()
        return None
    if failure is None:
        if exchange.sent is SentState.NOTHING:
            # The client's own request could not be translated: the library names the location.
            failure = translate_failure(error, target=exchange.client_request.api_path.protocol).failure
        else:
            failure = Failure(kind=FailureKind.BAD_GATEWAY, status=502, message=str(error))
    return missed_of(exchange, failure or EMPTY, error=error)


def _reported(exchange: Exchange, error: DragomanError) -> DragomanError:
    """An error as the client may know it, without the frames that hold the exchange."""
    log = exchange.runtime.log
    if isinstance(error, ConfigError):
        log.event("error", "cannot call provider", key=error.key, problem=error.problem)
        return Unconfigured("the provider is not configured completely", remedy=str(error))
    if isinstance(error, StoreError):
        return unreadable(error, log)
    return bare(error)


def missed_of(
    exchange: Exchange, failure: Failure, response: ErrorResponse | None = None, *, error: DragomanError | None = None
) -> Missed:
    """The present attempt, which has failed: by an error, or as its provider reported."""
    attempt = exchange.attempt
    what = error or failure
    kind = kind_of(what) if attempt is None else attempt.kind_of(what, cut=_is_cut(exchange))
    return Missed(
        failure=failure,
        attempt=attempt,
        response=response,
        kind=kind,
        final=isinstance(error, NotStored),
        retry_after=error.retry_after if isinstance(error, Busy) else 0,
        queue_full=isinstance(error, Overloaded) and attempt is not None,
        advice=_advice(exchange, kind, response, error),
        broke=error is not None,
        refusal="" if error is None else refusal_of(error),
    )


def _advice(
    exchange: Exchange, kind: AttemptOutcome, response: ErrorResponse | None, error: DragomanError | None
) -> Advice | None:
    """What to do about the present attempt, which has failed, or about an unknown model."""
    if isinstance(error, UnknownModel):
        return error.advice
    attempt = exchange.attempt
    if attempt is None:
        return None
    provider = attempt.target.provider
    called = Called(
        provider=provider,
        endpoint=attempt.target.endpoint,
        model=attempt.target.model,
        keys=attempt.tried_keys,
        models=_permitted_models(exchange, provider),
    )
    if error is not None:
        return of_error(error, called)
    return of_refusal(kind, called, readable=response is None or response.readable)


def _permitted_models(exchange: Exchange, provider: Provider) -> Collection[str]:
    """The models of a provider that an error may name."""
    rights, listed = rights_of(exchange.client_request.key), models_of(exchange.runtime, provider)
    if not limits_models(rights):
        return listed
    return [model for model in listed if exchange.runtime.routes.permits(rights, f"{provider.name}/{model}")]


# The next step.


def may_go_on(exchange: Exchange, attempt: Attempt, failure: Failure) -> bool:
    """Whether anything but an error may follow a failure of which the client received nothing."""
    attempt.add_failure_delay(failure)
    missed = missed_of(exchange, failure)
    return changes_key(exchange, attempt, missed) or _next_step(exchange, missed) is not NextStep.RETURN_ERROR


def changes_key(exchange: Exchange, attempt: Attempt, missed: Missed) -> bool:
    """Whether another key is tried: at once, and as no attempt of its own."""
    # Each of the other targets is left one call.
    others = 0 if exchange.request is None else exchange.request.retry_state.others
    max_calls = max(MAX_UPSTREAM_CALLS - others, 1)
    return TABLE[missed.kind].keys and exchange.calls.count < max_calls and attempt.has_another_key


def _next_step(exchange: Exchange, missed: Missed) -> NextStep:
    if exchange.request is None or missed.final:
        return NextStep.RETURN_ERROR
    runtime, record = exchange.runtime, exchange.builder.record
    seconds_left = record.started + runtime.settings.timeouts.effective_total - runtime.clock()
    return exchange.request.retry_state.next_step(
        missed, _SENT[exchange.sent], calls=exchange.calls.count, seconds=seconds_left, wall=runtime.mint.now()
    )


def _is_cut(exchange: Exchange) -> bool:
    """Whether there was less time for the last call than a target is due."""
    timeouts, request = exchange.runtime.settings.timeouts, exchange.request
    due = timeouts.first_byte
    if request is not None and request.retry_state.first_byte is not None:
        due = request.retry_state.first_byte
    return exchange.calls.started + due > exchange.builder.record.started + timeouts.effective_total


async def next_target(exchange: Exchange, request: UnderstoodRequest) -> Target | None:
    """The next target; if there is none, the client gets the decisive failure."""
    target = request.retry_state.next()
    if target is None:
        await return_decisive(exchange, request)
    return target


async def return_decisive(exchange: Exchange, request: UnderstoodRequest) -> None:
    """Send the decisive failure of a request that no target is left for."""
    retry_state = request.retry_state
    decisive = retry_state.decisive()
    if decisive is None:
        record = exchange.builder.record
        if retry_state.decision is not None:
            record.set_route(retry_state.decision)
        record.requested_model, record.facts = request.parsed.model, request.parsed.facts
        record.provider = record.model = record.provider_protocol = ""
        error = retry_state.no_target_error()
        failure = error_responses.failure_of(error)
        assert failure is not None
        decisive = missed_of(exchange, failure, error=error)
    await return_failure(exchange, decisive)


async def follow_up(exchange: Exchange, missed: Missed) -> Target | None:
    """The target that is tried after a failure; None if the client gets the failure."""
    exchange.end_call(missed.kind)
    request, attempt = exchange.request, missed.attempt
    if missed.queue_full and request is not None and attempt is not None:
        _record_queue_full(exchange, request, attempt.target)
    step = _next_step(exchange, missed)
    if request is None or missed.final or exchange.sent in (SentState.CONTENT, SentState.ALL):
        await return_failure(exchange, missed)
        return None
    retry_state = request.retry_state
    retry_state.has_client_keys = exchange.client_request.key is not None or not exchange.runtime.guard.open
    retry_state.miss(missed)
    retry_state.take(step, missed)
    if step is NextStep.RETURN_ERROR:
        await return_failure(exchange, retry_state.decisive() or missed)
        return None
    # Nothing more is wanted of it, however long the next one takes to be found.
    exchange.drop()
    if attempt is not None:
        attempt.let_go()
    if step is NextStep.NEXT_TARGET:
        return await next_target(exchange, request)
    wait = retry_state.hint(missed, exchange.runtime.mint.now()).wait
    await asyncio.sleep(retry_delay(retry_state.pauses - 1, wait, exchange.runtime.rng()))
    assert exchange.attempt is not None
    return exchange.attempt.target


def _record_queue_full(exchange: Exchange, request: UnderstoodRequest, target: Target) -> None:
    """Record a target that had no slot for a call; it is no attempt, because nothing was sent."""
    name = f"{target.provider.name}/{target.printable_model}"
    exchange.builder.record.queue_full = (*exchange.builder.record.queue_full, name)
    request.retry_state.tries -= 1


# The client's error.


async def return_failure(exchange: Exchange, missed: Missed) -> None:
    """Send the failure that an exchange ends with. An error that is raised here is not sent as another failure."""
    if send_failure(exchange, missed):
        await exchange.await_stored()


def send_failure(exchange: Exchange, missed: Missed) -> bool:
    """Send a failure; True if the store must take it first."""
    advice, request, attempt = missed.advice, exchange.request, missed.attempt
    if advice is not None:
        is_permanent = advice.is_permanent and (request is None or request.retry_state.is_hopeless)
        missed = replace(missed, final=missed.final or is_permanent, is_permanent=is_permanent)
    if attempt is not None and attempt is not exchange.attempt:
        # An earlier attempt is reported in place of those after it.
        exchange.attempt = attempt
        exchange.record_target(attempt.target)
        exchange.record_stream()
    if advice is not None:
        exchange.builder.record.advice = advice.operator
    if missed.refusal:
        exchange.builder.record.refusal = missed.refusal
    if attempt is not None and attempt.is_native_failure:
        exchange.open()
    if exchange.sent is SentState.NOTHING:
        _respond(exchange, missed)
    elif exchange.sent is not SentState.ALL:
        failure = _timed(exchange, missed)
        if advice is not None:
            # The text in a stream is searched for addresses as a whole.
            failure = FailureText(advice.client, alone=missed.broke).added(failure)
        return break_off(exchange, failure)
    return False


def _respond(exchange: Exchange, missed: Missed) -> None:
    """Send an HTTP error."""
    responses, advice, attempt = exchange.responses, missed.advice, missed.attempt
    if missed.response is not None:
        assert isinstance(attempt, PreparedAttempt)
        if (translated := attempt.prepared.translated).ledger.entries:
            exchange.builder.record.losses = translated.losses
        exchange.respond(responses.refusal(attempt.prepared, missed.response, advice), missed.kind)
        return
    text = None if advice is None else FailureText(responses.read(advice), alone=missed.broke)
    prepared, headers = _provider_side(exchange)
    response = responses.failure(
        missed.failure,
        prepared,
        headers,
        final=missed.final,
        retry_after=missed.retry_after,
        text=text,
        is_permanent=missed.is_permanent,
    )
    exchange.respond(response, missed.kind)


def _timed(exchange: Exchange, missed: Missed) -> Failure:
    """A failure after the headers were sent: its text has the retry time, if its provider stated one."""
    failure = missed.failure
    wait = None if missed.attempt is None else hint_of(missed.attempt.headers, exchange.runtime.mint.now()).wait
    if not wait or failure.kind not in _PASSING or delay_of(failure) is not None:
        return failure
    return replace(failure, message=f"{failure.message} (try again in {math.ceil(wait)} s)")


def break_off(exchange: Exchange, failure: Failure) -> bool:
    """End the client's stream in its own error form; True if the store must take what failed first."""
    attempt, stream, builder = exchange.attempt, exchange.stream, exchange.builder
    if exchange.error_form:
        send_broken(exchange, exchange.error_form)
        return False
    if stream is not None and stream.is_finalizing:
        # The translator has written the end, which the client did not get.
        last = exchange.clean(exchange.storage.lost(b"".join(stream.attempt.held), failure))
    elif isinstance(attempt, PreparedAttempt) and (translator := attempt.translator) is not None:
        named = exchange.renamed_frames(attempt)
        out = attempt.error_form
        if not out:
            out = translator.fail(failure)
            out = out if named is None else named(out)
        failure = translator.failure or failure
        # The translator writes a failure that was searched for secrets already, perhaps behind all of the response.
        last = b"".join([*attempt.held, exchange.clean(out) if attempt.prepared.relay else out])
        if exchange.storage.writer is not None:
            exchange.record_stream()
            builder.record.failure = failure.kind.value
            exchange.error_form = last
            exchange.store_streamed(out, lambda _: send_broken(exchange, last), at_once=True)
            return True
    else:
        prepared, _ = _provider_side(exchange)
        if prepared is not None:
            builder.record.losses = prepared.translated.losses
        last = exchange.clean(exchange.responses.failed_stream(prepared, failure))
    exchange.record_stream()
    builder.record.failure = failure.kind.value
    send_broken(exchange, last)
    return False


def send_broken(exchange: Exchange, last: bytes) -> None:
    """Send the error form and end the stream, whatever the result of the store."""
    if exchange.is_over:
        return
    exchange.finalize(AttemptOutcome.STREAM_BROKEN)
    exchange.write(last)
    exchange.sent = SentState.ALL
    exchange.client.end()
    exchange.is_over = True


def disconnect(exchange: Exchange, *, stopping: bool) -> bool:
    """The client disconnected, or the gateway is stopping; True if the store must take what failed first."""
    exchange.record_stream()
    status = exchange.builder.record.status
    if not stopping:
        exchange.finalize(
            AttemptOutcome.CLIENT_DISCONNECTED, status=status or CLIENT_CLOSED_REQUEST, failure="cancelled"
        )
        exchange.is_over = True
    elif exchange.sent is SentState.NOTHING:
        response = _shutdown_response(exchange)
        exchange.respond(replace(response, failure="shutdown"), AttemptOutcome.GATEWAY_ERROR)
    elif exchange.sent is SentState.ALL:
        stream = exchange.stream
        if stream is not None and stream.is_lingering and stream.attempt.prepared.relay:
            exchange.client.end()
    else:
        exchange.finalize(AttemptOutcome.GATEWAY_ERROR, failure="shutdown")
        return break_off(exchange, _SHUTTING_DOWN)
    return False


def _shutdown_response(exchange: Exchange) -> ClientResponse:
    failure = error_responses.failure_of(NotStored()) if exchange.storage.gave_up else None
    prepared, headers = _provider_side(exchange)
    return exchange.responses.failure(failure or _SHUTTING_DOWN, prepared, headers, final=failure is not None)


def _provider_side(exchange: Exchange) -> tuple[ProviderRequest | None, HeaderList]:
    """The request as the present target got it, and the headers of its response."""
    attempt = exchange.attempt
    if attempt is None:
        return None, []
    return (attempt.prepared if isinstance(attempt, PreparedAttempt) else None), attempt.headers
