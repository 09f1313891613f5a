"""Plays every policy, and oracles beside them, and tells what came of it.

make simulate                               the figures and the chart on docs/internals/simulation.md
python -m bench.simulation.run --quick      a short look, which writes nothing
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from msgspec import Struct

from bench.simulation import partial_outage
from bench.simulation.chart import Line, Panel, Shade, drawn
from bench.simulation.play import Result, play
from bench.simulation.router import Blind, Oracle, Planned, Router, by_name
from bench.simulation.world import MINUTE, UPSTREAMS, requests
from dragoman.routing.policies import POLICIES
from dragoman.routing.policies.policy import Policy

PAGE = Path(__file__).parents[2] / "docs/internals/simulation.md"
CHART = PAGE.with_suffix(".svg")
MINUTES = 120.0
SEEDS = (1, 2, 3, 4, 5)
# Minutes that are one point of a line.
STEP = 2.0
# A dollar for a thousand requests, in nano-dollars for one.
_DOLLAR = 10**6

ORACLES = {"speed": "oracle of speed", "cost": "oracle of cost", "loss": "oracle of loss"}
CHANCE = "random choice"


class Measure(Struct, frozen=True):
    """One thing that is measured of results."""

    words: str
    of: Callable[[Result], float]
    digits: int


SECONDS = Measure("seconds", lambda result: result.seconds, 2)
DOLLARS = Measure("$ per 1,000", lambda result: result.cost / _DOLLAR, 2)
LOSSES = Measure("losses", lambda result: float(result.losses), 2)
LOST = Measure("seconds lost", lambda result: result.lost, 3)


def goal(policy: Policy) -> tuple[Measure, str]:
    """What a policy is for, by what it asks for, and which oracle is best at it."""
    if policy.losses:
        return LOSSES, "loss"
    if policy.prices:
        return DOLLARS, "cost"
    # One that knows who will answer loses no time at all.
    return (SECONDS if policy.speed else LOST), "speed"


def routers() -> dict[str, Router]:
    """Everybody who plays, each with nothing learnt."""
    return {
        **{policy: Planned(policy) for policy in POLICIES},
        "fastest, not sticky": Planned("fastest", sticky=False),
        "cheapest, not sticky": Planned("cheapest", sticky=False),
        "the first target alone": Planned("fallback", upstreams=by_name(UPSTREAMS[:1])),
        CHANCE: Blind(),
        ORACLES["speed"]: Oracle(lambda request, upstream, outcome: outcome.seconds),
        ORACLES["cost"]: Oracle(lambda request, upstream, outcome: outcome.cost),
        # Where as little is lost, the cheaper one; no price comes to as much as one loss.
        ORACLES["loss"]: Oracle(lambda request, upstream, outcome: request.losses[upstream.name] + outcome.cost / 1e15),
    }


def simulated(seeds: Sequence[int], minutes: float) -> dict[str, list[Result]]:
    """The results of everybody, of all seeds one after the other."""
    found: dict[str, list[Result]] = {}
    for seed in seeds:
        came = requests(seed, minutes)
        for name, router in routers().items():
            found.setdefault(name, []).extend(play(router, came))
    return found


def average(results: Sequence[Result], measure: Measure) -> float:
    """What a thing comes to for one request."""
    return fmean(measure.of(result) for result in results)


def regret(results: Mapping[str, Sequence[Result]], policy: str) -> tuple[float, float]:
    """What a policy came to in what it is for, and what its oracle did."""
    measure, oracle = goal(POLICIES[policy])
    return average(results[policy], measure), average(results[ORACLES[oracle]], measure)


def figures(results: Mapping[str, Sequence[Result]]) -> str:
    """Both tables, as they stand on the page."""
    lines = [
        "| policy | minimises | oracle | policy | regret | random |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for policy in POLICIES:
        measure, _ = goal(POLICIES[policy])
        came, best = regret(results, policy)
        chance = average(results[CHANCE], measure)
        told = " | ".join(f"{value:.{measure.digits}f}" for value in (best, came, came - best, chance))
        lines.append(f"| `{policy}` | {measure.words} | {told} |")
    lines += [
        "",
        "| policy | success rate | mean seconds | 95th percentile | calls | seconds lost | $ per 1,000 | losses |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, played in results.items():
        answered = sum(bool(result.answered_by) for result in played) / len(played)
        slow = sorted(result.seconds for result in played)[int(len(played) * 0.95)]
        calls = fmean(result.attempts for result in played)
        shown = f"`{name}`" if name in POLICIES else name
        told = " | ".join(f"{average(played, measure):.{measure.digits}f}" for measure in (LOST, DOLLARS, LOSSES))
        seconds = average(played, SECONDS)
        lines.append(f"| {shown} | {answered:.2%} | {seconds:.2f} | {slow:.2f} | {calls:.3f} | {told} |")
    return "\n".join(lines)


def chart(results: Mapping[str, Sequence[Result]], minutes: float) -> str:
    """What it was like over time."""

    def lines(measure: Measure, *names: str) -> list[Line]:
        return [Line(name, _over_time(results[name], measure, minutes)) for name in names]

    panels = [
        Panel("Seconds a request", lines(SECONDS, ORACLES["speed"], "fastest", "fallback", CHANCE)),
        Panel("Dollars per 1,000 requests", lines(DOLLARS, ORACLES["cost"], "cheapest", "fallback", CHANCE)),
        Panel("Seconds lost a request", lines(LOST, "fallback", "weighted", "round-robin", CHANCE)),
    ]
    shades = [
        Shade(spell.start, spell.end, f"{upstream.name}: {spell.trouble.value}")
        for upstream in UPSTREAMS
        for spell in upstream.spells
        if spell.start < minutes
    ]
    return drawn(panels, shades, minutes)


def _over_time(results: Sequence[Result], measure: Measure, minutes: float) -> list[float]:
    steps: list[list[float]] = [[] for _ in range(int(minutes / STEP))]
    for result in results:
        steps[min(int(result.request.at / MINUTE / STEP), len(steps) - 1)].append(measure.of(result))
    return [fmean(step) if step else 0.0 for step in steps]


def written(page: str, told: str, mark: str = "figures") -> str:
    """The page with new figures between its marks."""
    return re.sub(
        rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)",
        lambda found: f"{found[1]}\n{told}\n\n{found[2]}",
        page,
        flags=re.DOTALL,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, and tell."""
    parser = argparse.ArgumentParser(prog="simulate", description="Play every policy over virtual time.")
    parser.add_argument("--quick", action="store_true", help="a short look; writes nothing")
    quick = parser.parse_args(arguments).quick
    minutes, seeds = (30.0, SEEDS[:1]) if quick else (MINUTES, SEEDS)
    results = simulated(seeds, minutes)
    told = figures(results)
    print(told)
    if not quick:
        page = written(PAGE.read_text(encoding="utf-8"), told)
        PAGE.write_text(written(page, partial_outage.figures(), "partial outage"), encoding="utf-8")
        CHART.write_text(chart(results, minutes), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
