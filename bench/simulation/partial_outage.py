"""Partial outage: two targets that fail at random, with the circuit breaker and without one.

Whether a call fails is drawn for each request and target before either is played. So without a breaker a request fails
if both of its draws do, and the comparison has no noise: each request answered without a breaker is answered with one.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct

from bench.simulation.play import Result, play
from bench.simulation.router import InOrder, Planned, by_name
from bench.simulation.world import Upstream, requests

# Shares of calls.
ERROR_RATES = tuple(tenths / 10 for tenths in range(1, 10))


class Compared(Struct, frozen=True, kw_only=True):
    """The same requests with a breaker and without one."""

    guarded: Sequence[Result]
    unguarded: Sequence[Result]

    @property
    def lost(self) -> int:
        """How many requests only the route without a breaker answers."""
        pairs = zip(self.guarded, self.unguarded, strict=True)
        return sum(bool(without.answered_by) and not guarded.answered_by for guarded, without in pairs)


def compared(
    first: float,
    second: float,
    *,
    seed: int = 1,
    minutes: float = 10.0,
    per_second: float = 10.0,
    policy: str = "fallback",
) -> Compared:
    """Two targets with error rates, under a policy, with nothing learnt before."""
    upstreams = (_upstream("first", first), _upstream("second", second))
    came, names = requests(seed, minutes, per_second, upstreams), by_name(upstreams)
    router = Planned(policy, upstreams=names, sticky=False)
    return Compared(guarded=play(router, came, names), unguarded=play(InOrder(), came, names))


def answered(results: Sequence[Result]) -> float:
    """Which part of the requests was answered."""
    return fmean(bool(result.answered_by) for result in results)


def led(results: Sequence[Result], name: str) -> float:
    """Which part of the requests tried a target first."""
    return fmean(result.led_by == name for result in results)


def figures(minutes: float = 10.0) -> str:
    """The table on the page."""
    lines = [
        "| error rate | both fail: no breaker | breaker | calls | one fails: no breaker | breaker | calls | it leads |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for rate in ERROR_RATES:
        cells = []
        for other in (rate, 0.0):
            found = compared(rate, other, minutes=minutes)
            cells += [f"{answered(found.unguarded):.1%}", f"{answered(found.guarded):.1%}"]
            cells.append(f"{fmean(result.attempts for result in found.guarded):.2f}")
        cells.append(f"{led(found.guarded, 'first'):.0%}")
        lines.append(f"| {rate:.0%} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _upstream(name: str, error_rate: float) -> Upstream:
    return Upstream(name=name, first_token=0.3, rate=200.0, input_price=0, output_price=0, error_rate=error_rate)
