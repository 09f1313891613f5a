"""A provider that fails, with a healthy one of another dialect behind it: clients notice nothing, or the truth.

What is tried elsewhere and what is told is the table of decision 25.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dragoman.routing.outcomes import Kind
from tests.failover.faults import FAULTS, Fault
from tests.failover.house import IMPATIENT, Case, FailingHouse, Told, cases, failing, name_of
from tests.failover.verdicts import Ended, all_is_well, statuses, verdict_on
from tests.gateway.harness import MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.says import SAID

QUICK = {name: fault for name, fault in FAULTS.items() if not fault.takes_time}
SLOW = {name: fault for name, fault in FAULTS.items() if fault.takes_time}
# What depends on the request and not on who is asked.
TOLD = frozenset({Kind.TOO_LONG, Kind.REFUSED, Kind.WRONG_REQUEST})
CROWD = 8

# What a process holds is counted there.
pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are found in /proc")


def _lines(faults: Mapping[str, Fault]) -> str:
    """For each provider a line that leads to it and then to a healthy one; models are told apart by the rest."""
    pairs = {(case.bad, case.good) for name in faults for case in cases(name, second=True)}
    return "".join(f'"{bad}--{good}/*" = ["{bad}/*", "{good}/served"]\n' for bad, good in sorted(pairs))


@pytest.fixture(scope="module")
def patient() -> Iterator[FailingHouse]:
    """A gateway that waits as long as it does if it is told nothing else."""
    with failing(QUICK, lines=_lines(QUICK)) as house:
        yield house
        house.ends_well()


@pytest.fixture(scope="module")
def impatient() -> Iterator[FailingHouse]:
    """A gateway that waits for nobody for long."""
    with failing(SLOW, IMPATIENT, _lines(SLOW)) as house:
        yield house
        house.ends_well()


@pytest.mark.parametrize("name", QUICK)
def test_pitfall_303_the_next_target_answers_whatever_the_dialect(patient: FailingHouse, name: str) -> None:
    _holds(patient, name)


@pytest.mark.parametrize("name", SLOW)
def test_pitfall_306_the_next_target_answers_for_one_that_takes_its_time(impatient: FailingHouse, name: str) -> None:
    _holds(impatient, name)


@pytest.mark.parametrize("name", ["accepts and is silent", "lets nobody in"])
def test_a_crowd_before_a_black_hole_is_answered_by_the_next_target(impatient: FailingHouse, name: str) -> None:
    asked = cases(name, second=True) * CROWD
    told = impatient.ask_all(asked, beside=lambda: all_is_well(impatient))
    assert {verdict_on(impatient, one).ended for one in told} == {Ended.OTHER}
    assert impatient.lets_go()


@pytest.mark.parametrize("name", ["flapping", "one in three fails", "a slow start"])
def test_a_provider_of_many_moods_costs_no_answer(patient: FailingHouse, name: str) -> None:
    # One name and one model, one conversation after the other.
    case = Case(fault=name, client=RESPONSES, provider=MESSAGES, stream=True, second=True)
    provider = patient.providers[case.bad]
    before = len(provider.received)
    told = [patient.ask_one(case, "always-the-same") for _ in range(20)]
    assert {verdict_on(patient, one).ended for one in told} <= {Ended.RIGHT, Ended.OTHER}
    assert len(provider.received) - before <= len(told)
    assert patient.lets_go()


def _holds(house: FailingHouse, name: str) -> None:
    """What is true of every fault."""
    fault = FAULTS[name]
    asked = cases(name, second=True)
    bad = [house.providers[name_of(name, dialect)] for dialect in PROTOCOLS]
    good = [house.providers[f"good-{short}"] for short in ("messages", "chat", "responses")]
    before = [len(provider.received) for provider in good]
    tried = [provider.connections for provider in bad]
    told = house.ask_all(asked)
    ended = [_judged(house, one, fault) for one in told]
    assert Ended.BROKEN in ended or not fault.spoken
    # Nobody was asked twice for one request, and the healthy one never in vain. A provider whose key rests since then
    # may have been passed over.
    most, _ = house.reaches(fault, len(asked) // len(PROTOCOLS))
    for provider, count in zip(bad, tried, strict=True):
        assert min(1, most) <= provider.connections - count <= most
    answers = sum(len(provider.received) for provider in good) - sum(before)
    assert answers == ended.count(Ended.OTHER)
    all_is_well(house)
    assert house.lets_go()


def _judged(house: FailingHouse, told: Told, fault: Fault) -> Ended:
    verdict = verdict_on(house, told)
    assert verdict.ended in _expected(told.case, fault), told
    if verdict.ended is Ended.TOLD:
        assert verdict.status in statuses(told, fault), told
    if verdict.ended is Ended.BROKEN:
        # Nothing is said twice, and nothing of another's follows it.
        assert verdict.text and SAID.startswith(verdict.text), told
    if verdict.ended is Ended.OTHER:
        route = told.answer.header("x-dragoman-route") or ""
        assert route.startswith(f"{told.case.good}/served;"), told
    return verdict.ended


def _expected(case: Case, fault: Fault) -> set[Ended]:
    """How a request may end for its client."""
    if fault.kind is Kind.ANSWERED:
        return {Ended.RIGHT}
    if fault.right(0) or fault.right(1):
        return {Ended.RIGHT, Ended.OTHER}
    if fault.kind in TOLD:
        return {Ended.TOLD}
    # Words that came together with their break were never said.
    return {Ended.BROKEN, Ended.OTHER} if fault.spoken and case.stream else {Ended.OTHER}
