"""What is remembered is found again, and bounded."""

from __future__ import annotations

import pytest

from dragoman.mock.answers.signatures import CHAT, MESSAGES
from dragoman.mock.stored import memory as module
from dragoman.mock.stored.memory import MockResponse, MockStore, Thread


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
