"""Stored responses are continued, referred to, paged, cancelled and deleted."""

from __future__ import annotations

import pytest

from dragoman.mint import system_mint
from dragoman.mock.answers.signatures import RESPONSES, opened
from dragoman.mock.stored.memory import MockStore
from dragoman.mock.stored.responses import (
    cancelled,
    compacted,
    deleted,
    expanded,
    input_items,
    inputs,
    remember,
    retrieved,
)
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject
from tests.mock.asking import read

ASKED: JsonObject = {"model": "gpt-5", "input": [{"role": "user", "content": "One."}]}
OUTPUT: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
ANSWER: JsonObject = {"id": "resp_1", "status": "completed", "output": [OUTPUT], "usage": {}}


def kept(**more: bool) -> MockStore:
    memory = MockStore()
    remember({**ASKED, **more}, ANSWER, memory, system_mint(), 10)
    return memory


def failed(outcome: JsonObject | Failure) -> tuple[int, str | None, str | None]:
    assert isinstance(outcome, Failure)
    return outcome.status, outcome.code, outcome.param


def test_an_input_is_items_however_it_is_given() -> None:
    assert input_items("Hi.") == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
    ]
    assert input_items("") == [] and input_items(None) == [] and input_items([{"a": 1}]) == [{"a": 1}]


def test_what_is_new_follows_what_is_stored() -> None:
    whole = expanded({"model": "gpt-5", "previous_response_id": "resp_1", "input": "Two."}, kept())
    assert isinstance(whole, dict) and isinstance(whole["input"], list)
    assert [item.get("role") for item in whole["input"] if isinstance(item, dict)] == ["user", "assistant", "user"]


def test_an_item_is_found_by_its_id() -> None:
    whole = expanded({"input": [{"type": "item_reference", "id": "msg_1"}]}, kept())
    assert isinstance(whole, dict) and whole["input"] == [OUTPUT]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"previous_response_id": "resp_9"}, (400, "previous_response_not_found", "previous_response_id")),
        ({"input": [{"type": "item_reference", "id": "msg_9"}]}, (404, None, "input")),
        ({"conversation": "conv_9"}, (404, None, "conversation")),
    ],
    ids=["response", "item", "conversation"],
)
def test_an_unknown_id_is_told(body: JsonObject, expected: tuple[int, str | None, str | None]) -> None:
    assert failed(expanded(body, kept())) == expected


def test_nothing_is_kept_that_should_not_be() -> None:
    assert kept(store=False).stored("resp_1") is None


def test_a_response_is_shown_and_deleted() -> None:
    memory = kept()
    assert retrieved("resp_1", memory) == ANSWER
    assert deleted("resp_1", memory) == {"id": "resp_1", "object": "response", "deleted": True}
    for outcome in (retrieved("resp_1", memory), deleted("resp_1", memory), cancelled("resp_1", memory)):
        assert failed(outcome)[0] == 404


def test_a_promise_is_kept_or_cancelled() -> None:
    memory = MockStore()
    body: JsonObject = {**ASKED, "background": True}
    now = remember(body, ANSWER, memory, system_mint(), 10)
    assert (now["status"], now["output"]) == ("queued", [])
    stopped = cancelled("resp_1", memory)
    assert isinstance(stopped, dict) and stopped["status"] == "cancelled"
    remember(body, ANSWER, memory, system_mint(), 10)
    done = retrieved("resp_1", memory)
    assert isinstance(done, dict) and done["status"] == "completed"
    assert cancelled("resp_1", memory) == done, "what is done cannot be cancelled"
    assert failed(cancelled("resp_1", kept()))[0] == 400


def test_inputs_come_in_pages() -> None:
    memory = MockStore()
    items = [{"role": "user", "content": str(number)} for number in range(5)]
    remember({"input": [{**item} for item in items]}, ANSWER, memory, system_mint(), 10)
    first = inputs("resp_1", "limit=2&order=asc", memory)
    assert isinstance(first, dict) and first["has_more"] is True
    last = str(first["last_id"])
    second = inputs("resp_1", f"limit=10&order=asc&after={last}", memory)
    assert isinstance(second, dict) and second["has_more"] is False
    assert isinstance(second["data"], list) and len(second["data"]) == 3
    latest = inputs("resp_1", "", memory)
    assert isinstance(latest, dict) and isinstance(latest["data"], list)
    assert isinstance(latest["data"][0], dict) and latest["data"][0]["content"] == "4"
    assert failed(inputs("resp_9", "", memory))[0] == 404


def test_a_compaction_keeps_what_the_user_said_and_counts_the_turns() -> None:
    items = [{"role": "user", "content": "<mock>say a\n---\nsay b</mock>"}, {"role": "assistant", "content": "a"}]
    question = read(RESPONSES, {"model": "gpt-5", "input": items})
    whole: JsonObject = {"input": [{**item} for item in items]}
    output = compacted(whole, question, 7, system_mint())["output"]
    assert isinstance(output, list) and len(output) == 2
    assert isinstance(output[1], dict) and (opened(str(output[1]["encrypted_content"])) or "").endswith("turns: 1")
