"""Weight: values are counted as a reader would build them, in any slices, and never within a string."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.wire import value_count
from dragoman.wire.value_count import MEMBERS, exceeds
from tests.byte_counting import CountedBytes

SIZE = 2 * 1024 * 1024
# Far less than the marks in any of the texts below.
MOST = 20_000

JSON = st.recursive(
    st.none() | st.integers(-9, 9) | st.text('a,[{":\\\u00e9\n', max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('k,:"\\', max_size=4), inner, max_size=4),
    max_leaves=20,
)


def weighs(value: object) -> int:
    """What stands before values: commas and opening brackets."""
    if isinstance(value, dict):
        return 1 + max(len(value) - 1, 0) + sum(map(weighs, value.values()))
    if isinstance(value, list):
        return 1 + max(len(value) - 1, 0) + sum(map(weighs, value))
    return 0


def members(value: object) -> int:
    """The members of all objects."""
    if isinstance(value, dict):
        return len(value) + sum(map(members, value.values()))
    return sum(map(members, value)) if isinstance(value, list) else 0


@given(value=JSON, escaped=st.booleans(), cut=st.integers(2, 7))
def test_what_is_counted_is_what_a_reader_builds(value: object, escaped: bool, cut: int) -> None:
    body = json.dumps(value, ensure_ascii=escaped).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_count, "_SLICE", cut)
        patch.setattr(value_count, "_CUT", cut)
        for count, marks in ((weighs(value), value_count.VALUES), (members(value), MEMBERS)):
            assert not exceeds(body, count, marks)
            assert count == 0 or exceeds(body, count - 1, marks)


HONEST = {
    "text": b"Well, [it] {says}: " * (SIZE // 19),
    "text in escapes": b'\\",\\n[' * (SIZE // 6),
    "backslashes": b"\\\\" * (SIZE // 2),
    "commas": b"," * SIZE,
    "base64": b"iVBORw0KGgo/" * (SIZE // 12),
}


@pytest.mark.parametrize("case", HONEST)
def test_a_string_is_one_value_however_long_it_is_and_whatever_it_says(case: str) -> None:
    body = CountedBytes(b'{"messages":[{"role":"user","content":"' + HONEST[case] + b'"}]}')
    assert not exceeds(body, MOST)
    assert body.counter.examined <= 4 * len(body)
    assert body.counter.largest <= value_count._SLICE


HEAVY = {
    "lists": b"[" + b"[]," * 200_000 + b"1]",
    "texts of commas": b'["' + b',","' * 200_000 + b'"]',
    "messages": b'{"messages":[' + b'{"role":"user","content":"x"},' * 100_000 + b"1]}",
    "what breaks off": b"[[" * 200_000,
}


@pytest.mark.parametrize("case", HEAVY)
def test_too_many_values_are_known_without_reading_on(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_count, "_SLICE", 4096)
    monkeypatch.setattr(value_count, "_CUT", 4096)
    body = CountedBytes(HEAVY[case])
    assert exceeds(body, MOST)
    # The excess is in the first tenth. Each mark is searched for on its own, and then the text is cut.
    assert body.counter.examined < len(body) / 2


def test_a_list_has_no_members() -> None:
    assert not exceeds(b'{"input":[' + b"1," * 200_000 + b"1]}", 100_000, MEMBERS)
    assert exceeds(b'{"a":0' + b',"a":1' * 200_000 + b"}", 100_000, MEMBERS)
