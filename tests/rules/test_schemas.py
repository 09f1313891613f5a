import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject, JsonValue
from dragoman.rules.schemas import (
    SchemaBudget,
    _is_complex_pattern,
    for_anthropic,
    for_openai_strict,
    needs_wrapping,
    with_properties,
    wrap_root,
)
from dragoman.wire.json import encode
from tests.backtracking import backtracking_repeats


def is_openai_strict(schema: JsonObject) -> bool:
    """Whether OpenAI's strict mode takes a schema as it stands."""
    return for_openai_strict(schema) is schema


def strictly(schema: JsonObject) -> tuple[JsonObject, bool] | None:
    """The only schema of a request, for Anthropic."""
    return for_anthropic(schema, SchemaBudget())


def nested(depth: int, keyword: str = "items") -> JsonObject:
    schema: JsonObject = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "array", keyword: schema}
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


def rewritten(schema: JsonObject) -> JsonObject:
    before = copy.deepcopy(schema)
    result = strictly(schema)
    assert schema == before
    assert result is not None
    return result[0]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        (
            {"type": "object", "additionalProperties": True},
            {"type": "object", "additionalProperties": True, "properties": {}},
        ),
    ],
)
def test_a_root_object_lists_its_properties(schema: JsonObject | None, expected: JsonObject) -> None:
    assert with_properties(schema) == expected


@pytest.mark.parametrize(
    "schema",
    [{"type": "object", "properties": {"a": {}}}, {"type": "string"}, {"anyOf": []}, {"$ref": "#/$defs/A"}],
)
def test_a_root_with_nothing_to_do_is_the_same_object(schema: JsonObject) -> None:
    assert with_properties(schema) is schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, False),
        ({}, False),
        ({"properties": {}}, False),
        ({"type": "string"}, True),
        ({"type": ["object", "null"]}, True),
        ({"type": "object", "anyOf": [{"required": ["a"]}]}, True),
        ({"oneOf": []}, True),
        ({"type": "object", "allOf": []}, True),
        ({"$ref": "#/$defs/A"}, True),
        ({"enum": [1]}, True),
    ],
)
def test_a_root_that_is_no_plain_object_needs_wrapping(schema: JsonObject, expected: bool) -> None:
    assert needs_wrapping(schema) is expected


def test_a_wrapped_root_is_a_plain_object() -> None:
    wrapped = wrap_root({"type": "array", "items": {"type": "string"}})
    assert wrapped == {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {"type": "string"}}},
        "required": ["value"],
    }
    assert not needs_wrapping(wrapped)


def test_a_wrapped_root_keeps_its_references() -> None:
    schema: JsonObject = {
        "$defs": {"A": {"type": "string"}, "B": {"items": {"$ref": "#"}}},
        "anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/anyOf/0"}, {"$ref": "https://example.com/s"}],
    }
    before = copy.deepcopy(schema)
    assert wrap_root(schema) == {
        "type": "object",
        "properties": {
            "value": {
                "anyOf": [
                    {"$ref": "#/$defs/A"},
                    {"$ref": "#/properties/value/anyOf/0"},
                    {"$ref": "https://example.com/s"},
                ]
            }
        },
        "required": ["value"],
        "$defs": {"A": {"type": "string"}, "B": {"items": {"$ref": "#/properties/value"}}},
    }
    assert schema == before


def test_every_object_is_closed_for_anthropic() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}},
            "c": {"anyOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
            "d": {"$ref": "#/$defs/D", "description": "one D"},
        },
        "$defs": {"D": {"type": ["object", "null"], "properties": {"e": {"type": "integer"}}}},
    }
    assert rewritten(schema) == {
        "type": "object",
        "properties": {
            "a": {
                "type": "array",
                "items": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": False},
            },
            "c": {"anyOf": [{"type": "object", "properties": {}, "additionalProperties": False}, {"type": "null"}]},
            "d": {"$ref": "#/$defs/D", "description": "one D"},
        },
        "$defs": {
            "D": {"type": ["object", "null"], "properties": {"e": {"type": "integer"}}, "additionalProperties": False}
        },
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            {"type": "integer", "minimum": 1, "maximum": 10, "description": "A number"},
            {"type": "integer", "description": "A number\n\n{minimum: 1, maximum: 10}"},
        ),
        ({"type": "number", "multipleOf": 5}, {"type": "number", "description": "{multipleOf: 5}"}),
        (
            {"type": "string", "minLength": 1, "maxLength": 9},
            {"type": "string", "description": "{minLength: 1, maxLength: 9}"},
        ),
        ({"type": "string", "format": "uuid"}, {"type": "string", "format": "uuid"}),
        ({"type": "string", "format": "phone"}, {"type": "string", "description": '{format: "phone"}'}),
        ({"type": "string", "pattern": "^[a-z]{2,5}$"}, {"type": "string", "pattern": "^[a-z]{2,5}$"}),
        ({"type": "string", "pattern": "^(?=a)"}, {"type": "string", "description": '{pattern: "^(?=a)"}'}),
        ({"type": "array", "minItems": 1, "items": {}}, {"type": "array", "minItems": 1, "items": {}}),
        (
            {"type": "array", "minItems": 2, "maxItems": 3, "uniqueItems": True},
            {"type": "array", "description": "{minItems: 2, maxItems: 3, uniqueItems: true}"},
        ),
        ({"enum": ["a", 1, None]}, {"enum": ["a", 1, None]}),
        ({"enum": [{"a": 1}]}, {"description": '{enum: [{"a":1}]}'}),
        ({"oneOf": [{"type": "string"}]}, {"anyOf": [{"type": "string"}]}),
        ({"type": "array", "prefixItems": [{}]}, {"type": "array", "description": "{prefixItems: [{}]}"}),
        ({"$schema": "https://json-schema.org/x", "type": "string"}, {"type": "string"}),
    ],
)
def test_keywords_outside_the_subset_become_words(schema: JsonObject, expected: JsonObject) -> None:
    assert rewritten({"type": "object", "properties": {"a": schema}}) == {
        "type": "object",
        "properties": {"a": expected},
        "additionalProperties": False,
    }


def test_all_of_with_a_reference_is_inlined() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": {"allOf": [{"$ref": "#/$defs/A"}], "description": "ours"}},
        "$defs": {"A": {"type": "string", "enum": ["x"], "description": "theirs"}},
    }
    assert rewritten(schema)["properties"] == {"a": {"type": "string", "enum": ["x"], "description": "ours"}}


def test_all_of_objects_become_one_object() -> None:
    schema: JsonObject = {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"$ref": "#/$defs/B"},
        ],
        "$defs": {"B": {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["a", "b"]}},
    }
    result = rewritten(schema)
    assert result["properties"] == {"a": {"type": "string"}, "b": {"type": "string"}}
    assert result["required"] == ["a", "b"]
    assert result["additionalProperties"] is False
    assert "allOf" not in result


def test_a_reference_to_another_place_is_inlined() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"$ref": "#/properties/a"}},
    }
    assert rewritten(schema)["properties"] == {"a": {"type": "string"}, "b": {"type": "string"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "array", "items": {"$ref": "#/$defs/A"}}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"items": {"$ref": "#/$defs/B"}}, "B": {"items": {"$ref": "#/$defs/A"}}}},
        {"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}]}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}}},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema"}}},
        {"type": "object", "properties": {"a": {"$ref": "other.json#/$defs/A"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/Missing"}}},
        {"type": "object", "properties": {"a": {"$ref": 1}}},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"type": "object", "patternProperties": {"^a": {}}},
    ],
    ids=[
        "root",
        "itself",
        "mutual",
        "in allOf",
        "in anyOf",
        "url",
        "file",
        "missing",
        "no text",
        "conflict",
        "map",
        "patterns",
    ],
)
def test_what_cannot_be_strict_is_told(schema: JsonObject) -> None:
    assert strictly(schema) is None


def test_a_schema_that_fits_is_the_same_object() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    result = strictly(schema)
    assert result is not None
    assert result[0] is schema
    assert result[1] is False
    assert strictly({"type": "object"}) == ({"type": "object", "additionalProperties": False}, True)


def test_definitions_that_multiply_are_refused() -> None:
    definitions: JsonObject = {"D0": {"type": "string"}}
    for level in range(1, 30):
        part: JsonValue = {"allOf": [{"$ref": f"#/$defs/D{level - 1}"}]}
        definitions[f"D{level}"] = {"type": "object", "properties": {"a": part, "b": part}}
    assert strictly({"type": "object", "properties": {}, "$defs": definitions}) is None


@pytest.mark.parametrize("depth", [63, 64, 200, 2000])
def test_depth_is_never_an_error(depth: int) -> None:
    schema = nested(depth)
    assert (strictly(schema) is None) == (depth >= 64)
    assert (for_openai_strict(schema) is None) == (depth >= 64)
    wrap_root(schema)
    with_properties(schema)
    deep_value: JsonValue = []
    for _ in range(depth):
        deep_value = [deep_value]
    strictly({"type": "object", "properties": {"a": {"enum": [deep_value]}}})
    strictly({"type": "object", "properties": {"a": {"default": deep_value}}})


def test_what_is_too_deep_is_not_strict() -> None:
    assert strictly(nested(2000)) is None
    assert for_openai_strict(nested(2000)) is None


def strict(**properties: JsonValue) -> JsonObject:
    names: list[JsonValue] = list(properties)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


OPEN_DEFINITION: JsonObject = {"$defs": {"A": {"type": "object", "properties": {"b": {"type": "string"}}}}}


def test_open_objects_are_closed_for_openai() -> None:
    inner: JsonObject = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}
    schema: JsonObject = {
        "type": "object",
        "properties": {"a": inner, "c": {"type": "array", "items": {"type": "object"}}},
        "required": ["a", "c"],
    }
    before = copy.deepcopy(schema)
    assert not is_openai_strict(schema)
    closed = for_openai_strict(schema)
    assert schema == before
    assert closed == strict(
        a=strict(b={"type": "string"}),
        c={"type": "array", "items": {"type": "object", "additionalProperties": False}},
    )
    assert is_openai_strict(closed)


def test_a_strict_schema_is_the_same_object() -> None:
    schema = strict(a={"anyOf": [{"type": "string"}, {"type": "null"}]}, b={"$ref": "#"})
    assert for_openai_strict(schema) is schema


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": []},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "string"},
        {"$ref": "#/$defs/A"},
        {**strict(), "anyOf": []},
        strict(a={}),
        strict(a=True),
        strict(a={"type": "object", "properties": {"b": {"type": "string"}}}),
        strict(a={"allOf": [{"type": "string"}]}),
        strict(a={"oneOf": [{"type": "string"}]}),
        strict(a={"$ref": "https://example.com/schema"}),
        strict() | OPEN_DEFINITION,
    ],
)
def test_what_openai_would_refuse_is_not_strict(schema: JsonObject) -> None:
    assert for_openai_strict(schema) is None
    assert not is_openai_strict(schema)


def test_the_services_limits_are_kept() -> None:
    schema = strict()
    for _ in range(9):
        schema = strict(a=schema)
    assert is_openai_strict(schema)
    assert not is_openai_strict(strict(a=schema))
    string: JsonObject = {"type": "string"}
    assert is_openai_strict(strict(**{f"p{n}": string for n in range(5000)}))
    assert not is_openai_strict(strict(**{f"p{n}": string for n in range(5001)}))


SCHEMAS = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 1}, {"enum": ["a"]}, {}]),
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda choices: {"anyOf": choices}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda properties: {"type": "object", "properties": properties},
            st.dictionaries(st.sampled_from(["a", "b", "properties"]), inner, max_size=3),
        ),
    ),
    max_leaves=10,
)


@given(SCHEMAS)
def test_rewriting_for_anthropic_settles_at_once(schema: JsonObject) -> None:
    result = strictly(schema)
    assert result is not None
    again = strictly(result[0])
    assert again == (result[0], False)
    assert again[0] is result[0]


@given(SCHEMAS)
def test_closing_for_openai_settles_at_once(schema: JsonObject) -> None:
    closed = for_openai_strict(schema)
    assert closed is None or for_openai_strict(closed) is closed


def graph(layers: int, width: int) -> JsonObject:
    """A few definitions that say very much when they are inlined."""
    definitions: JsonObject = {
        f"L{layer}": {
            "type": "object",
            "allOf": [
                {"properties": {f"p{layer}_{one}": {"allOf": [{"$ref": f"#/$defs/L{layer + 1}"}]}}}
                for one in range(width)
            ],
        }
        for layer in range(layers)
    }
    definitions[f"L{layers}"] = {"type": "string", "description": "d" * 200}
    return {"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/$defs/L0"}]}}, "$defs": definitions}


@pytest.mark.parametrize("schema", [graph(12, 2), graph(4, 6), graph(2, 60)])
def test_a_graph_of_definitions_is_not_written_many_times_as_long(schema: JsonObject) -> None:
    came = len(encode(schema))
    strict = strictly(schema)
    assert strict is None or len(encode(strict[0])) < 4 * came + 65536


def test_all_schemas_of_a_request_share_one_budget() -> None:
    budget = SchemaBudget()
    schema = graph(5, 2)
    assert for_anthropic(schema, budget) is not None
    outcomes = [for_anthropic(schema, budget) for _ in range(100)]
    assert outcomes[-1] is None
    # What came in plain still finds its allowance.
    assert for_anthropic(nested(3), budget) is not None


@pytest.mark.parametrize("pattern", ["{" + "1" * 50_000, "{1," + "1" * 50_000, "{," * 25_000])
def test_a_long_pattern_is_read(pattern: str) -> None:
    assert strictly({"type": "string", "pattern": pattern}) is not None


def test_a_long_pattern_is_looked_at_once() -> None:
    assert backtracking_repeats(_is_complex_pattern) == []


@pytest.mark.parametrize(
    ("pattern", "complex_"),
    [("a{100}", True), ("a{1,100}", True), ("a{,100}", True), ("a{99}", False), ("a{1,99}", False), ("a{100,}", False)],
)
def test_large_repetition_is_told_in_words(pattern: str, complex_: bool) -> None:
    assert ("pattern" not in rewritten({"type": "string", "pattern": pattern})) is complex_
