"""Watch: each phase of an exchange has its limit.

Time is virtual, or passes by hand; on the loop that serves, timers are real and as short as they can be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from pathlib import Path
from typing import TypeVarTuple, Unpack

import pytest
import uvloop
from msgspec import structs

from dragoman.config.settings import Timeouts
from dragoman.errors import NoContent, Overdue, Stalled, TimedOut
from dragoman.gateway.exchange import timeouts as module
from dragoman.gateway.exchange.timeouts import LimitPhase, Overstayed, TimeLimits
from dragoman.gateway.timers import Timers
from dragoman.http.upstream_call import HeaderList
from tests.gateway.exchange.test_failover import play
from tests.gateway.harness import CHAT, MESSAGES, RESPONSES
from tests.gateway.says import is_finished
from tests.playbooks.bodies import parts
from tests.playbooks.kinds import Setup, Steps, briefly
from tests.playbooks.steps import EVENTS, answers, ends, passes, says
from tests.virtual_time import VirtualLoop
from tests.waiting import LIMIT

SHORT = 0.004
PATIENCE = 10.0
NEVER = 1000.0


class Aloft:
    """A flight that only knows how it was ended."""

    status = 200
    headers: HeaderList
    renewed = 0

    def __init__(self) -> None:
        self.headers = []
        self.errors: list[Exception] = []
        self.ended = asyncio.Event()

    async def head(self) -> None: ...

    async def read(self, limit: int) -> bytes:
        return b""

    def take_complete(self) -> None: ...

    async def pump(self, take: Callable[[bytes], None]) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def abort(self, error: Exception) -> None:
        self.errors.append(error)
        self.ended.set()

    def close(self) -> None: ...

    async def error(self) -> Exception:
        """What ended it."""
        await asyncio.wait_for(self.ended.wait(), LIMIT)
        (error,) = self.errors
        return error


async def later_than(seconds: float) -> None:
    """Wait for a timer that the loop fires after all that are due before, however slow the machine is."""
    await asyncio.sleep(seconds)


LONG = Timeouts(first_byte=NEVER, idle=NEVER, total=NEVER, heartbeat=NEVER)


@pytest.fixture(params=[VirtualLoop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[None, None, None]], None]:
    """Run on one of the kinds of loop that serve; asyncio's need not wait for time to pass."""

    def running(work: Coroutine[None, None, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(work)

    return running


Run = Callable[[Coroutine[None, None, None]], None]


def made(timeouts: Timeouts, *, age: float = 0.0) -> tuple[TimeLimits, Aloft]:
    loop = asyncio.get_running_loop()
    return TimeLimits(Timers(loop), timeouts, loop.time() - age), Aloft()


def test_an_answer_that_does_not_begin_is_ended(run: Run) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, first_byte=SHORT))
        watch.follow(flight)
        assert watch.phase is LimitPhase.WAITING
        error = await flight.error()
        assert type(error) is TimedOut
        assert "did not begin to respond within 0.004 s" in str(error)

    run(main())


def test_an_answer_that_falls_silent_is_ended(run: Run) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, idle=SHORT))
        watch.follow(flight)
        watch.reading()
        error = await flight.error()
        assert isinstance(error, Stalled)
        assert "fell silent" in str(error)

    run(main())


@pytest.mark.parametrize("phase", ["waiting", "opening", "hearing"])
def test_item_22_a4_a_provider_that_is_not_read_has_as_much_time_left_as_it_had(phase: str) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, first_byte=10.0, idle=10.0))
        loop = asyncio.get_running_loop()
        watch.follow(flight)
        if phase != "waiting":
            watch.opening() if phase == "opening" else watch.reading()
        await asyncio.sleep(4.0)
        watch.suspend()
        watch.suspend()
        await asyncio.sleep(100.0)
        assert not flight.errors
        watch.resume()
        watch.resume()
        resumed = loop.time()
        error = await flight.error()
        assert isinstance(error, TimedOut) and not isinstance(error, Overdue)
        # Silence counts from the moment at which bytes may come again.
        assert loop.time() - resumed == (10.0 if phase == "hearing" else 6.0)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


def test_item_22_a4_an_exchange_whose_provider_is_not_read_has_an_end() -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, idle=10.0, total=50.0))
        watch.follow(flight)
        watch.reading()
        watch.suspend()
        assert isinstance(await flight.error(), Overdue)
        assert asyncio.get_running_loop().time() == 50.0

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


def test_item_22_a5_time_without_content_stands_still_while_the_provider_is_not_read() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        watch, flight = made(structs.replace(LONG, content=10.0))
        watch.follow(flight)
        watch.reading(stream=True)
        await asyncio.sleep(4.0)
        watch.suspend()
        await asyncio.sleep(103.0)
        watch.resume()
        resumed = loop.time()
        assert isinstance(await flight.error(), NoContent)
        assert loop.time() - resumed == 6.0

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(main())


def test_an_exchange_that_takes_too_long_is_ended_in_whatever_it_does(run: Run) -> None:
    async def main() -> None:
        for begin in (False, True):
            watch, flight = made(structs.replace(LONG, total=SHORT))
            watch.follow(flight)
            if begin:
                watch.reading()
            error = await flight.error()
            assert isinstance(error, Overdue)
            assert "took longer than" in str(error)

    run(main())


def test_the_total_counts_from_the_request_and_not_from_the_call(run: Run) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, total=PATIENCE), age=2 * PATIENCE)
        watch.follow(flight)
        assert "took longer than" in str(await flight.error())

    run(main())


def test_the_wait_for_the_first_byte_begins_anew_with_every_call(run: Run) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, first_byte=2 * PATIENCE), age=3 * PATIENCE)
        watch.follow(flight)
        await later_than(3 * SHORT)
        assert not flight.errors
        watch.stop()

    run(main())


def test_a_whole_answer_whose_connection_does_not_end_has_overstayed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LINGER", SHORT)

    async def main() -> None:
        watch, flight = made(LONG)
        watch.follow(flight)
        watch.reading()
        watch.ending()
        assert isinstance(await flight.error(), Overstayed)

    run(main())


def test_a_whole_answer_is_not_late_whatever_the_total_says(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LINGER", 4 * SHORT)

    async def main() -> None:
        watch, flight = made(structs.replace(LONG, total=PATIENCE), age=2 * PATIENCE)
        watch.follow(flight)
        watch.ending()
        # Better a moment for the connection than an error after the end.
        assert isinstance(await flight.error(), Overstayed)

    run(main())


def test_a_shorter_limit_of_the_next_phase_is_kept(run: Run) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, first_byte=NEVER, idle=SHORT))
        watch.follow(flight)
        await asyncio.sleep(0)
        watch.reading()
        assert "fell silent" in str(await flight.error())

    run(main())


def test_a_shorter_limit_of_the_phase_before_is_forgotten(run: Run) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, first_byte=SHORT))
        watch.follow(flight)
        watch.reading()
        await later_than(4 * SHORT)
        assert not flight.errors
        watch.stop()

    run(main())


def test_what_was_stopped_ends_nothing(run: Run) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, first_byte=SHORT, total=SHORT))
        watch.follow(flight)
        watch.stop()
        watch.stop()
        await later_than(4 * SHORT)
        assert not flight.errors

    run(main())


def test_only_the_latest_call_is_ended_and_only_once(run: Run) -> None:
    async def main() -> None:
        watch, first = made(structs.replace(LONG, first_byte=SHORT))
        second = Aloft()
        watch.follow(first)
        watch.follow(second)
        await second.error()
        await later_than(3 * SHORT)
        assert not first.errors
        assert len(second.errors) == 1

    run(main())


def test_another_call_after_one_that_was_ended_is_watched_too(run: Run) -> None:
    async def main() -> None:
        watch, first = made(structs.replace(LONG, first_byte=SHORT))
        watch.follow(first)
        await first.error()
        second = Aloft()
        watch.follow(second)
        assert isinstance(await second.error(), TimedOut)

    run(main())


class Heart:
    """Counts the signs of life that a client gets."""

    def __init__(self, wanted: int) -> None:
        self.beats = 0
        self._wanted = wanted
        self.enough = asyncio.Event()

    def beat(self) -> None:
        self.beats += 1
        if self.beats >= self._wanted:
            self.enough.set()


def test_pitfall_205_a_silent_client_gets_signs_of_life_again_and_again(run: Run) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, heartbeat=SHORT))
        heart = Heart(3)
        watch.follow(flight)
        watch.alive = heart.beat
        watch.reading()
        await asyncio.wait_for(heart.enough.wait(), LIMIT)
        assert not flight.errors
        watch.stop()
        beats = heart.beats
        await later_than(4 * SHORT)
        assert heart.beats == beats

    run(main())


def test_pitfall_183_the_first_sign_of_life_is_due_after_the_headers_and_not_after_the_request(run: Run) -> None:
    # Else a provider that took long to answer would have its status committed before it said anything (decision 15).
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, heartbeat=PATIENCE), age=2 * PATIENCE)
        heart = Heart(1)
        watch.follow(flight)
        watch.alive = heart.beat
        watch.reading()
        await later_than(3 * SHORT)
        assert not heart.beats
        watch.stop()

    run(main())


def test_no_sign_of_life_is_given_after_an_answer(run: Run) -> None:
    async def main() -> None:
        watch, flight = made(structs.replace(LONG, heartbeat=SHORT))
        heart = Heart(1)
        watch.follow(flight)
        watch.alive = heart.beat
        watch.ending()
        await later_than(5 * SHORT)
        assert not heart.beats
        watch.stop()

    run(main())


Arguments = TypeVarTuple("Arguments")


class Clockwork(asyncio.BaseEventLoop):
    """A loop whose time passes by hand."""

    def __init__(self) -> None:
        super().__init__()
        # It never runs: whoever waits, waits by hand.
        self.close()
        self.now = 50.0
        self.timers: list[asyncio.TimerHandle] = []
        self.made = 0

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self.timers.remove(handle)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self.timers.append(handle)
        self.made += 1
        return handle

    def wait(self, seconds: float) -> None:
        """Let time pass, and fire what is due on the way."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.when() <= end]:
            timer = min(due, key=asyncio.TimerHandle.when)
            self.timers.remove(timer)
            self.now = max(self.now, timer.when())
            timer._run()
        self.now = end


def by_hand(timeouts: Timeouts, *, beats: int = 0) -> tuple[Clockwork, TimeLimits, Aloft, Heart]:
    loop = Clockwork()
    watch, flight, heart = TimeLimits(Timers(loop), timeouts, loop.time()), Aloft(), Heart(beats)
    watch.follow(flight)
    watch.alive = heart.beat
    watch.reading()
    return loop, watch, flight, heart


def test_a_provider_that_keeps_talking_is_heard_beyond_the_limit_of_silence() -> None:
    loop, watch, flight, _ = by_hand(structs.replace(LONG, idle=10.0))
    for _ in range(30):
        loop.wait(9.0)
        # What was heard is noted by whoever reads.
        watch.received_at = loop.time()
    assert not flight.errors
    loop.wait(9.9)
    assert not flight.errors
    loop.wait(0.2)
    assert "fell silent" in str(flight.errors[0])


def test_what_is_heard_and_told_moves_no_timer() -> None:
    loop, watch, _, heart = by_hand(structs.replace(LONG, idle=100.0, heartbeat=10.0))
    before = loop.made
    for _ in range(1000):
        watch.received_at = watch.sent_at = loop.time()
        loop.wait(0.01)
    assert loop.made - before <= 2
    assert len(loop.timers) == 1
    assert not heart.beats


def test_time_before_an_answer_needs_no_sign_of_life_and_the_timer_of_the_call_serves_its_stream() -> None:
    loop = Clockwork()
    watch, flight, heart = (
        TimeLimits(Timers(loop), structs.replace(LONG, heartbeat=15.0), loop.time()),
        Aloft(),
        Heart(0),
    )
    watch.follow(flight)
    loop.wait(14.0)
    # Whoever keeps a client alive comes with the answer.
    watch.alive = heart.beat
    watch.opening()
    watch.content_received()
    assert loop.made == 1
    loop.wait(14.9)
    assert heart.beats == 0
    loop.wait(0.2)
    assert heart.beats == 1
    assert not flight.errors


def test_a_client_that_is_told_something_gets_no_sign_of_life() -> None:
    loop, watch, _, heart = by_hand(structs.replace(LONG, heartbeat=15.0))
    for _ in range(20):
        loop.wait(14.0)
        watch.sent_at = loop.time()
    assert heart.beats == 0
    loop.wait(15.1)
    assert heart.beats == 1


def test_pitfall_205_signs_of_life_do_not_hide_a_provider_that_fell_silent() -> None:
    loop, _, flight, heart = by_hand(structs.replace(LONG, heartbeat=15.0, idle=100.0))
    loop.wait(99.0)
    assert heart.beats == 6
    assert not flight.errors
    loop.wait(100.0)
    assert heart.beats == 6
    assert "fell silent" in str(flight.errors[0])
    assert not loop.timers


def test_the_total_ends_a_provider_that_never_stops_talking() -> None:
    loop, watch, flight, _ = by_hand(structs.replace(LONG, idle=10.0, total=60.0))
    for _ in range(59):
        loop.wait(1.0)
        watch.received_at = loop.time()
    assert not flight.errors
    loop.wait(1.1)
    assert "took longer than 60 s" in str(flight.errors[0])


@pytest.mark.parametrize("enter", [TimeLimits.reading, TimeLimits.ending, None], ids=["hearing", "ending", "waiting"])
@pytest.mark.parametrize("age", [3.5, 29.5])
def test_what_is_left_of_the_total_limits_a_call_that_began_late(
    enter: Callable[[TimeLimits], None] | None, age: float
) -> None:
    # 30 s configured ended at 33.5 s: what the request's body took was given to the answer once more.
    loop = Clockwork()
    watch, flight = TimeLimits(Timers(loop), structs.replace(LONG, total=30.0), loop.time() - age), Aloft()
    watch.follow(flight)
    loop.wait(30.0 - age - 0.2)
    if enter is not None:
        enter(watch)
    loop.wait(0.15)
    assert not flight.errors
    loop.wait(0.1)
    assert len(flight.errors) == 1
    if enter is not TimeLimits.ending:
        assert "took longer than 30 s" in str(flight.errors[0])
    assert not loop.timers


def test_a_call_that_begins_after_the_total_is_ended_at_once() -> None:
    loop, watch, flight, _ = by_hand(structs.replace(LONG, total=30.0))
    loop.wait(29.0)
    watch.stop()
    loop.wait(5.0)
    watch.follow(flight)
    loop.wait(0.0)
    assert "took longer than 30 s" in str(flight.errors[0])


def test_a_client_whose_answer_is_being_kept_gets_signs_of_life_and_nothing_is_ended() -> None:
    loop, watch, flight, heart = by_hand(structs.replace(LONG, heartbeat=15.0, idle=20.0, total=30.0))
    watch.ending()
    watch.storing()
    loop.wait(50.0)
    # How long that may take is the store's own limit.
    assert (heart.beats, flight.errors) == (3, [])
    watch.stop()
    loop.wait(50.0)
    assert heart.beats == 3
    assert not loop.timers


def test_a_timer_is_left_to_the_next_exchange_and_fires_for_nobody() -> None:
    for end in (TimeLimits.stop, TimeLimits.ending):
        loop, watch, flight, _ = by_hand(LONG)
        end(watch)
        loop.wait(2.0)
        assert len(loop.timers) == (end is TimeLimits.stop)
        loop.wait(LONG.soonest)
        assert not loop.timers
        assert len(flight.errors) == (end is TimeLimits.ending)


def test_exchanges_one_after_another_arm_one_timer_and_each_has_its_own_limit() -> None:
    loop = Clockwork()
    timers = Timers(loop)
    for _ in range(10):
        watch = TimeLimits(timers, structs.replace(LONG, first_byte=30.0), loop.time())
        watch.follow(Aloft())
        loop.wait(2.0)
        watch.stop()
    assert loop.made == 1
    watch, flight = TimeLimits(timers, structs.replace(LONG, first_byte=30.0), loop.time()), Aloft()
    watch.follow(flight)
    loop.wait(29.0)
    assert not flight.errors
    loop.wait(2.0)
    assert type(flight.errors[0]) is TimedOut
    # A nearer limit does not wait for a timer that fires later.
    watch.stop()
    watch, flight = TimeLimits(timers, structs.replace(LONG, first_byte=3.0), loop.time()), Aloft()
    watch.follow(flight)
    loop.wait(4.0)
    assert type(flight.errors[0]) is TimedOut


def test_pitfall_335_336_what_opens_an_answer_is_no_content_and_does_not_end_the_wait_for_it() -> None:
    loop, watch, flight, heart = by_hand(structs.replace(LONG, first_byte=60.0, idle=10.0, heartbeat=15.0))
    watch.follow(flight)
    loop.wait(20.0)
    watch.opening()
    # Pings, and an idle limit that is shorter than some models think.
    for _ in range(39):
        loop.wait(1.0)
        watch.received_at = loop.time()
    assert not flight.errors and heart.beats == 3
    loop.wait(1.1)
    assert "did not begin to respond within 60 s" in str(flight.errors[0])
    assert type(flight.errors[0]) is TimedOut


def test_pitfall_336_silence_is_limited_once_there_is_content() -> None:
    loop, watch, flight, _ = by_hand(structs.replace(LONG, first_byte=60.0, idle=10.0))
    watch.follow(flight)
    watch.opening()
    loop.wait(50.0)
    watch.received_at = loop.time()
    watch.content_received()
    loop.wait(9.9)
    assert not flight.errors
    loop.wait(0.2)
    assert "fell silent" in str(flight.errors[0]) and isinstance(flight.errors[0], Stalled)


def lasting(client: str, provider: str, seconds: float) -> Steps:
    """A stream that says something each 15 s, for so long, and then ends well."""
    opening, words, rest = parts(provider)
    again = words.split(b"\n\n")[-2] + b"\n\n"
    begun = [briefly(client, provider, stream=True), answers(200, EVENTS), says(opening), says(words)]
    more = [step for _ in range(int(seconds // 15)) for step in (passes(15), says(again))]
    return [*begun, *more, says(rest), ends()]


@pytest.mark.parametrize(
    ("client", "provider"), [(CHAT, CHAT), (MESSAGES, MESSAGES), (RESPONSES, RESPONSES), (MESSAGES, CHAT)]
)
def test_pitfall_334_a_stream_that_is_well_is_not_cut(
    client: str, provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 3 * Timeouts().effective_total
    course = play(lasting(client, provider, seconds), tmp_path, monkeypatch, Setup())
    [record] = course.records
    assert (record.status, record.failure, course.kinds) == (200, "", ["answered"])
    assert record.ended - record.started >= seconds
    assert is_finished(client, course.body)


def test_pitfall_334_a_total_that_the_configuration_sets_holds_for_streams_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = Setup(timeouts=Timeouts(total=60.0))
    course = play(lasting(CHAT, CHAT, 75.0)[:-2], tmp_path, monkeypatch, setup)
    [record] = course.records
    assert (record.failure, record.ended - record.started) == ("timeout", 60.0)


def test_pitfall_334_a_whole_answer_and_one_that_says_nothing_are_still_limited(run: Run) -> None:
    usual = structs.replace(LONG, total=None)

    async def main() -> None:
        for begin in (TimeLimits.reading, TimeLimits.opening):
            watch, flight = made(usual, age=2 * usual.effective_total)
            watch.follow(flight)
            begin(watch)
            assert isinstance(await flight.error(), Overdue)
        watch, flight = made(structs.replace(usual, idle=SHORT), age=2 * usual.effective_total)
        watch._upstream_call = flight
        watch.reading(stream=True)
        assert isinstance(await flight.error(), Stalled)

    run(main())
