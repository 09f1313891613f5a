"""A provider that fails, with nobody behind it: every client hears so in its own form, and the gateway stays well.

All faults are met at once, each at providers of its own. A test for each fault then reads what became of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.failover.faults import FAULTS, Fault
from tests.failover.house import IMPATIENT, Case, FailingHouse, Met, Told, all_cases, cases, failing
from tests.failover.verdicts import Ended, all_is_well, statuses, verdict_on
from tests.gateway.harness import MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.says import SAID

QUICK = [name for name, fault in FAULTS.items() if not fault.takes_time]
SLOW = [name for name, fault in FAULTS.items() if fault.takes_time]
# So few at once that a slow machine sends all of them long before the first timeout.
GROUPS = (SLOW[::2], SLOW[1::2])
BLACK_HOLES = ("accepts and is silent", "lets nobody in", "drips its headers")
CROWD = 4

# What a process holds is counted there.
pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are found in /proc")


@pytest.fixture(scope="module")
def patient() -> Iterator[FailingHouse]:
    """A gateway with the usual timeouts."""
    with failing({name: FAULTS[name] for name in QUICK}) as house:
        yield house
        house.ends_well()


@pytest.fixture(scope="module")
def impatient() -> Iterator[FailingHouse]:
    """A gateway with short timeouts."""
    with failing({name: FAULTS[name] for name in SLOW}, IMPATIENT) as house:
        yield house
        house.ends_well()


@pytest.fixture(scope="module")
def quick(patient: FailingHouse) -> Mapping[str, Met]:
    """Providers that fail at once, by fault."""
    met = patient.meet({name: cases(name) for name in QUICK})
    all_is_well(patient)
    return met


@pytest.fixture(scope="module")
def slow(impatient: FailingHouse) -> Mapping[str, Met]:
    """Providers that a timeout ends, by fault."""
    met: dict[str, Met] = {}
    for group in GROUPS:
        met |= impatient.meet({name: cases(name) for name in group})
    all_is_well(impatient)
    return met


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_is_told_in_the_clients_own_form(patient: FailingHouse, quick: Mapping[str, Met], name: str) -> None:
    _holds(patient, name, quick[name])


@pytest.mark.parametrize("name", SLOW)
def test_a_provider_that_takes_its_time_is_given_up_and_told_of(
    impatient: FailingHouse, slow: Mapping[str, Met], name: str
) -> None:
    _holds(impatient, name, slow[name])


@pytest.mark.nightly
@pytest.mark.parametrize("name", QUICK)
def test_a_fault_is_told_to_every_client_of_every_provider(patient: FailingHouse, name: str) -> None:
    _holds(patient, name, patient.meet({name: all_cases(name)})[name])


@pytest.mark.nightly
@pytest.mark.parametrize("name", SLOW)
def test_a_provider_that_takes_its_time_is_given_up_for_every_client(impatient: FailingHouse, name: str) -> None:
    _holds(impatient, name, impatient.meet({name: all_cases(name)})[name])


def test_a_crowd_before_black_holes_keeps_nobody_else_waiting(impatient: FailingHouse) -> None:
    silent = [case for name in BLACK_HOLES for case in cases(name)] * CROWD
    told = impatient.ask_all(silent, beside=lambda: all_is_well(impatient))
    assert [verdict_on(impatient, one).status for one in told] == [504] * len(silent)
    impatient.lets_go()


@pytest.mark.parametrize("name", ["flapping", "one in three fails"])
def test_a_provider_of_many_moods_is_taken_as_it_is_each_time(patient: FailingHouse, name: str) -> None:
    case = Case(fault=name, client=RESPONSES, provider=MESSAGES, stream=True)
    before = len(patient.providers[case.bad].received)
    ended = [verdict_on(patient, patient.ask_one(case, "always-the-same")).ended for _ in range(6)]
    rights = [FAULTS[name].right(before + count) for count in range(6)]
    assert ended == [Ended.RIGHT if right else Ended.TOLD for right in rights]


def _holds(house: FailingHouse, name: str, met: Met) -> None:
    """What is true of every fault."""
    fault = FAULTS[name]
    ended = [_judged(house, told, fault) for told in met.told]
    if fault.spoken:
        assert {one for told, one in zip(met.told, ended, strict=True) if told.case.stream} == {Ended.BROKEN}
    # Each provider was asked once for each request, and never again.
    connections, requests = house.reaches(fault, len(met.told) // len(PROTOCOLS))
    assert set(met.connections.values()) == {connections}
    assert {len(numbers) for numbers in met.requests.values()} == {requests}
    assert ended.count(Ended.RIGHT) == sum(fault.right(number) for found in met.requests.values() for number in found)


def _judged(house: FailingHouse, told: Told, fault: Fault) -> Ended:
    verdict = verdict_on(house, told)
    if verdict.ended is Ended.TOLD:
        assert verdict.status in statuses(told, fault), told
    if verdict.ended is Ended.BROKEN:
        # Once, and less than all unless only its end is missing.
        assert SAID.startswith(verdict.text), told
    assert verdict.ended is not Ended.OTHER, told
    return verdict.ended
