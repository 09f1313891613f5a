import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from dragoman.model.jsonvalue import JsonObject
from dragoman.rules.arguments import Completeness, ValueScan, Wrapping, is_complete, or_empty, to_object, unwrapped
from dragoman.wire.json import decode, encode_text
from tests.rules.vectors import objects, text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet=st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet="ab_é", max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


def written(arguments: Raw | JsonObject) -> str:
    return encode_text(arguments)


@pytest.mark.parametrize("row", objects("arguments"), ids=lambda row: repr(row["string"]))
def test_text_becomes_its_golden_object(row: JsonObject) -> None:
    arguments, _ = to_object(text(row["string"]))
    assert decode(written(arguments)) == row["object"]


@pytest.mark.parametrize(
    ("source", "wrapping"),
    [
        ("", Wrapping.NONE),
        (" null ", Wrapping.NONE),
        ('{"a":1}', Wrapping.NONE),
        ("[1]", Wrapping.VALUE),
        ("1e400", Wrapping.VALUE),
        ('{"a":1', Wrapping.RAW_TEXT),
        ('{"a":1}{"b":2}', Wrapping.RAW_TEXT),
        ("[" * 100_000 + "]" * 100_000, Wrapping.RAW_TEXT),
    ],
    ids=["nothing", "null", "object", "list", "large number", "cut short", "two objects", "too deep"],
)
def test_the_wrapping_is_told(source: str, wrapping: Wrapping) -> None:
    arguments, done = to_object(source)
    assert done is wrapping
    assert written(arguments).startswith("{")


def test_an_object_keeps_its_spelling() -> None:
    spelled = '{ "b": 1.50, "a": 1e3,\n "a": "\\u00e9" }'
    assert written(to_object(f"\n{spelled} ")[0]) == spelled


@pytest.mark.parametrize("source", ["not json", "[1, 2.50]", '"x"', "true", '{"cut', "  padded"])
def test_what_was_wrapped_is_unwrapped(source: str) -> None:
    assert unwrapped(written(to_object(source)[0])) == source


@pytest.mark.parametrize(
    "source",
    [
        '{"_value":{"a":1}}',
        '{"_value":null}',
        '{"_value":1,"other":2}',
        '{"_raw_arguments":1}',
        '{"_raw_arguments":""}',
        '{"note":"_value"}',
        '{"_value":1',
        "_value",
        "[1]",
    ],
)
def test_what_was_never_wrapped_stays(source: str) -> None:
    assert unwrapped(source) == source


@pytest.mark.parametrize("source", ["", " \n", "null", " null\t"])
def test_no_arguments_are_an_empty_object(source: str) -> None:
    assert or_empty(source) == "{}"


@pytest.mark.parametrize("source", ["{}", ' {"a":1}', "nul", "not json", "0", '""'])
def test_other_arguments_stay(source: str) -> None:
    assert or_empty(source) == source


@given(JSON)
def test_any_json_is_complete_and_returns(value: object) -> None:
    source = json.dumps(value, ensure_ascii=False)
    assert is_complete(source)
    arguments, wrapping = to_object(source)
    assert wrapping is (Wrapping.NONE if value is None or isinstance(value, dict) else Wrapping.VALUE)
    if wrapping is Wrapping.VALUE:
        assert unwrapped(written(arguments)) == source


@given(st.dictionaries(st.text(alphabet='ab{}"\\', max_size=5), JSON, max_size=3), st.data())
def test_a_part_of_an_object_is_not_complete(value: dict[str, object], data: st.DataObject) -> None:
    source = json.dumps(value)
    cut = data.draw(st.integers(0, len(source) - 1))
    assert not is_complete(source[:cut])
    assert is_complete(f" {source}\n")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@given(st.text(max_size=40))
def test_completeness_agrees_with_the_standard_reader(source: str) -> None:
    try:
        json.loads(source, parse_constant=_no_constant)
        expected = True
    except ValueError:
        expected = False
    assert is_complete(source) == expected


@given(st.lists(st.sampled_from(['{"a":', "[1]", "}", "{}", '"x', '"', "\\", "1", " ", ",", "true"]), max_size=12))
def test_completeness_of_pieces_is_that_of_their_text(pieces: list[str]) -> None:
    completeness = Completeness()
    for count in range(1, len(pieces) + 1):
        assert completeness.of(pieces[:count]) == is_complete("".join(pieces[:count]))


def end_of_value(text: str) -> int:
    """Where the value ends that a text begins with, character by character; -1 if it goes on."""
    depth, begun, quoted, escaped, plain = 0, False, False, False, False
    for place, letter in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = letter == "\\", letter != '"'
            if not quoted and not depth:
                return place + 1
        elif plain:
            if letter in " \t\r\n,}]":
                return place
        elif begun or letter not in " \t\r\n":
            quoted, plain = letter == '"', not begun and letter not in '"{['
            begun = True
            if not plain and letter in "{[}]":
                depth += 1 if letter in "{[" else -1
                if not depth:
                    return place + 1
    return -1


PIECE = st.text(alphabet='{}[]"\\ ,:1\né😀', max_size=6)


@given(st.sampled_from(["", "{", '["', ' {"a":"\\']), st.lists(PIECE, max_size=8))
def test_the_end_of_a_value_is_found_in_whatever_pieces_it_comes(first: str, rest: list[str]) -> None:
    scan, before = ValueScan(), ""
    for piece in (first, *rest):
        end = end_of_value(before + piece)
        assert scan.end_in(piece) == (end if end < 0 else end - len(before))
        if end >= 0:
            break
        before += piece


@pytest.mark.parametrize("inner", ["[]", "[[],{}],", "[" * 50 + "]" * 50, '"[",', '["\\"]"],'])
def test_no_step_is_taken_for_each_bracket(inner: str) -> None:
    steps: list[str] = []
    text = "[" + inner * 1000 + "]"
    scan = ValueScan()
    sys.setprofile(lambda _frame, event, _value: steps.append(event))
    try:
        found = scan.end_in(text)
    finally:
        sys.setprofile(None)
    assert found == len(text)
    assert len(steps) < 100
