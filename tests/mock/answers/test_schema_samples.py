"""Samples: what is made for a schema is valid for it."""

from __future__ import annotations

import json
from enum import Enum
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from dragoman.mock.answers.schema_samples import sample, sample_object
from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.wire.json import decode_object, encode


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    label: Annotated[str, Field(min_length=12, max_length=20)]
    amount: Annotated[float, Field(gt=2.5, le=9)]
    count: Annotated[int, Field(ge=10, multiple_of=4)]


class Tree(BaseModel):
    value: int
    children: list[Tree]
    parent: Tree | None


class Order(BaseModel):
    kind: Literal["order"]
    colour: Colour
    lines: Annotated[list[Line], Field(min_length=2, max_length=3)]
    note: str | None
    pair: tuple[int, str]
    maybe: Line | None = None
    done: bool
    below: Annotated[int, Field(lt=-3)]
    share: Annotated[float, Field(ge=0, le=0.5)]
    tags: dict[str, str]


@pytest.mark.parametrize("model", [Order, Tree, Line], ids=lambda model: model.__name__)
def test_a_sample_passes_the_model_that_its_schema_came_from(model: type[BaseModel]) -> None:
    schema = decode_object(json.dumps(model.model_json_schema()))
    model.model_validate_json(encode(sample(schema, "some words")), strict=True)


CASES: list[tuple[JsonValue, JsonValue]] = [
    ({"type": "string"}, "words"),
    ({"type": "string", "format": "date"}, "2026-01-01"),
    ({"type": "string", "minLength": 7}, "words.."),
    ({"type": "string", "maxLength": 2}, "wo"),
    ({"type": ["null", "integer"]}, 1),
    ({"type": "null"}, None),
    ({"type": "integer", "minimum": 5}, 5),
    ({"type": "integer", "exclusiveMinimum": 5}, 6),
    ({"type": "integer", "maximum": -5}, -5),
    ({"type": "integer", "exclusiveMaximum": 1}, 0),
    ({"type": "integer", "multipleOf": 7}, 7),
    ({"const": {"a": 1}}, {"a": 1}),
    ({"enum": ["x", "y"]}, "x"),
    ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, True),
    ({"allOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {"const": 2}}}]}, {"a": 1, "b": 2}),
    ({"type": "array", "items": {"const": 1}, "minItems": 3, "uniqueItems": True}, [1]),
    ({"type": "array", "items": {"const": 1}, "maxItems": 0}, []),
    ({"type": "array"}, ["words"]),
    ({"required": ["a"], "type": "object"}, {"a": "words"}),
    (True, "words"),
    ({}, "words"),
    ({"$ref": "#/nowhere"}, "words"),
    ({"$ref": "#"}, "words"),
]


@pytest.mark.parametrize(("schema", "value"), CASES, ids=lambda value: str(value)[:60])
def test_each_keyword_is_kept(schema: JsonValue, value: JsonValue) -> None:
    assert sample(schema, "words") == value


ENDLESS: list[JsonObject] = [
    {"type": "object", "properties": {name: {"$ref": "#"} for name in "abcdefghij"}},
    {"type": "object", "properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}, "required": ["a", "b"]},
    {"type": "array", "items": {"$ref": "#"}, "minItems": 1_000_000_000},
    {"type": "string", "minLength": 1_000_000_000},
    {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    {"anyOf": [{"$ref": "#"}]},
    {"type": "array", "items": {"const": "x" * 100_000}, "minItems": 100},
    {"type": "object", "properties": {"x" * 50_000: {"$ref": "#"}, "y": {"$ref": "#"}}},
]


@pytest.mark.parametrize("schema", ENDLESS, ids=lambda schema: str(schema)[:60])
def test_a_schema_without_end_still_gives_a_value(schema: JsonObject) -> None:
    assert len(encode(sample(schema, "words"))) < 2_000_000


@pytest.mark.parametrize("bound", ["1e400", "-1e400", "true", '"x"', "null"])
def test_bounds_that_are_no_numbers_are_passed_over(bound: str) -> None:
    schema = decode_object(f'{{"type":"integer","minimum":{bound},"maximum":{bound},"multipleOf":{bound}}}')
    assert sample(schema, "words") == 1


def test_arguments_are_an_object_whatever_the_schema_says() -> None:
    assert sample_object({"type": "string"}, "words") == {}
    assert sample_object(None, "words") == {}
