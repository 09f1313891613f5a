"""One call to a provider, within the limits of time, noted in the record, and ended whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec.structs import replace

from dragoman.gateway.exchange import header_forwarding
from dragoman.gateway.exchange.attempt import is_stream
from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.observability.record import RecordedAttempt
from dragoman.gateway.observability.record_builder import RecordBuilder
from dragoman.gateway.runtime import Runtime
from dragoman.http.upstream_call import UpstreamCall
from dragoman.providers.transport_interface import Order
from dragoman.routing.target import Target


@asynccontextmanager
async def one_call(
    service: Runtime, account: RecordBuilder, target: Target, order: Order, *, placed: Callable[[], None] | None = None
) -> AsyncIterator[tuple[UpstreamCall, TimeLimits]]:
    """Put an order on its way, and wait for the answer's head.

    What is posted makes the provider work, and waits for a place among its calls; what is only read does not. `placed`
    hears that it is made now, where somebody else counts the calls; else it is noted here.
    """
    slot = await service.admitted(target.provider.name, account.record) if order.method == "POST" else None
    try:
        if placed is not None:
            placed()
        async with _called(service, account, target, order, noted=placed is None) as called:
            yield called
    finally:
        if slot is not None:
            slot.release()


@asynccontextmanager
async def _called(
    service: Runtime, account: RecordBuilder, target: Target, order: Order, *, noted: bool
) -> AsyncIterator[tuple[UpstreamCall, TimeLimits]]:
    time_limits = TimeLimits(service.loop, service.settings.timeouts, account.record.started)
    service.accounting.open(account.record, target, len(order.body))
    headers = header_forwarding.traced(order.headers, account.record, service.told_share)
    flight = await service.open(order if headers is order.headers else replace(order, headers=headers))
    try:
        time_limits.follow(flight)
        started = service.clock()
        try:
            await flight.head()
        finally:
            if noted:
                note_attempt(service, account, target, flight, started)
        time_limits.hearing(stream=is_stream(flight))
        yield flight, time_limits
    finally:
        time_limits.stop()
        flight.close()


def note_attempt(
    service: Runtime, account: RecordBuilder, target: Target, flight: UpstreamCall, started: float
) -> None:
    """Note a call in the record; whatever a provider calls the exchange is logged, but not if it is a secret."""
    named = header_forwarding.upstream_id(flight.headers)
    attempt = RecordedAttempt(
        provider=target.provider.name,
        model=target.shown,
        protocol=target.endpoint.protocol,
        started=started,
        status=flight.status,
        upstream_id=named and service.redactor(target.provider).clean_text(named),
    )
    account.update(attempts=(*account.record.attempts, attempt))
