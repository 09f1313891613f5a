"""Tools and choices towards a provider of this protocol."""

from __future__ import annotations

import pytest

from dragoman.errors import RefusedError
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.model.parts import CacheBreakpoint, Extras, Text
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
    ToolSpec,
    WebFetchTool,
    WebSearchTool,
)
from dragoman.protocols.openai_chat.tool_encoder import typed_branches
from dragoman.rules.schemas import DEPTH_LIMIT
from dragoman.rules.tool_table import Wrapped
from tests.protocols.openai_chat.room import A, R, dig, losses, objects, said, target, user, written

HI = user(Text(text="hi"))
F = FunctionTool(name="f", parameters={"type": "object", "properties": {}})


def test_pitfall_144_a_function_always_lists_its_properties() -> None:
    options: tuple[JsonObject | None, ...] = (None, {"type": "object"})
    for parameters in options:
        body, _, _ = written(said(HI, tools=(FunctionTool(name="f", description="d", parameters=parameters),)))
        assert body["tools"] == [
            {
                "type": "function",
                "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
            }
        ]


@pytest.mark.parametrize(("origin", "required", "strict"), [(A, ["a"], True), (A, [], False), (R, [], True)])
def test_pitfall_143_strict_from_messages_only_where_the_schema_can_be_closed(
    origin: str, required: list[JsonValue], strict: bool
) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}, "required": required}
    body, _, _ = written(said(HI, origin=origin, tools=(FunctionTool(name="f", parameters=schema, strict=True),)))
    assert dig(body, "tools", 0, "function", "strict") is strict


def test_pitfall_146_keys_of_messages_tools_are_not_forwarded() -> None:
    tool = FunctionTool(
        name="f",
        examples=({"a": 1},),
        deferred=True,
        callers=("direct", "code"),
        cache=CacheBreakpoint(origin=A),
        extras=Extras(origin=A, fields={"eager_input_streaming": True}),
    )
    body, ledger, _ = written(said(HI, tools=(tool,)))
    function = dig(body, "tools", 0, "function")
    assert isinstance(function, dict) and set(function) == {"name", "description", "parameters"}
    assert '{"a":1}' in str(function["description"])
    assert {place for _, _, place in losses(ledger)} == {
        "tools[0].examples",
        "tools[0].deferred",
        "tools[0].callers",
        "tools[0].cache",
        "tools[0].extras.eager_input_streaming",
    }


def test_a_tool_that_excludes_direct_calls_is_refused() -> None:
    with pytest.raises(RefusedError):
        written(said(HI, tools=(FunctionTool(name="f", callers=("code",)),)))


def test_pitfall_154_custom_tools_are_native_or_wrapped() -> None:
    tool = TextTool(name="patch", description="d", syntax="lark", definition="start: x")
    native, _, _ = written(said(HI, origin=R, tools=(tool,)), target("m", "openai"))
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}}
    assert native["tools"] == [{"type": "custom", "custom": {"name": "patch", "description": "d", "format": grammar}}]
    wrapped, ledger, encoded = written(said(HI, origin=R, tools=(tool,)))
    function = dig(wrapped, "tools", 0, "function")
    assert dig(function, "parameters", "required") == ["input"]
    assert "start: x" in str(dig(function, "description"))
    assert losses(ledger) == {("approximated", "custom_tool", "tools[0]")}
    entry = encoded.table.restored("patch")
    assert entry is not None and entry.wrapped is Wrapped.INPUT


def test_pitfall_156_namespaces_are_flattened_and_equal_names_survive() -> None:
    tools: tuple[ToolSpec, ...] = tuple(FunctionTool(name="f", namespace=Namespace(name=name)) for name in ("a", "b"))
    body, ledger, encoded = written(said(HI, origin=R, tools=tools))
    names = [dig(tool, "function", "name") for tool in objects(body, "tools")]
    assert names == ["a__f", "b__f"]
    entry = encoded.table.restored("b__f")
    assert entry is not None and (entry.namespace, entry.name) == ("b", "f")
    assert {feature for _, feature, _ in losses(ledger)} == {"namespace"}


def test_pitfall_158_one_tool_that_cannot_be_said_does_not_cost_the_others() -> None:
    tools: tuple[ToolSpec, ...] = (
        WebFetchTool(),
        CodeTool(),
        WebSearchTool(),
        ForeignTool(origin=R, kind="file_search", body={}),
        F,
    )
    body, ledger, _ = written(said(HI, origin=R, tools=tools))
    assert len(objects(body, "tools")) == 1
    assert {place for _, _, place in losses(ledger)} == {f"tools[{index}]" for index in range(4)}


@pytest.mark.parametrize("tool", [WebFetchTool(), McpTool(label="x"), FunctionTool(name="")])
def test_what_cannot_be_left_out_is_refused(tool: ToolSpec) -> None:
    with pytest.raises(RefusedError):
        written(said(HI, tools=(tool,)))


def test_pitfall_153_search_is_the_providers_or_nobodys() -> None:
    tool = WebSearchTool(location={"type": "approximate", "city": "Bern"}, allowed_domains=("x",))
    body, ledger, _ = written(said(HI, tools=(tool, F)), target("gpt-search-x", "openai"))
    assert body["web_search_options"] == {"user_location": {"type": "approximate", "approximate": {"city": "Bern"}}}
    assert losses(ledger) == {("dropped", "web_search", "tools[0].allowed_domains")}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(mode=ChoiceMode.AUTO), "auto"),
        (ToolChoice(mode=ChoiceMode.NONE), "none"),
        (ToolChoice(mode=ChoiceMode.REQUIRED), "required"),
        (
            ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="a.b")),
            {"type": "function", "function": {"name": "a_b_5afd4a5a"}},
        ),
        (
            ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(kind="function", name="f"),), required=True),
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]},
            },
        ),
    ],
)
def test_pitfall_045_choices_use_the_names_of_the_wire(choice: ToolChoice, expected: JsonValue) -> None:
    body, _, encoded = written(said(HI, origin=R, tools=(F, FunctionTool(name="a.b")), tool_choice=choice))
    if choice.tool is not None:
        expected = {"type": "function", "function": {"name": encoded.table.wire("a.b")}}
        assert encoded.table.wire("a.b") != "a.b"
    assert body["tool_choice"] == expected


@pytest.mark.parametrize(
    ("choice", "word", "declared"),
    [
        (ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="g")), "required", ["g"]),
        (ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(kind="function", name="f"),)), "auto", ["f"]),
        (
            ToolChoice(mode=ChoiceMode.ALLOWED, allowed=(ToolRef(kind="function", name="h"),), required=True),
            "required",
            ["h"],
        ),
    ],
    ids=["named", "allowed", "allowed and required"],
)
def test_a_server_that_knows_words_alone_is_shown_only_what_may_be_called(
    choice: ToolChoice, word: str, declared: list[str]
) -> None:
    tools = tuple(FunctionTool(name=name, parameters={"type": "object", "properties": {}}) for name in "fgh")
    body, ledger, _ = written(said(HI, tools=tools, tool_choice=choice), target(named_choice=False))
    assert body["tool_choice"] == word
    assert [dig(tool, "function", "name") for tool in objects(body["tools"])] == declared
    assert losses(ledger) == {("approximated", "tool_choice", "tool_choice")}
    assert len(objects(written(said(HI, tools=tools, tool_choice=choice))[0]["tools"])) == 3


@pytest.mark.parametrize(
    ("choice", "declared"),
    [
        (ToolChoice(mode=ChoiceMode.REQUIRED), ["f", "g"]),
        (ToolChoice(mode=ChoiceMode.NAMED, tool=ToolRef(kind="function", name="g")), ["g"]),
    ],
    ids=["any tool", "one tool"],
)
def test_a_model_that_cannot_be_forced_chooses_among_what_may_be_called(
    choice: ToolChoice, declared: list[str]
) -> None:
    tools = tuple(FunctionTool(name=name, parameters={"type": "object", "properties": {}}) for name in "fg")
    body, ledger, _ = written(said(HI, tools=tools, tool_choice=choice), target(forced_choice=False))
    assert body["tool_choice"] == "auto"
    assert [dig(tool, "function", "name") for tool in objects(body["tools"])] == declared
    assert losses(ledger) == {("approximated", "tool_choice", "tool_choice")}


def test_types_stand_in_the_branches_for_servers_that_want_them_there() -> None:
    schema: JsonObject = {"type": "object", "properties": {}, "anyOf": [{"required": ["a"]}]}
    request = said(HI, tools=(FunctionTool(name="f", parameters=schema),))
    typed = written(request, target(typed_branches=True))[0]
    assert dig(typed, "tools", 0, "function", "parameters") == {
        "properties": {},
        "anyOf": [{"type": "object", "required": ["a"]}],
    }
    assert dig(written(request)[0], "tools", 0, "function", "parameters") == schema


def test_a_hosted_choice_finds_the_function_that_stands_for_it() -> None:
    vendor = FunctionTool(name="apply_patch", extras=Extras(origin=R, fields={"type": "apply_patch"}))
    choice = ToolChoice(mode=ChoiceMode.HOSTED, tool=ToolRef(kind="apply_patch"))
    body, ledger, _ = written(said(HI, origin=R, tools=(vendor,), tool_choice=choice))
    assert body["tool_choice"] == {"type": "function", "function": {"name": "apply_patch"}}
    assert losses(ledger) == {("approximated", "vendor_tool", "tools[0]")}


def test_too_many_tools_are_refused_where_there_is_a_limit() -> None:
    tools: tuple[ToolSpec, ...] = tuple(FunctionTool(name=f"f{index}") for index in range(129))
    assert len(objects(written(said(HI, tools=tools))[0], "tools")) == 129
    with pytest.raises(RefusedError):
        written(said(HI, tools=tools), target("m", "openai"))


def test_a_tool_that_gets_another_name_is_reported() -> None:
    body, ledger, _ = written(said(HI, tools=(F, FunctionTool(name="files.read"))))
    name = dig(body, "tools", 1, "function", "name")
    assert name != "files.read"
    assert [(loss.feature.value, loss.at, loss.note) for loss in ledger.losses] == [
        ("tool_name", "tools[1].name", f"declared as {name!r}")
    ]


REQUIRED: JsonObject = {"required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "object", "properties": {}, "anyOf": [REQUIRED, {"required": ["b"]}]},
            {
                "properties": {},
                "anyOf": [{"type": "object", **REQUIRED}, {"type": "object", "required": ["b"]}],
            },
        ),
        (
            {"type": ["string", "array"], "anyOf": [{"type": "string"}, {"type": "array"}, {"minLength": 1}]},
            {"anyOf": [{"type": "string"}, {"type": "array"}, {"type": ["string", "array"], "minLength": 1}]},
        ),
        (
            {"type": "object", "properties": {"x": {"items": {"type": "string", "anyOf": [{"enum": ["a"]}, True]}}}},
            {"type": "object", "properties": {"x": {"items": {"anyOf": [{"type": "string", "enum": ["a"]}, True]}}}},
        ),
        (
            {"type": "string", "anyOf": [{"$ref": "#/$defs/a"}, {"type": "string", "anyOf": [{"minLength": 1}]}]},
            {"anyOf": [{"$ref": "#/$defs/a"}, {"anyOf": [{"type": "string", "minLength": 1}]}]},
        ),
        ({"items": [{"type": "string"}]}, {"prefixItems": [{"type": "string"}]}),
        ({"anyOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
    ],
    ids=["at the root", "several types", "deeper", "references and branches", "a tuple", "nothing beside"],
)
def test_types_move_into_the_branches(schema: JsonObject, expected: JsonObject) -> None:
    assert typed_branches(schema) == expected


def test_properties_and_values_of_these_names_are_none_of_its_business() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"type": {"type": "string"}, "anyOf": {"type": "array"}, "items": {"type": "array"}},
        "default": {"type": "x", "anyOf": [{}], "items": [{}]},
        "enum": [{"type": "x", "anyOf": [{}]}],
    }
    assert typed_branches(schema) == schema


def test_a_bottomless_schema_is_left_alone_where_it_is_too_deep() -> None:
    beside: JsonObject = {"type": "string", "anyOf": [{"minLength": 1}]}
    schema = beside
    for _ in range(DEPTH_LIMIT + 2):
        schema = {"not": schema}
    told = typed_branches(schema)
    for _ in range(DEPTH_LIMIT + 2):
        inner = told["not"]
        assert isinstance(inner, dict)
        told = inner
    assert told == beside
