"""Common prefixes of JSON arrays, against a naive reading of both arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonValue
from dragoman.wire.common_prefix import (
    IndexedArray,
    common_count,
    extended_array,
    indexed_array,
    latest_indexed,
    tail_after,
)
from dragoman.wire.json_spans import array_elements
from tests.step_counting import count_steps

_white = st.text(alphabet=" \t\n\r", max_size=2)
_scalars = st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\{}[],:/é😀', max_size=6)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
# Several kinds of white space, which one client never mixes within an array.
_styles = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")])


@st.composite
def _elements(draw: st.DrawFn) -> list[str]:
    separators = draw(_styles)
    return [
        json.dumps(value, separators=separators, ensure_ascii=draw(st.booleans()))
        for value in draw(st.lists(_values, max_size=8))
    ]


def _array(elements: Sequence[str], whites: Sequence[str] = ()) -> bytes:
    """Elements as an array, with these pieces of white space around them in turn."""
    spaces = [*whites, *[""] * (2 * len(elements) + 2)]
    if not elements:
        return f"[{spaces[0]}]".encode()
    padded = [spaces[2 * at] + element + spaces[2 * at + 1] for at, element in enumerate(elements)]
    return f"[{','.join(padded)}]".encode()


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """An array, and one that a client may send after it: longer, edited, reordered, cut, or spaced otherwise."""
    elements = draw(_elements())
    whites = draw(st.lists(_white, max_size=20))
    changed = list(elements)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(changed)))
        change = draw(st.sampled_from(["append", "insert", "remove", "cut", "swap", "grow", "again"]))
        if change == "append":
            changed.append(json.dumps(draw(_values)))
        elif change == "insert":
            changed.insert(at, json.dumps(draw(_values)))
        elif change == "cut":
            changed = changed[:at]
        elif at < len(changed):
            if change == "remove":
                del changed[at]
            elif change == "swap":
                changed[at], changed[-1] = changed[-1], changed[at]
            elif change == "again":
                changed = changed[: at + 1] + changed[at:]
            else:
                changed[at] = _grown(changed[at])
    others = whites if draw(st.booleans()) else [*whites[: draw(st.integers(0, 20))], *draw(st.lists(_white))]
    return _array(elements, whites), _array(changed, others)


def _grown(element: str) -> str:
    """An element that begins as this one does, as far as one can: a number gets a digit, the rest another member."""
    if element[-1].isdigit():
        return element + "0"
    return f'{{"cache":1,{element[1:]}' if element.startswith('{"') else json.dumps([element])


def _naive_count(earlier: bytes, written: bytes) -> int:
    olds, news = array_elements(earlier), array_elements(written)
    count = 0
    for old, new in zip(olds, news, strict=False):
        if old.end != new.end or earlier[: old.end] != written[: new.end]:
            break
        count += 1
    return count


@given(_elements(), st.lists(_white, max_size=20))
def test_the_ends_are_those_of_the_elements(elements: list[str], whites: list[str]) -> None:
    written = _array(elements, whites)
    assert list(indexed_array(written).ends) == [span.end for span in array_elements(written)]


@given(_pairs())
def test_prefix_and_tail_are_those_of_a_naive_reading(pair: tuple[bytes, bytes]) -> None:
    earlier, written = pair
    known = indexed_array(earlier)
    count = common_count(known, written)
    assert count == _naive_count(earlier, written)
    for shared in range(count + 1):
        tail = tail_after(known, shared, written)
        assert _decoded(known.written)[:shared] + _decoded(tail.written) == _decoded(written)
        extended = extended_array(known, shared, written, tail)
        assert (extended.written, [*extended.ends]) == (written, [*indexed_array(written).ends])


def _decoded(written: bytes) -> list[JsonValue]:
    return list(json.loads(written))


MESSAGE = '{"role":"user","content":"hi"}'


@pytest.mark.parametrize(
    ("earlier", "written", "count"),
    [
        ("[]", "[]", 0),
        ("[]", f"[{MESSAGE}]", 0),
        (f"[{MESSAGE}]", "[]", 0),
        (f"[{MESSAGE}]", f"[{MESSAGE}]", 1),
        (f"[{MESSAGE}]", f"[{MESSAGE} , {MESSAGE}]", 1),
        (f"[{MESSAGE},{MESSAGE}]", f"[{MESSAGE}]", 1),
        (f"[{MESSAGE},{MESSAGE}]", f"[ {MESSAGE},{MESSAGE}]", 0),
        (f"[{MESSAGE},{MESSAGE}]", f"[{MESSAGE}, {MESSAGE}]", 1),
        # A number, or a word, of which another one is the beginning.
        ("[1,1]", "[1,12]", 1),
        ("[1]", "[12]", 0),
        ("[1]", "[1.5,1]", 0),
        ("[1]", "[1 ]", 1),
        # A cache breakpoint that moves on from the message that had it.
        ('[{"a":1},{"a":2,"c":{}}]', '[{"a":1},{"a":2},{"a":3,"c":{}}]', 1),
        # An element in a string, and one in a deeper array.
        ('["a,b","c"]', '["a,b,c","c"]', 0),
        ("[[1],[2]]", "[[1],[2],[3]]", 2),
    ],
)
def test_counts(earlier: str, written: str, count: int) -> None:
    assert common_count(indexed_array(earlier.encode()), written.encode()) == count


def test_a_tail_is_refused_where_there_is_no_common_element() -> None:
    with pytest.raises(ValueError, match="elements in common"):
        tail_after(indexed_array(b"[1]"), 1, b"[12]")


def test_a_text_that_is_no_array_cannot_be_indexed() -> None:
    with pytest.raises(msgspec.DecodeError):
        indexed_array(b'{"a":1}')


def test_comparing_takes_steps_for_the_logarithm_of_the_elements() -> None:
    def compare(known: IndexedArray, changed: bytes) -> Callable[[], int]:
        return lambda: common_count(known, changed)

    steps = []
    for messages in (100, 200, 400):
        elements = [f'{{"n":{number}}}' for number in range(messages)]
        known = indexed_array(_array(elements))
        steps.append(count_steps(compare(known, _array([*elements[: messages // 3], "0"]))))
    assert steps[2] - steps[1] <= steps[1] - steps[0] + 8


_unruly = st.text(alphabet='{}[],:"\\ 1', max_size=12)


@given(st.recursive(_unruly, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_unruly, inner, max_size=3)))
def test_a_valid_rest_of_an_array_begins_behind_an_element(value: JsonValue) -> None:
    """What `latest_indexed` relies on, at every comma of texts that are full of brackets and quotes."""
    for separators in ((",", ":"), (", ", ": ")):
        written = json.dumps([value, value, "x"], separators=separators, ensure_ascii=False).encode()
        ends = {span.end for span in array_elements(written)}
        for at in (at for at, byte in enumerate(written) if byte == ord(",")):
            try:
                indexed_array(b"[" + written[at + 1 :])
            except msgspec.DecodeError:
                continue
            assert at in ends


@given(st.lists(st.dictionaries(_unruly, _values, min_size=1, max_size=3), min_size=1, max_size=40), _styles)
def test_the_latest_ends_are_those_of_the_elements(values: list[JsonValue], separators: tuple[str, str]) -> None:
    written = json.dumps(values, separators=separators).encode()
    latest = latest_indexed(written, len(values))
    if latest is not None:
        assert latest.count == len(values)
        assert [*latest.ends] == [*indexed_array(written).ends][latest.first - 1 :]
        changed = json.dumps([*values, {"more": 1}], separators=separators).encode()
        assert common_count(latest, changed) == len(values)
        tail = tail_after(latest, len(values), changed)
        assert _decoded(tail.written) == [{"more": 1}]
        assert [*extended_array(latest, len(values), changed, tail).ends][:-1] == [*latest.ends]
        assert common_count(latest, b"[0]") == 0


def test_the_latest_ends_are_found_in_what_clients_send() -> None:
    for separators in ((",", ":"), (", ", ": ")):
        messages = [{"role": "user", "content": [{"type": "text"}, {"type": "text", "text": "},{"}]}] * 20
        written = json.dumps(messages, separators=separators).encode()
        latest = latest_indexed(written, 20)
        assert latest is not None
        assert latest.count - latest.first >= 4
    assert latest_indexed(b'[{"a":1}]', 1) == indexed_array(b'[{"a":1}]')
    assert latest_indexed(b'["%b"]' % (b"x" * 100_000), 1) is None
