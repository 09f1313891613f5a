"""A thread is held under the id of its last answer and continued once."""

from __future__ import annotations

import pytest

from dragoman.mock.stored.memory import MockStore
from dragoman.mock.stored.threads import expanded, remember
from dragoman.model.failure import Failure
from dragoman.model.jsonvalue import JsonObject

FIRST: JsonObject = {
    "model": "claude-opus-5",
    "system": "Be brief.",
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": "One."}],
    "thread": {"type": "create"},
}
ANSWER: JsonObject = {"id": "msg_1", "content": [{"type": "text", "text": "Two."}]}
NEXT: JsonObject = {
    "model": "claude-opus-5",
    "messages": [{"role": "user", "content": "Three."}],
    "thread": {"type": "continue", "previous_message_id": "msg_1"},
}


def held() -> MockStore:
    memory = MockStore()
    whole = expanded(FIRST, memory)
    assert whole == FIRST
    remember(FIRST, FIRST, ANSWER, memory, 100)
    return memory


def code(outcome: JsonObject | Failure) -> tuple[int, object]:
    assert isinstance(outcome, Failure) and outcome.extras is not None
    details = outcome.extras.fields["details"]
    assert isinstance(details, dict)
    return outcome.status, details["error_code"]


def test_a_request_without_a_thread_stands_for_itself() -> None:
    memory = MockStore()
    body: JsonObject = {"messages": []}
    assert expanded(body, memory) is body
    remember(body, body, ANSWER, memory, 1)
    assert memory.thread("msg_1") is None


def test_what_is_new_follows_what_is_held() -> None:
    memory = held()
    whole = expanded(NEXT, memory)
    assert isinstance(whole, dict)
    assert (whole["system"], whole["tools"]) == (FIRST["system"], FIRST["tools"])
    assert whole["messages"] == [
        {"role": "user", "content": "One."},
        {"role": "assistant", "content": ANSWER["content"]},
        {"role": "user", "content": "Three."},
    ]
    remember(NEXT, whole, {**ANSWER, "id": "msg_2"}, memory, 100)
    later = expanded({**NEXT, "thread": {"type": "continue", "previous_message_id": "msg_2"}}, memory)
    assert isinstance(later, dict) and isinstance(later["messages"], list) and len(later["messages"]) == 5


def test_an_answer_is_continued_once_and_a_failed_try_does_not_count() -> None:
    memory = held()
    assert isinstance(expanded(NEXT, memory), dict)
    whole = expanded(NEXT, memory)
    assert isinstance(whole, dict)
    remember(NEXT, whole, {**ANSWER, "id": "msg_2"}, memory, 100)
    assert code(expanded(NEXT, memory)) == (409, "thread_already_continued")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"thread": {"type": "continue", "previous_message_id": "msg_9"}}, (404, "thread_not_found")),
        ({"system": "Be long."}, (400, "thread_fingerprint_mismatch")),
        ({"context_management": {"edits": []}}, (400, "thread_unsupported_request")),
    ],
    ids=["unknown", "changed", "unsupported"],
)
def test_what_cannot_be_continued_is_told_by_a_code(change: JsonObject, expected: tuple[int, str]) -> None:
    assert code(expanded({**NEXT, **change}, held())) == expected


def test_an_empty_answer_adds_no_turn() -> None:
    memory = MockStore()
    remember(FIRST, FIRST, {"id": "msg_1", "content": []}, memory, 1)
    thread = memory.thread("msg_1")
    assert thread is not None and len(thread.messages) == 1
