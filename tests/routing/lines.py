"""Small lines for tests of routing: targets named by one word, and what is known of them by the same words."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from hypothesis import strategies as st

from dragoman.providers.provider import Endpoint, Provider
from dragoman.routing.candidate import Plan
from dragoman.routing.health_state import HEALTHY, HealthLevel, HealthState
from dragoman.routing.needs import Requirements
from dragoman.routing.plan_inputs import Affinity, PlanInputs, RandomDraws
from dragoman.routing.policies import POLICIES
from dragoman.routing.route import Route
from dragoman.routing.route_summary import RouteSummary
from dragoman.routing.speed import Speed
from dragoman.routing.target import Target
from dragoman.rules.capabilities import CapabilityRow

NOW = 1000.0
# What never gets its way by chance.
DICE = RandomDraws(weight=0.0, explore=0.5, slow_start=0.5)


def target(
    name: str,
    abilities: Mapping[str, bool | int] | None = None,
    *,
    model: str = "m",
    protocol: str = "openai-chat",
) -> Target:
    """A target whose id is `name/m`, of which the given abilities are known."""
    endpoint = Endpoint(protocol=protocol, base_url="http://127.0.0.1")
    rows = (CapabilityRow(protocol=protocol, changes=dict(abilities)),) if abilities else ()
    return Target(
        provider=Provider(name=name, endpoints=(endpoint,), capabilities=rows),
        endpoint=endpoint,
        model=model,
        strict=False,
    )


A, B, C, D = (target(name) for name in "abcd")


class Told(PlanInputs, frozen=True):
    """A view of which a test tells what it likes, each in one function."""

    standings_of: Callable[[RouteSummary], Sequence[HealthState]] = lambda outline: outline.all_healthy
    speeds_of: Callable[[RouteSummary, int], Sequence[Speed | None]] = lambda outline, _: [None] * len(outline.leaves)
    busy_in: Callable[[RouteSummary], Container[str]] = lambda _: ()
    cost_at: Callable[[Target, Requirements], int | None] = lambda _, __: None
    windows_of: Callable[[RouteSummary], Sequence[int | None]] = lambda outline: [None] * len(outline.leaves)

    def health_states(self, summary: RouteSummary) -> Sequence[HealthState]:
        return self.standings_of(summary)

    def speeds(self, summary: RouteSummary, size: int) -> Sequence[Speed | None]:
        return self.speeds_of(summary, size)

    def busy(self, summary: RouteSummary) -> Container[str]:
        return self.busy_in(summary)

    def cost(self, target: Target, requirements: Requirements) -> int | None:
        return self.cost_at(target, requirements)

    def windows(self, summary: RouteSummary) -> Sequence[int | None]:
        return self.windows_of(summary)


def line(
    *members: Target | Route, policy: str = "fallback", name: str = "line", weights: tuple[int, ...] = ()
) -> Route:
    """A line as it is read where it says no more: it is sticky as its policy is."""
    return Route(name=name, members=members, policy=policy, weights=weights, sticky=POLICIES[policy].sticky)


def seen(
    *,
    standings: Mapping[str, HealthState] | None = None,
    speeds: Mapping[str, Speed] | None = None,
    busy: str = "",
    costs: Mapping[str, int] | None = None,
    windows: Mapping[str, int] | None = None,
    pin: str | Affinity = "",
    turn: int = 0,
    now: float = NOW,
) -> PlanInputs:
    """A view of targets by their providers' names."""
    return Told(
        now=now,
        standings_of=lambda outline: [(standings or {}).get(name, HEALTHY) for name in named(outline)],
        speeds_of=lambda outline, _: [(speeds or {}).get(name) for name in named(outline)],
        busy_in=lambda _: busy.split(),
        cost_at=lambda found, _: (costs or {}).get(found.provider.name),
        windows_of=lambda outline: [(windows or {}).get(name) for name in named(outline)],
        affinity=(Affinity(f"{pin}/m") if pin else None) if isinstance(pin, str) else pin,
        turn=turn,
    )


def named(outline: RouteSummary) -> list[str]:
    """The names of the providers of a line, target by target."""
    return [found.provider.name for _, found, _, _ in outline.leaves]


def names(made: Plan) -> str:
    """The order, in one word per target."""
    return " ".join(found.provider.name for found in made.order)


def fast(seconds: float, *, age: float = 0.0, success_rate: float = 1.0) -> Speed:
    return Speed(first_token=seconds, rate=100.0, success_rate=success_rate, age=age, samples=20)


SUSPECT = HealthState(HealthLevel.SUSPECT, NOW + 5)
RESTING = HealthState(HealthLevel.COOLDOWN, NOW + 5)

FIGURES = st.floats(allow_nan=True, allow_infinity=True) | st.just(0.0)
STANDINGS = st.builds(
    HealthState, st.sampled_from(HealthLevel), st.sampled_from([0.0, NOW - 1, NOW, NOW + 1, NOW + 9, float("inf")])
)
SPEEDS = st.builds(
    Speed,
    first_token=FIGURES,
    rate=FIGURES,
    success_rate=FIGURES,
    age=FIGURES,
    samples=st.integers(-1, 10**30),
)
COSTS = st.none() | st.integers(-1, 5) | st.integers(0, 10**400)
WINDOWS = st.none() | st.integers(0, 10**9) | st.just(10**400)
CHANCES = st.floats(0, 1, exclude_max=True)
ALL_DICE = st.builds(RandomDraws, CHANCES, CHANCES, CHANCES)
POLICY_NAMES = st.sampled_from(sorted(POLICIES))


@st.composite
def worlds(draw: st.DrawFn) -> PlanInputs:
    """Anything that may be known of the four targets."""
    known = "abcd"
    turn = draw(st.integers(0, 10**20))
    pin = draw(st.none() | st.builds(Affinity, st.sampled_from([f"{name}/m" for name in "abcdx"])))
    standings = draw(st.fixed_dictionaries({name: st.just(HEALTHY) | STANDINGS for name in known}))
    speeds = draw(st.fixed_dictionaries({name: st.none() | SPEEDS for name in known}))
    costs = draw(st.fixed_dictionaries({name: COSTS for name in known}))
    windows = draw(st.fixed_dictionaries({name: WINDOWS for name in known}))
    busy = draw(st.sets(st.sampled_from(known)))
    return Told(
        now=NOW,
        standings_of=lambda outline: [standings[name] for name in named(outline)],
        speeds_of=lambda outline, _: [speeds[name] for name in named(outline)],
        busy_in=lambda _: busy,
        cost_at=lambda found, _: costs[found.provider.name],
        windows_of=lambda outline: [windows[name] for name in named(outline)],
        affinity=pin,
        turn=turn,
    )


TARGETS = st.sampled_from([A, B, C, D])


@st.composite
def routes(draw: st.DrawFn, depth: int = 2) -> Route:
    """Any route over the four targets, with others nested in it."""
    member = TARGETS if depth == 0 else st.one_of(TARGETS, routes(depth=depth - 1))
    members = tuple(draw(st.lists(member, min_size=1, max_size=4)))
    return Route(
        name=draw(st.sampled_from(["one", "two", "three"])),
        members=members,
        policy=draw(POLICY_NAMES),
        weights=tuple(draw(st.lists(st.integers(-1, 10**400) | st.integers(0, 3), max_size=5))),
        sticky=draw(st.booleans()),
        max_cost=draw(st.none() | st.integers(0, 3)),
    )
