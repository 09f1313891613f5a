"""CPU time of each program for the same requests, in turns: a noisy moment meets all of them.

All programs, the provider and the load share one core. Every other round goes through the programs in reverse, so that
none of them always follows the most expensive one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, structs

from bench.gateway.cases import BURST, CASES, PACED, WHOLE, Case
from bench.gateway.load import drive
from bench.gateway.process import Served, on_core
from bench.gateway.questions import question
from bench.gateway.rounds import Sample, sample
from bench.gateway.standing import pace

DRAGOMAN, NGINX = "dragoman", "nginx"
# Exchanges of a round by case, and fewer of them where a program has a smaller share.
EXCHANGES = {"S1": 1000, "S2": 1000, "S3 burst": 60, "S3 paced": 8, "S4 burst": 60, "S4 paced": 8, "S6": 200}
# Paced streams are few, so that chunks still arrive alone where a chunk costs a millisecond.
CONCURRENT = {WHOLE: 16, BURST: 8, PACED: 4}
# Seconds after a turn that still count for it, as Dragoman ingests records once a second and others flush theirs later.
SETTLE = 1.5
# Seconds for one turn; every program stays far below on an idle machine.
_TURN = 240.0
MEASURED = tuple(structs.replace(case, exchanges=EXCHANGES[case.label]) for case in CASES if case.label in EXCHANGES)


class About(Struct, frozen=True, kw_only=True):
    """A program for readers: where its server comes from, and what it does besides forwarding."""

    title: str
    version: str
    source: str
    active: str


class Program(Struct, frozen=True, kw_only=True):
    """A program that runs: how requests to it differ, the cases it can do, and its share of the exchanges."""

    name: str
    about: About
    served: Served
    # Seconds from its start until it was ready, and megabytes of its installation if that was measured.
    start: float
    installation: float | None
    cases: frozenset[str]
    base: bytes = b""
    prefix: str = ""
    share: float = 1.0

    def exchanges(self, case: Case, full: int) -> int:
        """How many exchanges it has where others have `full`; one for each client at least."""
        return max(CONCURRENT[case.mode], round(full * self.share))


class Cost(Struct, frozen=True, kw_only=True):
    """CPU time of one unit of a case at one program, in microseconds, and in times of Dragoman's in the same round."""

    case: str
    title: str
    unit: str
    program: str
    cpu: Sample
    ratio: Sample
    exchanges: int


class Measured(Struct, frozen=True, kw_only=True):
    """What the rounds gave; `paces` are times of the yardstick, `exchanges` verified ones by program."""

    costs: list[Cost]
    pace: Sample
    exchanges: dict[str, int]


class Rounds:
    """The programs in turns, on one core."""

    def __init__(self, programs: Sequence[Program], core: int, say: Callable[[str], None]) -> None:
        self._programs = programs
        self._core = core
        self._say = say
        self._exchanges = dict.fromkeys((program.name for program in programs), 0)

    async def run(self, cases: Sequence[Case], rounds: int, share: float) -> Measured:
        """Warm up, then measure each case at each program that can do it, `rounds` times."""
        turns = [(case, one) for case in cases for one in self._programs if case.label in one.cases]
        for case, one in turns:
            await self._ask(case, one, one.exchanges(case, round(case.exchanges * share / 4)))
        taken: dict[tuple[str, str], list[float]] = {(case.label, one.name): [] for case, one in turns}
        paces: list[float] = []
        for number in range(rounds):
            with on_core(self._core):
                paces.append(pace())
            for case, one in turns if number % 2 == 0 else turns[::-1]:
                cost = await self._cost(case, one, share)
                taken[case.label, one.name].append(cost)
                self._say(f"round {number + 1}: {case.label}, {one.name}: {cost:.1f} µs per {case.unit}")
        return Measured(
            costs=[
                Cost(
                    case=case.label,
                    title=case.title,
                    unit=case.unit,
                    program=one.name,
                    cpu=sample(taken[case.label, one.name]),
                    ratio=ratio(taken, case.label, one.name),
                    exchanges=one.exchanges(case, round(case.exchanges * share)),
                )
                for case, one in turns
            ],
            pace=sample(paces),
            exchanges=dict(self._exchanges),
        )

    async def _cost(self, case: Case, one: Program, share: float) -> float:
        exchanges = one.exchanges(case, round(case.exchanges * share))
        before = one.served.cpu()
        await self._ask(case, one, exchanges)
        await asyncio.sleep(SETTLE)
        return (one.served.cpu() - before) * 1e6 / (exchanges * case.units)

    async def _ask(self, case: Case, one: Program, exchanges: int) -> None:
        asked = question(case, one.served.port, one.base, one.prefix)
        with on_core(self._core):
            outcome = await drive(
                asked, one.served.port, answers=exchanges, concurrent=CONCURRENT[case.mode], limit=_TURN
            )
        self._exchanges[one.name] += outcome.answers


def ratio(taken: Mapping[tuple[str, str], Sequence[float]], case: str, program: str) -> Sample:
    """A program's cost in times of Dragoman's, round by round: both met about the same noise."""
    pairs = zip(taken[case, program], taken[case, DRAGOMAN], strict=True)
    return sample([cost / beside for cost, beside in pairs])
