"""Reads full responses, within the limits of time, size and number of values."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from msgspec import Struct

from dragoman.errors import Oversized, Truncated
from dragoman.gateway.byte_budget import ReaderCharge
from dragoman.gateway.exchange.attempt import MAX_ERROR_BYTES
from dragoman.gateway.exchange.large_events import LargeEvents
from dragoman.gateway.exchange.timeouts import Overstayed, TimeLimits
from dragoman.gateway.exchange.usage_estimate import Passed
from dragoman.gateway.json_limits import check_response_values
from dragoman.gateway.thread_offload import INLINE, offload
from dragoman.http.upstream_call import UpstreamCall
from dragoman.providers.transport_interface import Unframer
from dragoman.streaming import Flow, StreamPipeline

TOO_LARGE = "the provider's response exceeds the limit"


class Collect(Struct, frozen=True):
    """A stream that is read to its end; `size` is the size of earlier parts."""

    translator: StreamPipeline
    unframer: Unframer | None
    collected: list[bytes]
    size: int
    passed: Passed


class HungUp(Exception):
    """Nothing more is wanted of the provider."""


async def read_error(call: UpstreamCall, limits: TimeLimits, clock: Callable[[], float]) -> bytes:
    """The part of an error's body that is read; a longer one is cut, and its connection closed."""
    read = bytearray()

    def take(piece: bytes) -> None:
        limits.received_at = clock()
        read.extend(piece)
        if len(read) > MAX_ERROR_BYTES:
            raise HungUp

    limits.reading()
    with suppress(HungUp):
        await call.pump(take)
    return bytes(read[:MAX_ERROR_BYTES])


class GatheredCall(Struct, frozen=True):
    """A call whose response is gathered: up to `max_bytes` bytes, charged to the gateway key `key`."""

    call: UpstreamCall
    limits: TimeLimits
    clock: Callable[[], float]
    max_bytes: int
    key: str
    charge: ReaderCharge


async def read_full(reading: GatheredCall) -> bytes:
    """The whole body of an answer."""
    # One buffer, because pieces of two bytes each would take thirty times their size.
    read = bytearray()
    reading.limits.reading()
    await _gather(reading, reading.call, read.extend, reading.max_bytes)
    body = bytes(read)
    del read
    if len(body) > INLINE:
        await offload(partial(check_response_values, body), len(body), reading.key, paid=True)
    else:
        check_response_values(body)
    return body


async def collect(command: Collect, reading: GatheredCall) -> int:
    """Read a stream to its end; give how much has come so far."""
    translator, unframer, collected, size = command.translator, command.unframer, command.collected, command.size
    passed, limits = command.passed, reading.limits

    def take(chunk: bytes) -> None:
        nonlocal size
        size += len(chunk)
        if events.task is None and translator.finished:
            return
        if unframer is not None:
            chunk = unframer.feed(chunk)
        events.take(chunk)

    def deliver(chunk: bytes, out: bytes, flow: Flow) -> None:
        passed.take(chunk)
        collected.append(out)
        if flow is Flow.OVER:
            if translator.cut_short or translator.failure is not None:
                raise HungUp
            limits.ending()
        elif flow is not Flow.OPENING:
            if flow is Flow.CONTENT:
                limits.content_received()
            passed.content_began()

    charge = reading.charge

    def is_paused() -> bool:
        return charge.is_paused

    events = LargeEvents(
        reading.call, translator, deliver, reading.key, limits, is_held=is_paused, is_suspended=is_paused
    )
    if translator.is_past_opening:
        limits.reading(stream=True)
        passed.content_began()
    else:
        limits.opening()
    # The translator decides whether a cut stream was complete (S10).
    with suppress(Truncated, Overstayed, HungUp):
        await _gather(reading, events, take, reading.max_bytes - size)
        collected.append(await events.run(translator.call_ended, translator.held))
    return size


def _gather(
    reading: GatheredCall, source: UpstreamCall | LargeEvents, take: Callable[[bytes], None], room: int
) -> Awaitable[None]:
    """Read a response into memory, as far as the budget allows."""
    limits, clock, charge = reading.limits, reading.clock, reading.charge

    def measure(piece: bytes) -> None:
        nonlocal room
        limits.received_at = clock()
        room -= len(piece)
        if room < 0:
            raise Oversized(TOO_LARGE)
        charge.add(len(piece))
        take(piece)

    return source.pump(measure)
