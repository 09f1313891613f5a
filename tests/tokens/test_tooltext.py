"""Tools are told to each family as it reads them."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.tokens.families import Tools
from dragoman.tokens.tooltext import HOSTED, json_text, tool_text

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Where it is.\nRelative."},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "mode": {"enum": ["fast", "slow"], "default": "fast"},
        "owner": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "size": {"type": ["number", "null"]},
        "inner": {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": ["deep"]},
    },
    "required": ["path"],
}
WRITTEN = """// Reads a file.
type read = (_: {
// Where it is.
// Relative.
path: string,
lines?: number[],
mode?: "fast" | "slow", // default: "fast"
owner?: string | null,
size?: number | null,
inner?: {
deep: boolean,
},
}) => any;

"""
FORMS: dict[str, JsonObject] = {
    "Messages": {"name": "read", "description": "Reads a file.", "input_schema": SCHEMA},
    "Chat": {"type": "function", "function": {"name": "read", "description": "Reads a file.", "parameters": SCHEMA}},
    "Responses": {
        "type": "function",
        "name": "read",
        "description": "Reads a file.",
        "parameters": SCHEMA,
        "strict": True,
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_a_function_is_a_declaration_in_typescript(form: str) -> None:
    assert tool_text(FORMS[form], Tools.TYPESCRIPT) == (WRITTEN, 0)


@pytest.mark.parametrize("form", FORMS)
def test_for_others_it_is_json_without_what_only_the_provider_reads(form: str) -> None:
    text, added = tool_text({**FORMS[form], "cache_control": {"type": "ephemeral"}}, Tools.JSON)
    assert added == 0
    assert text.startswith('{"name":"read","description":"Reads a file."')
    assert "cache_control" not in text and "strict" not in text


def test_a_custom_tool_is_told_with_its_grammar() -> None:
    tool: JsonObject = {"type": "custom", "name": "patch", "format": {"type": "grammar", "definition": "start: LINE+"}}
    assert "start: LINE+" in tool_text(tool, Tools.TYPESCRIPT)[0]
    assert "start: LINE+" in tool_text({"type": "custom", "custom": tool}, Tools.JSON)[0]


def test_a_hosted_tool_costs_what_the_provider_says_about_it() -> None:
    assert tool_text({"type": "web_search_20250305", "name": "web_search"}, Tools.JSON)[1] == HOSTED


def test_a_namespace_is_told_with_its_members() -> None:
    space: JsonObject = {
        "type": "namespace",
        "name": "files",
        "description": "About files.",
        "tools": [FORMS["Responses"]],
    }
    text, _ = tool_text(space, Tools.TYPESCRIPT)
    assert "About files." in text and WRITTEN in text


def test_shared_definitions_are_told() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"type": "string"}},
    }
    text, _ = tool_text({"name": "f", "description": "d", "parameters": schema}, Tools.TYPESCRIPT)
    assert "#/$defs/x" in text and '"x":{"type":"string"}' in text


@pytest.mark.parametrize(
    "odd", [None, 5, "x", [], {}, {"function": 5}, {"name": 5, "parameters": []}, {"tools": [None]}]
)
@pytest.mark.parametrize("told", Tools)
def test_anything_can_stand_where_a_tool_should(odd: JsonValue, told: Tools) -> None:
    assert isinstance(tool_text(odd, told)[0], str)


def test_a_deep_schema_ends_as_json() -> None:
    schema: JsonObject = {"type": "string"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"in": schema}}
    assert '"properties"' in tool_text({"name": "f", "description": "d", "parameters": schema}, Tools.TYPESCRIPT)[0]


def test_what_cannot_be_written_counts_as_its_edges() -> None:
    assert json_text("\ud800") == "{}"


def nested(levels: int) -> JsonObject:
    schema: JsonObject = {"type": "string"}
    for _ in range(levels):
        schema = {"type": ["object", "null", "string"] * 20, "properties": {"a": schema}}
    return schema


def test_a_schema_of_several_types_is_told_once_at_each_level() -> None:
    schema = nested(10)
    text, _ = tool_text({"name": "f", "parameters": schema}, Tools.TYPESCRIPT)
    assert len(text) < len(json_text(schema)) + 200


def test_namespaces_in_namespaces_are_told_once() -> None:
    tool: JsonObject = {"name": "f", "parameters": {}}
    for _ in range(400):
        tool = {"type": "namespace", "name": "n", "tools": [tool]}
    assert len(tool_text(tool, Tools.TYPESCRIPT)[0]) < 2 * len(json_text(tool))
