"""Tools and choices as they are decoded."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.tools import (
    ChoiceMode,
    CodeTool,
    ForeignTool,
    FunctionTool,
    McpTool,
    ToolRef,
    ToolSearchTool,
    ToolSpec,
    WebFetchTool,
    WebSearchTool,
)
from dragoman.protocols.anthropic_messages.tool_decoder import decode_choice, decode_tool, decode_tools, plain_tool
from dragoman.wire.fields import Fields


def tools(*declarations: JsonObject, servers: tuple[JsonObject, ...] = ()) -> tuple[ToolSpec, ...]:
    """Declarations as specifications."""
    return decode_tools(Fields({"tools": [*declarations], "mcp_servers": [*servers]}))


@pytest.mark.parametrize(
    ("kind", "name", "parameter"),
    [
        ("bash_20250124", "bash", "command"),
        ("text_editor_20250124", "str_replace_editor", "view_range"),
        ("text_editor_20250728", "str_replace_based_edit_tool", "old_str"),
        ("memory_20250818", "memory", "new_path"),
        ("computer_20251124", "computer", "coordinate"),
    ],
)
def test_vendor_tools_are_functions_with_documented_parameters(kind: str, name: str, parameter: str) -> None:
    (tool,) = tools({"type": kind, "name": name})
    assert isinstance(tool, FunctionTool)
    assert tool.name == name
    assert tool.parameters is not None
    properties = tool.parameters["properties"]
    assert isinstance(properties, dict)
    assert parameter in properties
    assert tool.extras is not None
    assert tool.extras.fields["type"] == kind


def test_a_toolset_is_its_enabled_members_in_one_namespace() -> None:
    members = tools({"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}})
    names = [tool.name for tool in members if isinstance(tool, FunctionTool)]
    assert len(names) == 16
    assert "zoom" not in names
    assert [isinstance(tool, FunctionTool) and tool.extras is not None for tool in members] == [True] + [False] * 15
    assert {tool.namespace.name for tool in members if isinstance(tool, FunctionTool) and tool.namespace} == {
        "computer"
    }


def test_pitfall_152_server_tools_need_no_schema() -> None:
    found = tools(
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 2, "allowed_domains": ["a"]},
        {"type": "web_fetch_20260318", "name": "web_fetch"},
        {"type": "code_execution_20250825", "name": "code_execution"},
        {"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"},
        {"type": "advisor_20260301", "name": "advisor"},
    )
    assert [type(tool) for tool in found] == [WebSearchTool, WebFetchTool, CodeTool, ToolSearchTool, ForeignTool]
    assert isinstance(found[0], WebSearchTool)
    assert (found[0].max_uses, found[0].allowed_domains) == (2, ("a",))


def test_a_tool_server_and_its_toolset_are_one_tool() -> None:
    toolset: JsonObject = {
        "type": "mcp_toolset",
        "mcp_server_name": "s",
        "default_config": {"enabled": False},
        "configs": {"x": {"enabled": True}, "y": {"enabled": False}},
    }
    (tool,) = tools(toolset, servers=({"type": "url", "name": "s", "url": "https://s", "authorization_token": "t"},))
    assert isinstance(tool, McpTool)
    assert (tool.label, tool.url, tool.authorization, tool.allowed_tools) == ("s", "https://s", "t", ("x",))


@pytest.mark.parametrize(
    ("choice", "mode", "parallel"),
    [
        ({"type": "auto"}, ChoiceMode.AUTO, None),
        ({"type": "any", "disable_parallel_tool_use": True}, ChoiceMode.REQUIRED, False),
        ({"type": "none"}, ChoiceMode.NONE, None),
        ({"type": "tool", "name": "f", "disable_parallel_tool_use": False}, ChoiceMode.NAMED, True),
    ],
)
def test_choices(choice: JsonObject, mode: ChoiceMode, parallel: bool | None) -> None:
    decoded, calls = decode_choice(Fields({"tool_choice": choice}), ())
    assert decoded is not None
    assert (decoded.mode, calls) == (mode, parallel)


def test_a_choice_may_name_a_server_tool() -> None:
    declared = tools({"type": "web_search_20250305", "name": "web_search"})
    decoded, _ = decode_choice(Fields({"tool_choice": {"type": "tool", "name": "web_search"}}), declared)
    assert decoded is not None
    assert (decoded.mode, decoded.tool) == (ChoiceMode.HOSTED, ToolRef(kind="web_search", name="web_search"))


@pytest.mark.parametrize(
    ("request_body", "path"),
    [
        ({"tools": {}}, "/tools"),
        ({"tools": [1]}, "/tools/0"),
        ({"tools": [{}]}, "/tools/0/name"),
        ({"tools": [{"name": "f", "input_schema": None}]}, "/tools/0/input_schema"),
        ({"tools": [{"name": "f", "input_schema": "x"}]}, "/tools/0/input_schema"),
        ({"tools": [{"name": "f", "strict": "x"}]}, "/tools/0/strict"),
        ({"tools": [{"name": "f", "allowed_callers": [1]}]}, "/tools/0/allowed_callers/0"),
        ({"tools": [{"type": "bash_20250124"}]}, "/tools/0/name"),
        ({"tools": [{"type": "computer_toolset_20260801", "configs": []}]}, "/tools/0/configs"),
        ({"mcp_servers": [{"url": "u"}]}, "/mcp_servers/0/name"),
    ],
)
def test_wrong_declarations_are_named_with_their_place(request_body: JsonObject, path: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_tools(Fields(request_body))
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("choice", "path"),
    [("auto", "/tool_choice"), ({"type": "x"}, "/tool_choice/type"), ({"type": "tool"}, "/tool_choice/name")],
)
def test_wrong_choices_are_named_with_their_place(choice: str | JsonObject, path: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_choice(Fields({"tool_choice": choice}), ())
    assert caught.value.path == path


@pytest.mark.parametrize(
    "given",
    [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}},
        {"name": "g", "description": "", "input_schema": {}},
    ],
)
def test_the_short_way_gives_what_the_full_reader_gives(given: JsonObject) -> None:
    assert (plain_tool(given),) == decode_tool(Fields(given))


@pytest.mark.parametrize(
    "given",
    [
        {"name": "f", "input_schema": {}, "type": "custom"},
        {"name": "f", "description": None, "input_schema": {}},
        {"name": "f", "description": "d", "input_schema": {}, "strict": True},
        {"name": "f", "description": "d", "cache_control": {"type": "ephemeral"}},
        "f",
    ],
)
def test_every_other_declaration_is_left_to_the_full_reader(given: JsonValue) -> None:
    assert plain_tool(given) is None


@pytest.mark.parametrize(
    "declaration",
    [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
        {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
        {"name": "f", "description": "d", "parameters": {"type": "object"}},
    ],
)
def test_item_11_other_protocols_functions_keep_their_schema(declaration: JsonObject) -> None:
    assert tools(declaration) == (FunctionTool(name="f", description="d", parameters={"type": "object"}),)
