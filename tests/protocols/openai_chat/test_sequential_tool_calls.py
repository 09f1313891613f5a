"""Calls made at once, for servers that want each result directly after its call."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonList, JsonObject
from dragoman.model.losses import Ledger
from dragoman.model.parts import Text, ToolCall, ToolResult
from dragoman.protocols.openai_chat.sequential_tool_calls import split_parallel_calls
from tests.protocols.openai_chat.room import assistant, losses, said, target, user, written


def call(call_id: str) -> JsonObject:
    return {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}


def calls(*ids: str, content: str | None = None) -> JsonObject:
    return {"role": "assistant", "content": content, "tool_calls": [call(one) for one in ids]}


def result(call_id: str) -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": f"of {call_id}"}


def test_every_result_stands_after_its_own_call() -> None:
    ledger = Ledger()
    first = {**calls("a", "b", content="Both."), "reasoning": "Two."}
    told = split_parallel_calls([first, result("b"), result("a"), {"role": "user", "content": "go on"}], ledger)
    assert told == [
        {**first, "tool_calls": [call("a")]},
        result("a"),
        calls("b"),
        result("b"),
        {"role": "user", "content": "go on"},
    ]
    assert losses(ledger) == {("approximated", "parallel_calls", "messages")}


@pytest.mark.parametrize(
    "messages",
    [
        [calls("a"), result("a")],
        [calls("a", "b"), result("a")],
        [calls("a", "b"), result("a"), result("c")],
        [calls("a", "b"), result("a"), result("b"), result("b")],
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}],
        [],
    ],
    ids=["one call", "a result is missing", "a stranger's", "one said twice", "no calls", "nothing"],
)
def test_what_does_not_pair_stays_as_it_is(messages: JsonList) -> None:
    ledger = Ledger()
    assert split_parallel_calls(messages, ledger) == messages
    assert len(ledger) == 0


def test_a_row_asks_for_it() -> None:
    request = said(
        user(Text(text="hi")),
        assistant(ToolCall(call_id="a", name="f", arguments="{}"), ToolCall(call_id="b", name="f", arguments="{}")),
        user(
            ToolResult(call_id="a", parts=(Text(text="1"),)),
            ToolResult(call_id="b", parts=(Text(text="2"),)),
        ),
    )
    roles = [message["role"] for message in _messages(written(request, target(results_apart=True))[0])]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]
    assert [message["role"] for message in _messages(written(request)[0])] == ["user", "assistant", "tool", "tool"]


def _messages(body: JsonObject) -> list[JsonObject]:
    found = body["messages"]
    assert isinstance(found, list)
    return [message for message in found if isinstance(message, dict)]
