"""Router: who is asked next, by a plan as the gateway makes it, or by an oracle that knows what will become of it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol, TypeAlias

from bench.simulation.health import Health, Speeds
from bench.simulation.world import BYTES_A_TOKEN, CACHE_TIME, MINUTE, UPSTREAMS, Outcome, Request, Upstream, ask, cost
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.needs import Needs
from dragoman.routing.plan import Dice, Pin, View, plan
from dragoman.routing.policies import POLICIES
from dragoman.routing.route import Route
from dragoman.routing.target import Target

BY_NAME = {upstream.name: upstream for upstream in UPSTREAMS}
# What an answer is taken to come to before it is there.
USUAL_OUTPUT = 200
# How much of a thing an outcome is: seconds, nano-dollars or losses.
Goal: TypeAlias = Callable[[Request, Upstream, Outcome], float]


class Load:
    """What providers have to do, and what they remember."""

    def __init__(self) -> None:
        self._calls = dict.fromkeys(BY_NAME, 0)
        self._began: dict[str, list[float]] = {name: [] for name in BY_NAME}
        self._heard: dict[tuple[int, str], float] = {}

    def begin(self, name: str, now: float) -> None:
        """One more call."""
        self._calls[name] += 1
        if BY_NAME[name].per_minute:
            self._began[name].append(now)

    def end(self, request: Request, name: str, outcome: Outcome, now: float) -> None:
        """One call less; whoever answered remembers what was said."""
        self._calls[name] -= 1
        if outcome.answered:
            self._heard[request.conversation, name] = now

    def free(self, name: str) -> bool:
        """Whether there is a slot for one more."""
        return not BY_NAME[name].concurrency or self._calls[name] < BY_NAME[name].concurrency

    def allowed(self, name: str, now: float) -> bool:
        """Whether it was not called too often in the last minute."""
        began = self._began[name]
        while began and began[0] <= now - MINUTE:
            began.pop(0)
        return not BY_NAME[name].per_minute or len(began) < BY_NAME[name].per_minute

    def warm(self, request: Request, name: str, now: float) -> bool:
        """Whether it remembers the conversation."""
        return now - self._heard.get((request.conversation, name), -CACHE_TIME) < CACHE_TIME


class Router(Protocol):
    """Who is asked."""

    def choose(self, request: Request, tried: frozenset[str], load: Load, now: float) -> str | None:
        """Whom to ask next; None gives up."""

    def begin(self, name: str, now: float) -> None:
        """A call begins."""

    def end(self, request: Request, name: str, outcome: Outcome, now: float) -> None:
        """A call ended."""


class Planned:
    """A gateway's line over all providers, or some of them."""

    def __init__(self, policy: str, *, names: tuple[str, ...] = tuple(BY_NAME), sticky: bool | None = None) -> None:
        self._route = Route(
            name=policy,
            policy=policy,
            members=tuple(_target(name) for name in names),
            sticky=not POLICIES[policy].turns if sticky is None else sticky,
        )
        self._dice = Random(12)
        self._health = Health()
        self._speeds = Speeds()
        self._pins: dict[int, str] = {}
        self._turn = 0

    def choose(self, request: Request, tried: frozenset[str], load: Load, now: float) -> str | None:
        pinned = self._pins.get(request.conversation, "")
        needs = Needs(
            size=request.input * BYTES_A_TOKEN,
            losses={f"{name}/m": lost for name, lost in request.losses.items()},
            warm=f"{pinned}/m" if pinned and load.warm(request, pinned, now) else "",
            tried=frozenset(f"{name}/m" for name in tried),
        )
        view = View(
            now=now,
            standing=lambda target: self._health.standing(target.provider.name),
            speed=lambda target, _: self._speeds.of(target.provider.name, now),
            free=lambda target: load.free(target.provider.name),
            cost=_estimated,
            pin=Pin(f"{pinned}/m") if pinned and not tried else None,
            turn=self._turn,
        )
        if not tried:
            self._turn += 1
        made = plan(self._route, needs, view, Dice(self._dice.random(), self._dice.random(), self._dice.random()))
        return made.order[0].provider.name if made.order else None

    def begin(self, name: str, now: float) -> None:
        self._health.begin(name, now)

    def end(self, request: Request, name: str, outcome: Outcome, now: float) -> None:
        self._health.end(name, outcome, now)
        self._speeds.note(name, outcome, request.output, now)
        if outcome.answered:
            self._pins[request.conversation] = name


class Blind:
    """Chance alone: nobody remembers anything."""

    def __init__(self) -> None:
        self._dice = Random(12)

    def choose(self, request: Request, tried: frozenset[str], load: Load, now: float) -> str | None:
        left = [name for name in BY_NAME if name not in tried]
        return self._dice.choice(left) if left else None

    def begin(self, name: str, now: float) -> None:
        """It does not matter."""

    def end(self, request: Request, name: str, outcome: Outcome, now: float) -> None:
        """Nor does this."""


class Oracle(Blind):
    """Knows what will become of each call, and takes the best for each request as it comes."""

    def __init__(self, goal: Goal) -> None:
        super().__init__()
        self._goal = goal

    def choose(self, request: Request, tried: frozenset[str], load: Load, now: float) -> str | None:
        worth = {}
        for name, upstream in BY_NAME.items():
            if load.free(name) and load.allowed(name, now):
                outcome = ask(upstream, request, now, warm=load.warm(request, name, now))
                if outcome.answered:
                    worth[name] = self._goal(request, upstream, outcome)
        return min(worth, key=lambda name: worth[name]) if worth else None


def _target(name: str) -> Target:
    endpoint = Endpoint(protocol="openai-chat", base_url="http://127.0.0.1")
    return Target(provider=Provider(name=name, endpoints=(endpoint,)), endpoint=endpoint, model="m", strict=False)


def _estimated(target: Target, needs: Needs) -> int:
    upstream = BY_NAME[target.provider.name]
    return cost(upstream, needs.tokens, USUAL_OUTPUT, warm=needs.warm == target.id)
