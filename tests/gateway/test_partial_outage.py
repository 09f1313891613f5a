"""A gateway with two targets that fail at random: each request is answered that a route without a circuit breaker
answers, and a target that fails partly keeps a share.

Whether a call fails is drawn for each request and target before it is made. So it is known for each request whether a
target answers it, and the comparison has no noise.
"""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pytest
from msgspec.structs import replace

from dragoman.config.settings import RouteConfig, Settings
from tests.gateway.harness import CHAT, MESSAGES, PATHS, House, Received, Reply, running, settings_for, whole
from tests.gateway.says import question, tells

REQUESTS = 40
RATES = tuple(tenths / 10 for tenths in range(1, 10))
# Seconds between two requests: some of them come during a cooldown, others after it.
PAUSE = 0.5


class Targets:
    """The models `first` and `second` of one provider, each with an error rate."""

    def __init__(self, first: float, second: float) -> None:
        self._rates = {"first": first, "second": second}
        self.calls: Counter[str] = Counter()

    def fails(self, request: int, target: str) -> bool:
        """Whether the call for a request fails, at each try alike."""
        return Random(f"{request} of {target}").random() < self._rates[target]

    def answers(self, request: int) -> bool:
        """Whether a route that tries each target once answers a request."""
        return not all(self.fails(request, target) for target in self._rates)

    def __call__(self, received: Received) -> Reply:
        body = json.loads(received.body)
        target, request = str(body["model"]), int(body["messages"][0]["content"])
        self.calls[target] += 1
        if self.fails(request, target):
            return whole({"error": {"message": "not now", "type": "server_error"}}, 500)
        return tells(CHAT)


def settings(port: int) -> Settings:
    route = RouteConfig(pattern="route", targets=("chat/first", "chat/second"), sticky=False)
    return replace(settings_for(port), routes=(route,))


def answered(house: House, client: str) -> list[int]:
    """The requests that are answered; time passes between them."""
    house.app.runtime.routing_state.rng = Random("dice").random
    found = []
    for number in range(REQUESTS):
        messages = [{"role": "user", "content": str(number)}]
        reply = house.post(PATHS[client], question(client, CHAT, model="route", messages=messages))
        if reply.status == 200:
            found.append(number)
        house.pass_time(PAUSE)
    return found


@pytest.mark.parametrize("rate", RATES)
def test_item_22_b9_a_gateway_answers_as_many_requests_as_without_a_breaker(rate: float) -> None:
    targets = Targets(rate, rate)
    with running(targets, settings) as house:
        assert answered(house, MESSAGES) == [number for number in range(REQUESTS) if targets.answers(number)]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("bad", ["first", "second"])
def test_item_22_b9_beside_a_good_target_all_are_answered_and_the_bad_one_keeps_a_share(bad: str, rate: float) -> None:
    targets = Targets(rate, 0.0) if bad == "first" else Targets(0.0, rate)
    with running(targets, settings) as house:
        assert answered(house, CHAT) == [*range(REQUESTS)]
    if bad == "first":
        # It leads less often than before, and never has to be without requests.
        assert 2 <= targets.calls["first"] <= REQUESTS * (1.5 - rate)
    else:
        assert targets.calls == {"first": REQUESTS}
