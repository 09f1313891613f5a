"""Translated histories in a gateway: whose they are, what removes them, and how they are counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec import Raw

from dragoman.gateway.forwarding.client_translations import ClientTranslations
from dragoman.gateway.prefix_cache import PrefixCache, PrefixMatch, Scope
from dragoman.gateway.runtime import Runtime
from dragoman.identities.identity import ALL_RIGHTS
from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.wire.json import decode_object
from tests.gateway.harness import CHAT, House, running, settings_for
from tests.gateway.says import tells

ALICE, BOB = "sk-alice-0123456789abcdef", "sk-bob-0123456789abcdef"
TASK = "A sentence of the task. " * 500


@pytest.fixture
def house() -> Iterator[House]:
    with running(
        lambda received: tells(CHAT), lambda port: settings_for(port, keys=(ALICE, BOB), rights=ALL_RIGHTS)
    ) as running_house:
        yield running_house


def ask(house: House, steps: int, key: str = ALICE, task: str = TASK) -> bytes:
    """Send one call of an agent; the body that its provider got."""
    messages: JsonList = [{"role": "user", "content": task}]
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


class Matches:
    """The look-ups of a cache."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.scopes: list[Scope] = []
        look_up = PrefixCache.match

        def match(cache: PrefixCache, scope: Scope, written: bytes) -> PrefixMatch:
            self.scopes.append(scope)
            return look_up(cache, scope, written)

        monkeypatch.setattr(PrefixCache, "match", match)


def test_session_and_translation_of_a_long_history_share_one_look_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.app.runtime.session_facts.is_recorded = True
    # So long that its session is recognized by what it has in common with an earlier request.
    task = TASK * 4
    matches = Matches(monkeypatch)
    bodies = [ask(house, steps, task=task) for steps in (1, 2, 3)]
    assert counted(house) == {"miss": 1, "hit": 2}
    assert len(matches.scopes) == 3
    for steps, body in enumerate(bodies, 1):
        house.app.runtime.prefixes.clear()
        assert ask(house, steps, task=task) == body


@pytest.mark.parametrize("changed", ["", "bytes", "length", "key", "protocol", "cleared"])
def test_a_match_is_used_again_for_the_same_bytes_and_key_alone(
    house: House, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    prefixes, written = house.app.runtime.prefixes, b'[{"role":"user","content":"x"}]'
    match = prefixes.match(Scope("alice", "anthropic-messages"), written)
    given = {"bytes": written.replace(b"x", b"y"), "length": written[:-1] + b" ]"}.get(changed, written)
    key = "bob" if changed == "key" else "alice"
    protocol = "openai-chat" if changed == "protocol" else "anthropic-messages"
    if changed == "cleared":
        prefixes.clear()
    matches = Matches(monkeypatch)
    ClientTranslations(house.app.runtime, key, protocol, None, match).match_history(Raw(given))
    assert matches.scopes == ([Scope(key, protocol)] if changed else [])


def test_short_requests_share_their_tools_and_nothing_else(house: House) -> None:
    function: JsonObject = {"name": "read", "parameters": {"type": "object", "properties": {}}}
    tools: JsonList = [{"type": "function", "function": function}]
    prefixes = house.app.runtime.prefixes
    sizes: list[int] = []
    bodies: list[JsonObject] = []
    for key in (ALICE, ALICE, BOB, BOB):
        messages: JsonList = [{"role": "user", "content": f"Hello {len(sizes)}."}]
        body: JsonObject = {"model": "messages/served", "messages": messages, "tools": tools}
        assert house.post("/v1/chat/completions", body, authorization=f"Bearer {key}").status == 502
        bodies.append(decode_object(house.provider.received[-1].body))
        sizes.append(prefixes.size)
    # Each key stores its own.
    assert 0 < sizes[0] == sizes[1] < sizes[2] == sizes[3]
    assert [body["messages"] for body in bodies] == [[{"role": "user", "content": f"Hello {n}."}] for n in range(4)]
    assert all(body["tools"] == bodies[0]["tools"] for body in bodies)
