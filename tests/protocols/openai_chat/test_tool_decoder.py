"""Tools read: usual declarations in one step, exactly as member by member."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import CacheBreakpoint, Extras
from dragoman.model.tools import ChoiceMode, ForeignTool, FunctionTool, TextTool, ToolChoice, ToolRef, ToolSpec
from dragoman.protocols.openai_chat import NAME
from dragoman.protocols.openai_chat.tool_decoder import (
    decode_choice,
    decode_tool,
    plain_function,
    read_tool,
)
from dragoman.wire.fields import Fields
from tests.protocols.openai_chat.room import A

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
def test_a_usual_function_is_read_in_one_step_as_member_by_member(tool: JsonObject) -> None:
    plain = plain_function(tool)
    if plain is not None:
        assert plain == read_tool(Fields(tool))


def test_a_function_of_the_usual_members_is_read_in_one_step() -> None:
    function: JsonObject = {"name": "f", "description": "d", "parameters": {}, "strict": False}
    tool = FunctionTool(name="f", description="d", parameters={}, strict=False)
    assert plain_function({"type": "function", "function": function}) == tool


TOOLS: list[tuple[JsonObject, ToolSpec]] = [
    (
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}, "strict": True}},
        FunctionTool(name="f", description="d", parameters={}, strict=True),
    ),
    (
        {"type": "function", "function": {"name": "f", "mood": 1}, "cache_control": {"type": "ephemeral"}},
        FunctionTool(
            name="f", cache=CacheBreakpoint(origin=A), extras=Extras(origin=NAME, fields={"function": {"mood": 1}})
        ),
    ),
    ({"type": "custom", "custom": {"name": "c"}}, TextTool(name="c")),
    (
        {
            "type": "custom",
            "custom": {"name": "c", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}},
        },
        TextTool(name="c", syntax="lark", definition="x"),
    ),
    (
        {"type": "web_search", "x": 1},
        ForeignTool(origin=NAME, kind="web_search", body={"type": "web_search", "x": 1}),
    ),
]


@pytest.mark.parametrize(("tool", "read"), TOOLS)
def test_a_declaration_is_read_whole(tool: JsonObject, read: ToolSpec) -> None:
    assert decode_tool(tool, None, 0) == read


def test_a_tool_that_is_no_object_is_an_error_with_its_place() -> None:
    with pytest.raises(WireError) as caught:
        decode_tool(7, (None, "tools"), 2)
    assert caught.value.path == "/tools/2"


F, CUSTOM = ToolRef(kind="function", name="f"), ToolRef(kind="custom", name="c")
SEARCH = ToolRef(kind="web_search", native={"type": "web_search"})
CHOICES: list[tuple[JsonValue, ToolChoice]] = [
    ("auto", ToolChoice(mode=ChoiceMode.AUTO)),
    ("none", ToolChoice(mode=ChoiceMode.NONE)),
    ("required", ToolChoice(mode=ChoiceMode.REQUIRED)),
    ({"type": "function", "function": {"name": "f"}}, ToolChoice(mode=ChoiceMode.NAMED, tool=F)),
    ({"type": "custom", "custom": {"name": "c"}}, ToolChoice(mode=ChoiceMode.NAMED, tool=CUSTOM)),
    (
        {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
        },
        ToolChoice(mode=ChoiceMode.ALLOWED, required=True, allowed=(F,)),
    ),
    ({"type": "web_search"}, ToolChoice(mode=ChoiceMode.HOSTED, tool=SEARCH)),
]


@pytest.mark.parametrize(("choice", "read"), CHOICES)
def test_a_choice_is_read_whole(choice: JsonValue, read: ToolChoice) -> None:
    assert decode_choice(Fields({"tool_choice": choice})) == read
