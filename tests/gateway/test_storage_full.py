"""A key that has stored as much as it may gets a 507 until it deletes something; no provider is asked (item 22 A7)."""

from __future__ import annotations

import pytest

from dragoman.config.settings import Storage
from dragoman.identities.identity import ALL_RIGHTS
from tests.gateway.harness import Answer, House, Received, Reply
from tests.gateway.keeping_house import ALICE, BOB, create, ended, error_in, keeping
from tests.gateway.says import streams, tells

MODEL = "chat/served"
OWN, ALL = 20_000, 50_000


def _script(received: Received) -> Reply:
    return streams("openai-chat") if received.json().get("stream") else tells("openai-chat")


def _storage(own: int = OWN, total: int = ALL) -> Storage:
    return Storage(max_bytes=total, max_bytes_per_key=own)


def _ask(house: House, key: str, **body: object) -> Answer:
    asked = {"model": MODEL, "input": "x" * 4000, **body}
    return house.post("/v1/responses", asked, authorization=f"Bearer {key}")


def _filled(house: House, key: str) -> list[str]:
    """Store responses until there is no room; give their ids."""
    made: list[str] = []
    while (told := _ask(house, key)).status == 200:
        made.append(str(told.json()["id"]))
        assert len(made) < 20
    assert told.status == 507
    return made


@pytest.mark.parametrize("body", [{}, {"stream": True}, {"background": True}, {"background": True, "stream": True}])
def test_item_22_a7_a_full_key_gets_507_and_no_provider_is_asked(body: dict[str, object]) -> None:
    with keeping(_script, keys=(ALICE, BOB), storage=_storage()) as house:
        made = _filled(house, ALICE)
        asked = len(house.provider.received)
        told = _ask(house, ALICE, **body)
        assert error_in(told)[0] == 507 and "storage.max_bytes_per_key" in error_in(told)[3]
        assert told.header("x-should-retry") == "false"
        assert len(house.provider.received) == asked == len(made)
        # What is not stored is answered, and what others store as well.
        assert _ask(house, ALICE, store=False).status == 200
        assert _ask(house, BOB).status == 200


def test_item_22_a7_there_is_room_again_once_something_is_deleted() -> None:
    with keeping(_script, keys=(ALICE, BOB), storage=_storage()) as house:
        made = _filled(house, ALICE)
        assert house.ask("DELETE", f"/v1/responses/{made[0]}", b"", authorization=f"Bearer {ALICE}").status == 200
        assert _ask(house, ALICE).status == 200
        assert _ask(house, ALICE).status == 507


def test_item_22_a7_conversations_and_their_items_count() -> None:
    with keeping(_script, keys=(ALICE, BOB), storage=_storage()) as house:
        items = [{"type": "message", "role": "user", "content": "x" * 4000}]
        key = {"authorization": f"Bearer {ALICE}"}
        made = house.post("/v1/conversations", {"items": items}, **key).json()
        path = f"/v1/conversations/{made['id']!s}"
        statuses = [house.post(f"{path}/items", {"items": items}, **key).status for _ in range(8)]
        assert statuses[0] == 200 and statuses[-1] == 507 and sorted(statuses) == statuses
        for full in (
            house.post("/v1/conversations", {"items": items}, **key),
            _ask(house, ALICE),
            _ask(house, ALICE, conversation=made["id"]),
        ):
            assert full.status == 507 and full.header("x-should-retry") == "false"
        assert house.get(f"{path}/items", **key).status == 200
        assert house.ask("DELETE", path, b"", **key).status == 200
        assert house.post("/v1/conversations", {"items": items}, **key).status == 200


def test_item_22_a7_all_keys_together_have_a_limit() -> None:
    with keeping(_script, keys=(ALICE, BOB), storage=_storage(own=0, total=OWN)) as house:
        _filled(house, ALICE)
        told = _ask(house, BOB)
        assert told.status == 507 and "storage.max_bytes)" in error_in(told)[3]


def test_item_22_a7_events_of_the_background_count() -> None:
    with keeping(storage=_storage(own=6000)) as house:
        made = create(house, background=True, stream=False)
        ended(house, made["id"])
        quiet = house.run(_stored(house))
        streamed = house.post(
            "/v1/responses", {"model": "echo/text@openai-chat", "input": "Hello.", "background": True, "stream": True}
        )
        assert streamed.status == 200
        assert house.run(_stored(house)) - quiet > quiet


async def _stored(house: House) -> int:
    store = house.app.runtime.state.store
    assert store is not None
    return (await store.read(lambda tables: tables.stored(b""))).own


def test_a_gauge_has_the_stored_bytes_of_all_keys() -> None:
    def gauge(house: House) -> int:
        lines = house.get("/metrics", authorization=f"Bearer {ALICE}").body.decode().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("dragoman_stored_bytes "))

    with keeping(_script, keys=(ALICE, BOB), rights=ALL_RIGHTS, storage=_storage()) as house:
        assert gauge(house) == 0
        made = str(_ask(house, ALICE).json()["id"])
        one = gauge(house)
        assert 4000 < one < 10_000
        _ask(house, BOB)
        assert gauge(house) == pytest.approx(2 * one, rel=0.1)
        house.ask("DELETE", f"/v1/responses/{made}", b"", authorization=f"Bearer {ALICE}")
        assert gauge(house) == pytest.approx(one, rel=0.1)


def test_without_a_store_there_is_no_gauge_of_stored_bytes() -> None:
    with keeping(_script, keys=(ALICE,), storage=Storage(store_responses=False)) as house:
        assert b"dragoman_stored_bytes" not in house.get("/metrics", authorization=f"Bearer {ALICE}").body
