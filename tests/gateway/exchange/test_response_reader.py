"""Answers of which nobody is told before they are there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from dragoman.config.settings import Timeouts
from dragoman.errors import Oversized, Truncated
from dragoman.gateway.byte_budget import ByteBudget, ReaderCharge
from dragoman.gateway.exchange.attempt import MAX_ERROR_BYTES
from dragoman.gateway.exchange.response_reader import Collect, GatheredCall, collect, read_error, read_full
from dragoman.gateway.exchange.timeouts import LimitPhase, TimeLimits
from dragoman.gateway.exchange.usage_estimate import Passed
from dragoman.gateway.timers import Timers
from dragoman.http.upstream_call import UpstreamCall
from dragoman.streaming import StreamPipeline
from tests.gateway.exchange.played import CONTENT, OPENING
from tests.gateway.exchange.test_timeouts import Aloft
from tests.gateway.harness import MESSAGES
from tests.virtual_time import run


class Sent(Aloft):
    """A flight whose body is there in pieces, and perhaps breaks off."""

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        super().__init__()
        self._pieces, self._error = pieces, error

    async def pump(self, take: Callable[[bytes], None]) -> None:
        for piece in self._pieces:
            take(piece)
        if self._error is not None:
            raise self._error


def limits() -> TimeLimits:
    loop = asyncio.get_running_loop()
    return TimeLimits(Timers(loop), Timeouts(), loop.time())


def clock() -> float:
    return asyncio.get_running_loop().time()


def reading(
    flight: UpstreamCall, watch: TimeLimits, most: int = 10_000, charge: ReaderCharge | None = None
) -> GatheredCall:
    charge = charge or ByteBudget(10_000).of("k").open(flight.pause, flight.resume)
    return GatheredCall(flight, watch, clock, most, "k", charge)


def test_of_an_error_that_goes_on_the_beginning_is_read() -> None:
    async def story() -> None:
        many = [b"x" * 100_000] * 4
        assert await read_error(Sent(*many), limits(), clock) == b"".join(many)[:MAX_ERROR_BYTES]
        assert await read_error(Sent(b"no"), limits(), clock) == b"no"

    run(story())


def test_an_answer_has_a_largest_size() -> None:
    async def story() -> None:
        assert await read_full(reading(Sent(b"{", b"}"), limits(), 2)) == b"{}"
        with pytest.raises(Oversized):
            await read_full(reading(Sent(b"{", b"}"), limits(), 1))

    run(story())


@pytest.mark.parametrize("spoken", [False, True])
def test_a_collected_stream_is_read_to_its_end_and_waits_for_its_first_content(spoken: bool) -> None:
    async def story() -> None:
        watch, told = limits(), list[bytes]()
        translator = StreamPipeline(source=MESSAGES, target=MESSAGES, collect=True)
        said = OPENING + CONTENT if spoken else OPENING
        flight = Sent(said, error=Truncated("it broke off"))
        passed = Passed()
        assert await collect(Collect(translator, None, told, 5, passed), reading(flight, watch)) == 5 + len(said)
        assert (passed.sample, passed.size) == (said, len(said))
        assert watch.phase is (LimitPhase.READING if spoken else LimitPhase.OPENING)
        watch.stop()

    run(story())


class Framed:
    """Frames of a cloud: a byte before each piece, and one behind it."""

    def feed(self, data: bytes) -> bytes:
        return data[1:-1]

    def close(self) -> bytes:
        return b""


def test_of_a_stream_in_frames_it_is_known_what_was_in_them() -> None:
    async def story() -> None:
        watch, passed = limits(), Passed()
        translator = StreamPipeline(source=MESSAGES, target=MESSAGES, collect=True)
        flight = Sent(b"<" + OPENING + b">", b"<" + CONTENT + b">", error=Truncated("it broke off"))
        await collect(Collect(translator, Framed(), [], 0, passed), reading(flight, watch))
        # By this what it took is counted.
        assert passed.sample == OPENING + CONTENT
        watch.stop()

    run(story())


@pytest.mark.parametrize("way", ["whole", "collected"])
def test_item_22_a4_what_is_gathered_of_an_answer_is_charged_to_its_key(way: str) -> None:
    async def story() -> None:
        budget, watch, flight = ByteBudget(1), limits(), Sent(OPENING, CONTENT, error=Truncated("it broke off"))
        first = budget.of("k").open(flight.pause, flight.resume)
        second = budget.of("k").open(flight.pause, flight.resume)
        if way == "whole":
            with pytest.raises(Truncated):
                await read_full(reading(flight, watch, charge=second))
        else:
            translator = StreamPipeline(source=MESSAGES, target=MESSAGES, collect=True)
            await collect(Collect(translator, None, [], 0, Passed()), reading(flight, watch, charge=second))
        assert budget.size == second.size == len(OPENING + CONTENT)
        assert first.is_contended
        watch.stop()

    run(story())
