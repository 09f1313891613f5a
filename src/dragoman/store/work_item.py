"""Work item: one piece of work on its way to the store's thread and back to its loop. Nothing of it remains afterwards:
its error leads to the frames of its work alone, never to the future that holds the error."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from dragoman.store.database import Tables

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Expedite(Struct, eq=False, kw_only=True):
    """Cancellation flag for queued work: once it is `now`, each item is tried one last time and then fails."""

    now: bool = False


class WorkItem(Struct, Generic[T], eq=False, kw_only=True):
    """A function of the tables and its waiting future; a post has none. A busy store is waited for until `timeout`
    seconds after `submitted`, or, `while_moving`, after the last commit of any process: then it is slow, not stuck.
    `on_done` is called in the loop; work that is `at_last` is done even without a waiter."""

    work: Callable[[Tables], T]
    on_done: Callable[[WorkItem[object], object, BaseException | None], None]
    writes: bool
    owner: bytes = b""
    submitted: float
    timeout: float
    while_moving: bool = False
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[T] | None = None
    at_last: bool = False
    # The size in bytes of the response that it stores, if it does, for a later trial.
    response_size: Callable[[], int] | None = None
    # Gets the result where the waiting future was cancelled.
    on_abandoned: Callable[[T], object] | None = None
    expedite: Expedite | None = None
    # Whether the store has failed if this does.
    counts: bool = False
    # Whether it may be done once more after a commit whose result is not known: it finds out what it has done.
    is_repeatable: bool = False
    # Of a post that is bounded in bytes.
    size: int = 0
    # The thread has done with it.
    is_delivered: bool = False

    def is_late(self, now: float, moved: float) -> bool:
        """Whether a busy store is not waited for any more; it `moved` on last at that time."""
        since = max(self.submitted, moved) if self.while_moving else self.submitted
        return now >= since + self.timeout or self.is_expedited

    @property
    def is_expedited(self) -> bool:
        """Whether it fails because its waiter cannot wait longer, which says nothing about the store."""
        return self.expedite is not None and self.expedite.now

    @property
    def is_wanted(self) -> bool:
        """Whether it is to be done: work that has not begun is dropped without a waiter."""
        return self.at_last or self.future is None or not self.future.cancelled()


# A work item, its result, and its exception.
Outcome = tuple[WorkItem[object], object, BaseException | None]


class Attempts:
    """Does work on the tables, in a generator: its frame has no caller while it rests, so the frames of an error lead
    no further. Otherwise they would lead to the future that holds the error."""

    __slots__ = ("_came", "_work")

    def __init__(self, tables: Tables) -> None:
        self._came: list[tuple[object, BaseException | None]] = []
        self._work = _attempts(tables, self._came)
        next(self._work)

    def __call__(self, work: Callable[[Tables], object]) -> tuple[object, BaseException | None]:
        """The result of work, or its exception."""
        self._work.send(work)
        return self._came.pop()


def _attempts(
    tables: Tables, came: list[tuple[object, BaseException | None]]
) -> Generator[None, Callable[[Tables], object], None]:
    while True:
        work = yield
        try:
            came.append((work(tables), None))
        except StopIteration:
            # No future takes one.
            came.append((None, RuntimeError("a unit of work has raised StopIteration")))
        except BaseException as error:
            came.append((None, error))
        del work


def deliver(outcomes: list[Outcome]) -> None:
    """Deliver the results to the waiters, with one call for each loop."""
    loops = {outcome[0].loop for outcome in outcomes}
    for loop in loops:
        ours = outcomes if len(loops) == 1 else [outcome for outcome in outcomes if outcome[0].loop is loop]
        for outcome in ours:
            outcome[0].is_delivered = True
        # A loop that was closed waits for nothing.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_call_back, ours)


def _call_back(outcomes: list[Outcome]) -> None:
    for unit, done, error in outcomes:
        unit.on_done(unit, done, error)
