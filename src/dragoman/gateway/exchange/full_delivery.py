"""Delivery of a response that is sent at once: a full response, or a stream for a client that wants none.

    step        waits for                                       then
    gather      all of the body                                 relay; translate; collect if it is events
    relay       a thread, for a large body                      name; an error in spite of its status: Unsent
    translate   a thread, for a large body                      name; Paused; Unsent
    collect     all of a stream                                 conclude
    conclude    a thread, for a large stream                    name; Paused; Unsent
    name        a thread, for a large body                      store; skipped if nothing is stored
    store       the store                                       send
    send        a thread, if tokens must be counted             the client is answered

A response that continues after a pause is read by `read_continuation` and translated together with the earlier ones.
"""

from __future__ import annotations

from dragoman.errors import BadResponse, DragomanError, Oversized
from dragoman.gateway.exchange.attempt import MAX_ERROR_BYTES, PreparedAttempt, ResponseMetadata, ResponseMode
from dragoman.gateway.exchange.exchange import Exchange, Paused, Unsent
from dragoman.gateway.exchange.failing import EMPTY, may_go_on, missed_of, unsent
from dragoman.gateway.exchange.full_response import Relayed, has_content, relayed_response
from dragoman.gateway.exchange.provider_errors import error_reader
from dragoman.gateway.exchange.response_reader import TOO_LARGE, Collect, GatheredCall, collect, read_full
from dragoman.gateway.exchange.usage_estimate import Passed
from dragoman.gateway.forwarding.error_responses import EVENT_STREAM, JSON
from dragoman.gateway.forwarding.provider_request import ProviderRequest
from dragoman.gateway.json_limits import check_response_values
from dragoman.gateway.thread_offload import INLINE, offload
from dragoman.model.parts import ToolCall
from dragoman.protocols.codec import Mint
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.rules.pauses import RESUMES
from dragoman.streaming import StreamPipeline
from dragoman.translate import TranslatedResponse, translate_response

# How an event stream begins.
_EVENTS = (b"data:", b"event:", b":")
# Bytes of a full response that the budget of its key does not count.
_UNCHARGED = 64 * 1024
_UNREADABLE = "the provider's response cannot be read"
# A member of an enumeration is slow to find, and this one is looked for in every exchange.
_ANSWERED = AttemptOutcome.ANSWERED
_JSON = [JSON]


async def deliver_full(exchange: Exchange, attempt: PreparedAttempt) -> Unsent | Paused | None:
    """Read a full response and send it in the client's protocol."""
    prepared = attempt.prepared
    attempt.raw = raw = await _read(exchange)
    if not raw.startswith(b"{"):
        start = raw.lstrip()
        if not start:
            return unsent(exchange, attempt, EMPTY)
        if start.startswith(_EVENTS):
            return await _deliver_events(exchange, attempt, raw)
    if not prepared.relay or prepared.stream:
        return await _translate(exchange, attempt)
    codec = attempt.target.codec
    if len(raw) <= INLINE:
        relayed = relayed_response(raw, codec)
    else:
        relayed = await exchange.work(len(raw), relayed_response, raw, codec, paid=True)
    attempt.usage = relayed.usage
    attempt.seen = ResponseMetadata(relayed.id, relayed.model, relayed.stop)
    if relayed.failure is not None or relayed.own is not None:
        attempt.has_worked = relayed.has_content
        failed = await _failed(exchange, attempt, relayed)
        if failed is not None:
            return failed
        # Its error may repeat what the provider was sent.
        work = attempt.settings.redactor.work(len(raw))
        raw = await exchange.work(work, exchange.clean, raw, paid=True)
    await _send(exchange, attempt, raw)
    return None


async def _deliver_events(exchange: Exchange, attempt: PreparedAttempt, raw: bytes) -> Unsent | Paused | None:
    """Send an event stream whose content type names something else; the provider's own clients can read it."""
    attempt.mode = ResponseMode.COLLECTED
    translator = exchange.translator(attempt, collect=not attempt.prepared.stream)
    attempt.size = len(raw)
    attempt.collected.append(await exchange.work(len(raw), translator.feed, raw, paid=True))
    return await _conclude(exchange, attempt, translator)


async def _read(exchange: Exchange) -> bytes:
    """The body of a full response. One that arrived with its head is not waited for, and a small one not charged."""
    call = exchange.call
    assert call is not None
    body = call.take_complete()
    if body is None:
        return await read_full(_reading(exchange))
    if len(body) > _UNCHARGED or len(body) > exchange.runtime.settings.limits.response_body:
        await _check(exchange, body)
    return body


async def _check(exchange: Exchange, body: bytes) -> None:
    """Refuse a body that is too large, or holds too many values; it is charged to the budget of its key."""
    size = len(body)
    if size > exchange.runtime.settings.limits.response_body:
        raise Oversized(TOO_LARGE)
    exchange.open_charge().add(size)
    await exchange.work(size, check_response_values, body, paid=True)


def _reading(exchange: Exchange) -> GatheredCall:
    runtime, call = exchange.runtime, exchange.call
    assert call is not None
    max_bytes, key = runtime.settings.limits.response_body, exchange.builder.record.key
    return GatheredCall(call, exchange.limits, runtime.clock, max_bytes, key, exchange.open_charge())


async def _failed(exchange: Exchange, attempt: PreparedAttempt, relayed: Relayed) -> Unsent | None:
    """A relayed response that is a failure in spite of its status; None if it is relayed as the response that it is."""
    raw, reader = attempt.raw, error_reader(attempt)
    own, failure = relayed.own, relayed.failure
    if own is not None:
        several = exchange.request is not None and exchange.request.retry_state.several
        if several and may_go_on(exchange, attempt, own):
            error = await exchange.work(reader.work(len(raw)), reader.read, raw, paid=True)
            # If that fails, it is relayed as a response.
            return Unsent(missed_of(exchange, own, error), own)
        attempt.own_failure = own
        return None
    assert failure is not None
    if len(raw) > MAX_ERROR_BYTES or attempt.remedy(failure) is not None:
        return unsent(exchange, attempt, failure)
    error = await exchange.work(reader.work(len(raw)), reader.read, raw, failure.status, paid=True)
    return Unsent(missed_of(exchange, failure, error), failure)


async def _translate(exchange: Exchange, attempt: PreparedAttempt) -> Unsent | Paused | None:
    prepared, raw, earlier = attempt.prepared, attempt.raw, attempt.earlier
    size = len(raw) + sum(map(len, earlier))
    if size > exchange.runtime.settings.limits.response_body:
        raise Oversized(TOO_LARGE)
    mint = exchange.runtime.mint_of(exchange.builder.record)
    if size <= INLINE:
        translated = _translated(raw, earlier, prepared, mint)
    else:
        translated = await exchange.work(size, _translated, raw, earlier, prepared, mint, paid=True)
    attempt.usage, response = translated.usage, translated.response
    if response is not None:
        stop = response.stop
        attempt.seen = ResponseMetadata(response.id, response.model, stop.native or stop.reason.value)
    # A relayed pause is the client's own business.
    if translated.resume is not None and not prepared.relay and len(earlier) < RESUMES:
        attempt.earlier += (raw,)
        return Paused(translated.resume)
    if translated.failure is not None:
        exchange.builder.record.usage = translated.usage
        attempt.has_worked = has_content(raw)
        return unsent(exchange, attempt, translated.failure)
    attempt.losses = translated.losses
    if response is not None:
        for part in response.parts:
            if isinstance(part, ToolCall):
                attempt.full_response_call = part.call_id
                # Only turns with calls are cached.
                if exchange.storage.watches(prepared):
                    attempt.response = response
                break
    await _send(exchange, attempt, translated.body)
    return None


async def _send(exchange: Exchange, attempt: PreparedAttempt, body: bytes, *, is_named: bool = False) -> None:
    """Send a response, after it is stored under its own id, if it is stored, and its tokens are counted."""
    prepared, own = attempt.prepared, attempt.own_failure
    if exchange.storage.writer is not None:
        if prepared.relay and not is_named:
            body = await exchange.storage.named(body)
        exchange.builder.record.usage = attempt.usage
        attempt.raw = body
        await exchange.storage.store_response(prepared, body)
    attempt.raw = body
    if own is None and attempt.lacks_counts():
        counting = attempt.counting
        attempt.count(await offload(counting.count, counting.size, exchange.builder.record.key, paid=True))
    kind = EVENT_STREAM if prepared.stream else _JSON
    response = exchange.responses.full_response(prepared, attempt.headers, kind, body, attempt.losses)
    if attempt.usage is not None:
        exchange.builder.record.usage = attempt.usage
    if attempt.response is not None or attempt.fold is not None:
        exchange.cache_turn(attempt)
    attempt.first = exchange.builder.record.first_content
    outcome = _ANSWERED
    if own is not None:
        # The client reads it as a response, and it is a failure.
        outcome, exchange.builder.record.failure = attempt.kind_of(own), own.kind.value
    exchange.respond(response, outcome)


# Streams for one response.


async def collect_stream(
    exchange: Exchange, attempt: PreparedAttempt, translator: StreamPipeline
) -> Unsent | Paused | None:
    """Read a stream to its end and send it as a full response."""
    attempt.passed = passed = Passed()
    command = Collect(translator, attempt.unframer, attempt.collected, attempt.size, passed)
    attempt.size = await collect(command, _reading(exchange))
    return await _conclude(exchange, attempt, translator)


async def _conclude(exchange: Exchange, attempt: PreparedAttempt, translator: StreamPipeline) -> Unsent | Paused | None:
    prepared = attempt.prepared
    if translator.paused:
        return Paused(translator.resume or ())
    body = b"".join([*attempt.collected, await exchange.work(attempt.size, _closed, translator, paid=True)])
    exchange.record_stream()
    attempt.losses, attempt.usage = translator.losses, translator.usage
    if (failure := translator.failure) is not None:
        return unsent(exchange, attempt, failure, has_content=translator.answered)
    named = exchange.renamed_frames(attempt) if prepared.stream else None
    await _send(exchange, attempt, body if named is None else named(body), is_named=named is not None)
    return None


async def read_continuation(exchange: Exchange, attempt: PreparedAttempt, *, is_full: bool) -> Unsent | Paused | None:
    """Read what continues a full response, as a full response of the provider's protocol, and translate all of it."""
    if is_full:
        raw = await _read(exchange)
    else:
        translator = _native_collector(exchange, attempt)
        attempt.passed = passed = Passed()
        size = await collect(Collect(translator, attempt.unframer, [], 0, passed), _reading(exchange))
        raw = await exchange.work(size, translator.close, paid=True)
        if translator.failure is not None:
            return unsent(exchange, attempt, translator.failure)
    if raw.lstrip().startswith(_EVENTS):
        # An event stream whose content type names something else, as `deliver_full` reads it.
        translator = _native_collector(exchange, attempt)
        raw = await exchange.work(len(raw), _collected, translator, raw, paid=True)
        if translator.failure is not None:
            return unsent(exchange, attempt, translator.failure)
    attempt.raw = raw
    return await _translate(exchange, attempt)


def _native_collector(exchange: Exchange, attempt: PreparedAttempt) -> StreamPipeline:
    """Collects a stream as a full response of the provider's protocol."""
    source, runtime = attempt.target.endpoint.protocol, exchange.runtime
    limit = runtime.settings.limits.stream_event
    attempt.translator = StreamPipeline(source=source, target=source, mint=runtime.mint, collect=True, limit=limit)
    return attempt.translator


def _translated(raw: bytes, earlier: tuple[bytes, ...], prepared: ProviderRequest, mint: Mint) -> TranslatedResponse:
    try:
        return translate_response(
            raw,
            source=prepared.target.endpoint.protocol,
            target=prepared.client,
            request=prepared.translated,
            stream=prepared.stream,
            mint=mint,
            earlier=earlier,
        )
    except DragomanError:
        raise BadResponse(_UNREADABLE) from None


def _collected(translator: StreamPipeline, raw: bytes) -> bytes:
    """The full response of a stream that arrived as a whole."""
    return translator.feed(raw) + _closed(translator)


def _closed(translator: StreamPipeline) -> bytes:
    try:
        return translator.close()
    except DragomanError:
        raise BadResponse(_UNREADABLE) from None
