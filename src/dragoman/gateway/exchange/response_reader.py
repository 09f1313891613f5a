"""Reading: answers of which nobody is told before they are there, within the limits of time, size and weight."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.errors import Oversized, Truncated
from dragoman.gateway.byte_budget import ReaderCharge
from dragoman.gateway.exchange.attempt import LONGEST_ERROR
from dragoman.gateway.exchange.large_events import LargeEvents
from dragoman.gateway.exchange.timeouts import Overstayed, TimeLimits
from dragoman.gateway.json_limits import weigh_answer
from dragoman.gateway.thread_offload import INLINE, beside_loop
from dragoman.http.upstream_call import UpstreamCall

if TYPE_CHECKING:
    from dragoman.gateway.exchange.events_commands import Collect

TOO_LARGE = "the provider's answer is larger than the limit"


class HungUp(Exception):
    """Nothing more is wanted of the provider."""


async def read_error(flight: UpstreamCall, limits: TimeLimits, clock: Callable[[], float]) -> bytes:
    """As much of an error's body as is looked at; one that goes on is broken off, and its connection with it."""
    read = bytearray()

    def take(piece: bytes) -> None:
        limits.heard = clock()
        read.extend(piece)
        if len(read) > LONGEST_ERROR:
            raise HungUp

    limits.hearing()
    with suppress(HungUp):
        await flight.pump(take)
    return bytes(read[:LONGEST_ERROR])


class GatheredCall(Struct, frozen=True):
    """A call whose answer is gathered: within `most` bytes, which are charged to the gateway key of the name `key`."""

    flight: UpstreamCall
    limits: TimeLimits
    clock: Callable[[], float]
    most: int
    key: str
    charge: ReaderCharge


async def read_whole(reading: GatheredCall) -> bytes:
    """The whole body of an answer."""
    # One buffer, because pieces of two bytes each would take thirty times their size.
    read = bytearray()
    reading.limits.hearing()
    await _gather(reading, reading.flight, read.extend, reading.most)
    body = bytes(read)
    del read
    if len(body) > INLINE:
        await beside_loop(partial(weigh_answer, body), len(body), reading.key, paid=True)
    else:
        weigh_answer(body)
    return body


async def collect(command: Collect, reading: GatheredCall) -> int:
    """Read a stream to its end; give how much has come so far."""
    translator, unframer, told, size = command.translator, command.unframer, command.told, command.size
    passed, limits = command.passed, reading.limits

    def take(chunk: bytes) -> None:
        nonlocal size
        size += len(chunk)
        if events.task is None and translator.finished:
            return
        if unframer is not None:
            chunk = unframer.feed(chunk)
        events.take(chunk)

    def tell(chunk: bytes, out: bytes) -> None:
        limits.heard = reading.clock()
        passed.take(chunk)
        told.append(out)
        if translator.cut_short or translator.failure is not None:
            raise HungUp
        if translator.finished:
            limits.ending()
        elif translator.speaking:
            if translator.progressed():
                limits.spoken()
            passed.spoken()

    charge = reading.charge

    def is_paused() -> bool:
        return charge.is_paused

    events = LargeEvents(
        reading.flight, translator, tell, reading.key, limits, is_held=is_paused, is_suspended=is_paused
    )
    if translator.speaking:
        limits.hearing(stream=True)
        passed.spoken()
    else:
        limits.opening()
    # Whether the story of a cut stream was complete is the translator's to say (S10).
    with suppress(Truncated, Overstayed, HungUp):
        await _gather(reading, events, take, reading.most - size)
        told.append(await events.run(translator.call_ended, translator.held))
    return size


def _gather(
    reading: GatheredCall, source: UpstreamCall | LargeEvents, take: Callable[[bytes], None], room: int
) -> Awaitable[None]:
    """Hand on an answer that somebody gathers, as far as there is room for it."""
    limits, clock, charge = reading.limits, reading.clock, reading.charge

    def measure(piece: bytes) -> None:
        nonlocal room
        limits.heard = clock()
        room -= len(piece)
        if room < 0:
            raise Oversized(TOO_LARGE)
        charge.add(len(piece))
        take(piece)

    return source.pump(measure)
