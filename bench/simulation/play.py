"""Play: one router over all requests, event by event."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from msgspec import Struct

from bench.simulation.router import BY_NAME, Load, Router, Upstreams
from bench.simulation.world import Outcome, Request, ask

# Calls for one request.
ATTEMPTS = 4
# How soon a call beyond a limit is refused, in seconds.
REFUSAL = 0.05


class Result(Struct, frozen=True):
    """What a request came to."""

    request: Request
    # Which target was asked first, and which one answered; empty if none did.
    led_by: str
    answered_by: str
    attempts: int
    # From its beginning to its end, and what of that was lost on calls that failed.
    seconds: float
    lost: float
    cost: int

    @property
    def losses(self) -> int:
        """What its translation lost."""
        return self.request.losses[self.answered_by] if self.answered_by else 0


def play(router: Router, requests: tuple[Request, ...], upstreams: Upstreams = BY_NAME) -> list[Result]:
    """Serve all requests; the results are in their order."""
    load = Load(upstreams)
    numbers = count()
    # When, a number that keeps them apart, who asks, whom it asked before, and what has just become of that.
    events: list[tuple[float, int, Request, tuple[str, ...], Outcome | None]] = []
    for request in requests:
        heappush(events, (request.at, next(numbers), request, (), None))
    results: dict[int, Result] = {}
    while events:
        now, _, request, asked, outcome = heappop(events)
        if outcome is not None:
            load.end(request, asked[-1], outcome, now)
            router.end(request, asked[-1], outcome, now)
            if outcome.answered:
                lost = now - request.at - outcome.seconds
                results[id(request)] = Result(
                    request, asked[0], asked[-1], len(asked), now - request.at, max(lost, 0.0), outcome.cost
                )
                continue
        name = router.choose(request, frozenset(asked), load, now) if len(asked) < ATTEMPTS else None
        if name is None:
            led_by = asked[0] if asked else ""
            results[id(request)] = Result(request, led_by, "", len(asked), now - request.at, now - request.at, 0)
            continue
        found = _called(name, request, load, now)
        load.begin(name, now)
        heappush(events, (now + found.seconds, next(numbers), request, (*asked, name), found))
    return [results[id(request)] for request in requests]


def _called(name: str, request: Request, load: Load, now: float) -> Outcome:
    if not load.free(name) or not load.allowed(name, now):
        return Outcome(False, REFUSAL, limited=True)
    return ask(load.upstreams[name], request, now, warm=load.warm(request, name, now))
