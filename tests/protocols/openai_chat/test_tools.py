"""Tools read: usual declarations in one step, exactly as member by member, and written back as they were said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.protocols.openai_chat.tools import (
    decode_choice,
    decode_tool,
    encode_choice_home,
    encode_tool_home,
    plain_function,
    read_tool,
)
from dragoman.wire.fields import Fields

ODD: st.SearchStrategy[JsonValue] = st.one_of(st.none(), st.just(7), st.just([]))
FUNCTION = st.fixed_dictionaries(
    {},
    optional={
        "name": st.one_of(st.just("f"), ODD),
        "description": st.one_of(st.just("d"), ODD),
        "parameters": st.one_of(st.just({"type": "object"}), ODD),
        "strict": st.one_of(st.booleans(), ODD),
        "more": st.just(1),
    },
)
TOOL = st.fixed_dictionaries(
    {"function": st.one_of(FUNCTION, FUNCTION, ODD)},
    optional={"type": st.sampled_from(["function", "custom"]), "cache_control": st.just({"type": "ephemeral"})},
)


@given(TOOL)
@settings(max_examples=200)
def test_a_usual_function_is_read_in_one_step_as_member_by_member(tool: JsonObject) -> None:
    plain = plain_function(tool)
    if plain is not None:
        assert plain == read_tool(Fields(tool))


TOOLS: list[JsonObject] = [
    {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}, "strict": True}},
    {"type": "function", "function": {"name": "f", "mood": 1}, "cache_control": {"type": "ephemeral"}},
    {"type": "custom", "custom": {"name": "c"}},
    {
        "type": "custom",
        "custom": {"name": "c", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}},
    },
    {"type": "web_search", "x": 1},
]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_declaration_comes_home_as_it_was(tool: JsonObject) -> None:
    assert encode_tool_home(decode_tool(tool, None, 0)) == tool


def test_a_tool_that_is_no_object_is_an_error_with_its_place() -> None:
    with pytest.raises(WireError) as caught:
        decode_tool(7, (None, "tools"), 2)
    assert caught.value.path == "/tools/2"


CHOICES: list[JsonValue] = [
    "auto",
    "none",
    "required",
    {"type": "function", "function": {"name": "f"}},
    {"type": "custom", "custom": {"name": "c"}},
    {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
    },
    {"type": "web_search"},
]


@pytest.mark.parametrize("choice", CHOICES)
def test_a_choice_comes_home_as_it_was(choice: JsonValue) -> None:
    read = decode_choice(Fields({"tool_choice": choice}))
    assert read is not None
    assert encode_choice_home(read) == choice
