"""What every service looks at: names, schemas, and a bounded past."""

from __future__ import annotations

import pytest

from dragoman.mock.strict import common as module
from dragoman.mock.strict.common import (
    Issued,
    closed_faults,
    listed,
    name_faults,
    objects,
    repeated,
    schema_faults,
    tool_faults,
    words,
)
from dragoman.model.jsonvalue import JsonObject, JsonValue


def test_values_of_any_shape_are_read() -> None:
    assert objects([{"a": 1}, 2]) == [{"a": 1}] and objects("x") == []
    assert listed([1]) == [1] and listed(None) == []
    assert repeated(["a", "b", "a"]) == ["a"]
    assert words("a b") == {"a", "b"}


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "text"}, "is no type"),
        ({"required": ["a", "a"]}, "unique names"),
        ({"required": "a"}, "unique names"),
        ({"enum": []}, "enum"),
        ({"items": [{}]}, "items: not a schema"),
        ({"properties": {"a": 3}}, "properties.a: not a schema"),
        ({"anyOf": {"type": "string"}}, "anyOf[0]: not a schema"),
        (None, "not a schema"),
    ],
)
def test_what_is_no_schema_is_named(schema: JsonValue, word: str) -> None:
    assert any(word in fault for fault in schema_faults(schema, "at"))


def test_a_schema_may_be_anything_that_is_one() -> None:
    deep: JsonObject = {"type": ["string", "null"]}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}, "$defs": {"x": True}}
    assert list(schema_faults(deep, "at")) == []


def test_a_strict_schema_is_closed_and_requires_everything_at_openai() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    assert list(closed_faults(schema, "at", all_required=False)) == []
    assert list(closed_faults(schema, "at", all_required=True)) == ["at: required has to list every property"]
    assert list(closed_faults({"anyOf": [{"type": "object"}]}, "at", all_required=False))


def test_names_and_schemas_of_tools_are_looked_at() -> None:
    tool: JsonObject = {"name": "f", "parameters": {"type": "object"}}
    assert list(tool_faults([tool], "parameters", openai=True)) == []
    assert list(tool_faults([{"name": "f"}], "parameters", openai=True)) == []
    assert list(tool_faults([{"name": "f"}], "parameters", openai=False)) == ["tools.f.parameters: Field required"]
    assert len(list(name_faults([tool, tool, {"name": "a b"}]))) == 2


def test_the_past_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ISSUED", 2)
    issued = Issued()
    for number in range(4):
        issued.record_message({"content": [{"type": "thinking", "thinking": "", "signature": str(number)}]})
        issued.record_completion({"choices": [{"message": {"reasoning_content": str(number)}}]})
        issued.record_response({"output": [{"type": "reasoning", "id": f"rs_{number}"}, {"id": f"msg_{number}"}]})
    assert list(issued.turns) == list(issued.reasoning) == ["2", "3"]
    assert list(issued.items) == ["rs_3", "msg_3"]
    assert issued.followers["rs_3"] == "msg_3" and issued.leaders["msg_3"] == "rs_3"
