"""What clients are told of attempts, and what the record has of them, is the same, and is what was done.

All tests share a gateway. Each request has a line of its own, so that none depends on what another found out.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.failover.sayings import OFTEN, refuses
from tests.failover.town import WAYS, Ask, Heard, MoodyProvider, Town, down, town
from tests.gateway.harness import CHAT, PROTOCOLS

NAMES = ("a", "b", "c")
FAILING = range(len(NAMES) + 1)
PREFIXES = ("chain", "nested")


def _lines() -> Iterator[str]:
    """Chains of all providers, lines that ask twice, and lines of both."""
    for place in range(len(WAYS)):
        yield _line(f"again-{place}", f'{{ targets = ["a/again-{place}", "b/again-{place}"], retries = 1 }}')
        for failing in FAILING:
            for prefix in PREFIXES:
                name = f"{prefix}-{failing}-{place}"
                chain = ", ".join(f'"{provider}/{name}"' for provider in NAMES)
                if prefix == "chain":
                    yield _line(name, f"[{chain}]")
                else:
                    yield _line(f"{name}-first", f"[{chain}]")
                    again = f'"a/{name}-again", "b/{name}-again"'
                    yield _line(f"{name}-then", f"{{ targets = [{again}], retries = 1 }}")
                    yield _line(name, f'["{name}-first", "{name}-then"]')
    yield _line("keys", '["keys/served", "b/served"]')


def _line(name: str, targets: str) -> str:
    return f'"{name}" = {targets}\n'


@pytest.fixture(scope="module")
def shared() -> Iterator[Town]:
    providers = [MoodyProvider(name, protocol) for name, protocol in zip(NAMES, PROTOCOLS, strict=True)]
    with town([*providers, MoodyProvider("keys", keys=3)], "".join(_lines())) as house:
        yield house


@pytest.fixture
def house(shared: Town) -> Iterator[Town]:
    for provider in shared.providers.values():
        provider.received.clear()
    yield shared
    shared.recover()


def _agreed(house: Town, told: list[Heard]) -> list[int]:
    """Assert that headers and records agree; give how many attempts there were."""
    for heard, line in zip(told, house.recorded(told), strict=True):
        assert (line["attempt_count"], line["status"]) == (heard.attempts, heard.answer.status), line
        assert heard.route == "/".join((str(line["provider"]), str(line["model"])))
    return [heard.attempts for heard in told]


def _in_every_way(prefix: str) -> list[Ask]:
    return [Ask(model=f"{prefix}-{place}", client=client, stream=stream) for place, (client, stream) in enumerate(WAYS)]


def _calls(house: Town) -> int:
    return sum(provider.calls for provider in house.providers.values())


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_pitfall_327_attempts_are_counted_exactly(house: Town, failing: int, prefix: str) -> None:
    for name in NAMES[:failing]:
        house.providers[name].mood = down
    told = house.ask_all(_in_every_way(f"{prefix}-{failing}"))
    counted = _agreed(house, told)
    assert sum(counted) == _calls(house)
    if failing < len(NAMES):
        assert counted == [failing + 1] * len(told)
        assert all(heard.right for heard in told)


def test_pitfall_327_what_is_asked_again_is_counted(house: Town) -> None:
    house.providers["a"].mood = down
    assert _agreed(house, house.ask_all(_in_every_way("again"))) == [3] * len(WAYS)
    assert house.providers["a"].calls == 2 * len(WAYS)


def test_pitfall_327_another_key_is_no_attempt_of_its_own(house: Town) -> None:
    keys = house.providers["keys"]
    keys.mood = lambda asked: (refuses(429, OFTEN) if asked.count < 2 else keys.well)(asked)
    told = house.ask_one(Ask(model="keys", client=CHAT))
    assert (told.route, told.attempts, keys.calls) == ("keys/served", 1, 3)
    # The record has every call.
    assert house.recorded([told])[0]["attempt_count"] == 3
