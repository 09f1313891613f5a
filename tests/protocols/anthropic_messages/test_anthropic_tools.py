"""The tools that Anthropic defines, as functions: every schema is one that other providers take."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonValue
from dragoman.protocols.anthropic_messages import anthropic_tools
from dragoman.rules.schemas import needs_wrapping

SCHEMAS = {
    **dict(anthropic_tools.SINGLE),
    **{
        f"{name} {member}": schema
        for _, name, members in anthropic_tools.TOOLSETS
        for member, schema in members.items()
    },
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_parameters_are_an_object_whose_required_members_exist(schema: anthropic_tools.Schema) -> None:
    parameters = schema.parameters()
    assert not needs_wrapping(parameters)
    required = parameters.get("required", [])
    assert isinstance(required, list)
    assert set(required) <= schema.properties.keys()
    assert len(required) == schema.required
    assert schema.description.endswith(".")


def types_in(schema: JsonValue) -> set[str]:
    """The types that a schema and those inside it name."""
    assert isinstance(schema, dict)
    members, either = schema.get("properties", {}), schema.get("anyOf", [])
    assert isinstance(members, dict) and isinstance(either, list)
    named, items = schema.get("type", []), [schema["items"]] if "items" in schema else []
    found = {str(kind) for kind in (named if isinstance(named, list) else [named])}
    return found.union(*map(types_in, (*members.values(), *either, *items)))


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_types_of_parameters_are_those_of_json_schema(schema: anthropic_tools.Schema) -> None:
    assert types_in(schema.parameters()) <= {"array", "boolean", "integer", "number", "object", "string"}


def test_the_most_particular_beginning_is_found_first() -> None:
    beginnings = [beginning for beginning, _ in anthropic_tools.SINGLE]
    for position, beginning in enumerate(beginnings):
        assert not any(beginning.startswith(earlier) for earlier in beginnings[:position])


@pytest.mark.parametrize(
    ("kind", "undo"), [("text_editor_20241022", True), ("text_editor_20250124", True), ("text_editor_20250429", False)]
)
def test_editors_up_to_20250124_have_the_command_that_undoes_an_edit(kind: str, undo: bool) -> None:
    schema = next(schema for beginning, schema in anthropic_tools.SINGLE if kind.startswith(beginning))
    command = schema.properties["command"]
    assert isinstance(command, dict)
    words = command["enum"]
    assert isinstance(words, list)
    assert ("undo_edit" in words) is undo
