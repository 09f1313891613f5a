"""The second turn: what users of each SDK send back, and what a provider reads of it."""

from __future__ import annotations

import pytest

from tools.replaying.protocols import CHAT, MESSAGES, PROTOCOLS, RESPONSES, Object
from tools.replaying.said import Call, Said
from tools.replaying.turns import EARLIER, echoed, question, read_echo, with_earlier_call

CALL = Call("c1", "f", {"x": 1})
ANSWERS: dict[str, Object] = {
    MESSAGES: {
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
        ]
    },
    CHAT: {
        "choices": [
            {
                "message": {
                    "content": "a",
                    "refusal": None,
                    "reasoning_content": "hm",
                    "reasoning_details": [{"type": "reasoning.encrypted", "data": "s"}],
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}],
                }
            }
        ]
    },
    RESPONSES: {
        "output": [
            {"type": "reasoning", "summary": [{"text": "hm"}], "encrypted_content": "s"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"x":1}'},
        ]
    },
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_answer_and_its_results_go_back(protocol: str) -> None:
    asked = question(protocol, "m", Said(calls=[CALL]), streamed=False)
    said, results = read_echo(protocol, echoed(protocol, asked, ANSWERS[protocol]))
    assert (said.text, said.reasoning, said.seals, said.calls, results) == ("a", "hm", ["s"], [CALL], ["c1"])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_answer_without_calls_is_followed_by_the_user(protocol: str) -> None:
    asked = question(protocol, "m", Said(), streamed=True)
    again = echoed(protocol, asked, {})
    turns = again["input" if protocol == RESPONSES else "messages"]
    assert isinstance(turns, list) and turns[-1] == {"role": "user", "content": "Go on."}
    assert again["stream"] is True and "tools" not in again


def test_what_is_null_stays_behind() -> None:
    asked = question(CHAT, "m", Said(calls=[CALL]), streamed=False)
    messages = echoed(CHAT, asked, ANSWERS[CHAT])["messages"]
    assert isinstance(messages, list) and "refusal" not in messages[1]


@pytest.mark.parametrize("protocol", (CHAT, RESPONSES))
def test_tools_of_text_are_declared_as_such(protocol: str) -> None:
    tools = question(protocol, "m", Said(calls=[Call("c", "f", "raw"), Call("d", "g", {})]), streamed=False)["tools"]
    assert isinstance(tools, list) and [tool["type"] for tool in tools] == ["custom", "function"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_earlier_call_belongs_to_the_turn(protocol: str) -> None:
    asked = with_earlier_call(protocol, question(protocol, "m", Said(calls=[EARLIER]), streamed=False))
    said, results = read_echo(protocol, asked)
    assert (said.calls, results) == ([EARLIER], [EARLIER.id])
