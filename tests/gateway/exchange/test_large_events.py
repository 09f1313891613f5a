"""Large events of a stream: worked on in a thread, told in order, while the stream is not read on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from dragoman.config.settings import Timeouts
from dragoman.errors import Stalled, Truncated
from dragoman.gateway.exchange import large_events
from dragoman.gateway.exchange.large_events import LargeEvents
from dragoman.gateway.exchange.timeouts import TimeLimits
from dragoman.gateway.timers import Timers
from dragoman.http.upstream_call import HeaderList
from dragoman.streaming import Advance, Flow, StreamPipeline
from tests.laws.floods import FLOODS
from tests.laws.strategies import CHAT, MESSAGES
from tests.virtual_time import VirtualLoop

SMALL, LARGE = b"data: 1\n\n", b"data: 2\n\n"


class Beside:
    """What stands for the threads: work is done when it is let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.go_on = asyncio.Event()
        monkeypatch.setattr(large_events, "offload", self)
        monkeypatch.setattr(large_events, "_AT_ONCE", 8)

    async def __call__(self, work: Callable[[], bytes], size: int, key: str, *, paid: bool) -> bytes:
        assert paid
        assert key == "desk"
        self.sizes.append(size)
        await self.go_on.wait()
        return work()

    async def begun(self) -> None:
        """Wait for the first work."""
        for _ in range(100):
            if self.sizes:
                return
            await asyncio.sleep(0)
        pytest.fail("nothing is done beside the loop")


class Handed:
    """A flight that hands over pieces, all of them at once, whether it is paused or not."""

    status, renewed = 200, 0

    def __init__(self, pieces: Sequence[bytes], error: Exception | None = None) -> None:
        self.headers: HeaderList = []
        self._pieces = pieces
        self._error = error
        self.calls: list[str] = []
        self.aborted: Exception | None = None

    async def head(self) -> None:
        raise NotImplementedError

    async def read(self, limit: int) -> bytes:
        raise NotImplementedError

    def take_complete(self) -> None: ...

    async def pump(self, take: Callable[[bytes], None]) -> None:
        for piece in self._pieces:
            take(piece)
        if self._error is not None:
            raise self._error

    def pause(self) -> None:
        self.calls.append("pause")

    def resume(self) -> None:
        self.calls.append("resume")

    def abort(self, error: Exception) -> None:
        self.aborted = error

    def close(self) -> None:
        raise NotImplementedError


class Returned(StreamPipeline):
    """A translator that returns what it takes."""

    def __init__(self) -> None:
        super().__init__(source=CHAT, target=CHAT)

    def advance(self, chunk: bytes) -> Advance:
        return Advance(chunk, Flow.CONTENT, 0)

    def workload(self, chunk: bytes) -> int:
        return 1_000 if chunk == LARGE else 1


def told(out: list[bytes]) -> Callable[[bytes, bytes, Flow], None]:
    return lambda _chunk, data, _flow: out.append(data)


def unlimited() -> TimeLimits:
    loop = asyncio.get_running_loop()
    return TimeLimits(Timers(loop), Timeouts(), loop.time())


async def pumped(flight: Handed, beside: Beside, out: list[bytes]) -> None:
    events = LargeEvents(flight, Returned(), told(out), "desk", unlimited())
    pumping = asyncio.ensure_future(events.pump(events.take))
    await beside.begun()
    assert out == [SMALL] and flight.calls == ["pause"]
    # Whoever is ready for more does not get it yet.
    events.resume()
    assert flight.calls == ["pause"]
    beside.go_on.set()
    await pumping


def test_item_22_a3_a_large_event_is_told_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        beside, out, flight = Beside(monkeypatch), list[bytes](), Handed([SMALL, LARGE, SMALL, SMALL])
        await pumped(flight, beside, out)
        assert out == [SMALL, LARGE, SMALL, SMALL]
        assert beside.sizes == [large_events._LEAST, 1, 1]
        assert flight.calls == ["pause", "resume"]

    asyncio.run(main())


@pytest.mark.parametrize("way", ["event", "other work"])
@pytest.mark.parametrize("suspended", [False, True], ids=["nothing else", "no room either"])
def test_a_provider_is_not_silent_while_its_event_waits_for_a_thread(
    way: str, suspended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        loop, beside, flight = asyncio.get_running_loop(), Beside(monkeypatch), Handed([SMALL, LARGE])
        watch = TimeLimits(Timers(loop), Timeouts(idle=10.0), loop.time())
        watch.follow(flight)
        watch.reading(stream=True)
        events = LargeEvents(flight, Returned(), told([]), "desk", watch, is_suspended=lambda: suspended)

        async def work() -> None:
            if way == "event":
                await events.pump(events.take)
            else:
                await events.run(bytes, 1_000)

        working = asyncio.ensure_future(work())
        await beside.begun()
        await asyncio.sleep(100.0)
        assert flight.aborted is None
        beside.go_on.set()
        await working
        await asyncio.sleep(11.0)
        assert isinstance(flight.aborted, Stalled) is not suspended
        watch.stop()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


def test_what_came_before_a_stream_broke_off_is_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        out: list[bytes] = []
        flight = Handed([SMALL, LARGE], Truncated("cut"))
        with pytest.raises(Truncated):
            await pumped(flight, Beside(monkeypatch), out)
        assert out == [SMALL, LARGE]

    asyncio.run(main())


def test_who_does_not_want_more_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        beside, flight = Beside(monkeypatch), Handed([SMALL, LARGE])
        beside.go_on.set()

        def tell(chunk: bytes, _: bytes, _flow: Flow) -> None:
            if chunk == LARGE:
                raise Truncated("enough")

        events = LargeEvents(flight, Returned(), tell, "desk", unlimited())
        with pytest.raises(Truncated):
            await events.pump(events.take)
        await asyncio.sleep(0)
        assert isinstance(flight.aborted, Truncated)

    asyncio.run(main())


def test_who_goes_away_leaves_the_translator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        beside, out = Beside(monkeypatch), list[bytes]()
        events = LargeEvents(Handed([SMALL, LARGE, SMALL]), Returned(), told(out), "desk", unlimited())
        pumping = asyncio.ensure_future(events.pump(events.take))
        await beside.begun()
        pumping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pumping
        assert out == [SMALL] and events.task is None

    asyncio.run(main())


def test_work_that_has_begun_comes_to_its_end() -> None:
    work, never = large_events._Work(lambda: b"done"), large_events._Work(lambda: b"done")
    assert work() == b"done" and not work.give_up()
    assert never.give_up() and never() == b""


def test_item_22_a3_the_work_of_a_piece_is_what_it_completes() -> None:
    flood = FLOODS[MESSAGES]["results of one search"](1_000)
    translator = StreamPipeline(source=MESSAGES, target=CHAT)
    half = len(flood) // 2
    assert translator.workload(flood[:half]) == half
    translator.feed(flood[:half])
    assert translator.held > 10_000
    assert translator.workload(b"more of the same") == 0
    assert translator.workload(flood[half:]) == translator.held + len(flood) - half


def test_item_22_a3_a_stream_is_closed_ahead_to_the_same_end() -> None:
    stream = FLOODS[CHAT]["content parts"](50).partition(b"\n\n")[0]
    plain, ahead = (StreamPipeline(source=CHAT, target=MESSAGES) for _ in range(2))
    plain.feed(stream)
    ahead.feed(stream)
    ahead.close_ahead()
    assert ahead.is_closed_ahead and not plain.is_closed_ahead
    assert ahead.close() == plain.close() != b""
    assert ahead.close() == b""
