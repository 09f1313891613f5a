"""Reading JSON objects: types, places, and what nobody asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonObject, JsonValue, Number
from dragoman.model.parts import Extras
from dragoman.wire.fields import Fields, render_path

READERS: dict[str, tuple[Callable[[Fields], object], JsonValue, str]] = {
    "text": (lambda fields: fields.text("x"), 1, "string"),
    "optional_text": (lambda fields: fields.optional_text("x"), 1, "string"),
    "optional_flag": (lambda fields: fields.optional_flag("x"), 1, "boolean"),
    "optional_integer": (lambda fields: fields.optional_integer("x"), True, "integer"),
    "optional_number": (lambda fields: fields.optional_number("x"), True, "number"),
    "object": (lambda fields: fields.object("x"), [], "object"),
    "optional_object": (lambda fields: fields.optional_object("x"), [], "object"),
    "optional_list": (lambda fields: fields.optional_list("x"), {}, "array"),
    "texts": (lambda fields: fields.texts("x"), {}, "array"),
    "each": (lambda fields: list(fields.each("x")), {}, "array"),
    "choice": (lambda fields: fields.choice("x", ("a",)), 1, "string"),
}


@pytest.mark.parametrize(("read", "wrong", "expected"), READERS.values(), ids=READERS.keys())
def test_a_wrong_type_names_the_place_and_both_sides(
    read: Callable[[Fields], object], wrong: JsonValue, expected: str
) -> None:
    with pytest.raises(WireError) as caught:
        read(Fields({"x": wrong}, ((None, "messages"), 2)))
    assert caught.value.path == "/messages/2/x"
    assert caught.value.expected == expected


@pytest.mark.parametrize("body", [{}, {"x": None}])
def test_null_is_absence(body: JsonObject) -> None:
    fields = Fields(body)
    assert fields.optional_text("x") is None
    assert fields.optional_integer("x") is None
    assert fields.texts("x") == ()
    assert list(fields.each("x")) == []
    with pytest.raises(WireError, match="expected text, found"):
        fields.text("x")


@pytest.mark.parametrize(("value", "whole"), [(4, 4), (Number("4.0"), 4), (Number("1e3"), 1000), (4.0, 4)])
def test_a_whole_number_may_be_spelled_with_a_point(value: JsonValue, whole: int) -> None:
    assert Fields({"x": value}).optional_integer("x") == whole


@pytest.mark.parametrize("value", [Number("4.5"), Number("1e400"), "4"])
def test_other_numbers_are_not_whole(value: JsonValue) -> None:
    with pytest.raises(WireError, match="whole number"):
        Fields({"x": value}).optional_integer("x")


def test_items_of_arrays_are_checked_one_by_one() -> None:
    with pytest.raises(WireError, match=r"x\[1\]: expected text, found a number"):
        Fields({"x": ["a", 1]}).texts("x")
    with pytest.raises(WireError, match=r"x\[0\]: expected an object, found text"):
        list(Fields({"x": ["a"]}).each("x"))


def test_a_closed_set_names_its_members() -> None:
    with pytest.raises(WireError, match="expected 'a' or 'b', found 'c'"):
        Fields({"x": "c"}).choice("x", ("a", "b"))


def test_what_nobody_asked_for_goes_home() -> None:
    fields = Fields({"a": "1", "b": 2, "c": None})
    fields.text("a")
    assert fields.rest("here") == Extras(origin="here", fields={"b": 2, "c": None})
    fields.skip("b", "c")
    assert fields.rest("here") is None


def test_paths_are_json_pointers() -> None:
    assert render_path(((None, "a/b"), "~c")) == "/a~1b/~0c"
    nested = Fields({"x": {"y": [{}]}})
    inner = next(iter(nested.fields("x").each("y")))
    assert render_path(inner.path) == "/x/y/0"
