"""Waits for a condition: the one polling helper of the tests.

    wait_until(lambda: house.provider.open == 0, "no open connection at the provider")
    await wait_until_async(lambda: pool.idle == 1, "one idle connection")

A wait ends as soon as its condition is true, so the limit can be generous. If the limit passes, the error shows the
state of everything that is running: gateways, processes and providers register themselves with `reporting_state`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
# Seconds. Two busy cores may run a test a hundred times slower than a quiet machine.
LIMIT = 120.0
_INTERVAL = 0.005
# Characters of one report; the end of a log says more than its beginning.
_MAX_REPORT = 6000

_reports: dict[int, Callable[[], str]] = {}


@contextmanager
def reporting_state(report: Callable[[], str]) -> Iterator[None]:
    """Have a failed wait print `report()` while this block runs."""
    key = id(report)
    _reports[key] = report
    try:
        yield
    finally:
        del _reports[key]


def wait_until(condition: Callable[[], T], what: str, limit: float = LIMIT) -> T:
    """Poll until the condition is true, and return its value."""
    deadline = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(_gave_up(what, limit))
        time.sleep(_INTERVAL)
    return value


async def wait_until_async(condition: Callable[[], T], what: str, limit: float = LIMIT) -> T:
    """Poll on the event loop until the condition is true, and return its value."""
    deadline = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(_gave_up(what, limit))
        await asyncio.sleep(_INTERVAL)
    return value


def state_of_everything() -> str:
    """The reports of everything that is running."""
    return "\n".join(report()[-_MAX_REPORT:] for report in list(_reports.values()))


def _gave_up(what: str, limit: float) -> str:
    return f"waited {limit:.0f} s for: {what}\n{state_of_everything()}"
