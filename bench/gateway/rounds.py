"""The rounds: everybody is measured in turn, again and again, so that a noisy moment is borne by all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import median, quantiles

from msgspec import Struct
from msgspec.structs import replace

from bench.gateway.cases import PACED, Case
from bench.gateway.load import Outcome, drive
from bench.gateway.process import Cores, Served, on_core
from bench.gateway.questions import question
from bench.gateway.standing import pace

# Seconds after the last answer, for what is still written down behind it.
SETTLE = 0.05
# Provider and load on a core of their own, or on the measured one: see docs/internals/benchmarks.md, "Two layouts".
APART, TOGETHER = "apart", "together"
LAYOUTS = (APART, TOGETHER)
# Clients that ask at the same time when it is about latency, and exchanges in a round for each.
CROWDS = {1: 300, 32: 1600}


class Effort(Struct, frozen=True, kw_only=True):
    """How long to look: rounds, and the share of a case's exchanges that a round has."""

    rounds: int
    share: float
    starts: int

    def exchanges(self, full: int, concurrent: int) -> int:
        """How many exchanges of `full`, but one for each client at least."""
        return max(concurrent, round(full * self.share))


FULL = Effort(rounds=5, share=1.0, starts=7)
QUICK = Effort(rounds=1, share=0.05, starts=1)


class Sample(Struct, frozen=True, kw_only=True):
    """What the rounds gave: the median, the least and the most."""

    median: float
    least: float
    most: float


class Cost(Struct, frozen=True, kw_only=True):
    """Microseconds of processor time for one unit of a case; `nginx` is None where it is missing or has no part."""

    layout: str
    case: Case
    gateway: Sample
    nginx: Sample | None


class Quantiles(Struct, frozen=True, kw_only=True):
    """Microseconds from question to answer: the median and what 95 of 100 stay within."""

    median: float
    p95: float


class Delay(Struct, frozen=True, kw_only=True):
    """How long answers of a case take with that many clients, by whom is asked: direct, nginx, gateway."""

    layout: str
    case: Case
    concurrent: int
    taken: dict[str, Quantiles]


class Asked(Struct, frozen=True, kw_only=True):
    """Who is asked what, and where everybody is meanwhile."""

    layout: str
    case: Case
    name: str


class Bench:
    """The servers that are asked, in one layout after the other."""

    def __init__(
        self, servers: Mapping[str, Served], cores: Cores, layouts: Sequence[str], say: Callable[[str], None]
    ) -> None:
        self._servers = servers
        self._cores = cores
        self._layouts = layouts
        self._say = say
        self.paces: list[float] = []
        # Answers that the gateway gave, to compare with its log.
        self.exchanges = 0
        # Reads that brought paced chunks, and how many chunks those were.
        self.paced_reads = 0
        self.paced_chunks = 0

    async def costs(self, cases: Sequence[Case], effort: Effort) -> list[Cost]:
        """What each case costs, at the gateway and where nginx can do it too."""
        asked = [
            Asked(layout=layout, case=case, name=name)
            for layout in self._layouts
            for case in cases
            for name in self._names(case)
        ]
        taken: dict[Asked, list[float]] = {one: [] for one in asked}
        for one in asked:
            await self._ask(one, effort.exchanges(one.case.exchanges // 4, one.case.concurrent))
        for number in range(effort.rounds):
            with on_core(self._cores.measured):
                self.paces.append(pace())
            for one in asked:
                cost = await self._cost(one, effort)
                taken[one].append(cost)
                shown = f"{one.case.label} {one.layout}, {one.name}: {cost:.1f} µs a {one.case.unit}"
                self._say(f"round {number + 1}: {shown}")
        return [
            Cost(layout=one.layout, case=one.case, gateway=sample(costs), nginx=_beside(taken, one))
            for one, costs in taken.items()
            if one.name == "gateway"
        ]

    async def delays(self, cases: Sequence[Case], effort: Effort) -> list[Delay]:
        """How long the answers of these cases take, with one client and with many."""
        found: list[Delay] = []
        for layout, case, concurrent in product(self._layouts, cases, CROWDS):
            answers = effort.exchanges(CROWDS[concurrent], concurrent)
            taken: dict[str, list[float]] = {name: [] for name in ("direct", *reversed(self._names(case)))}
            for _, name in product(range(effort.rounds), taken):
                outcome = await self._ask(Asked(layout=layout, case=case, name=name), answers, concurrent)
                taken[name] += outcome.latencies
            spread = {name: _quantiles(seconds) for name, seconds in taken.items()}
            found.append(Delay(layout=layout, case=case, concurrent=concurrent, taken=spread))
            self._say(f"latency: {case.label} {layout}, {concurrent} concurrent")
        return found

    def _names(self, case: Case) -> list[str]:
        return ["gateway", "nginx"] if case.floor is not None and "nginx" in self._servers else ["gateway"]

    async def _cost(self, asked: Asked, effort: Effort) -> float:
        served, case = self._servers[asked.name], asked.case
        answers = effort.exchanges(case.exchanges, case.concurrent)
        before = served.cpu()
        outcome = await self._ask(asked, answers)
        await asyncio.sleep(SETTLE)
        if case.mode == PACED:
            self.paced_reads += outcome.reads
            self.paced_chunks += answers * case.units
        return (served.cpu() - before) * 1e6 / (answers * case.units)

    async def _ask(self, asked: Asked, answers: int, concurrent: int | None = None) -> Outcome:
        core = self._cores.apart if asked.layout == APART else self._cores.measured
        self._servers["direct"].move(core)
        port = self._servers[asked.name].port
        crowd = asked.case.concurrent if concurrent is None else concurrent
        with on_core(core):
            outcome = await drive(question(asked.case, port), port, answers=answers, concurrent=crowd)
        if asked.name == "gateway":
            self.exchanges += outcome.answers
        return outcome


def _beside(taken: Mapping[Asked, list[float]], asked: Asked) -> Sample | None:
    costs = taken.get(replace(asked, name="nginx"))
    return None if costs is None else sample(costs)


def sample(values: Sequence[float]) -> Sample:
    """What these values give."""
    return Sample(median=median(values), least=min(values), most=max(values))


def _quantiles(seconds: Sequence[float]) -> Quantiles:
    return Quantiles(median=median(seconds) * 1e6, p95=quantiles(seconds, n=20, method="inclusive")[-1] * 1e6)
