"""Several machines under load, through every fault of their database, of the network and of machines: what a client saw
complete is in the records once, totals and rows agree, no key is refused, stored responses are there, and no request
waits for a database that does not answer. The clocks of the machines differ by 30 s all the time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from tests.machines.faults import FAULTS, Fault, database_stopped
from tests.machines.load import Kind, Result
from tests.machines.machine import Scale
from tests.machines.site import Site, running_site

ROUNDS, ROUNDS_OF_A_NIGHT = 5, 100
# Some rounds, each with other faults, which follow each other in any order.
_SHUFFLED = random.Random(0).sample(FAULTS, len(FAULTS))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    scale = Scale(workers=2, clients=24, pause=0.3, stop=5.0, key_grace=3600.0)
    with running_site(tmp_path_factory.mktemp("site"), scale) as site:
        yield site


@pytest.mark.parametrize("faults", [_SHUFFLED[number::ROUNDS] for number in range(ROUNDS)], ids=range(ROUNDS))
def test_pitfall_727_744_748_750_nothing_is_lost_or_counted_twice_whatever_fails(
    site: Site, faults: Sequence[Fault]
) -> None:
    site.check()
    for fault in faults:
        fault(site)
        site.check()


@pytest.mark.nightly
def test_two_hundred_streams_through_a_hundred_rounds_of_all_faults(tmp_path_factory: pytest.TempPathFactory) -> None:
    scale = Scale(workers=4, clients=200, pause=1.0, stop=5.0, key_grace=3600.0)
    with running_site(tmp_path_factory.mktemp("site"), scale) as site:
        for number in range(ROUNDS_OF_A_NIGHT):
            for fault in random.Random(number).sample(FAULTS, len(FAULTS)):
                fault(site)
                site.check()


@pytest.mark.nightly
def test_a_database_that_is_stopped_for_longer_than_its_keys_are_accepted(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    scale = Scale(workers=4, clients=200, pause=1.0, stop=90.0, key_grace=60.0)
    with running_site(tmp_path_factory.mktemp("site"), scale) as site:
        site.check()
        database_stopped(site)
        site.check()
        # Those with keys of the database; others would be wrong.
        refused = [site.load.counts[machine.name, Kind.PLAIN, Result.REFUSED] for machine in site.machines]
        assert all(refused)
