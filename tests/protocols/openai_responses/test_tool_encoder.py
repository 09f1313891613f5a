"""Tools and choices of other protocols' clients, as a provider of this one is told."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import CacheBreakpoint, Extras, Text
from dragoman.model.request import Request
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
    WebFetchTool,
    WebSearchTool,
)
from tests.protocols.openai_responses.asking import CHAT, MESSAGES, encoded_request, from_messages, said, written

SCHEMA: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED: JsonObject = {**SCHEMA, "required": ["a"], "additionalProperties": False}


def asked(*tools: ToolSpec, origin: str = MESSAGES, choice: ToolChoice | None = None) -> Request:
    return replace(from_messages(said(Text(text="hi"))), origin=origin, tools=tools, tool_choice=choice)


def tools_of(*tools: ToolSpec, origin: str = MESSAGES, **changes: JsonValue) -> tuple[JsonValue, list[str]]:
    body, losses = written(asked(*tools, origin=origin), **changes)
    return body.get("tools"), losses


def test_pitfall_142_144_strict_is_explicit_and_properties_are_there() -> None:
    tools, losses = tools_of(FunctionTool(name="f", description="d"))
    empty: JsonObject = {"type": "object", "properties": {}}
    assert tools == [{"type": "function", "name": "f", "description": "d", "parameters": empty, "strict": False}]
    assert losses == []


@pytest.mark.parametrize(
    ("origin", "schema", "strict", "count"),
    [(MESSAGES, SCHEMA, False, 1), (MESSAGES, {**SCHEMA, "required": ["a"]}, True, 0), (CHAT, SCHEMA, True, 0)],
)
def test_pitfall_143_strict_is_kept_where_the_schema_allows_it(
    origin: str, schema: JsonObject, strict: bool, count: int
) -> None:
    tools, losses = tools_of(FunctionTool(name="f", parameters=schema, strict=True), origin=origin)
    assert isinstance(tools, list)
    tool = tools[0]
    assert isinstance(tool, dict)
    assert (tool["strict"], len(losses)) == (strict, count)
    assert tool["parameters"] == (CLOSED if strict and origin == MESSAGES else schema)


def test_pitfall_146_options_of_messages_tools_do_not_leak() -> None:
    tool = FunctionTool(
        name="f",
        parameters=SCHEMA,
        examples=({"a": "x"},),
        deferred=True,
        callers=("direct", "code"),
        cache=CacheBreakpoint(origin=MESSAGES),
        extras=Extras(origin=MESSAGES, fields={"eager_input_streaming": True}),
    )
    tools, losses = tools_of(tool)
    assert tools == [
        {
            "type": "function",
            "name": "f",
            "description": 'Examples:\n{"a":"x"}',
            "parameters": SCHEMA,
            "strict": False,
        }
    ]
    assert losses == [
        "dropped cache_breakpoint tools[0].cache",
        "dropped tool_options tools[0].extras.eager_input_streaming",
        "dropped tool_options tools[0].callers",
        "approximated tool_options tools[0].examples",
        "dropped tool_search tools[0].deferred",
    ]


@pytest.mark.parametrize("tool", [FunctionTool(name="f", deferred=True), TextTool(name="f", deferred=True)])
def test_a_tool_is_deferred_only_beside_a_search_of_the_provider(tool: ToolSpec) -> None:
    alone, losses = tools_of(tool)
    assert "defer_loading" not in str(alone)
    assert losses[-1] == "dropped tool_search tools[0].deferred"
    searched, _ = tools_of(tool, ToolSearchTool())
    assert "'defer_loading': True" in str(searched)


def test_a_tool_that_excludes_direct_calls_is_refused() -> None:
    with pytest.raises(RefusedError):
        tools_of(FunctionTool(name="f", callers=("code_execution",)))


def test_pitfall_043_044_045_names_are_made_fit_everywhere() -> None:
    tool = FunctionTool(name="mcp.server/tool", namespace=Namespace(name="ns"))
    choice = ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="mcp.server/tool", namespace="ns"))
    encoded, _ = encoded_request(asked(tool, choice=choice))
    tools, chosen = encoded.body["tools"], encoded.body["tool_choice"]
    assert isinstance(tools, list)
    assert isinstance(chosen, dict)
    assert isinstance(tools[0], dict)
    assert tools[0]["name"] == chosen["name"]
    entry = encoded.table.restored(str(chosen["name"]))
    assert entry is not None
    assert (entry.name, entry.namespace) == ("mcp.server/tool", "ns")


def test_pitfall_154_155_free_text_tools_are_native_or_wrapped() -> None:
    tool = TextTool(name="patch", description="d", syntax="lark", definition="g")
    tools, losses = tools_of(tool, origin=CHAT)
    grammar: JsonObject = {"type": "grammar", "syntax": "lark", "definition": "g"}
    assert (tools, losses) == ([{"type": "custom", "name": "patch", "description": "d", "format": grammar}], [])
    tools, losses = tools_of(tool, origin=CHAT, custom_tools=False)
    assert isinstance(tools, list)
    assert isinstance(tools[0], dict)
    assert (tools[0]["type"], tools[0]["description"]) == ("function", "d\n\ng")
    assert losses == ["approximated custom_tool tools[0]"]


def test_pitfall_152_153_hosted_tools_stay_hosted() -> None:
    search = WebSearchTool(allowed_domains=("a.example",), blocked_domains=("b.example",), max_uses=3)
    body, losses = written(asked(search))
    assert body["tools"] == [{"type": "web_search", "filters": {"allowed_domains": ["a.example"]}}]
    assert (body["max_tool_calls"], body["include"]) == (
        3,
        ["reasoning.encrypted_content", "web_search_call.action.sources"],
    )
    assert losses == [
        "approximated web_search tools[0]",
        "dropped web_search tools[0].blocked_domains",
        "approximated max_tool_calls tools[0].max_uses",
    ]


@pytest.mark.parametrize(
    ("tools", "sent"),
    [
        ((WebFetchTool(),), [{"type": "web_search"}]),
        ((WebSearchTool(), WebFetchTool()), [{"type": "web_search"}]),
        ((CodeTool(),), [{"type": "code_interpreter", "container": {"type": "auto"}}]),
        (
            (McpTool(label="s", url="u", authorization="t"),),
            [
                {
                    "type": "mcp",
                    "server_label": "s",
                    "server_url": "u",
                    "authorization": "t",
                    "require_approval": "never",
                }
            ],
        ),
        ((ToolSearchTool(),), [{"type": "tool_search"}]),
    ],
)
def test_other_hosted_tools(tools: tuple[ToolSpec, ...], sent: JsonValue) -> None:
    assert tools_of(*tools)[0] == sent


def test_a_container_of_another_provider_is_refused() -> None:
    with pytest.raises(RefusedError):
        tools_of(CodeTool(container="c"))


def test_pitfall_158_one_unknown_tool_does_not_take_the_others_with_it() -> None:
    unknown = ForeignTool(origin=MESSAGES, kind="advisor", body={}, name="advisor")
    tools, losses = tools_of(unknown, FunctionTool(name="f"))
    assert isinstance(tools, list)
    assert (len(tools), losses) == (1, ["dropped hosted_tool tools[0]"])
    with pytest.raises(RefusedError):
        tools_of(unknown)
    with pytest.raises(RefusedError):
        choice = ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind="advisor"))
        written(asked(unknown, FunctionTool(name="f"), choice=choice))


def test_a_hosted_tool_that_must_be_called_and_is_not_offered_is_refused() -> None:
    choice = ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind="web_search"))
    with pytest.raises(RefusedError):
        written(asked(FunctionTool(name="f"), choice=choice))
    body, _ = written(asked(WebSearchTool(), FunctionTool(name="f"), choice=choice))
    assert body["tool_choice"] == {"type": "web_search"}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (ToolChoice(mode=ChoiceMode.AUTO), "auto"),
        (ToolChoice(mode=ChoiceMode.NONE), "none"),
        (ToolChoice(mode=ChoiceMode.REQUIRED), "required"),
        (
            ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="f")),
            {"type": "function", "name": "f"},
        ),
        (ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="custom", name="c")), {"type": "custom", "name": "c"}),
        (ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="web_search")), {"type": "web_search"}),
        (
            ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(kind="function", name="f"),)),
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        ),
    ],
)
def test_pitfall_137_140_141_choices_have_this_protocols_shape(choice: ToolChoice, sent: JsonValue) -> None:
    body, _ = written(asked(FunctionTool(name="f"), TextTool(name="c"), WebSearchTool(), choice=choice))
    assert body["tool_choice"] == sent


def test_pitfall_138_139_choice_and_switch_stand_only_beside_tools() -> None:
    choice = ToolChoice(mode=ChoiceMode.AUTO)
    body, losses = written(replace(asked(choice=choice), parallel_calls=False))
    assert not {"tool_choice", "parallel_tool_calls"} & body.keys()
    assert losses == ["dropped tool_choice tool_choice", "dropped parallel_calls parallel_calls"]
    body, _ = written(replace(asked(FunctionTool(name="f")), parallel_calls=False))
    assert (body["parallel_tool_calls"], "tool_choice" in body) == (False, False)
