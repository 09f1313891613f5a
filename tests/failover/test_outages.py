"""Providers that stay down, and come back: what others have found out is not found out again by everybody."""

from __future__ import annotations

import pytest

from tests.failover.town import WAYS, Ask, Heard, MoodyProvider, Town, down, is_told_to_come_back, town
from tests.gateway.harness import MESSAGES, PROTOCOLS, RESPONSES
from tests.gateway.says import comes_true
from tests.server.process import PATIENCE, Gate

# As many failures in a row as make a target rest, and for how long it does at first.
IN_A_ROW, FIRST_REST = 5, 5
REQUESTS = 60
# Calls to a target that always fails, for each request.
MULTIPLIED = 1.2
CROWD = 12
RAMPED = 40


def _crowd(model: str, count: int) -> list[Ask]:
    ways = [WAYS[place % len(WAYS)] for place in range(count)]
    return [Ask(model=model, client=client, stream=stream) for client, stream in ways]


def _wear_out(house: Town, model: str, *names: str) -> None:
    """Ask until providers that are down rest."""
    for name in names:
        house.providers[name].mood = down
    for _ in range(4 * IN_A_ROW):
        house.ask_one(Ask(model=model))
        standings = house.standings()
        if all(standings.get(f"{name}/served") == "resting" for name in names):
            return
    pytest.fail(f"they do not rest, but: {house.standings()}")


@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_322_the_second_request_goes_past_three_dead_targets(client: str) -> None:
    dead = [MoodyProvider(name, dialect) for name, dialect in zip("abc", PROTOCOLS, strict=True)]
    line = '"chain" = ["a/served", "b/served", "c/served", "d/served"]'
    with town([*dead, MoodyProvider("d")], line) as house:
        for provider in dead:
            provider.mood = down
        for stream in (True, False):
            told = house.ask_one(Ask(model="chain", client=client, stream=stream))
            assert (told.right, told.route) == (True, "d/served")
            # Each was asked once, by the first request alone.
            assert [provider.calls for provider in dead] == [1, 1, 1]
        assert told.attempts == 1


@pytest.mark.parametrize("line", ['{ targets = ["bad/served"], retries = 2 }', '{ to = "bad/served", retries = 2 }'])
def test_pitfall_324_a_target_that_always_fails_is_hardly_asked_again(line: str) -> None:
    bad = MoodyProvider("bad")
    bad.mood = down
    with town([bad], f'"patient" = {line}') as house:
        told = house.ask_all(_crowd("patient", REQUESTS))
        assert {heard.right for heard in told} == {False}
        assert REQUESTS < bad.calls <= MULTIPLIED * REQUESTS


@pytest.mark.parametrize("retries", [0, 2])
def test_pitfall_324_with_others_behind_it_even_less(retries: int) -> None:
    bad = MoodyProvider("bad")
    bad.mood = down
    line = f'"line" = {{ targets = ["bad/served", "good/served"], retries = {retries} }}'
    with town([bad, MoodyProvider("good", MESSAGES)], line) as house:
        told = house.ask_all(_crowd("line", REQUESTS)) + [house.ask_one(Ask(model="line")) for _ in range(IN_A_ROW)]
        assert {heard.route for heard in told} == {"good/served"}
        assert bad.calls <= MULTIPLIED * len(told)


def test_pitfall_324_an_outage_of_all_is_not_multiplied_either() -> None:
    names = ("a", "b", "c")
    providers = [MoodyProvider(name, dialect) for name, dialect in zip(names, PROTOCOLS, strict=True)]
    for provider in providers:
        provider.mood = down
    line = '"line" = { targets = ["a/served", "b/served", "c/served"], retries = 2 }'
    with town(providers, line) as house:
        told = house.ask_all(_crowd("line", REQUESTS)) + [house.ask_one(Ask(model="line")) for _ in range(IN_A_ROW)]
        assert {heard.right for heard in told} == {False}
        assert max(provider.calls for provider in providers) <= MULTIPLIED * len(told)


def test_pitfall_347_while_all_rest_one_finds_out_and_the_others_know_when_to_come_back() -> None:
    gate = Gate()
    a, b = MoodyProvider("a"), MoodyProvider("b", RESPONSES)
    with town([a, b], '"line" = ["a/served", "b/served"]') as house:
        _wear_out(house, "line", "a", "b")
        before = a.calls + b.calls
        for provider in (a, b):
            provider.mood, provider.before = provider.well, gate
        under_way = house.begin(_crowd("line", CROWD))
        gate.reached()
        probing = _settled(house)
        assert 1 <= probing <= 2
        assert comes_true(lambda: a.calls + b.calls - before == probing, PATIENCE)
        gate.open()
        told = under_way.result(PATIENCE)
        assert len([heard for heard in told if heard.right]) == probing
        for heard in told:
            if not heard.right:
                # Not as long as somebody may take to find out: that takes a moment, as a rule.
                assert is_told_to_come_back(heard) <= 2 * FIRST_REST
        # It answers again, and so it may be asked.
        assert house.ask_one(Ask(model="line")).right


def _settled(house: Town) -> int:
    """Wait until only those are under way that wait for a provider; give how many they are."""
    providers = house.providers.values()

    def settled() -> bool:
        return house.status()["in_flight"] == sum(provider.open for provider in providers)

    assert comes_true(settled, PATIENCE)
    return sum(provider.open for provider in providers)


def test_pitfall_352_a_rest_ends_by_itself_with_one_that_finds_out_and_then_some() -> None:
    bad, good = MoodyProvider("bad", MESSAGES), MoodyProvider("good")
    line = '"line" = ["bad/served", "good/served"]\n"alone" = ["bad/served", "bad/other"]\n'
    with town([bad, good], line) as house:
        bad.mood = down
        # What is wrong with it is found out by those who ask for nothing else.
        for _ in range(IN_A_ROW):
            assert not house.ask_one(Ask(model="alone")).right
        assert house.standings()["bad/served"] == "resting"
        worn = bad.calls
        told = house.ask_all(_crowd("line", CROWD))
        assert {heard.route for heard in told} == {"good/served"}
        assert bad.calls == worn
        # Nobody says that it is well again: somebody is sent there.
        gate = Gate()
        bad.mood, bad.before = bad.well, gate
        under_way: list[Heard] = []

        def somebody_asks() -> bool:
            waiting = house.begin([Ask(model="line")])
            assert comes_true(lambda: gate.waiting == 1 or waiting.done(), PATIENCE)
            if gate.waiting == 1:
                # While that one is under way, all others go elsewhere.
                told = house.ask_all(_crowd("line", CROWD))
                assert {heard.route for heard in told} == {"good/served"}
                assert bad.calls == worn + 1
                gate.open()
            under_way.extend(waiting.result(PATIENCE))
            return bad.calls > worn

        assert comes_true(somebody_asks, PATIENCE)
        assert under_way[-1].route == "bad/served"
        assert {heard.route for heard in under_way[:-1]} <= {"good/served"}
        assert house.standings()["bad/served"] == "ramping"
        # Some of the traffic comes back, and not all at once.
        told = house.ask_all(_crowd("line", RAMPED))
        back = sum(heard.route == "bad/served" for heard in told)
        assert 0 < back < 0.85 * RAMPED
        assert all(heard.right for heard in told)
        # It is as good as any in the end.
        assert comes_true(lambda: "bad/served" not in house.standings(), PATIENCE)
        assert {heard.route for heard in house.ask_all(_crowd("line", CROWD))} == {"bad/served"}
