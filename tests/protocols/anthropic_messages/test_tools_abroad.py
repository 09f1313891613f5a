"""Tools and choices of other protocols as Messages providers get them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
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
from tests.protocols.anthropic_messages.support import ADAPTIVE, MANUAL, OTHER, at, body_of, chat, encoded, losses

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


NAMED = ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="f"))
ALLOWED = ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(kind="function", name="f"),), required=True)


@pytest.mark.parametrize(
    ("choice", "parallel", "model", "told", "offered"),
    [
        (None, None, ADAPTIVE, None, 2),
        (None, True, ADAPTIVE, None, 2),
        (None, False, ADAPTIVE, {"type": "auto", "disable_parallel_tool_use": True}, 2),
        (ToolChoice(mode=ChoiceMode.NONE), False, ADAPTIVE, {"type": "none"}, 2),
        (ToolChoice(mode=ChoiceMode.REQUIRED), False, ADAPTIVE, {"type": "any", "disable_parallel_tool_use": True}, 2),
        (ToolChoice(mode=ChoiceMode.REQUIRED), None, NO_FORCING, {"type": "auto"}, 2),
        (NAMED, None, ADAPTIVE, {"type": "tool", "name": "f"}, 2),
        (NAMED, None, NO_FORCING, {"type": "auto"}, 1),
        (ALLOWED, None, MANUAL, {"type": "any"}, 1),
    ],
    ids=[
        "no choice",
        "parallel calls need no word",
        "pitfall 138: one call at a time forces nothing",
        "pitfall 139: none has no flag",
        "any, one at a time",
        "any, to a model that cannot be forced",
        "one tool",
        "one tool, to a model that cannot be forced",
        "pitfall 141: a subset",
    ],
)
def test_choices(choice: ToolChoice | None, parallel: bool | None, model: str, told: JsonValue, offered: int) -> None:
    body = body_of(replace(chat(), tools=(F, G), tool_choice=choice, parallel_calls=parallel), model)
    assert body.get("tool_choice") == told
    assert isinstance(body["tools"], list)
    assert len(body["tools"]) == offered


def test_pitfall_139_no_choice_without_tools() -> None:
    result, ledger = encoded(replace(chat(), tool_choice=ToolChoice(mode=ChoiceMode.AUTO), parallel_calls=False))
    assert "tool_choice" not in result.body
    assert len(ledger) == 2


def test_a_hosted_tool_can_be_chosen_by_its_name_here() -> None:
    choice = ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind="web_search_preview"))
    body = body_of(replace(chat(), tools=(WebSearchTool(),), tool_choice=choice))
    assert body["tool_choice"] == {"type": "tool", "name": "web_search"}


def test_a_choice_that_cannot_be_offered_is_refused() -> None:
    choice = ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind="file_search"))
    with pytest.raises(RefusedError):
        encoded(replace(chat(), tools=(F,), tool_choice=choice))
