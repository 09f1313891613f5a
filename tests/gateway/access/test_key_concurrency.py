"""Key calls: a gateway key has no more exchanges at a time than it may, and whoever is one too many is told at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from dragoman.config.settings import Settings
from dragoman.errors import KeyBusy
from dragoman.gateway.access.key_concurrency import KeyCalls, KeySlot
from dragoman.identities.identity import Identity, Rights
from tests.gateway.harness import CHAT, MESSAGES, PATHS, PROTOCOLS, RESPONSES, House, running, settings_for
from tests.gateway.keeping_house import ALICE, BOB, ECHO, SLOW, create
from tests.gateway.says import question, tells
from tests.identities.holders import holder
from tests.sdk.digging import dig_text


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def key_of(most: int | None, name: str = "laptop") -> Identity:
    return holder(name, name.encode(), rights=Rights(concurrency=most))


def test_who_has_no_limit_is_not_counted() -> None:
    calls = KeyCalls(Clock())
    assert calls.take(None) is None
    assert calls.take(key_of(None)) is None
    assert calls.taken(key_of(None)) == 0


def test_a_place_is_given_back_once() -> None:
    calls, key = KeyCalls(Clock()), key_of(2)
    one, other = calls.take(key), calls.take(key)
    assert one is not None and other is not None
    with pytest.raises(KeyBusy):
        calls.take(key)
    one.release()
    one.release()
    assert calls.taken(key) == 1
    assert calls.take(key) is not None


def test_keys_are_counted_apart() -> None:
    calls = KeyCalls(Clock())
    assert calls.take(key_of(1, "a")) is not None
    assert calls.take(key_of(1, "b")) is not None


def test_a_place_is_handed_on() -> None:
    calls, key = KeyCalls(Clock()), key_of(1)
    first = calls.take(key)
    assert first is not None
    later = first.hand_on()
    assert later is not None and first.hand_on() is None
    first.release()
    assert calls.taken(key) == 1
    later.release()
    assert calls.taken(key) == 0


def test_workers_have_their_part_rounded_up() -> None:
    calls, key = KeyCalls(Clock()), key_of(3)
    assert calls.take(key, 2) is not None and calls.take(key, 2) is not None
    with pytest.raises(KeyBusy, match="3 calls at a time"):
        calls.take(key, 2)


def test_one_call_is_no_plural() -> None:
    calls, key = KeyCalls(Clock()), key_of(1)
    assert calls.take(key) is not None
    with pytest.raises(KeyBusy, match="this gateway key has 1 call at a time, which is taken"):
        calls.take(key)


def test_a_limit_may_change_while_places_are_taken() -> None:
    calls = KeyCalls(Clock())
    places = [calls.take(key_of(3)) for _ in range(3)]
    with pytest.raises(KeyBusy):
        calls.take(key_of(1))
    for place in places:
        assert place is not None
        place.release()
    assert calls.take(key_of(1)) is not None


def test_when_to_come_back_is_how_long_exchanges_take() -> None:
    clock = Clock()
    dice = iter((0.0, 0.0, 0.99))
    calls, key = KeyCalls(clock, lambda: next(dice)), key_of(2)
    with pytest.raises(KeyBusy) as unknown:
        for _ in range(3):
            calls.take(key)
    assert unknown.value.retry_after == 1
    calls, key = KeyCalls(clock, lambda: next(dice)), key_of(1)
    place = calls.take(key)
    assert place is not None
    clock.now += 20.0
    place.release()
    calls.take(key)
    for expected in (20, 25):
        with pytest.raises(KeyBusy) as refused:
            calls.take(key)
        assert refused.value.retry_after == expected
        assert f"try again in {expected} s" in str(refused.value)


@contextmanager
def gateway(most: int) -> Iterator[House]:
    """Alice may have so many exchanges at a time, Bob any number."""

    def settings(port: int) -> Settings:
        made = settings_for(port, keys=(ALICE, BOB))
        alice, bob = made.keys
        return replace(made, keys=(replace(alice, rights=Rights(concurrency=most)), bob))

    with running(lambda received: tells(CHAT), settings) as house:
        yield house


def alices(house: House) -> Identity:
    return house.app.runtime.settings.keys[0]


def taken(house: House) -> int:
    return house.app.runtime.key_calls.taken(alices(house))


def place_in(house: House) -> KeySlot:
    """A place of Alice's, as one of her exchanges has it."""
    place = house.app.runtime.key_calls.take(alices(house))
    assert place is not None
    return place


def as_(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


# What tells a limit from an overload in each protocol.
_TOLD = {
    MESSAGES: ("rate_limit_error", "type"),
    CHAT: ("rate_limit_exceeded", "code"),
    RESPONSES: ("rate_limit_exceeded", "code"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", PROTOCOLS)
def test_pitfall_370_a_key_at_its_limit_is_told_so_at_once_and_others_go_on(client: str, stream: bool) -> None:
    with gateway(1) as house:
        place = place_in(house)
        refused = house.post(PATHS[client], question(client, CHAT, stream=stream), **as_(ALICE))
        assert refused.status == 429
        assert int(refused.header("retry-after") or 0) >= 1
        word, where = _TOLD[client]
        assert dig_text(refused.json(), "error", where) == word
        assert "try again in" in dig_text(refused.json(), "error", "message")
        assert not house.provider.received
        # What no model works for is answered all the same, and so is everybody else.
        assert house.get("/v1/models", **as_(ALICE)).status == 200
        assert house.post(PATHS[client], question(client, CHAT), **as_(BOB)).status == 200
        place.release()
        assert house.post(PATHS[client], question(client, CHAT), **as_(ALICE)).status == 200
        assert taken(house) == 0


def test_counts_and_other_paths_take_a_place_too() -> None:
    with gateway(1) as house:
        place = place_in(house)
        for path in ("/v1/messages/count_tokens", "/v1/responses/compact", "/v1/embeddings"):
            assert house.post(path, question(MESSAGES, MESSAGES), **as_(ALICE)).status == 429, path
        place.release()
        assert house.post("/v1/messages/count_tokens", question(MESSAGES, CHAT), **as_(ALICE)).status == 200
        assert taken(house) == 0


def test_a_response_in_the_background_keeps_the_place_of_whoever_asked() -> None:
    with gateway(2) as house:
        made = create(house, model=SLOW, input="word " * 400, background=True, key=ALICE)
        assert taken(house) == 1
        place = place_in(house)
        assert house.post("/v1/responses", {"model": ECHO, "input": "Hi."}, **as_(ALICE)).status == 429
        place.release()
        # It is asked for, and cancelled, without one.
        assert house.get(f"/v1/responses/{made['id']}", **as_(ALICE)).status == 200
        house.post(f"/v1/responses/{made['id']}/cancel", b"", **as_(ALICE))
        house.run(ended(house))
        assert taken(house) == 0


def test_a_follower_of_a_response_in_the_background_takes_no_place_beside_it() -> None:
    with gateway(1) as house:
        body = {"model": ECHO, "input": "Hi.", "background": True, "stream": True}
        told = house.post("/v1/responses", body, **as_(ALICE))
        assert told.status == 200 and b"response.completed" in told.body
        house.run(ended(house))
        assert taken(house) == 0


async def ended(house: House) -> None:
    """Wait until nothing runs in the background."""
    while tasks := set(house.app.runtime.state.background._tasks.values()):
        await asyncio.wait(tasks)
