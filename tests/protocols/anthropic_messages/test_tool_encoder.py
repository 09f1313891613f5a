"""Tools and choices of other protocols as Messages providers get them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.tools import (
    CodeTool,
    ForeignTool,
    FunctionTool,
    McpTool,
    Namespace,
    TextTool,
    ToolSearchTool,
    ToolSpec,
    WebSearchTool,
)
from tests.protocols.anthropic_messages.support import ADAPTIVE, OTHER, at, body_of, chat, encoded, losses

F = FunctionTool(name="f")
G = FunctionTool(name="g")
NO_FORCING = "claude-opus-5-5"


def declared(*tools: ToolSpec, model: str = ADAPTIVE) -> list[JsonValue]:
    """The tools as they are written."""
    found = body_of(replace(chat(), tools=tools), model)["tools"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object"}], ids=["absent", "empty", "bare"])
def test_pitfall_144_a_root_lists_its_properties(parameters: JsonObject | None) -> None:
    (tool,) = declared(replace(F, parameters=parameters))
    assert tool == {"name": "f", "input_schema": {"type": "object", "properties": {}}}


def test_a_custom_tool_without_words_about_it_has_no_description() -> None:
    (tool,) = declared(TextTool(name="c"))
    assert isinstance(tool, dict)
    assert tool.keys() == {"name", "input_schema"}


def test_a_function_that_is_declared_twice_is_sent_once() -> None:
    result, ledger = encoded(replace(chat(), tools=(F, G, FunctionTool(name="f", description="another"))))
    sent = result.body["tools"]
    assert isinstance(sent, list)
    assert [at(tool, "name") for tool in sent] == ["f", "g"]
    assert losses(ledger) == [("dropped", "function_tool", "tools[2]")]


def test_pitfall_145_other_roots_are_wrapped() -> None:
    tool = replace(F, parameters={"anyOf": [{"type": "object"}, {"type": "string"}]})
    result, ledger = encoded(replace(chat(), tools=(tool,)))
    assert at(result.body, "tools", 0, "input_schema", "required") == ["value"]
    assert losses(ledger) == [("approximated", "root_schema", "tools[0].parameters")]


def test_pitfall_044_names_are_made_to_fit_and_come_back() -> None:
    result, _ = encoded(replace(chat(), tools=(FunctionTool(name="a.b", namespace=Namespace(name="ns")),)))
    name = at(result.body, "tools", 0, "name")
    assert isinstance(name, str)
    entry = result.table.restored(name)
    assert entry is not None
    assert (entry.namespace, entry.name) == ("ns", "a.b")


def test_pitfall_154_free_text_tools_are_functions_with_one_string() -> None:
    (tool,) = declared(TextTool(name="p", description="Patches.", definition="start: x"))
    assert at(tool, "description") == "Patches.\n\nstart: x"
    assert at(tool, "input_schema", "required") == ["input"]


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"$ref": "#/x", "type": "object"}, None),
    ],
    ids=["in the subset", "outside it"],
)
def test_strict_is_promised_only_where_it_holds(schema: JsonObject, strict: bool | None) -> None:
    (tool,) = declared(replace(F, parameters=schema, strict=True))
    assert isinstance(tool, dict)
    assert tool.get("strict") is strict


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(RefusedError):
        declared(FunctionTool(name=""))


def test_a_tool_that_must_not_be_called_directly_is_refused() -> None:
    with pytest.raises(RefusedError):
        declared(replace(F, callers=("code",)))


def test_deferred_tools_need_a_search() -> None:
    deferred = replace(F, deferred=True)
    assert at(declared(deferred, ToolSearchTool()), 0, "defer_loading") is True
    assert "defer_loading" not in str(declared(deferred))


def test_web_search_is_called_directly() -> None:
    (tool,) = declared(
        WebSearchTool(allowed_domains=("x.org",), location={"type": "approximate", "city": "C", "zip": "1"})
    )
    assert tool == {
        "type": "web_search_20260318",
        "name": "web_search",
        "allowed_callers": ["direct"],
        "allowed_domains": ["x.org"],
        "user_location": {"type": "approximate", "city": "C"},
    }


def test_a_tool_server_is_declared_twice_and_needs_its_beta() -> None:
    tool = McpTool(
        label="s", url="https://s", headers={"Authorization": "Bearer t"}, approval="never", allowed_tools=("x",)
    )
    result, _ = encoded(replace(chat(), tools=(tool,)))
    assert result.body["mcp_servers"] == [{"type": "url", "url": "https://s", "name": "s", "authorization_token": "t"}]
    assert at(result.body, "tools", 0) == {
        "type": "mcp_toolset",
        "mcp_server_name": "s",
        "default_config": {"enabled": False},
        "configs": {"x": {"enabled": True}},
    }
    assert result.headers["anthropic-beta"] == "mcp-client-2025-11-20"


@pytest.mark.parametrize(
    "tool",
    [
        McpTool(label="s", approval="never"),
        McpTool(label="s", url="https://s", approval="always"),
        McpTool(label="s", url="https://s", approval="never", headers={"x-key": "k"}),
        CodeTool(container="c"),
        CodeTool(file_ids=("f",)),
        ForeignTool(origin="openai-responses", kind="file_search", body={"type": "file_search"}),
    ],
    ids=["no address", "approval", "another header", "a container", "files", "nothing remains"],
)
def test_hosted_tools_that_cannot_be_offered_are_refused(tool: ToolSpec) -> None:
    with pytest.raises(RefusedError):
        declared(tool)


def test_pitfall_158_one_unknown_tool_does_not_take_the_others_with_it() -> None:
    foreign = ForeignTool(origin="openai-responses", kind="file_search", body={})
    result, ledger = encoded(replace(chat(), tools=(foreign, F)))
    assert at(result.body, "tools", 0, "name") == "f"
    assert losses(ledger) == [("dropped", "hosted_tool", "tools[0]")]


def test_servers_without_tools_of_their_own_get_none() -> None:
    _, ledger = encoded(replace(chat(), tools=(F, WebSearchTool())), OTHER)
    assert losses(ledger) == [("dropped", "web_search", "tools[1]")]


def test_at_most_twenty_tools_are_strict() -> None:
    schema: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}
    tools = tuple(FunctionTool(name=f"f{index}", parameters=schema, strict=True) for index in range(22))
    result, ledger = encoded(replace(chat(), tools=tools))
    declared = result.body["tools"]
    assert isinstance(declared, list)
    assert [at(tool, "name") for tool in declared if "strict" not in tool] == ["f20", "f21"]  # type: ignore[operator]  # an object
    assert losses(ledger) == [("dropped", "strict_schema", f"tools[{index}].strict") for index in (20, 21)]


def test_a_refusal_names_the_tools_that_cannot_be_run() -> None:
    tool = ForeignTool(origin="openai-responses", kind="file_search", body={})
    with pytest.raises(RefusedError, match="'file_search'"):
        body_of(replace(chat(), tools=(tool,)))


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"type": "object", "properties": {}, "$defs": {}},
    ],
)
def test_a_schema_with_a_good_root_is_sent_as_it_is(parameters: JsonObject) -> None:
    declared = body_of(replace(chat(), tools=(FunctionTool(name="f", parameters=parameters),)))["tools"]
    assert declared == [{"name": "f", "input_schema": parameters}]
