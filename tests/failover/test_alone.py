"""A provider that fails, with nobody behind it: every client hears so in its own form, and the gateway stays well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.failover.faults import FAULTS, Fault
from tests.failover.house import IMPATIENT, Case, FailingHouse, Told, cases, failing, name_of
from tests.failover.verdicts import Ended, all_is_well, statuses, verdict_on
from tests.gateway.harness import MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.says import SAID

QUICK = {name: fault for name, fault in FAULTS.items() if not fault.takes_time}
SLOW = {name: fault for name, fault in FAULTS.items() if fault.takes_time}
CROWD = 8

# What a process holds is counted there.
pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are found in /proc")


@pytest.fixture(scope="module")
def patient() -> Iterator[FailingHouse]:
    """A gateway that waits as long as it does if it is told nothing else."""
    with failing(QUICK) as house:
        yield house
        house.ends_well()


@pytest.fixture(scope="module")
def impatient() -> Iterator[FailingHouse]:
    """A gateway that waits for nobody for long."""
    with failing(SLOW, IMPATIENT) as house:
        yield house
        house.ends_well()


@pytest.mark.parametrize("name", QUICK)
def test_a_fault_is_told_in_the_clients_own_form(patient: FailingHouse, name: str) -> None:
    _holds(patient, name)


@pytest.mark.parametrize("name", SLOW)
def test_a_provider_that_takes_its_time_is_given_up_and_told_of(impatient: FailingHouse, name: str) -> None:
    _holds(impatient, name)


@pytest.mark.parametrize("name", ["accepts and is silent", "lets nobody in", "drips its headers"])
def test_a_crowd_before_a_black_hole_keeps_nobody_else_waiting(impatient: FailingHouse, name: str) -> None:
    silent = cases(name)
    told = impatient.ask_all(silent * CROWD, beside=lambda: all_is_well(impatient))
    assert [verdict_on(impatient, one).status for one in told] == [504] * len(silent) * CROWD
    assert impatient.lets_go()


@pytest.mark.parametrize("name", ["flapping", "one in three fails"])
def test_a_provider_of_many_moods_is_taken_as_it_is_each_time(patient: FailingHouse, name: str) -> None:
    case = Case(fault=name, client=RESPONSES, provider=MESSAGES, stream=True)
    before = len(patient.providers[case.bad].received)
    ended = [verdict_on(patient, patient.ask_one(case, "always-the-same")).ended for _ in range(6)]
    rights = [FAULTS[name].right(before + count) for count in range(6)]
    assert ended == [Ended.RIGHT if right else Ended.TOLD for right in rights]


def _holds(house: FailingHouse, name: str) -> None:
    """What is true of every fault."""
    fault = FAULTS[name]
    asked = cases(name)
    providers = [house.providers[name_of(name, dialect)] for dialect in PROTOCOLS]
    before = [(provider.connections, len(provider.received)) for provider in providers]
    ended = [_judged(house, told, fault) for told in house.ask_all(asked)]
    # Somebody must have heard words, or it was not tried.
    assert Ended.BROKEN in ended or not fault.spoken
    rights = 0
    for provider, (connections, requests) in zip(providers, before, strict=True):
        # It was asked once for each request, and never again.
        reached = provider.connections - connections, len(provider.received) - requests
        assert reached == house.reaches(fault, len(asked) // len(providers))
        rights += sum(map(fault.right, range(requests, len(provider.received))))
    assert ended.count(Ended.RIGHT) == rights
    all_is_well(house)
    assert house.lets_go()


def _judged(house: FailingHouse, told: Told, fault: Fault) -> Ended:
    verdict = verdict_on(house, told)
    if verdict.ended is Ended.TOLD:
        assert verdict.status in statuses(told, fault), told
    if verdict.ended is Ended.BROKEN:
        # Once, and less than all unless only its end is missing.
        assert SAID.startswith(verdict.text), told
    assert verdict.ended is not Ended.OTHER, told
    return verdict.ended
