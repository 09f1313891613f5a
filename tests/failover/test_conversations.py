"""Conversations stay where they are, with their target and its key, until that fails; then they move once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from dragoman.routing.health import SUSPICION
from tests.failover.town import RETRY_AFTER, Ask, Heard, MoodyProvider, Town, down, town
from tests.gateway.harness import CHAT, PROTOCOLS

TURNS = 20
# Turns before the one that fails, and after it.
FIRST, LATER = 4, 6
KEYS = 3
POLICIES = ("fallback", "weighted", "cheapest", "fastest", "least-loss")


@pytest.fixture(scope="module")
def house() -> Iterator[Town]:
    """A line for each policy, over the same three providers; each has a model of its own, and so standings.

    No cooldown ends before its test does.
    """
    providers = [MoodyProvider(name, protocol, keys=KEYS) for name, protocol in zip("abc", PROTOCOLS, strict=True)]
    kinds = ("kept", "tired", *PROTOCOLS)
    lines = [_line(kind, policy) for kind in kinds for policy in (*POLICIES, "round-robin")]
    with town(providers, "".join(lines), steered=True) as house:
        yield house


def _line(kind: str, policy: str) -> str:
    targets = [f'"{name}/{kind}-{policy}"' for name in "abc"]
    given = (
        f"[{', '.join(targets)}]" if policy != "weighted" else f"{{ {', '.join(f'{one} = 30' for one in targets)} }}"
    )
    return f'"{kind}-{policy}" = {{ policy = "{policy}", targets = {given} }}\n'


def _used(house: Town) -> Counter[tuple[str, str]]:
    """How often each key of each provider was used."""
    return Counter({(name, key): count for name, one in house.providers.items() for key, count in one.used.items()})


def _turns(house: Town, model: str, client: str, words: str, turns: range) -> list[Heard]:
    """Some turns of a conversation, every other of them streamed."""
    asked = [Ask(model=model, client=client, stream=turn % 2 == 1, words=words, turns=turn) for turn in turns]
    told = [house.ask_one(one) for one in asked]
    assert all(heard.right for heard in told)
    return told


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("policy", POLICIES)
def test_pitfall_357_twenty_turns_stay_on_one_target_and_one_key(house: Town, policy: str, client: str) -> None:
    before = _used(house)
    _turns(house, f"kept-{policy}", client, f"{policy} {client}", range(TURNS))
    used = _used(house) - before
    assert list(used.values()) == [TURNS], used


def test_round_robin_takes_turns_within_a_conversation(house: Town) -> None:
    told = _turns(house, "kept-round-robin", CHAT, "by turns", range(TURNS))
    assert len({heard.route for heard in told}) == 3


def _named(told: Heard) -> str:
    return told.route.partition("/")[0]


@pytest.mark.parametrize("client", PROTOCOLS)
@pytest.mark.parametrize("policy", POLICIES)
def test_pitfall_348_a_conversation_moves_once_and_stays_there(house: Town, policy: str, client: str) -> None:
    model, words = f"{client}-{policy}", f"{policy} {client} moves"
    first = _turns(house, model, client, words, range(FIRST))
    was = house.providers[_named(first[0])]
    assert {_named(heard) for heard in first} == {was.name}
    was.mood = down
    (moved,) = _turns(house, model, client, words, range(FIRST, FIRST + 1))
    assert _named(moved) != was.name and moved.attempts == 2
    # It is as good as before, but the cache is elsewhere now.
    was.mood = was.well
    house.clock.advance(SUSPICION)
    assert house.standings() == {}
    before = _used(house)
    told = _turns(house, model, client, words, range(FIRST + 1, FIRST + 1 + LATER))
    assert {_named(heard) for heard in told} == {_named(moved)}
    used = _used(house) - before
    assert list(used.values()) == [LATER], used


@pytest.mark.parametrize("policy", POLICIES)
def test_pitfall_348_a_key_that_is_refused_moves_a_conversation_to_another_of_the_same_target(
    house: Town, policy: str
) -> None:
    model, words = f"tired-{policy}", f"{policy} with another key"
    before = _used(house)
    first = _turns(house, model, CHAT, words, range(FIRST))
    was = house.providers[_named(first[0])]
    (used,) = _used(house) - before
    was.tired = {used[1]}
    before = _used(house)
    moved = _turns(house, model, CHAT, words, range(FIRST, FIRST + 1))
    assert [(_named(heard), heard.attempts) for heard in moved] == [(was.name, 1)]
    (now,) = [key for key in _used(house) - before if key != used]
    # The first key may be used again, but the cache is that of the other one.
    was.tired = set()
    house.clock.advance(RETRY_AFTER)
    before = _used(house)
    _turns(house, model, CHAT, words, range(FIRST + 1, FIRST + 1 + LATER))
    assert _used(house) - before == {now: LATER}
