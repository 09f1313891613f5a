"""Tools and choices in their own protocol, there and home."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.tools import (
    ChoiceMode,
    CodeTool,
    ForeignTool,
    FunctionTool,
    McpTool,
    Namespace,
    TextTool,
    ToolChoice,
    ToolRef,
    ToolSearchTool,
    ToolSpec,
    WebSearchTool,
)
from dragoman.protocols.openai_responses.tool_decoder import encode_native_choice, encode_native_tools
from tests.protocols.openai_responses.asking import decoded

FUNCTION: JsonObject = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
GRAMMAR: JsonObject = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}


@pytest.mark.parametrize(
    ("body", "tool"),
    [
        (FUNCTION, FunctionTool(name="f", parameters={"type": "object"}, strict=True)),
        ({"type": "function", "name": "f", "defer_loading": True}, FunctionTool(name="f", deferred=True)),
        (
            {"type": "custom", "name": "c", "description": "d", "format": GRAMMAR},
            TextTool(name="c", description="d", syntax="lark", definition="start: WORD"),
        ),
        (
            {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}, "search_context_size": "low"},
            WebSearchTool(allowed_domains=("a.example",), context_size="low"),
        ),
        ({"type": "code_interpreter", "container": "cntr_1"}, CodeTool(container="cntr_1")),
        ({"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}, CodeTool(file_ids=("f",))),
        (
            {
                "type": "mcp",
                "server_label": "s",
                "server_url": "u",
                "allowed_tools": ["t"],
                "require_approval": "never",
            },
            McpTool(label="s", url="u", allowed_tools=("t",), approval="never"),
        ),
        ({"type": "tool_search"}, ToolSearchTool()),
    ],
)
def test_a_declaration_is_read_and_told_back(body: JsonObject, tool: ToolSpec) -> None:
    assert decoded({"tools": [body]}).tools == (tool,)
    assert encode_native_tools((tool,)) == [with_nulls(body)]


def with_nulls(body: JsonObject) -> JsonObject:
    """A declaration as answers repeat it."""
    if body["type"] != "function":
        return body
    return {"description": None, "parameters": None, "strict": None, **body}


@pytest.mark.parametrize(
    "body",
    [
        {"type": "web_search_preview_2025_03_11", "search_context_size": "low"},
        {"type": "file_search", "vector_store_ids": ["v"]},
        {"type": "namespace", "name": "empty", "description": "", "tools": []},
        {"type": "mcp", "server_label": "s", "require_approval": {"never": {"tool_names": ["t"]}}},
        {"type": "mcp", "server_label": "s", "allowed_tools": {"tool_names": ["t"], "read_only": True}},
        {"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "4g"}},
        {"type": "custom", "name": "c", "format": {"type": "text"}},
        {"type": "something_new", "name": "n", "x": 1},
    ],
)
def test_every_declaration_goes_home_whole(body: JsonObject) -> None:
    assert encode_native_tools(decoded({"tools": [body]}).tools) == [body]


def test_a_tool_that_only_home_knows_is_kept_whole() -> None:
    (tool,) = decoded({"tools": [{"type": "something_new", "name": "n"}]}).tools
    assert isinstance(tool, ForeignTool)
    assert (tool.kind, tool.name) == ("something_new", "n")


def test_pitfall_156_the_members_of_a_namespace_are_tools() -> None:
    body: JsonObject = {
        "type": "namespace",
        "name": "crm",
        "description": "d",
        "tools": [{"type": "function", "name": "lookup"}, {"type": "custom", "name": "note"}],
        "new": 1,
    }
    tools = decoded({"tools": [body, {"type": "function", "name": "lookup"}]}).tools
    space = Namespace(name="crm", description="d")
    assert [(tool.name, tool.namespace) for tool in tools if isinstance(tool, FunctionTool | TextTool)] == [
        ("lookup", space),
        ("note", space),
        ("lookup", None),
    ]
    lookup: JsonObject = {"type": "function", "name": "lookup"}
    told: JsonObject = {**body, "tools": [with_nulls(lookup), {"type": "custom", "name": "note"}]}
    assert encode_native_tools(tools) == [told, with_nulls(lookup)]


def test_an_echo_names_the_members_of_functions_even_where_they_are_null() -> None:
    assert encode_native_tools((FunctionTool(name="f"),)) == [
        {"type": "function", "name": "f", "description": None, "parameters": None, "strict": None}
    ]


@pytest.mark.parametrize(
    ("body", "choice"),
    [
        ("required", ToolChoice(mode=ChoiceMode.REQUIRED)),
        (
            {"type": "function", "name": "f"},
            ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="f")),
        ),
        (
            {"type": "shell"},
            ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="shell", name="shell", native={"type": "shell"})),
        ),
        (
            {"type": "code_interpreter"},
            ToolChoice(
                mode=ChoiceMode.HOSTED, tool=ToolRef(kind="code_interpreter", native={"type": "code_interpreter"})
            ),
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            ToolChoice(mode=ChoiceMode.ALLOWED, required=True, allowed=(ToolRef(kind="function", name="f"),)),
        ),
    ],
)
def test_a_choice_is_read_and_goes_home(body: JsonValue, choice: ToolChoice) -> None:
    assert decoded({"tool_choice": body}).tool_choice == choice
    assert encode_native_choice(choice) == body


def test_a_hosted_choice_of_a_server_goes_home_whole() -> None:
    body: JsonObject = {"type": "mcp", "server_label": "s", "name": "t"}
    choice = decoded({"tool_choice": body}).tool_choice
    assert choice is not None
    assert choice.mode is ChoiceMode.HOSTED
    assert encode_native_choice(choice) == body


@pytest.mark.parametrize(
    "body",
    [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
        {"type": "custom", "name": "f", "description": "d", "input_schema": {"type": "object"}},
        {"name": "f", "description": "d", "input_schema": {"type": "object"}},
    ],
)
def test_item_11_other_protocols_functions_keep_their_schema(body: JsonObject) -> None:
    expected = FunctionTool(name="f", description="d", parameters={"type": "object"})
    assert decoded({"tools": [body]}).tools == (expected,)


@pytest.mark.parametrize(
    ("body", "mode", "name"),
    [
        ({"type": "function", "function": {"name": "f"}}, ChoiceMode.NAMED, "f"),
        ({"type": "tool", "name": "f"}, ChoiceMode.NAMED, "f"),
        ({"type": "any"}, ChoiceMode.REQUIRED, None),
        ({"type": "auto"}, ChoiceMode.AUTO, None),
    ],
)
def test_item_11_other_protocols_choices(body: JsonObject, mode: ChoiceMode, name: str | None) -> None:
    choice = decoded({"tool_choice": body}).tool_choice
    assert choice is not None and choice.mode is mode
    assert (choice.tool.name if choice.tool is not None else None) == name
