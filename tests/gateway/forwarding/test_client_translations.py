"""Translated histories in a gateway: whose they are, what removes them, and how they are counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dragoman.gateway.runtime import Runtime
from dragoman.model.jsonvalue import JsonList, JsonObject
from tests.gateway.harness import CHAT, House, running, settings_for
from tests.gateway.says import tells

ALICE, BOB = "sk-alice-0123456789abcdef", "sk-bob-0123456789abcdef"
TASK = "A sentence of the task. " * 500


@pytest.fixture
def house() -> Iterator[House]:
    with running(lambda received: tells(CHAT), lambda port: settings_for(port, keys=(ALICE, BOB))) as running_house:
        yield running_house


def ask(house: House, steps: int, key: str = ALICE) -> bytes:
    """Send one call of an agent; the body that its provider got."""
    messages: JsonList = [{"role": "user", "content": TASK}]
    for number in range(steps):
        messages += [{"role": "assistant", "content": f"Step {number}."}, {"role": "user", "content": "Go on."}]
    body: JsonObject = {"model": "chat/served", "max_tokens": 99, "messages": messages}
    answer = house.post("/v1/messages", body, authorization=f"Bearer {key}")
    assert answer.status == 200, answer.body
    return house.provider.received[-1].body


def counted(house: House) -> dict[str, int]:
    return house.app.runtime.metrics.snapshot().cached_translations


def test_a_conversation_continues_and_is_counted(house: House) -> None:
    bodies = [ask(house, steps) for steps in (1, 2, 3)]
    assert counted(house) == {"miss": 1, "hit": 2}
    house.app.runtime.prefixes.clear()
    assert ask(house, 3) == bodies[2]
    told = house.get("/metrics", authorization=f"Bearer {ALICE}").body.decode()
    assert 'dragoman_cached_translations_total{result="hit"} 2' in told
    assert f"dragoman_prefix_cache_bytes {house.app.runtime.prefixes.size}" in told


def test_no_key_finds_the_history_of_another_one(house: House) -> None:
    ask(house, 1)
    ask(house, 2, BOB)
    assert counted(house) == {"miss": 2}
    ask(house, 2)
    assert counted(house) == {"miss": 2, "hit": 1}


def test_another_configuration_begins_with_an_empty_cache(house: House) -> None:
    ask(house, 1)

    async def reload() -> None:
        old = house.app.runtime
        house.app.runtime = Runtime(old.settings, old.metrics, old.log, old.state, former=old)
        await old.close()

    house.run(reload())
    assert house.app.runtime.prefixes.size == 0
    ask(house, 2)
    assert counted(house) == {"miss": 2}


def test_a_rotation_of_journals_empties_the_cache(house: House) -> None:
    # `forget` has all workers rotate their journals.
    ask(house, 1)
    assert house.app.runtime.prefixes.size
    house.app.runtime.usage_recorder.on_rotated()
    assert house.app.runtime.prefixes.size == 0
