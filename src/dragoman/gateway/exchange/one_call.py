"""One call to a provider, within the limits of time, noted in the record, and ended whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import trunc

from msgspec.structs import replace

from dragoman.gateway.access.endpoint_rights import require_provider
from dragoman.gateway.exchange.attempt import is_stream
from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.forwarding import header_forwarding
from dragoman.gateway.observability.journal_entries import MAX_NAME_LENGTH, MICROSECONDS
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Incoming, Runtime
from dragoman.http.upstream_call import UpstreamCall
from dragoman.providers.transport_interface import Order
from dragoman.records.journal_entry import CallEntry
from dragoman.routing.target import Target


@asynccontextmanager
async def one_call(
    incoming: Incoming,
    target: Target,
    order: Order,
    *,
    on_admitted: Callable[[], None] | None = None,
) -> AsyncIterator[tuple[UpstreamCall, TimeLimits]]:
    """Send a request and wait for the response head. A POST takes a slot, because it makes the provider work; a read
    does not. The client's key is checked again, since body and slot may have taken minutes.
    `on_admitted` is called when the call begins, if the caller counts calls; else it is counted here."""
    runtime, builder = incoming.runtime, incoming.builder
    require_provider(incoming.key, target)
    slot = await runtime.admitted(target.provider.name, builder.record) if order.method == "POST" else None
    try:
        incoming.check_again()
        if on_admitted is not None:
            on_admitted()
        async with _called(runtime, builder, target, order, is_recorded=on_admitted is None) as called:
            yield called
    finally:
        if slot is not None:
            slot.release()


@asynccontextmanager
async def _called(
    runtime: Runtime, builder: RecordBuilder, target: Target, order: Order, *, is_recorded: bool
) -> AsyncIterator[tuple[UpstreamCall, TimeLimits]]:
    time_limits = TimeLimits(runtime.timers, runtime.settings.timeouts, builder.record.started)
    runtime.usage_recorder.open(builder.record, target, len(order.body))
    headers = header_forwarding.traced(order.headers, builder.record, runtime.sample_ratio)
    call = await runtime.open(order if headers is order.headers else replace(order, headers=headers))
    try:
        time_limits.follow(call)
        started = runtime.clock()
        try:
            await call.head()
        finally:
            if is_recorded:
                record_attempt(runtime, builder, target, call, started)
        time_limits.reading(stream=is_stream(call))
        yield call, time_limits
    finally:
        time_limits.stop()
        call.close()


def record_attempt(
    runtime: Runtime, builder: RecordBuilder, target: Target, call: UpstreamCall, started: float
) -> None:
    """Note a call in the record; whatever a provider calls the exchange is logged, but not if it is a secret."""
    named = header_forwarding.provider_request_id(call.headers)
    attempt = CallEntry(
        provider=target.provider.name,
        model=target.printable_model[:MAX_NAME_LENGTH],
        protocol=target.endpoint.protocol,
        started=trunc((started - builder.record.started) * MICROSECONDS),
        status=call.status,
        provider_request_id=named and runtime.redactor(target.provider).clean_text(named),
    )
    builder.record.attempts = (*builder.record.attempts, attempt)
