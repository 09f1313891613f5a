"""Providers that stay down, and come back: what others have found out is not found out again by everybody.

All tests share a gateway. Each has models of its own, whose health no other test changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from dragoman.routing.health import CONSECUTIVE_FAILURES, FIRST_COOLDOWN, PROMPT
from dragoman.routing.health_state import SLOW_START_SECONDS
from tests.failover.town import WAYS, Ask, Heard, MoodyProvider, Town, down, is_told_to_come_back, town
from tests.gateway.harness import CHAT, PROTOCOLS
from tests.gateway.says import NAMES
from tests.server.process import Gate
from tests.waiting import wait_until

REQUESTS = 60
# Calls to a target that always fails, for each request.
MULTIPLIED = 1.2
CROWD = 12
RAMPED = 60
# Lines by name, with their targets; the model of each target has the name of its line.
DOWN = {
    "patient": '{ targets = ["a/patient"], retries = 2 }',
    "patient-to": '{ to = "a/patient-to", retries = 2 }',
    "once": '{ targets = ["a/once", "d/once"], retries = 0 }',
    "thrice": '{ targets = ["a/thrice", "d/thrice"], retries = 2 }',
    "all": '{ targets = ["a/all", "b/all", "c/all"], retries = 2 }',
}
LINES = {
    **DOWN,
    **{
        f"chain-{name}": f'["a/chain-{name}", "b/chain-{name}", "c/chain-{name}", "d/{name}"]'
        for name in NAMES.values()
    },
    "rested": '["a/rested", "b/rested"]',
    # A retry would be a prompt error.
    "rested-a": '{ to = "a/rested", retries = 0 }',
    "rested-b": '{ to = "b/rested", retries = 0 }',
    "quick": '["a/quick", "b/quick"]',
    "line": '["a/line", "d/line"]',
    "alone": '["a/line", "a/other"]',
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Town]:
    """Providers of every protocol, of which `d` is always well, and a gateway whose time stands still."""
    providers = [MoodyProvider(name, protocol) for name, protocol in zip("abc", PROTOCOLS, strict=True)]
    lines = "".join(f'"{name}" = {line}\n' for name, line in LINES.items())
    with town([*providers, MoodyProvider("d", CHAT)], lines, steered=True) as house:
        yield house


@pytest.fixture
def house(shared: Town) -> Iterator[Town]:
    yield shared
    shared.recover()


@pytest.fixture(scope="module")
def crowds(shared: Town) -> Mapping[str, Sequence[Heard]]:
    """A crowd for each line whose first targets are down, all at once, and some requests after that."""
    _take_down(shared, "abc")
    under_way = {name: shared.begin(_crowd(name, REQUESTS)) for name in DOWN}
    told = {name: shared.replies(found) for name, found in under_way.items()}
    for name, heard in told.items():
        heard += [shared.ask_one(Ask(model=name)) for _ in range(CONSECUTIVE_FAILURES)]
    shared.recover()
    return told


def _crowd(model: str, count: int) -> list[Ask]:
    ways = [WAYS[place % len(WAYS)] for place in range(count)]
    return [Ask(model=model, client=client, stream=stream) for client, stream in ways]


def _take_down(house: Town, names: str) -> None:
    for name in names:
        house.providers[name].mood = down


@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_322_the_second_request_goes_past_three_dead_targets(house: Town, client: str) -> None:
    line = f"chain-{NAMES[client]}"
    _take_down(house, "abc")
    for stream in (True, False):
        told = house.ask_one(Ask(model=line, client=client, stream=stream))
        assert (told.right, told.route) == (True, f"d/{NAMES[client]}")
        # Each was asked once, by the first request alone.
        assert [house.providers[name].calls_for(line) for name in "abc"] == [1, 1, 1]
    assert told.attempts == 1


@pytest.mark.parametrize("line", ["patient", "patient-to"])
def test_pitfall_324_a_target_that_always_fails_is_hardly_asked_again(
    shared: Town, crowds: Mapping[str, Sequence[Heard]], line: str
) -> None:
    told = crowds[line]
    assert {heard.right for heard in told} == {False}
    assert len(told) < shared.providers["a"].calls_for(line) <= MULTIPLIED * len(told)


@pytest.mark.parametrize("line", ["once", "thrice"])
def test_pitfall_324_with_others_behind_it_even_less(
    shared: Town, crowds: Mapping[str, Sequence[Heard]], line: str
) -> None:
    told = crowds[line]
    assert {heard.route for heard in told} == {f"d/{line}"}
    assert shared.providers["a"].calls_for(line) <= MULTIPLIED * len(told)


def test_pitfall_324_an_outage_of_all_is_not_multiplied_either(
    shared: Town, crowds: Mapping[str, Sequence[Heard]]
) -> None:
    told = crowds["all"]
    assert {heard.right for heard in told} == {False}
    assert max(shared.providers[name].calls_for("all") for name in "abc") <= MULTIPLIED * len(told)


def test_item_22_b9_while_all_are_in_cooldown_for_quick_errors_every_request_asks_them(house: Town) -> None:
    a, b = house.providers["a"], house.providers["b"]
    _take_down(house, "ab")
    for _ in range(CONSECUTIVE_FAILURES):
        house.ask_one(Ask(model="quick"))
    standings = house.standings()
    assert [standings[target] for target in ("a/quick", "b/quick")] == ["cooldown", "cooldown"]
    before = a.calls_for("quick"), b.calls_for("quick")
    assert not any(heard.right for heard in house.ask_all(_crowd("quick", CROWD)))
    assert (a.calls_for("quick"), b.calls_for("quick")) == (before[0] + CROWD, before[1] + CROWD)
    # One of two that fail at random: nobody is refused whom the other one answers.
    b.mood = b.well
    told = house.ask_all(_crowd("quick", CROWD))
    assert {heard.route for heard in told} == {"b/quick"}


def test_pitfall_347_while_all_rest_one_finds_out_and_the_others_know_when_to_come_back(house: Town) -> None:
    a, b = house.providers["a"], house.providers["b"]

    def calls() -> int:
        return a.calls_for("rested") + b.calls_for("rested")

    # Errors that take long, by the clock of health.
    _take_down(house, "ab")
    slow = a.before = b.before = Gate()
    under_way = house.begin(
        [Ask(model=route) for route in ("rested-a", "rested-b") for _ in range(CONSECUTIVE_FAILURES)]
    )
    slow.reached(2 * CONSECUTIVE_FAILURES)
    house.clock.advance(PROMPT)
    slow.open()
    house.replies(under_way)
    standings = house.standings()
    assert [standings[target] for target in ("a/rested", "b/rested")] == ["cooldown", "cooldown"]
    before, gate = calls(), Gate()
    for provider in (a, b):
        provider.mood, provider.before = provider.well, gate
    under_way = house.begin(_crowd("rested", CROWD))
    gate.reached()
    probing = _settled(house)
    assert 1 <= probing <= 2
    # A call that was admitted may still be on its way.
    gate.reached(probing)
    assert calls() - before == probing
    gate.open()
    told = house.replies(under_way)
    assert len([heard for heard in told if heard.right]) == probing
    for heard in told:
        if not heard.right:
            # Not as long as somebody may take to find out: that takes a moment, as a rule.
            assert is_told_to_come_back(heard) <= 2 * FIRST_COOLDOWN
    # It answers again, and so it may be asked.
    assert house.ask_one(Ask(model="rested")).right


def _settled(house: Town) -> int:
    """Wait until only those are under way that wait for a provider; give how many they are."""
    providers = house.providers.values()

    def settled() -> bool:
        return house.status()["in_flight"] == sum(provider.open for provider in providers)

    wait_until(settled, "all requests under way wait for a provider")
    return sum(provider.open for provider in providers)


def test_pitfall_352_a_rest_ends_by_itself_with_one_that_finds_out_and_then_some(house: Town) -> None:
    bad = house.providers["a"]
    bad.mood = down
    # What is wrong with it is found out by those who ask for nothing else.
    for _ in range(CONSECUTIVE_FAILURES):
        assert not house.ask_one(Ask(model="alone")).right
    worn = bad.calls
    # Nobody is sent there, to the end of its rest.
    for seconds in (FIRST_COOLDOWN - 0.1, 0.1):
        assert house.standings()["a/line"] == "cooldown"
        assert {heard.route for heard in house.ask_all(_crowd("line", CROWD))} == {"d/line"}
        assert bad.calls == worn
        house.clock.advance(seconds)
    # Nobody says that it is well again: somebody is sent there. While that one is under way, all others go elsewhere.
    gate = Gate()
    bad.mood, bad.before = bad.well, gate
    under_way = house.begin([Ask(model="line")])
    gate.reached()
    assert {heard.route for heard in house.ask_all(_crowd("line", CROWD))} == {"d/line"}
    assert bad.calls == worn + 1
    gate.open()
    assert [heard.route for heard in house.replies(under_way)] == ["a/line"]
    assert house.standings()["a/line"] == "slow_start"
    # Some of the traffic comes back, and not all at once.
    told = house.ask_all(_crowd("line", RAMPED))
    assert 0 < sum(heard.route == "a/line" for heard in told) < 0.85 * RAMPED
    assert all(heard.right for heard in told)
    # It is as good as any in the end.
    house.clock.advance(SLOW_START_SECONDS)
    assert "a/line" not in house.standings()
    assert {heard.route for heard in house.ask_all(_crowd("line", CROWD))} == {"a/line"}
