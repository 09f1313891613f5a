"""Conversations over HTTP: made, read, changed, added to, deleted, and answered in by any provider."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator

import pytest
from msgspec import structs

from dragoman.config.settings import Storage
from tests.gateway.harness import CHAT, PATIENCE, RESPONSES, House, whole
from tests.gateway.keeping_house import (
    ALICE,
    BOB,
    SLOW,
    create,
    ended,
    error_in,
    in_store,
    keeping,
    text_of,
    told,
)
from tests.gateway.says import streams, tells
from tests.sdk.digging import Object, dig_objects, dig_text

WORDS = {"type": "message", "role": "user", "content": "Hello."}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with keeping() as opened:
        # The thread of the store begins with its first unit, and belongs to no single test.
        in_store(opened, lambda tables: None)
        yield opened


def _made(house: House, **body: object) -> str:
    answer = house.post("/v1/conversations", body)
    assert answer.status == 200, answer.body
    return str(answer.json()["id"])


def _said(house: House, conversation: str) -> list[tuple[object, str]]:
    listing = told(house, f"/v1/conversations/{conversation}/items?order=asc")
    return [(item["role"], dig_text(item, "content", 0, "text")) for item in dig_objects(listing, "data")]


def test_a_conversation_is_made_read_changed_and_deleted(house: House) -> None:
    made = {**house.post("/v1/conversations", {"metadata": {"a": "b"}, "items": [WORDS]}).json()}
    assert made["object"] == "conversation" and str(made["id"]).startswith("conv_")
    path = f"/v1/conversations/{made['id']!s}"
    assert told(house, path) == made
    changed = house.post(path, {"metadata": {"z": "1"}}).json()
    assert changed == {**made, "metadata": {"z": "1"}}
    assert told(house, path) == changed
    assert house.ask("HEAD", path, b"").status == 200
    gone = house.ask("DELETE", path, b"").json()
    assert gone == {"id": made["id"], "object": "conversation.deleted", "deleted": True}
    for method, below in (("GET", ""), ("POST", ""), ("DELETE", ""), ("GET", "/items"), ("POST", "/items")):
        assert error_in(house.ask(method, path + below, b""))[:2] == (404, "conversation_id")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"metadata":null,"items":null}', b" \n"])
def test_a_conversation_may_begin_with_nothing(house: House, body: bytes) -> None:
    made = house.post("/v1/conversations", body).json()
    assert made["metadata"] == {}
    assert told(house, f"/v1/conversations/{made['id']!s}/items")["data"] == []


def test_items_are_added_listed_read_and_removed(house: House) -> None:
    conversation = _made(house, items=[WORDS])
    path = f"/v1/conversations/{conversation}/items"
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "n", "arguments": "{}"}
    added = house.post(path, {"items": [call, {"type": "function_call_output", "call_id": "c", "output": "x"}]}).json()
    assert [item["type"] for item in dig_objects({**added}, "data")] == ["function_call", "function_call_output"]
    assert (added["first_id"], added["has_more"]) == ("fc_1", False)
    kinds = [item["type"] for item in dig_objects(told(house, path), "data")]
    assert kinds == ["function_call_output", "function_call", "message"]
    assert told(house, f"{path}/fc_1") == {**call, "status": "completed"}
    assert house.ask("DELETE", f"{path}/fc_1", b"").json()["id"] == conversation
    for method in ("GET", "DELETE"):
        assert error_in(house.ask(method, f"{path}/fc_1", b""))[:2] == (404, "item_id")
    page = told(house, f"{path}?limit=1&order=asc")
    assert page["has_more"] is True
    assert len(dig_objects(told(house, f"{path}?order=asc&after={page['last_id']}"), "data")) == 1


LONG = {"a" * 64: "b" * 512, **{str(count): "" for count in range(15)}}


@pytest.mark.parametrize(
    "metadata", [{**LONG, "one": "more"}, {"a" * 65: "b"}, {"a": "b" * 513}, {"a": 1}, {"a": None}, [], "text", 5]
)
def test_metadata_beyond_the_limits_is_refused(house: House, metadata: object) -> None:
    assert error_in(house.post("/v1/conversations", {"metadata": metadata}))[:2] == (400, "metadata")
    conversation = _made(house, metadata=LONG)
    refused = house.post(f"/v1/conversations/{conversation}", {"metadata": metadata})
    assert error_in(refused)[:2] == (400, "metadata")
    assert told(house, f"/v1/conversations/{conversation}")["metadata"] == LONG


@pytest.mark.parametrize("items", [[WORDS] * 21, "text", [1], {}])
def test_items_beyond_the_limits_are_refused(house: House, items: object) -> None:
    assert error_in(house.post("/v1/conversations", {"items": items}))[:2] == (400, "items")
    conversation = _made(house)
    assert error_in(house.post(f"/v1/conversations/{conversation}/items", {"items": items}))[:2] == (400, "items")


def test_what_is_no_json_is_refused_and_other_paths_are_none(house: House) -> None:
    conversation = _made(house)
    assert house.post("/v1/conversations", b"{").status == 400
    assert house.get("/v1/conversations").status == 405
    assert error_in(house.get(f"/v1/conversations/{conversation}/nothing"))[0] == 404
    assert error_in(house.ask("DELETE", f"/v1/conversations/{conversation}/items", b""))[0] == 404


@pytest.mark.parametrize("form", ["text", "object"])
def test_responses_in_a_conversation_know_what_was_said_and_add_to_it(house: House, form: str) -> None:
    conversation = _made(house, items=[WORDS])
    named: object = conversation if form == "text" else {"id": conversation}
    first = create(house, conversation=named, input="How are you?")
    assert first["conversation"] == {"id": conversation}
    assert text_of(first) == "You said: Hello.\nHow are you?"
    create(house, conversation=named, input=[{"role": "user", "content": "Again."}], store=False)
    assert _said(house, conversation) == [
        ("user", "Hello."),
        ("user", "How are you?"),
        ("assistant", text_of(first)),
        ("user", "Again."),
        ("assistant", "You said: Again."),
    ]
    assert len(dig_objects(told(house, f"/v1/responses/{first['id']}/input_items"), "data")) == 2
    later = create(house, previous_response_id=first["id"], input="Elsewhere.")
    listing = told(house, f"/v1/responses/{later['id']}/input_items?order=asc")
    assert len(dig_objects(listing, "data")) == 4
    assert len(_said(house, conversation)) == 5


def test_a_response_in_the_background_has_its_conversation_alone_until_it_ends() -> None:
    go_on = threading.Event()

    async def wait() -> None:
        assert await asyncio.to_thread(go_on.wait, PATIENCE)

    reply = tells(CHAT)
    with keeping([structs.replace(reply, steps=(wait, *reply.steps))]) as house:
        conversation = _made(house)
        made = create(house, model="chat/served", input="x", conversation=conversation, background=True)
        body = {"model": "chat/served", "input": "x", "conversation": conversation}
        locked = error_in(house.post("/v1/responses", body))
        assert locked[:3] == (409, "conversation", "conversation_locked")
        assert conversation in locked[3]
        added = error_in(house.post(f"/v1/conversations/{conversation}/items", {"items": [WORDS]}))
        assert added[:3] == (409, "conversation", "conversation_locked")
        go_on.set()
        assert ended(house, made["id"])["status"] == "completed"
        assert len(_said(house, conversation)) == 2
        create(house, conversation=conversation)
        assert len(_said(house, conversation)) == 4


def test_a_cancelled_response_leaves_its_conversation_as_it_was_and_free(house: House) -> None:
    conversation = _made(house, items=[WORDS])
    made = create(house, model=SLOW, input="word " * 400, conversation=conversation, background=True)
    house.post(f"/v1/responses/{made['id']}/cancel", b"")
    assert len(_said(house, conversation)) == 1
    create(house, conversation=conversation)
    assert len(_said(house, conversation)) == 3


def test_an_answer_that_fails_adds_nothing_and_leaves_the_conversation_free() -> None:
    broken = whole({"error": {"message": "no", "type": "server_error"}}, 400)
    with keeping([broken, tells(CHAT)]) as house:
        conversation = _made(house, items=[WORDS])
        body = {"model": "chat/served", "input": "x", "conversation": conversation}
        assert house.post("/v1/responses", body).status == 400
        assert len(_said(house, conversation)) == 1
        assert house.post("/v1/responses", body).status == 200


def test_a_provider_that_keeps_responses_is_told_what_was_said_in_a_conversation_that_is_kept_here() -> None:
    with keeping([tells(RESPONSES, "one"), streams(RESPONSES, "two")]) as house:
        conversation = _made(house, items=[WORDS])
        body: Object = {"model": "responses/served", "input": "More.", "conversation": conversation}
        assert house.post("/v1/responses", body).status == 200
        assert house.post("/v1/responses", {**body, "stream": True}).status == 200
        first, second = (received.json() for received in house.provider.received)
        assert "conversation" not in first
        assert len(dig_objects({**first}, "input")) == 2
        assert len(dig_objects({**second}, "input")) == 4
        assert [text for _, text in _said(house, conversation)] == ["Hello.", "More.", "one", "More.", "two"]
        assert error_in(house.post("/v1/responses", {**body, "background": True}))[:2] == (400, "background")


def test_a_conversation_that_a_provider_keeps_is_its_own() -> None:
    with keeping(lambda received: whole({"id": "conv_theirs"})) as house:
        assert error_in(house.get("/v1/conversations/conv_theirs"))[:2] == (404, "conversation_id")
        raw = b'{ "metadata" : {"a": "\\u00e9"} }'
        for path in ("/v1/conversations", "/v1/conversations/conv_theirs"):
            answer = house.post(path, raw, x_dragoman_provider="responses", content_type="application/json")
            assert answer.json() == {"id": "conv_theirs"}
            assert house.provider.received[-1].body == raw
            assert house.provider.received[-1].target == path


def test_nothing_of_a_conversation_is_there_for_another_key() -> None:
    with keeping(lambda received: whole({"id": "conv_theirs"}), keys=(ALICE, BOB)) as house:
        alice, bob = ({"authorization": f"Bearer {key}"} for key in (ALICE, BOB))
        conversation = str(house.post("/v1/conversations", {"items": [WORDS]}, **alice).json()["id"])
        listing = told(house, f"/v1/conversations/{conversation}/items", **alice)
        item = dig_objects(listing, "data")[0]["id"]
        for named in ({}, {"x_dragoman_provider": "responses"}):
            for method, below in (
                ("GET", ""),
                ("POST", ""),
                ("DELETE", ""),
                ("GET", "/items"),
                ("POST", "/items"),
                ("GET", f"/items/{item}"),
                ("DELETE", f"/items/{item}"),
            ):
                path = f"/v1/conversations/{conversation}{below}"
                assert error_in(house.ask(method, path, b"{}", **bob, **named))[0] == 404
        for model in ("echo/text@openai-chat", "responses/served", "messages/served"):
            body = {"model": model, "input": "x", "conversation": conversation}
            assert error_in(house.post("/v1/responses", body, **bob))[:2] == (404, "conversation")
            refers = {"model": model, "input": [{"id": str(item)}]}
            assert error_in(house.post("/v1/responses", refers, **bob))[:2] == (404, "input")
        assert not house.provider.received
        assert told(house, f"/v1/conversations/{conversation}/items", **alice) == listing


def test_where_nothing_is_kept_conversations_are_those_of_the_provider_that_keeps_them() -> None:
    with keeping(lambda received: whole({"id": "conv_theirs"}), storage=Storage(store_responses=False)) as house:
        assert house.post("/v1/conversations", {}, x_dragoman_provider="responses").json() == {"id": "conv_theirs"}
        assert error_in(house.get("/v1/conversations/conv_theirs"))[0] == 404
    with keeping(storage=Storage(store_responses=False), keys=(ALICE, BOB)) as house:
        answer = house.post("/v1/conversations", {}, authorization=f"Bearer {BOB}", x_dragoman_provider="responses")
        assert answer.status == 404


def test_what_was_said_is_kept_byte_for_byte(house: House) -> None:
    conversation = _made(house, items=[{**WORDS, "odd": 1}])
    items = in_store(house, lambda tables: tables.conversations.items(conversation))
    assert json.loads(items[0].body) == {**WORDS, "odd": 1}


def test_nobody_reads_what_another_key_has_at_a_provider_through_a_conversation() -> None:
    with keeping([tells(RESPONSES)], keys=(ALICE, BOB)) as house:
        alice, bob = ({"authorization": f"Bearer {key}"} for key in (ALICE, BOB))
        made: Object = {**house.post("/v1/responses", {"model": "responses/served", "input": "x"}, **alice).json()}
        reference = {"items": [{"type": "item_reference", "id": dig_text(made, "output", 0, "id")}]}
        assert error_in(house.post("/v1/conversations", reference, **bob))[:2] == (404, "items")
        empty = str(house.post("/v1/conversations", {}, **bob).json()["id"])
        assert error_in(house.post(f"/v1/conversations/{empty}/items", reference, **bob))[:2] == (404, "items")
        assert house.post("/v1/conversations", reference, **alice).status == 200


def test_a_conversation_goes_on_after_a_compaction_in_it(house: House) -> None:
    conversation = _made(house, items=[WORDS])
    trigger = [{"type": "compaction_trigger"}]
    assert create(house, input=trigger, conversation=conversation)["status"] == "completed"
    said = text_of(create(house, input="And?", conversation=conversation))
    assert said.startswith("You said: Summary of the conversation so far:") and said.endswith("And?")
