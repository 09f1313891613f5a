"""Arguments as providers say them: told once, whatever is said again, and never two values as one."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import encode

from dragoman.errors import WireError
from dragoman.rules.argument_assembly import ArgumentAssembler, CallsSeen


def told(*pieces: str, free: bool = False) -> str:
    said = ArgumentAssembler(free=free)
    out = "".join([said.take(piece, "/at") for piece in pieces])
    return out + said.rest()


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (("{}",), "{}"),
        ((" null ",), " null "),
        (("{}", " "), "{}"),
        (("{}", "{}"), "{}"),
        (("{}", '{"x":1}'), '{"x":1}'),
        (('{"x":', "1}", "\n"), '{"x":1}'),
        (('{"x":1,"y":[1,2.50,"a"]}', '{"y":[1,2.5,"a"],"x":1}'), '{"x":1,"y":[1,2.50,"a"]}'),
        (('{"x":1}', '"{\\"x\\": 1}"'), '{"x":1}'),
        (('{"x":1}', '{"x"', ":1}", '{"x":1}'), '{"x":1}'),
        (('{"x":1}', "{}"), '{"x":1}'),
        (('{"x', ' {"x":1}'), '{"x":1}'),
        (('{"x":[', '{"x":['), '{"x":[{"x":['),
        (("[1", ",2]", "[1, 2]"), "[1,2]"),
    ],
)
def test_said_once(pieces: tuple[str, ...], expected: str) -> None:
    assert told(*pieces) == expected


@pytest.mark.parametrize(
    "pieces",
    [
        ('{"x":1}', '{"x":2}'),
        ('{"x":1}', '{"x":true}'),
        ('{"x":1}', '{"x":1,"y":2}'),
        ('{"x":[1]}', '{"x":[1,1]}'),
        ('{"x":1}', '"x"'),
        ('{"x":1.5}', '{"x":"1.5"}'),
    ],
)
def test_two_values_are_an_error(pieces: tuple[str, ...]) -> None:
    with pytest.raises(WireError, match="others for the same call"):
        told(*pieces)


def test_free_text_is_taken_as_it_comes() -> None:
    assert told("{}", "{}", "a", free=True) == "{}{}a"


@pytest.mark.parametrize(("after", "surplus"), [("}", True), ('{"x"', False), ("{}", True), (" \n", False)])
def test_what_is_left_after_a_value_is_surplus(after: str, surplus: bool) -> None:
    said = ArgumentAssembler()
    said.take('{"x":1}', "/at")
    said.take(after, "/at")
    assert said.surplus() is surplus
    assert not said.surplus()


VALUES = st.dictionaries(st.text(max_size=3), st.one_of(st.integers(), st.text(max_size=5), st.none()), min_size=1)


@given(VALUES, st.lists(st.integers(0, 60), max_size=6))
def test_pieces_of_a_value_and_the_value_again(value: dict[str, object], cuts: list[int]) -> None:
    text = encode(value).decode()
    marks = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[start:end] for start, end in pairwise(marks)]
    assert told(*pieces) == text
    assert told(*pieces, text) == text
    assert told(*pieces, *pieces) == text


@pytest.mark.parametrize(
    ("pieces", "meant"),
    [
        (['{"x":', '{"x":1', '{"x":1}'], '{"x":1}'),
        (['{"x":', '{"x":1}'], '{"x":1}'),
        (['{"x":', '{"x":1}', "}"], '{"x":{"x":1}}'),
        (['{"x":', '{"x":1}', " ", "}"], '{"x":{"x":1}}'),
        (['{"x":', '{"x":"a', " ", 'b"}', "}"], '{"x":{"x":"a b"}}'),
        (['{"x":', '{"x":1}', '{"x":1}'], '{"x":1}'),
        (['{"a"', '{"a":', '{"a":{"a":', '{"a":{"a":2}}'], '{"a":{"a":2}}'),
    ],
)
def test_item_7_what_may_be_all_so_far_or_a_value_inside_is_told_by_what_follows(pieces: list[str], meant: str) -> None:
    said = ArgumentAssembler()
    told = "".join([*(said.take(piece, "/x") for piece in pieces), said.rest()])
    assert json.loads(told) == json.loads(meant)
    assert told == "".join(said.pieces)


def test_item_7_another_value_after_all_so_far_is_an_error() -> None:
    said = ArgumentAssembler()
    for piece in ('{"x":', '{"x":1}'):
        said.take(piece, "/x")
    with pytest.raises(WireError):
        said.take('{"x":2}', "/x")


def test_item_22_a8_a_number_beyond_all_arithmetic_is_compared_as_it_is_written() -> None:
    seen = CallsSeen()
    assert not seen.is_repeat("call", "f", '{"a":1e99999999999999999999}')
    assert seen.is_repeat("call", "f", '{"a":1e99999999999999999999}')
    assert not seen.is_repeat("call", "f", '{"a": 1e99999999999999999999}')
