import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from dragoman.rules.input_wrapping import (
    INPUT_CLOSING,
    INPUT_OPENING,
    InputUnwrapper,
    ValueUnwrapper,
    wrap_input,
    wrap_value,
)
from dragoman.wire.json import encode_text
from tests.rules.vectors import objects

CHARACTERS = st.characters(exclude_categories=["Cs"])
TEXT = st.text(alphabet=CHARACTERS | st.sampled_from('"\\/\n\té😀\ud7ff\ue000u'), max_size=40)
CUTS = st.lists(st.integers(0, 400), max_size=12)


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[start:end] for start, end in pairwise(places)]


def run(unwrapper: InputUnwrapper | ValueUnwrapper, fragments: list[str]) -> str:
    return "".join(unwrapper.feed(fragment) for fragment in fragments) + unwrapper.close()


@pytest.mark.parametrize("row", objects("unwrap_input"), ids=lambda row: row["input"])
def test_fragments_carry_their_golden_input(row: JsonObject) -> None:
    fragments = row["fragments"]
    assert isinstance(fragments, list)
    texts = [fragment for fragment in fragments if isinstance(fragment, str)]
    assert run(InputUnwrapper(), texts) == row["input"]
    assert run(InputUnwrapper(), ["".join(texts)]) == row["input"]
    assert run(InputUnwrapper(), list("".join(texts))) == row["input"]


@given(TEXT, st.booleans(), CUTS)
def test_any_text_returns_through_any_cut(text: str, ascii_only: bool, cuts: list[int]) -> None:
    unwrapper = InputUnwrapper()
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only, indent=1)
    assert run(unwrapper, pieces(arguments, cuts)) == text
    assert not unwrapper.bent


@given(st.text(alphabet='{}":,\\input uUdD83de0 \n', max_size=30), st.sampled_from(["", '{"input":"']), CUTS)
def test_cuts_never_matter_even_in_broken_json(tail: str, head: str, cuts: list[int]) -> None:
    whole, cut = InputUnwrapper(), InputUnwrapper()
    assert run(whole, [head + tail]) == run(cut, pieces(head + tail, cuts))
    assert whole.bent == cut.bent


@pytest.mark.parametrize(
    ("arguments", "expected", "bent"),
    [
        ('{"input":"x","note":"y"}', "x", True),
        ('{"input":"x"} and more', "x", True),
        ('{"timeout":5,"input":"x"}', "x", True),
        ('{"a":"x","b":"y"}', '{"a":"x","b":"y"}', True),
        ('{"\\u0069nput":"x"}', "x", True),
        ('{"input":"cut', "cut", True),
        ('{"input":"cut\\u00', "cut", True),
        ('{"input":"whole"', "whole", True),
        ('{"inp', '{"inp', True),
        ('{"input":"\\ud83d!"}', "\ufffd!", True),
        ('{"input":"\\ude00"}', "\ufffd", True),
        ('{"input":"\\ud83d\\ud83d\\ude00"}', "\ufffd😀", True),
        ('{"input":"\\d\\u00zz"}', "\\d\\u00zz", True),
        ('{"input":"a\nb\\n\tc"}', "a\nb\n\tc", False),
        ('{"input":""}', "", False),
        ('\n{ "input" :\t"x" }\n', "x", False),
        ("", "", False),
        ("{}", "{}", True),
    ],
)
def test_odd_arguments_still_give_an_input(arguments: str, expected: str, bent: bool) -> None:
    for fragments in ([arguments], list(arguments)):
        unwrapper = InputUnwrapper()
        assert run(unwrapper, fragments) == expected
        assert unwrapper.bent is bent


def test_text_is_passed_on_as_soon_as_it_is_certain() -> None:
    unwrapper = InputUnwrapper()
    fragments = ['{"input":"a', "b\\", "nc\\ud8", "3d", "\\ude00d", '"', "}"]
    assert [unwrapper.feed(fragment) for fragment in fragments] == ["a", "b", "\nc", "", "😀d", "", ""]
    assert unwrapper.close() == ""


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 1]), CUTS)
def test_any_value_returns_spelled_as_it_was(value: object, indent: int | None, cuts: list[int]) -> None:
    spelled = json.dumps(value, indent=indent)
    unwrapper = ValueUnwrapper()
    assert run(unwrapper, pieces(f' {{ "value" : {spelled} }}\n', cuts)) == spelled
    assert not unwrapper.bent
    tight = ValueUnwrapper()
    assert run(tight, pieces(wrap_value(spelled if spelled != "null" else "{}"), cuts)) == (
        spelled if spelled != "null" else "{}"
    )


@pytest.mark.parametrize(
    ("arguments", "expected", "bent"),
    [
        ('{"value":[1,2],"more":3}', "[1,2]", True),
        ('{"value":12,"more":3}', "12", True),
        ('{"value":1.50}', "1.50", False),
        ('{"value":{"a":"}\\"]"}}', '{"a":"}\\"]"}', False),
        ('{"value":[1,', "[1,", True),
        ('{"value":}', '{"value":}', True),
        ('{"city":"Paris"}', '{"city":"Paris"}', True),
        ("[1]", "[1]", True),
        ("", "", False),
    ],
)
def test_odd_arguments_still_give_a_value(arguments: str, expected: str, bent: bool) -> None:
    for fragments in ([arguments], list(arguments)):
        unwrapper = ValueUnwrapper()
        assert run(unwrapper, fragments) == expected
        assert unwrapper.bent is bent


@given(st.text(alphabet='{}[]":,\\value1 \n', max_size=30), st.sampled_from(["", '{"value":']), CUTS)
def test_cuts_never_matter_for_values(tail: str, head: str, cuts: list[int]) -> None:
    whole, cut = ValueUnwrapper(), ValueUnwrapper()
    assert run(whole, [head + tail]) == run(cut, pieces(head + tail, cuts))
    assert whole.bent == cut.bent


@given(TEXT, CUTS)
def test_wrapping_in_pieces_equals_wrapping_whole(text: str, cuts: list[int]) -> None:
    streamed = INPUT_OPENING + "".join(encode_text(piece)[1:-1] for piece in pieces(text, cuts)) + INPUT_CLOSING
    assert streamed == wrap_input(text)
    assert json.loads(streamed) == {"input": text}
    assert run(InputUnwrapper(), [streamed]) == text


def test_arguments_that_are_no_json_are_wrapped_as_a_string() -> None:
    assert wrap_value("not json") == '{"value":"not json"}'
    assert wrap_value("") == '{"value":{}}'


def test_a_long_call_that_is_held_does_not_cost_its_square() -> None:
    unwrapper = InputUnwrapper()
    assert not any(unwrapper.feed("0123456789") for _ in range(200_000))
    assert len(unwrapper.close()) == 2_000_000
