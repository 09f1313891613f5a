"""A conversation is made, added to, paged, changed and deleted, and stands before the requests that name it."""

from __future__ import annotations

from dragoman.mint import system_mint
from dragoman.mock.answers.signatures import RESPONSES
from dragoman.mock.stored.conversations import conversation_object, created, item, items, name_of, remember
from dragoman.mock.stored.memory import MockStore
from dragoman.mock.stored.responses import expanded
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from tests.mock.asking import PATHS, mock_running
from tests.mock.calling import text_of
from tests.sdk.digging import dig_objects

MINT = system_mint()
FIRST: JsonObject = {"type": "message", "role": "user", "content": "One."}


def held() -> tuple[MockStore, str]:
    memory = MockStore()
    made = created({"items": [FIRST], "metadata": {"a": "b"}}, memory, MINT)
    assert made["object"] == "conversation" and made["metadata"] == {"a": "b"}
    return memory, str(made["id"])


def status(outcome: JsonObject | Failure) -> int:
    return outcome.status if isinstance(outcome, Failure) else 200


def test_a_conversation_is_named_by_its_id_or_an_object_with_it() -> None:
    assert name_of("conv_1") == name_of({"id": "conv_1"}) == "conv_1"


def test_a_conversation_is_read_changed_and_deleted() -> None:
    memory, name = held()
    changed = conversation_object(name, "POST", {"metadata": {"c": "d"}}, memory)
    assert changed == conversation_object(name, "GET", {}, memory)
    assert isinstance(changed, dict) and changed["metadata"] == {"c": "d"}
    assert conversation_object(name, "DELETE", {}, memory) == {
        "id": name,
        "object": "conversation.deleted",
        "deleted": True,
    }
    assert status(conversation_object(name, "GET", {}, memory)) == 404
    assert status(items(name, "GET", "", {}, memory, MINT)) == 404
    assert status(item(f"{name}/msg_1", "GET", memory)) == 404


def test_items_are_added_read_and_deleted() -> None:
    memory, name = held()
    added = items(name, "POST", "", {"items": [{**FIRST, "id": "msg_2"}]}, memory, MINT)
    assert isinstance(added, dict) and added["last_id"] == "msg_2"
    assert item(f"{name}/msg_2", "GET", memory) == {**FIRST, "id": "msg_2"}
    listed = items(name, "GET", "limit=1", {}, memory, MINT)
    assert isinstance(listed, dict) and (listed["first_id"], listed["has_more"]) == ("msg_2", True)
    assert status(item(f"{name}/msg_2", "DELETE", memory)) == 200
    assert status(item(f"{name}/msg_2", "GET", memory)) == 404


def test_what_was_said_is_added_and_stands_before_the_next_request() -> None:
    memory, name = held()
    output: JsonObject = {"id": "msg_9", "type": "message", "role": "assistant", "content": []}
    remember({"id": name}, [FIRST], {"output": [output]}, memory, MINT)
    body = expanded({"conversation": name, "input": "Two."}, memory)
    assert isinstance(body, dict) and isinstance(body["input"], list) and len(body["input"]) == 4
    assert status(expanded({"conversation": "conv_9", "input": "Two."}, memory)) == 404


def test_a_script_goes_on_in_a_conversation() -> None:
    with mock_running() as client:
        made = client.ask("/v1/conversations", {}).json()
        body = {"model": "gpt-5.1", "conversation": made["id"]}
        first = client.ask(PATHS[RESPONSES], {**body, "input": "<mock>say a\n---\nsay b</mock>"}).json()
        second = client.ask(PATHS[RESPONSES], {**body, "input": "And?"}).json()
        place = f"/v1/conversations/{made['id']}"
        assert (text_of(RESPONSES, first), text_of(RESPONSES, second)) == ("a", "b")
        assert second["conversation"] == {"id": made["id"]}
        found = dig_objects(client.ask(f"{place}/items?order=asc", method="GET").json(), "data")
        assert [one["role"] for one in found] == ["user", "assistant", "user", "assistant"]
        assert client.ask(f"{place}/items/{found[0]['id']}", method="GET").json() == found[0]
        assert client.ask(place, method="DELETE").status == 200
        assert client.ask(PATHS[RESPONSES], {**body, "input": "And?"}).status == 404
