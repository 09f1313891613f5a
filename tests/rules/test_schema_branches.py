"""Types inside the branches of a schema, for servers that want them there."""

from __future__ import annotations

import pytest

from dragoman.model.jsonvalue import JsonObject
from dragoman.rules.schema_branches import typed_branches
from dragoman.rules.schemas import DEPTH_LIMIT

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
