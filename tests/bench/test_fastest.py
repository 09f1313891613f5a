"""`fastest` leads with the target that is the fastest for answers of usual length, and notices changes soon."""

from __future__ import annotations

from random import Random

import pytest
from msgspec import Struct

from bench.simulation.router import Load, Planned, by_name
from bench.simulation.world import Outcome, Request, Upstream


class Pace(Struct, frozen=True):
    """How fast a target is: seconds to the first token, and tokens per second after it."""

    first_token: float
    rate: float


class Race:
    """Requests one after the other, on a route of two targets that is not sticky."""

    def __init__(self, output: int, **paces: Pace) -> None:
        self.paces = paces
        self._output = output
        upstreams = [
            Upstream(name=name, first_token=pace.first_token, rate=pace.rate, input_price=0, output_price=0)
            for name, pace in paces.items()
        ]
        names = by_name(tuple(upstreams))
        self._router, self._load = Planned("fastest", upstreams=names, sticky=False), Load(names)
        self._random = Random(5)
        self._now = 0.0

    def led(self) -> str:
        """Have one more request answered; give the target that led."""
        request = Request(
            at=self._now,
            conversation=0,
            input=100,
            output=self._output,
            pace={},
            luck={},
            losses=dict.fromkeys(self.paces, 0),
        )
        name = self._router.choose(request, frozenset(), self._load, self._now)
        assert name is not None
        pace, noise = self.paces[name], self._random.lognormvariate(0.0, 0.25)
        first, seconds = pace.first_token * noise, (pace.first_token + self._output / pace.rate) * noise
        self._now += seconds
        self._router.end(request, name, Outcome(True, seconds, first), self._now)
        return name


@pytest.mark.parametrize(("output", "best"), [(5, "soon"), (50, "soon"), (2000, "rapid")])
def test_item_22_b12_the_fastest_is_that_for_answers_of_the_usual_length(output: int, best: str) -> None:
    race = Race(output, soon=Pace(0.2, 40.0), rapid=Pace(1.5, 400.0))
    for _ in range(60):
        race.led()
    assert sum(race.led() == best for _ in range(400)) > 0.9 * 400


@pytest.mark.parametrize("times", [4.0, 20.0])
def test_item_22_b12_a_target_that_became_much_faster_leads_soon(times: float) -> None:
    race = Race(100, usual=Pace(0.5, 100.0), slow=Pace(1.0, 50.0))
    assert sum(race.led() == "usual" for _ in range(200)) > 180
    race.paces["slow"] = Pace(1.0 / times, 50.0 * times)
    requests = 1
    while [race.led() for _ in range(10)].count("slow") < 8:
        requests += 10
        assert requests < 100
    # The target that was the fastest is led past for good.
    assert sum(race.led() == "slow" for _ in range(200)) > 180


def test_item_22_b12_one_that_became_much_slower_is_left_at_once() -> None:
    race = Race(100, usual=Pace(0.5, 100.0), slow=Pace(1.0, 50.0))
    for _ in range(100):
        race.led()
    race.paces["usual"] = Pace(10.0, 10.0)
    led = [race.led() for _ in range(40)]
    assert led[:10].count("usual") <= 5
    assert led[10:].count("slow") >= 25
