"""What is remembered is found again, and bounded."""

from __future__ import annotations

import pytest

from dragoman.mint import system_mint
from dragoman.mock.answers.signatures import CHAT, MESSAGES
from dragoman.mock.stored import memory as module
from dragoman.mock.stored.memory import MockResponse, MockStore, Thread, missing, named, page
from dragoman.model.failure import FailureKind
from dragoman.model.jsonvalue import JsonObject


def test_something_happens_for_the_first_time_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ONCE_KEYS", 2)
    memory = MockStore()
    assert [memory.once(key) for key in "aab"] == [True, False, True]
    assert memory.once("c")
    assert memory.once("a"), "the oldest is forgotten"


def test_each_protocol_has_its_own_past() -> None:
    memory = MockStore()
    assert memory.issued_in(CHAT) is memory.issued_in(CHAT)
    assert memory.issued_in(CHAT) is not memory.issued_in(MESSAGES)


def stored(name: str, size: int = 1) -> MockResponse:
    return MockResponse(
        response={"id": name, "output": [{"id": f"msg_{name}"}]}, input=[{"id": f"in_{name}"}], size=size
    )


def test_items_of_a_response_are_known_as_long_as_it_is() -> None:
    memory = MockStore()
    memory.store("a", stored("a"))
    assert memory.stored("a") is not None
    assert memory.item("msg_a") == {"id": "msg_a"} and memory.item("in_a") == {"id": "in_a"}
    assert memory.forget("a") and not memory.forget("a")
    assert memory.stored("a") is None and memory.item("msg_a") is None


def test_the_oldest_go_when_there_are_too_many_or_too_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_STORED", 2)
    monkeypatch.setattr(module, "_MAX_STORED_BYTES", 100)
    memory = MockStore()
    for name in "abc":
        memory.store(name, stored(name))
    assert memory.stored("a") is None and memory.stored("c") is not None
    memory.store("d", stored("d", 100))
    assert memory.stored("c") is None and memory.stored("d") is not None
    for name in "xyz":
        memory.hold(name, Thread(system={}, messages=[], size=0))
    assert memory.thread("x") is None and memory.thread("z") is not None


ITEMS: list[JsonObject] = [{"id": f"msg_{number}"} for number in range(5)]


@pytest.mark.parametrize(
    ("item", "prefix"),
    [
        ({"role": "user"}, "msg_"),
        ({"type": "reasoning"}, "rs_"),
        ({"type": "custom_tool_call"}, "ctc_"),
        ({"type": "function_call_output"}, "fc_"),
        ({"id": "own_1"}, "own_1"),
    ],
)
def test_an_item_has_an_id_of_its_kind(item: JsonObject, prefix: str) -> None:
    assert str(named(item, system_mint())["id"]).startswith(prefix)


@pytest.mark.parametrize(
    ("query", "first", "last", "more"),
    [
        ("", "msg_4", "msg_0", False),
        ("order=asc&limit=2", "msg_0", "msg_1", True),
        ("order=asc&limit=2&after=msg_3", "msg_4", "msg_4", False),
        ("limit=0", "msg_4", "msg_4", True),
        ("limit=many&after=nobody", "msg_4", "msg_0", False),
    ],
)
def test_a_page_is_what_was_asked_for(query: str, first: str, last: str, more: bool) -> None:
    found = page(ITEMS, query)
    assert (found["first_id"], found["last_id"], found["has_more"]) == (first, last, more)


def test_a_page_of_nothing_is_empty() -> None:
    assert page([], "") == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


def test_what_is_missing_is_told() -> None:
    failure = missing("Response", "resp_1", 404)
    assert (failure.kind, failure.message) == (FailureKind.NOT_FOUND, "Response with id 'resp_1' not found.")
