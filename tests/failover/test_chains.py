"""Lines of which several targets fail: what is bounded, and which of all failures is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.failover.faults import FAULTS
from tests.failover.house import GATEWAY_KEY, IMPATIENT, Case, FailingHouse, failing, name_of
from tests.failover.verdicts import Ended, all_is_well, statuses, verdict_on
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS
from tests.gateway.says import question
from tests.waiting import wait_until

NAMES = ("500", "529", "429", "401", "400 too long", "reads and closes", "accepts and is silent", "refuses connections")
# As the configuration has it if it says nothing.
ATTEMPTS = 8

# What a process holds is counted there.
pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are found in /proc")


def _targets(*faults: str) -> list[str]:
    """Targets of each protocol for each fault."""
    return [f"{name_of(fault, protocol)}/*" for fault in faults for protocol in PROTOCOLS]


# Each with a healthy provider at its end.
LINES: dict[str, list[str]] = {
    "all-fail": _targets("500", "529", "429", "refuses connections"),
    "billed": _targets("reads and closes"),
    "bad-keys": _targets("401"),
    "limited-then-long": [f"{name_of('429', MESSAGES)}/*", f"{name_of('400 too long', CHAT)}/*"],
    "silent": [f"{name_of('accepts and is silent', CHAT)}/*"],
}
WITHOUT_HELP = ("bad-keys", "limited-then-long")


def _config() -> str:
    lines = {name: [*to, *([] if name in WITHOUT_HELP else ["good-chat/served"])] for name, to in LINES.items()}
    return "".join(f'"{name}/*" = {to!r}\n' for name, to in lines.items())


@pytest.fixture(scope="module")
def house() -> Iterator[FailingHouse]:
    with failing({name: FAULTS[name] for name in NAMES}, IMPATIENT, _config()) as house:
        yield house
        house.ends_well()


def _cases(line: str, fault: str, provider: str) -> list[Case]:
    """Every client, in both ways; the first target is a provider with the fault."""
    return [
        Case(fault=fault, client=client, provider=provider, stream=stream, line=line)
        for client in PROTOCOLS
        for stream in (True, False)
    ]


def _told(house: FailingHouse, asked: Sequence[Case]) -> int:
    """Ask for all, which are told of the first target's failure; how many connections that took."""
    before = sum(provider.connections for provider in house.providers.values())
    for told in house.ask_all(asked):
        verdict = verdict_on(house, told)
        assert verdict.ended is Ended.TOLD, told
        assert verdict.status in statuses(told, FAULTS[told.case.fault]), told
    return sum(provider.connections for provider in house.providers.values()) - before


def test_pitfall_308_every_target_fails_and_the_first_is_told_after_a_bounded_number(house: FailingHouse) -> None:
    asked = _cases("all-fail", "500", MESSAGES)
    assert len(LINES["all-fail"]) > ATTEMPTS
    assert len(asked) <= _told(house, asked) <= ATTEMPTS * len(asked)
    all_is_well(house)
    house.lets_go()


def test_pitfall_307_what_may_have_been_billed_is_asked_for_once_more(house: FailingHouse) -> None:
    asked = _cases("billed", "reads and closes", MESSAGES)
    assert _told(house, asked) == 2 * len(asked)


def test_pitfall_312_bad_keys_of_all_targets_are_not_told_as_the_clients_own(house: FailingHouse) -> None:
    told = house.ask_all(_cases("bad-keys", "401", MESSAGES))
    assert {verdict_on(house, one).status for one in told} == {502}


def test_pitfall_318_a_limit_is_told_and_not_what_a_smaller_window_says_of_it(house: FailingHouse) -> None:
    told = house.ask_all(_cases("limited-then-long", "429", MESSAGES))
    assert {verdict_on(house, one).status for one in told} == {429}


@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_325_nobody_is_asked_for_a_client_that_has_left(house: FailingHouse, client: str) -> None:
    silent, good = house.providers[name_of("accepts and is silent", CHAT)], house.providers["good-chat"]
    before = len(good.received)
    body = question(client, CHAT, stream=True, model=f"silent/for-{client}")
    with house.send(PATHS[client], body, f"x-api-key: {GATEWAY_KEY}"):
        wait_until(lambda: silent.open == 1, "the provider is called")
    wait_until(lambda: silent.open == 0, "the call has ended")
    house.lets_go()
    assert len(good.received) == before
