"""One attempt at one target: the request as the target gets it, the call, and what its response head means.

    step      waits for                                  then
    resolve   the store: what the request refers to      prepare; skipped if it can refer to nothing
    prepare   a thread, for a large body                 reserve; call if nothing is stored; LeftOut if the target
                                                         cannot take the request
    reserve   the store: a place for the response        call; detach for the background
    detach    the background                             the client is answered, or follows the stream
    call      a slot, credentials, the response head     2xx: deliver; else refuse
    refuse    the error body                             relieve
    deliver   the response (full_delivery,               None: the client is answered; Paused: call again with the
              stream_delivery)                           request that continues; Unsent: relieve, or a failure
    relieve   a thread, for a large body                 call again: another key, or a request without what was refused

An attempt returns None if the client was answered, or how it failed. Errors are raised.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from dragoman.errors import BadResponse, DragomanError, RefusedError, StrictError
from dragoman.gateway.access.endpoint_rights import require_provider
from dragoman.gateway.advice import redirected
from dragoman.gateway.exchange.attempt import (
    Attempt,
    ErrorResponse,
    Missed,
    PreparedAttempt,
    ResponseMode,
    is_stream,
    unframer_of,
)
from dragoman.gateway.exchange.client_responses import SentState
from dragoman.gateway.exchange.exchange import Exchange, Paused, UnderstoodRequest, Unsent
from dragoman.gateway.exchange.failing import changes_key, missed_of
from dragoman.gateway.exchange.full_delivery import collect_stream, deliver_full, read_continuation
from dragoman.gateway.exchange.provider_errors import error_reader
from dragoman.gateway.exchange.response_reader import read_error
from dragoman.gateway.exchange.stream_delivery import StreamDelivery
from dragoman.gateway.exchange.understanding import resolve_references
from dragoman.gateway.forwarding.error_responses import EVENT_STREAM, JSON
from dragoman.gateway.forwarding.header_forwarding import traced
from dragoman.gateway.forwarding.provider_request import ProviderRequest, able
from dragoman.gateway.forwarding.target_settings import TargetSettings
from dragoman.gateway.stored_responses.detached_client import DetachedClient
from dragoman.gateway.stored_responses.reference_resolver import ResolvedReferences
from dragoman.gateway.thread_offload import INLINE
from dragoman.http.upstream_call import UpstreamCall
from dragoman.identities.identity import Identity
from dragoman.model.failure import Failure
from dragoman.model.losses import strictest
from dragoman.protocols.registry import codec_of
from dragoman.providers.transport_interface import Order
from dragoman.routing.attempt_outcome import TABLE, AttemptOutcome
from dragoman.routing.cooldown import DEFAULT_SECONDS, Cooldown, cooldown_of, hint_of, names_the_key
from dragoman.routing.target import Target
from dragoman.wire.json import encode

# Members of an enumeration are slow to find, and these are looked for in every exchange.
_UNKNOWN, _STREAM = ResponseMode.UNKNOWN, ResponseMode.STREAM
_COLLECTED, _FULL = ResponseMode.COLLECTED, ResponseMode.FULL


class LeftOut(Exception):
    """The target cannot take this request, and others may: it did not fail."""


# The request, as one target gets it.


async def prepare_target(exchange: Exchange, request: UnderstoodRequest, target: Target) -> PreparedAttempt | None:
    """Begin an attempt, with the request as the target gets it; None if its response runs in the background."""
    parsed, client_request, storage = request.parsed, exchange.client_request, exchange.storage
    if "reasoning_effort" in parsed.glance.members:
        target = able(target, parsed.glance.members)
    if exchange.attempt is not None:
        storage.retarget()
        exchange.attempt = None
    settings = exchange.runtime.target_settings(target)
    _record_attempt(exchange, request, target)
    body, size, references = request.body, len(request.body), None
    strict = strictest(target.strict, exchange.strict) if target.strict else exchange.strict
    try:
        if parsed.references is not None or target.endpoint.protocol != client_request.api_path.protocol:
            references = await _looked_up(exchange, request, target)
            size += storage.turns_size if references is None else storage.turns_size + references.size
        if size <= INLINE:
            prepared = storage.prepare(client_request, body, parsed, references, target, strict)
        else:
            given = (client_request, body, parsed, references, target, strict)
            prepared = await exchange.work(size, storage.prepare, *given)
        attempt = begin(exchange, request, prepared, settings)
    except (StrictError, RefusedError) as error:
        if request.retry_state.leave_out(target, error):
            raise LeftOut from None
        raise
    finally:
        if exchange.attempt is None:
            # What failed is this target's.
            exchange.attempt = Attempt(target, settings)
    if parsed.references is not None:
        attempt.prepared = prepared = await storage.begin(client_request.key, prepared)
        if storage.in_background:
            await _detach(exchange, request, prepared)
            return None
    return attempt


def begin(
    exchange: Exchange, request: UnderstoodRequest, prepared: ProviderRequest, settings: TargetSettings
) -> PreparedAttempt:
    """Begin an attempt: everything that is a target's own is made afresh."""
    target, affinity = prepared.target, request.retry_state.affinity
    preferred = affinity.key if affinity is not None and affinity.target == target.id else ""
    exchange.attempt = attempt = PreparedAttempt(target, settings, preferred, prepared=prepared)
    return attempt


def _record_attempt(exchange: Exchange, request: UnderstoodRequest, target: Target) -> None:
    retry_state, parsed = request.retry_state, request.parsed
    retry_state.tries += 1
    if retry_state.tries > 1:
        exchange.record_target(target)
        return
    record = exchange.builder.record
    record.requested_model, record.size, record.stream = parsed.model, len(request.body), parsed.glance.stream
    record.facts = parsed.facts
    record.set_target(target)
    if retry_state.decision is not None:
        record.set_route(retry_state.decision)


async def _looked_up(exchange: Exchange, request: UnderstoodRequest, target: Target) -> ResolvedReferences | None:
    """What the request refers to, for this target; what routing looked up is for targets whose responses are stored."""
    if request.references is not None and target.stored_here:
        return request.references
    storage, client_request, parsed = exchange.storage, exchange.client_request, request.parsed
    if storage.needs_lookup(client_request.key, request.body, parsed, target):
        return await resolve_references(exchange, request.body, parsed, target)
    return None


async def _detach(exchange: Exchange, request: UnderstoodRequest, prepared: ProviderRequest) -> None:
    """Let the response run in the background, as an exchange of its own."""
    # Only here: the exchange in the background is served as this one is.
    from dragoman.gateway.exchange.serving import Begun, serve

    runtime, builder, client_request = exchange.runtime, exchange.builder, exchange.client_request
    builder.record.losses = prepared.translated.losses
    detached = DetachedClient()
    # It has the same id, and is one exchange in the records, which ends with the response.
    own_builder = runtime.builder_of(
        replace(builder.record, started=runtime.clock(), time=time.time_ns() // 1000, losses=())
    )
    other = Exchange(runtime, replace(client_request, query="", key_slot=None), detached, own_builder)
    begun = Begun(request, prepared, exchange.storage)

    async def run() -> None:
        try:
            await serve(other, begun)
        finally:
            own_builder.finalize()

    response = encode(
        await exchange.storage.detach(
            prepared, detached, run, lambda: _hand_on_request(exchange), client_request.key_slot
        )
    )
    builder.record.kind = ""
    if not own_builder.is_finalized:
        # Its client is about to know of it.
        runtime.usage_recorder.open(own_builder.record, prepared.target, len(request.body))
    if prepared.stream:
        # From here on the follower of the stream writes to the client.
        exchange.sent = SentState.ALL
        headers = exchange.responses.headers(prepared, [], EVENT_STREAM)
        await exchange.storage.follow(client_request, exchange.client, builder, headers)
    else:
        losses = prepared.translated.losses
        full_response = exchange.responses.full_response(prepared, [], [JSON], response, losses)
        exchange.respond(full_response, AttemptOutcome.ANSWERED)


def _hand_on_request(exchange: Exchange) -> Callable[[], None]:
    """Gives back the bytes of the request, which are held as long as its response runs."""
    held = [exchange.client.take_charge(), exchange.reference_charge]
    exchange.reference_charge = None

    def give_back() -> None:
        for charge in held:
            if charge is not None:
                charge.close()

    return give_back


# Calls.


async def call_target(exchange: Exchange, request: UnderstoodRequest, attempt: PreparedAttempt) -> Missed | None:
    """Call a target until it has answered, or nothing can be done about how it failed."""
    runtime, retry_state, record = exchange.runtime, request.retry_state, exchange.builder.record
    target, prepared = attempt.target, attempt.prepared
    key, grant = exchange.client_request.key, exchange.client_request.grant
    if key is not None and (providers := key.rights.providers) is not None and target.provider.name not in providers:
        # Routes were made without it: this is the last look.
        require_provider(key, target)
    attempt.begin_request(prepared.translated.body)
    while True:
        exchange.calls.begin()
        if attempt.permit is None and retry_state.permitted is not None:
            attempt.permit = retry_state.use_permit()
        if target.provider.name in runtime.admission.limited and exchange.slot is None:
            exchange.calls.queued()
            exchange.slot = await runtime.admitted(target.provider.name, record)
            exchange.calls.admitted()
        if (
            key is not None
            and exchange.calls.count == 1
            and not (
                grant is not None
                and grant.changes == runtime.guard.identities.changes
                and (grant.lasts or runtime.guard.holds(grant))
            )
        ):
            _check_key_again(exchange, key)
        runtime.usage_recorder.open(record, target, len(attempt.body))
        headers, share = prepared.headers, runtime.sample_ratio
        if record.trace or share is not None:
            headers = traced(headers, record, share)
        endpoint, query = target.endpoint, prepared.query
        order = Order(
            target.provider, endpoint, target.model, prepared.streams, attempt.body, headers, attempt.key, query=query
        )
        exchange.call = call = runtime.open_at_once(order) or await runtime.open(order)
        if exchange.recording is not None:
            exchange.call = call = exchange.recording.call(call, attempt)
        exchange.limits.follow(call, retry_state.first_byte)
        await call.head()
        attempt.status, attempt.headers = call.status, call.headers
        outcome = await (_refuse(exchange, attempt, call) if call.status >= 300 else _deliver(exchange, attempt, call))
        if outcome is None:
            return None
        if isinstance(outcome, Paused):
            attempt.begin_anew(await _continued(exchange, attempt, outcome))
        elif outcome.failure is None or not await _relieve(exchange, attempt, outcome.missed, outcome.failure):
            return outcome.missed
        attempt.status, attempt.headers, attempt.passed = 0, [], None
        exchange.hang_up()


def _check_key_again(exchange: Exchange, key: Identity) -> None:
    """Refuse a key that lost its rights since the request arrived; then the call was never made."""
    try:
        client_request = exchange.client_request
        exchange.runtime.guard.check_again(key, client_request.table, client_request.api_path.protocol)
    except DragomanError:
        exchange.calls.queued()
        raise


def _deliver(exchange: Exchange, attempt: PreparedAttempt, call: UpstreamCall) -> Awaitable[Unsent | Paused | None]:
    """Choose how a response is delivered: by its content type, not by what was requested (S12)."""
    prepared, unframe = attempt.prepared, attempt.settings.unframe
    if unframe is not None:
        attempt.unframer = unframer_of(unframe, call) if prepared.streams else None
    is_full = attempt.unframer is None and not is_stream(call)
    if attempt.mode is _UNKNOWN:
        if (translated := prepared.translated).ledger.entries:
            exchange.builder.record.losses = translated.losses
        attempt.mode = _FULL if is_full else _STREAM if prepared.stream else _COLLECTED
    if attempt.mode is _FULL:
        if attempt.earlier:
            return read_continuation(exchange, attempt, is_full=is_full)
        return deliver_full(exchange, attempt)
    translator = attempt.translator
    if translator is None:
        translator = exchange.translator(attempt, collect=not prepared.stream)
    else:
        translator.go_on()
    if attempt.mode is _COLLECTED:
        return collect_stream(exchange, attempt, translator)
    if exchange.stream is None or exchange.stream.translator is not translator:
        exchange.stream = StreamDelivery(exchange, attempt, translator)
    return exchange.stream.deliver(call)


# Refusals.


async def _refuse(exchange: Exchange, attempt: PreparedAttempt, call: UpstreamCall) -> Unsent:
    """Read an error of a provider."""
    reader = error_reader(attempt)
    body = await read_error(call, exchange.limits, exchange.runtime.clock)
    response: ErrorResponse = await exchange.work(reader.work(len(body)), reader.read, body, paid=True)
    if attempt.status < 400:
        raise redirected(attempt.headers)
    if attempt.status > 599:
        raise BadResponse(f"the provider returned the status {attempt.status}, which means nothing")
    failure = response.failure
    attempt.add_retry_after(response.delay)
    # The continuation after a pause is not a response of its own, and is sent in the client's protocol.
    own = replace(response, headers=attempt.headers) if attempt.mode is _UNKNOWN else None
    client_failure = failure if own is not None else exchange.responses.blamed(failure, attempt.prepared)
    return Unsent(missed_of(exchange, client_failure, own), failure)


async def _relieve(exchange: Exchange, attempt: PreparedAttempt, missed: Missed, failure: Failure) -> bool:
    """Prepare a call with another key, or without the rejected parts; False if there is no remedy."""
    _cool_key(exchange, attempt, missed, failure)
    if changes_key(exchange, attempt, missed):
        exchange.end_call(missed.kind)
        if attempt.status < 400:
            _discard_response(exchange, attempt)
        attempt.change_key()
        return True
    remedy = attempt.remedy(failure)
    if remedy is None:
        return False
    exchange.end_call(missed.kind)
    body = await exchange.work(len(attempt.body), attempt.relieved(remedy), paid=True)
    if body is None:
        return False
    if attempt.status >= 400:
        attempt.use_key(body)
    else:
        _discard_response(exchange, attempt)
        attempt.begin_request(body)
    return True


def _cool_key(exchange: Exchange, attempt: PreparedAttempt, missed: Missed, failure: Failure) -> None:
    """Put a refused key into cooldown: one key per request, unless the failure names the key as its cause."""
    if not TABLE[missed.kind].keys:
        return
    hint = hint_of(attempt.headers, exchange.runtime.mint.now())
    cooldown = cooldown_of(missed.kind, failure, hint)
    if cooldown is None and missed.kind is AttemptOutcome.INVALID_KEY and attempt.target.provider.transport != "http":
        # A cloud returns 403 for its credentials only, never for the request.
        cooldown = Cooldown(seconds=DEFAULT_SECONDS)
    if cooldown is not None and (not exchange.has_cooled_key or names_the_key(failure)):
        exchange.has_cooled_key = True
        attempt.cool_key(cooldown, missed.kind, hint.wait)


def _discard_response(exchange: Exchange, attempt: PreparedAttempt) -> None:
    """Begin again after an error in spite of its status, of which the client received nothing."""
    attempt.forget()
    exchange.builder.record.failure = ""
    exchange.storage.anew()


async def _continued(exchange: Exchange, attempt: PreparedAttempt, paused: Paused) -> bytes:
    """The request that continues what a provider paused (mapping.md §13)."""
    codec = codec_of(attempt.target.endpoint.protocol)
    if codec.resume_request is None:
        raise BadResponse("the provider paused in a protocol that knows no pauses")
    body = attempt.prepared.translated.body
    exchange.end_call(AttemptOutcome.ANSWERED)
    attempt.before, attempt.estimate = attempt.cost, None
    return await exchange.work(len(body), codec.resume_request, body, paused.blocks, paid=True)
