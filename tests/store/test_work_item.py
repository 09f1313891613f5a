"""Units: what comes of them, who is told, and that nothing of them is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from traceback import walk_tb

import pytest

from dragoman.database_location import MEMORY
from dragoman.store import Tables
from dragoman.store.work_item import Attempts, WorkItem, deliver
from tests.store.opened import opened


class Counting(asyncio.SelectorEventLoop):
    """A loop that counts how often it is called from threads."""

    calls = 0

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: object, context: Context | None = None
    ) -> asyncio.Handle:
        self.calls += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


Told = list[tuple[object, BaseException | None]]


def _unit(
    loop: asyncio.AbstractEventLoop, told: Told, future: asyncio.Future[object] | None = None
) -> WorkItem[object]:
    return WorkItem(
        work=lambda tables: None,
        on_done=lambda unit, done, error: told.append((done, error)),
        writes=True,
        submitted=0.0,
        timeout=0.0,
        loop=loop,
        future=future,
    )


def test_what_work_gives_or_raises_is_a_value() -> None:
    def fail(tables: Tables) -> None:
        raise ValueError("said")

    with opened(MEMORY) as tables:
        assert Attempts(tables)(lambda given: given is tables) == (True, None)
        done, error = Attempts(tables)(fail)
    assert done is None and isinstance(error, ValueError)


def test_an_error_leads_to_the_frames_of_its_work_alone() -> None:
    def fail(tables: Tables) -> None:
        raise ValueError("said")

    with opened(MEMORY) as tables:
        _, error = Attempts(tables)(fail)
    assert error is not None
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    assert [frame.f_code.co_name for frame in frames] == ["_attempts", "fail"]
    assert frames[0].f_back is None


def test_there_is_an_attempt_after_one_that_raised() -> None:
    with opened(MEMORY) as tables:
        attempt = Attempts(tables)
        assert isinstance(attempt(lambda tables: 1 // 0)[1], ZeroDivisionError)
        assert attempt(lambda tables: 1) == (1, None)


def test_an_error_that_no_future_takes_becomes_another() -> None:
    with opened(MEMORY) as tables:
        _, error = Attempts(tables)(lambda tables: next(iter(())))
    assert isinstance(error, RuntimeError)


def test_what_nobody_waits_for_is_wanted_only_at_last_or_if_nobody_ever_did() -> None:
    loop = Counting()
    future: asyncio.Future[object] = loop.create_future()
    unit, post = _unit(loop, [], future), _unit(loop, [])
    assert unit.is_wanted and post.is_wanted
    future.cancel()
    assert not unit.is_wanted
    unit.at_last = True
    assert unit.is_wanted
    loop.close()


def test_each_loop_is_called_once_for_all_of_its_units() -> None:
    one, other = Counting(), Counting()
    told: Told = []
    units = [_unit(loop, told) for loop in (one, other, one, one)]
    deliver([(unit, count, None) for count, unit in enumerate(units)])
    assert (one.calls, other.calls) == (1, 1)
    assert all(unit.is_delivered for unit in units) and told == []
    for loop in (one, other):
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
    assert told == [(0, None), (2, None), (3, None), (1, None)]


def test_nobody_is_called_for_nothing() -> None:
    deliver([])


@pytest.mark.parametrize("error", [None, ValueError("said")], ids=["done", "failed"])
def test_a_loop_that_was_closed_waits_for_nothing(error: BaseException | None) -> None:
    closed, running = Counting(), Counting()
    closed.close()
    told: Told = []
    deliver([(_unit(closed, told), 1, error), (_unit(running, told), 2, error)])
    running.call_soon(running.stop)
    running.run_forever()
    running.close()
    assert told == [(2, error)]
