"""How somebody stands."""

from __future__ import annotations

import pytest

from dragoman.routing.health_state import HEALTHY, SLOW_START_SECONDS, HealthLevel, HealthState


@pytest.mark.parametrize(
    ("left", "share"),
    [
        pytest.param(SLOW_START_SECONDS, 0.25, id="one in four at first"),
        pytest.param(SLOW_START_SECONDS / 2, 0.5, id="then one in two"),
        pytest.param(0.0, 1.0, id="then all"),
        pytest.param(-1.0, 1.0, id="and all after its end"),
    ],
)
def test_a_ramp_grows(left: float, share: float) -> None:
    assert HealthState(HealthLevel.SLOW_START, 100.0 + left).share(100.0) == share


def test_whoever_was_never_heard_of_is_good() -> None:
    assert HEALTHY.level is HealthLevel.HEALTHY
