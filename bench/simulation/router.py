"""Router: who is asked next, by a gateway's own plans, health and prices, or by an oracle that knows what will come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol, TypeAlias

from msgspec import Struct

from bench.simulation.world import (
    BYTES_A_TOKEN,
    CACHE_PRICE,
    CACHE_TIME,
    FIRST_BYTE,
    LIMITED,
    MARGIN,
    MINUTE,
    UPSTREAMS,
    Outcome,
    Request,
    Upstream,
    ask,
)
from dragoman.gateway.admission import Admission
from dragoman.gateway.model_list_cache import ModelListCache
from dragoman.gateway.routing_state import RoutingState
from dragoman.gateway.target_info import TargetInfo
from dragoman.model.response import Usage
from dragoman.prices.book import Override, PriceBook
from dragoman.prices.table import Rates
from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.attempt_outcome import AttemptOutcome
from dragoman.routing.health import Health
from dragoman.routing.health_entry import Permit
from dragoman.routing.needs import LossCounts, Requirements
from dragoman.routing.plan_inputs import EXPLORATION_RATE, Affinity
from dragoman.routing.policies import POLICIES
from dragoman.routing.rotation import Rotation
from dragoman.routing.route import Route
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.target import Target

Upstreams: TypeAlias = Mapping[str, Upstream]


def by_name(upstreams: tuple[Upstream, ...]) -> Upstreams:
    """Providers by their names."""
    return {upstream.name: upstream for upstream in upstreams}


BY_NAME = by_name(UPSTREAMS)
MODEL = "m"
KEY = "key"
# Prices are nano-dollars a token, and pico-dollars in a book.
_PICO = 1000
# How much of a thing an outcome is: seconds, nano-dollars or losses.
Goal: TypeAlias = Callable[[Request, Upstream, Outcome], float]


def _book(upstreams: Upstreams) -> PriceBook:
    return PriceBook(
        overrides={
            f"{upstream.name}/{MODEL}": Override(
                rates=Rates(
                    input=upstream.input_price * _PICO,
                    output=upstream.output_price * _PICO,
                    cache_read=int(upstream.input_price * _PICO * CACHE_PRICE),
                )
            )
            for upstream in upstreams.values()
        }
    )


class Load:
    """What providers have to do, and what they remember."""

    def __init__(self, upstreams: Upstreams = BY_NAME) -> None:
        self.upstreams = upstreams
        self._calls = dict.fromkeys(upstreams, 0)
        self._began: dict[str, list[float]] = {name: [] for name in upstreams}
        self._heard: dict[tuple[int, str], float] = {}

    def begin(self, name: str, now: float) -> None:
        """One more call."""
        self._calls[name] += 1
        if self.upstreams[name].per_minute:
            self._began[name].append(now)

    def end(self, request: Request, name: str, outcome: Outcome, now: float) -> None:
        """One call less; whoever answered remembers what was said."""
        self._calls[name] -= 1
        if outcome.answered:
            self._heard[request.conversation, name] = now

    def free(self, name: str) -> bool:
        """Whether there is a slot for one more."""
        return not self.upstreams[name].concurrency or self._calls[name] < self.upstreams[name].concurrency

    def allowed(self, name: str, now: float) -> bool:
        """Whether it was not called too often in the last minute."""
        began = self._began[name]
        while began and began[0] <= now - MINUTE:
            began.pop(0)
        return not self.upstreams[name].per_minute or len(began) < self.upstreams[name].per_minute

    def warm(self, request: Request, name: str, now: float) -> bool:
        """Whether it remembers the conversation."""
        return now - self._heard.get((request.conversation, name), -CACHE_TIME) < CACHE_TIME


class Router(Protocol):
    """Who is asked."""

    def choose(self, request: Request, tried: frozenset[str], load: Load, now: float) -> str | None:
        """Whom to ask next; None gives up."""

    def end(self, request: Request, name: str, outcome: Outcome, now: float) -> None:
        """A call ended."""


class _Known(TargetInfo):
    """What a gateway knows of the providers: prices, keys that rest, and who has a slot left."""

    def __init__(self, clock: Callable[[], float], upstreams: Upstreams, health: Health) -> None:
        self.rotations = {name: Rotation(name, (KEY,), health, clock) for name in upstreams}
        # The load as it is when somebody asks.
        self.load = Load(upstreams)
        super().__init__(_book(upstreams), ModelListCache({}), self.rotations, Admission(clock), clock)

    def busy(self, outline: RouteSummary) -> list[str]:
        return [name for name in outline.providers if not self.load.free(name)]


class _Open(Struct):
    """A request that is not answered yet: whom it may still be put to, and for whom it was a failure."""

    order: list[Target]
    charged: set[str]
    began: float = 0.0
    # The right to try a target that rested.
    permit: Permit | None = None


class Planned:
    """A gateway's line over all providers, or some of them, with what a gateway learns from its traffic."""

    def __init__(self, policy: str, *, upstreams: Upstreams = BY_NAME, sticky: bool | None = None) -> None:
        self._targets = {name: _target(name) for name in upstreams}
        self._route = Route(
            name=policy,
            policy=policy,
            members=tuple(self._targets.values()),
            sticky=not POLICIES[policy].turns if sticky is None else sticky,
        )
        self._now = 0.0
        self.traffic = RoutingState(self._clock, Random(12).random)
        self._known = _Known(self._clock, upstreams, self.traffic.health)
        self._open: dict[int, _Open] = {}

    def _clock(self) -> float:
        return self._now

    def choose(self, request: Request, tried: frozenset[str], load: Load, now: float) -> str | None:
        self._now, self._known.load = now, load
        if not tried:
            self._open[id(request)] = _Open(self._order(request), set())
        found = self._open[id(request)]
        while found.order:
            target = found.order.pop(0)
            # Where there is no choice, nobody is spared.
            found.permit = None
            if self._route.only is not None or self._may_ask(found, target, again=bool(tried)):
                found.began = now
                return target.provider.name
        del self._open[id(request)]
        return None

    def _order(self, request: Request) -> list[Target]:
        if self._route.only is not None:
            return [self._route.only]
        needs = Requirements(
            size=request.input * BYTES_A_TOKEN,
            losses={f"{name}/{MODEL}": LossCounts(lost, lost) for name, lost in request.losses.items()},
        )
        conversation = str(request.conversation) if self._route.summary.follows else ""
        made = self.traffic.plan(self._route, needs, self._known, conversation, self.traffic.draw(EXPLORATION_RATE))
        return [*made.order]

    def _may_ask(self, found: _Open, target: Target, *, again: bool) -> bool:
        """As an exchange decides it: no outage is multiplied, and of one that rests one request finds out."""
        traffic = self.traffic
        if traffic.is_healthy(target):
            return True
        if again and not traffic.may_try_next(target):
            return False
        found.permit = traffic.permits(target, FIRST_BYTE + MARGIN)
        return found.permit is not None or traffic.is_last_resort(target)

    def end(self, request: Request, name: str, outcome: Outcome, now: float) -> None:
        self._now = now
        found, target = self._open[id(request)], self._targets[name]
        self.traffic.record_outcome(
            target,
            _kind(outcome),
            began=found.began,
            first=found.began + outcome.first_token if outcome.answered else 0.0,
            usage=Usage(input=request.input, output=request.output) if outcome.answered else None,
            size=request.input * BYTES_A_TOKEN,
            charged=found.charged,
            slowed=False,
            permit=found.permit,
        )
        if outcome.limited:
            self._known.rotations[name].cool(KEY, LIMITED, MODEL)
        if outcome.answered:
            del self._open[id(request)]
            if self._route.summary.follows:
                self.traffic.set_affinity("", str(request.conversation), Affinity(target.id))


def _kind(outcome: Outcome) -> AttemptOutcome:
    if outcome.answered:
        return AttemptOutcome.ANSWERED
    if outcome.limited:
        return AttemptOutcome.RATE_LIMITED
    return AttemptOutcome.FIRST_BYTE_TIMEOUT if outcome.seconds >= FIRST_BYTE else AttemptOutcome.CONNECTION_LOST


class Blind:
    """Chance alone: nobody remembers anything."""

    def __init__(self) -> None:
        self._dice = Random(12)

    def choose(self, request: Request, tried: frozenset[str], load: Load, now: float) -> str | None:
        left = [name for name in BY_NAME if name not in tried]
        return self._dice.choice(left) if left else None

    def end(self, request: Request, name: str, outcome: Outcome, now: float) -> None:
        """It does not matter."""


class InOrder(Blind):
    """No circuit breaker: each request tries every target once, in the order in which they are written."""

    def choose(self, request: Request, tried: frozenset[str], load: Load, now: float) -> str | None:
        return next((name for name in load.upstreams if name not in tried), None)


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
    return Target(
        provider=Provider(name=name, endpoints=(endpoint,), keys=(KEY,)), endpoint=endpoint, model=MODEL, strict=False
    )
