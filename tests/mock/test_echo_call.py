"""The flight: frame by frame, at its own pace, and it ends when it is told to. All of it in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from dragoman.errors import Oversized, TimedOut, Truncated
from dragoman.http.upstream_call import UpstreamCall
from dragoman.mock.answers.models import ECHO_MODELS
from dragoman.mock.echo_call import EchoCall
from dragoman.streaming import StreamPipeline
from tests import virtual_time
from tests.mock.calling import LIMIT, PROTOCOLS, collected, fly, pieces, question, text_of
from tests.sdk.names import CHAT, MESSAGES
from tests.sdk.oracles import check_stream

# "You said: hi" has three tokens, and `slow` rests before each.
SLOW_SECONDS = 3 * ECHO_MODELS["slow"].pace


def run(story: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run a story."""
    virtual_time.run(story())


def long_stream() -> EchoCall:
    return fly(CHAT, question(CHAT, "long", "500", stream=True))


async def others_turn() -> None:
    """Wait until all others wait for something."""
    await virtual_time.virtual_loop().quiet()


def test_it_is_a_flight() -> None:
    async def story() -> None:
        flight: UpstreamCall = long_stream()
        await flight.head()
        assert flight.status == 200

    run(story)


def test_only_a_full_response_is_taken_at_once() -> None:
    async def story() -> None:
        full, same = fly(CHAT, question(CHAT, "text", "hi")), fly(CHAT, question(CHAT, "text", "hi"))
        await full.head()
        assert full.take_complete() == b"".join(await collected(same))
        assert full.take_complete() == b""
        stream = long_stream()
        await stream.head()
        assert stream.take_complete() is None
        closed = fly(CHAT, question(CHAT, "text", "hi"))
        await closed.head()
        closed.close()
        assert closed.take_complete() is None

    run(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_piece_is_one_frame(protocol: str) -> None:
    found = pieces(protocol, question(protocol, "text", "one two three", stream=True))
    assert all(piece.endswith(b"\n\n") and piece.count(b"\n\n") == 1 for piece in found)
    assert len(found) > 5


def test_others_have_their_turn_between_frames() -> None:
    async def story() -> None:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        found = await collected(long_stream())
        task.cancel()
        assert turns >= len(found)

    run(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_slow_rests_before_every_token(protocol: str) -> None:
    async def story() -> None:
        found = await collected(fly(protocol, question(protocol, "slow", "hi", stream=True)))
        assert asyncio.get_running_loop().time() == pytest.approx(SLOW_SECONDS)
        assert text_of(protocol, check_stream(protocol, b"".join(found)).body) == "You said: hi"

    run(story)


def test_a_whole_answer_of_slow_is_late() -> None:
    async def story() -> None:
        flight = fly(MESSAGES, question(MESSAGES, "slow", "hi"))
        await flight.head()
        assert asyncio.get_running_loop().time() == pytest.approx(SLOW_SECONDS)
        assert b"You said: hi" in await flight.read(LIMIT)

    run(story)


def test_nothing_comes_while_it_is_paused() -> None:
    async def story() -> None:
        flight = long_stream()
        found: list[bytes] = []

        def take(piece: bytes) -> None:
            found.append(piece)
            if len(found) == 3:
                flight.pause()

        task = asyncio.create_task(flight.pump(take))
        await others_turn()
        assert len(found) == 3
        flight.resume()
        await task
        assert found[-1] == b"data: [DONE]\n\n"

    run(story)


@pytest.mark.parametrize("model", ["long", "slow"])
def test_whoever_waits_gets_the_error_of_an_abort(model: str) -> None:
    async def story() -> None:
        flight = fly(CHAT, question(CHAT, model, stream=True))
        await flight.head()
        task = asyncio.create_task(flight.pump(lambda piece: None))
        await asyncio.sleep(0)
        flight.abort(TimedOut("enough"))
        flight.abort(TimedOut("more than enough"))
        with pytest.raises(TimedOut, match=r"^enough$"):
            await task

    run(story)


def test_an_abort_ends_a_pause() -> None:
    async def story() -> None:
        flight = long_stream()
        flight.pause()
        task = asyncio.create_task(flight.pump(lambda piece: None))
        await others_turn()
        flight.abort(TimedOut("enough"))
        with pytest.raises(TimedOut):
            await task

    run(story)


def test_an_abort_reaches_who_waits_for_the_head_and_who_reads() -> None:
    async def story() -> None:
        flight = fly(CHAT, question(CHAT, "slow", "word " * 1000))
        task = asyncio.create_task(flight.head())
        await others_turn()
        flight.abort(TimedOut("enough"))
        with pytest.raises(TimedOut):
            await task
        with pytest.raises(TimedOut):
            await flight.read(LIMIT)

    run(story)


def test_a_closed_call_says_nothing_more() -> None:
    async def story() -> None:
        flight = long_stream()
        found: list[bytes] = []

        def take(piece: bytes) -> None:
            found.append(piece)
            if len(found) == 3:
                flight.close()

        await flight.pump(take)
        assert len(found) == 3
        flight.pause()
        with pytest.raises(Truncated):
            await flight.read(LIMIT)

    run(story)


def test_a_close_ends_a_pause() -> None:
    async def story() -> None:
        flight = long_stream()
        flight.pause()
        task = asyncio.create_task(flight.pump(lambda piece: None))
        await others_turn()
        flight.close()
        await task

    run(story)


def test_cancelling_ends_a_rest() -> None:
    async def story() -> None:
        flight = fly(CHAT, question(CHAT, "slow", stream=True))
        task = asyncio.create_task(flight.pump(lambda piece: None))
        await others_turn()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(story)


def test_an_answer_over_the_limit_is_bad() -> None:
    async def story() -> None:
        size = len(await fly(CHAT, question(CHAT, "text")).read(LIMIT))
        assert len(await fly(CHAT, question(CHAT, "text")).read(size)) == size
        with pytest.raises(Oversized):
            await fly(CHAT, question(CHAT, "text")).read(size - 1)

    run(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_broken_stream_is_truncated_after_some_tokens(protocol: str) -> None:
    async def story() -> None:
        flight = fly(protocol, question(protocol, "broken", "hi", stream=True))
        found: list[bytes] = []
        with pytest.raises(Truncated):
            await flight.pump(found.append)
        stream = b"".join(found)
        assert b"You" in stream and b"hi" not in stream
        reader = StreamPipeline(source=protocol, target=protocol)
        reader.feed(stream)
        reader.close()
        assert reader.failure is not None

    run(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_broken_answer_is_truncated(protocol: str) -> None:
    async def story() -> None:
        flight = fly(protocol, question(protocol, "broken"))
        await flight.head()
        assert flight.status == 200
        with pytest.raises(Truncated):
            await flight.read(LIMIT)

    run(story)


def test_what_the_taker_raises_comes_out() -> None:
    async def story() -> None:
        def take(piece: bytes) -> None:
            raise KeyError(len(piece))

        with pytest.raises(KeyError):
            await long_stream().pump(take)

    run(story)


def test_many_flights_at_once_do_not_mix() -> None:
    async def story() -> None:
        marks = [f"mark{number}" for number in range(50)]
        flights = [fly(CHAT, question(CHAT, "text", mark, stream=True)) for mark in marks]
        streams = await asyncio.gather(*(collected(flight) for flight in flights))
        for mark, found in zip(marks, streams, strict=True):
            told = check_stream(CHAT, b"".join(found))
            assert text_of(CHAT, told.body) == f"You said: {mark}"

    run(story)
