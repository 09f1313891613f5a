"""A provider that fails, with a healthy one of another protocol behind it: clients notice nothing, or the truth.

What is tried elsewhere and what is told is the table of decision 25. All faults are met at once, each at providers of
its own. A test for each fault then reads what became of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from dragoman.routing.attempt_outcome import AttemptOutcome
from tests.failover.faults import FAULTS, Fault
from tests.failover.house import IMPATIENT, Case, FailingHouse, Met, Told, all_cases, cases, failing
from tests.failover.verdicts import Ended, all_is_well, statuses, verdict_on
from tests.gateway.harness import MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.says import SAID

QUICK = [name for name, fault in FAULTS.items() if not fault.takes_time]
SLOW = [name for name, fault in FAULTS.items() if fault.takes_time]
# So few at once that a slow machine sends all of them long before the first timeout.
GROUPS = (SLOW[::2], SLOW[1::2])
BLACK_HOLES = ("accepts and is silent", "lets nobody in")
# What depends on the request and not on who is asked.
TOLD = frozenset(
    {AttemptOutcome.CONTEXT_LENGTH_EXCEEDED, AttemptOutcome.CONTENT_REFUSED, AttemptOutcome.INVALID_REQUEST}
)
CROWD = 4
TURNS = 8

# What a process holds is counted there.
pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are found in /proc")


def _lines(faults: Iterable[str]) -> str:
    """For each provider a line that leads to it and then to a healthy one; models are told apart by the rest."""
    found = {case.asked: case for name in faults for case in cases(name, second=True)}
    return "".join(f'"{name}/*" = ["{case.bad}/*", "well-{case.other}"]\n' for name, case in sorted(found.items()))


@pytest.fixture(scope="module")
def patient() -> Iterator[FailingHouse]:
    """A gateway with the usual timeouts."""
    with failing({name: FAULTS[name] for name in QUICK}, lines=_lines(QUICK)) as house:
        yield house
        house.ends_well()


@pytest.fixture(scope="module")
def impatient() -> Iterator[FailingHouse]:
    """A gateway with short timeouts."""
    with failing({name: FAULTS[name] for name in SLOW}, IMPATIENT, _lines(SLOW)) as house:
        yield house
        house.ends_well()


def _met(house: FailingHouse, asked: Mapping[str, list[Case]]) -> dict[str, Met]:
    """Meet some faults at once; the healthy providers are called for nothing but the answers that they give."""
    good = [provider for name, provider in house.providers.items() if name.startswith("good-")]
    before = sum(len(provider.received) for provider in good)
    met = house.meet(asked)
    answered = [told for found in met.values() for told in found.told if _route(told).startswith("good-")]
    assert sum(len(provider.received) for provider in good) - before == len(answered)
    return met


def _route(told: Told) -> str:
    return told.answer.header("x-dragoman-route") or ""


@pytest.fixture(scope="module")
def quick(patient: FailingHouse) -> Mapping[str, Met]:
    """Providers that fail at once, by fault."""
    met = _met(patient, {name: cases(name, second=True) for name in QUICK})
    all_is_well(patient)
    return met


@pytest.fixture(scope="module")
def slow(impatient: FailingHouse) -> Mapping[str, Met]:
    """Providers that a timeout ends, by fault."""
    met: dict[str, Met] = {}
    for group in GROUPS:
        met |= _met(impatient, {name: cases(name, second=True) for name in group})
    all_is_well(impatient)
    return met


@pytest.mark.parametrize("name", QUICK)
def test_pitfall_303_the_next_target_answers_whatever_the_protocol(
    patient: FailingHouse, quick: Mapping[str, Met], name: str
) -> None:
    _holds(patient, name, quick[name])


@pytest.mark.parametrize("name", SLOW)
def test_pitfall_306_the_next_target_answers_for_one_that_takes_its_time(
    impatient: FailingHouse, slow: Mapping[str, Met], name: str
) -> None:
    _holds(impatient, name, slow[name])


@pytest.mark.nightly
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.usefixtures("quick")
def test_pitfall_303_the_next_target_answers_every_client(patient: FailingHouse, name: str) -> None:
    _holds(patient, name, _met(patient, {name: all_cases(name, second=True)})[name], least=0)


@pytest.mark.nightly
@pytest.mark.parametrize("name", SLOW)
@pytest.mark.usefixtures("slow")
def test_pitfall_306_the_next_target_answers_every_client_for_one_that_takes_its_time(
    impatient: FailingHouse, name: str
) -> None:
    _holds(impatient, name, _met(impatient, {name: all_cases(name, second=True)})[name], least=0)


def test_a_crowd_before_black_holes_is_answered_by_the_next_target(impatient: FailingHouse) -> None:
    asked = [case for name in BLACK_HOLES for case in cases(name, second=True)] * CROWD
    told = impatient.ask_all(asked, beside=lambda: all_is_well(impatient))
    assert {verdict_on(impatient, one).ended for one in told} == {Ended.OTHER}
    impatient.lets_go()


@pytest.mark.parametrize("name", ["flapping", "one in three fails", "a slow start"])
def test_a_provider_of_many_moods_costs_no_answer(patient: FailingHouse, name: str) -> None:
    # One name and one model, one conversation after the other.
    case = Case(fault=name, client=RESPONSES, provider=MESSAGES, stream=True, second=True)
    provider = patient.providers[case.bad]
    before = len(provider.received)
    told = [patient.ask_one(case, "always-the-same") for _ in range(TURNS)]
    assert {verdict_on(patient, one).ended for one in told} <= {Ended.RIGHT, Ended.OTHER}
    assert len(provider.received) - before <= len(told)
    patient.lets_go()


def _holds(house: FailingHouse, name: str, met: Met, least: int = 1) -> None:
    """What is true of every fault, if each provider is called at least so often.

    A provider whose key rests, since a request before, is passed over.
    """
    fault = FAULTS[name]
    ended = [_judged(house, one, fault) for one in met.told]
    assert Ended.BROKEN in ended or not fault.spoken
    # No provider was called twice for one request.
    most, _ = house.reaches(fault, len(met.told) // len(PROTOCOLS))
    for connections in met.connections.values():
        assert min(least, most) <= connections <= most


def _judged(house: FailingHouse, told: Told, fault: Fault) -> Ended:
    verdict = verdict_on(house, told)
    assert verdict.ended in _expected(told.case, fault), told
    if verdict.ended is Ended.TOLD:
        assert verdict.status in statuses(told, fault), told
    if verdict.ended is Ended.BROKEN:
        # Nothing is said twice, and nothing of another's follows it.
        assert verdict.text and SAID.startswith(verdict.text), told
    if verdict.ended is Ended.OTHER:
        assert _route(told).startswith(f"{told.case.good}/served;"), told
    return verdict.ended


def _expected(case: Case, fault: Fault) -> set[Ended]:
    """How a request may end for its client."""
    if fault.kind is AttemptOutcome.ANSWERED:
        return {Ended.RIGHT}
    if fault.right(0) or fault.right(1):
        return {Ended.RIGHT, Ended.OTHER}
    if fault.kind in TOLD:
        return {Ended.TOLD}
    return {Ended.BROKEN if fault.spoken and case.stream else Ended.OTHER}
