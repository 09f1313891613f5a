"""Waiting: a condition ends it; when it gives up, everything that runs is described."""

from __future__ import annotations

import asyncio

import pytest

from tests import waiting
from tests.waiting import reporting_state, wait_until, wait_until_async


def test_the_value_of_the_condition_is_returned() -> None:
    values = iter([0, "", 3])
    assert wait_until(lambda: next(values), "a value") == 3


def test_a_loop_goes_on_meanwhile() -> None:
    async def dialogue() -> int:
        came: list[int] = []
        asyncio.get_running_loop().call_later(0.01, came.append, 7)
        return (await wait_until_async(lambda: came, "a number"))[0]

    assert asyncio.run(dialogue()) == 7


def test_giving_up_describes_all_that_runs_and_nothing_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    # What the session holds runs as well.
    monkeypatch.setattr(waiting, "_reports", {})
    with reporting_state(lambda: "an old gateway"):
        pass
    with reporting_state(lambda: "gateway 1\nworkers 2"), reporting_state(lambda: "provider: 3 requests"):
        with pytest.raises(AssertionError) as caught:
            wait_until(lambda: False, "the impossible", 0.01)
        assert str(caught.value) == ("waited 0 s for: the impossible\ngateway 1\nworkers 2\nprovider: 3 requests")
        with pytest.raises(AssertionError, match="the impossible\ngateway 1"):
            asyncio.run(wait_until_async(lambda: False, "the impossible", 0.01))
