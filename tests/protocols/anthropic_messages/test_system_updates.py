"""System messages that change tools and effort."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import Foreign
from dragoman.model.tools import FunctionTool
from dragoman.protocols.anthropic_messages import CODEC

BASE: JsonObject = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}


def test_the_last_effort_and_the_tool_changes_are_updates() -> None:
    added: JsonObject = {"type": "tool_definition", "definition": {"name": "g", "input_schema": {}}}
    messages: list[JsonValue] = [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": [], "output_config": {"effort": "low"}},
        {
            "role": "system",
            "content": [
                {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}},
                {"type": "tool_addition", "tool": added},
            ],
            "output_config": {"effort": "max"},
        },
    ]
    request = CODEC.decode_request({**BASE, "messages": messages, "tools": [{"name": "f", "input_schema": {}}]})
    assert request.updates.effort == "max"
    assert request.updates.removed == ("f",)
    assert [tool.name for tool in request.updates.tools if isinstance(tool, FunctionTool)] == ["g"]
    applied = [part.applied for message in request.messages for part in message.parts if isinstance(part, Foreign)]
    assert all(applied)
    assert applied[0] != applied[-1]


def test_a_tool_may_return_after_it_was_removed() -> None:
    reference: JsonObject = {"type": "tool_reference", "name": "f"}
    changes: list[JsonValue] = [
        {"type": "tool_removal", "tool": reference},
        {"type": "tool_addition", "tool": reference},
    ]
    request = CODEC.decode_request({**BASE, "messages": [{"role": "system", "content": changes}]})
    assert request.updates.removed == ()


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"role": "system", "content": [{"type": "tool_removal", "tool": "f"}]}, "/messages/0/content/0/tool"),
        ({"role": "system", "content": [{"type": "tool_addition", "tool": {}}]}, "/messages/0/content/0/tool/type"),
        ({"role": "system", "content": "s", "output_config": {"effort": 7}}, "/messages/0/output_config/effort"),
        ({"role": "system", "content": "s", "clear_at": 7}, "/messages/0/clear_at"),
    ],
    ids=["no tool", "a tool of no type", "an effort", "a lifetime"],
)
def test_wrong_changes_are_named_with_their_place(message: JsonObject, path: str) -> None:
    with pytest.raises(WireError) as error:
        CODEC.decode_request({**BASE, "messages": [message]})
    assert error.value.path == path


def test_a_change_that_is_not_known_stays_in_place() -> None:
    change: JsonObject = {"type": "tool_removal", "tool": {"type": "tool_pattern", "name": "f*"}}
    request = CODEC.decode_request({**BASE, "messages": [{"role": "system", "content": [change]}]})
    (part,) = request.messages[0].parts
    assert part == Foreign(origin="anthropic-messages", kind="tool_removal", body=change)
