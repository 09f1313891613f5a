"""Positions in JSON texts, and cutting by them: whatever is not cut keeps its bytes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.wire.json import decode, encode
from dragoman.wire.json_spans import (
    array_elements,
    elements_of,
    object_members,
    replace_text,
    replace_value,
    replaced,
    value_end,
    with_member,
    with_stream,
    without,
)

_white = st.text(alphabet=" \t\n\r", max_size=2)
# Quotes, backslashes and brackets are what a careless scan stumbles over.
_texts = st.text(alphabet='ab"\\{}[],:/é\x01 😀', max_size=6)
_names = st.sampled_from(["a", "b", 'quo"te', "back\\slash", "é", ""]) | _texts
_scalars = st.none() | st.booleans() | st.integers() | st.sampled_from([1.5, -0.0, 1e300]) | _texts


def _written_text(text: str, draw: st.DrawFn) -> str:
    written = json.dumps(text, ensure_ascii=draw(st.booleans()))
    return written.replace("a", "\\u0061") if "\\" not in written and draw(st.booleans()) else written


def _join(opening: str, pieces: list[str], closing: str, draw: st.DrawFn) -> str:
    padded = [draw(_white) + piece + draw(_white) for piece in pieces]
    return opening + (",".join(padded) if padded else draw(_white)) + closing


@st.composite
def _values(draw: st.DrawFn, depth: int = 3) -> str:
    """Any JSON text, spelled and spaced in any way."""
    kind = draw(st.sampled_from(["scalar", "array", "object"] if depth else ["scalar"]))
    if kind == "scalar":
        value = draw(_scalars)
        return _written_text(value, draw) if isinstance(value, str) else json.dumps(value)
    if kind == "array":
        return _join("[", draw(st.lists(_values(depth - 1), max_size=4)), "]", draw)
    return draw(_objects(depth - 1))


@st.composite
def _objects(draw: st.DrawFn, depth: int = 2) -> str:
    pieces = []
    for _ in range(draw(st.integers(0, 4))):
        name = _written_text(draw(_names), draw)
        pieces.append(name + draw(_white) + ":" + draw(_white) + draw(_values(depth)))
    return _join("{", pieces, "}", draw)


@st.composite
def _arrays(draw: st.DrawFn) -> tuple[list[str], str]:
    """The elements of an array as they are written, and the array."""
    values = draw(st.lists(_values(2), max_size=5))
    return values, _join("[", values, "]", draw)


def _pairs(text: bytes) -> list[tuple[str, object]]:
    """What the standard library reads, duplicates too."""
    pairs = json.loads(text, object_pairs_hook=list)
    assert isinstance(pairs, list)
    return pairs


@given(_objects(), _white, _white)
def test_members_are_found_where_they_stand(written: str, before: str, after: str) -> None:
    body = (before + written + after).encode()
    members = object_members(body)
    found = [
        (member.key, json.loads(body[member.value_start : member.value_end], object_pairs_hook=list))
        for member in members
    ]
    assert found == [tuple(pair) for pair in _pairs(body)]
    assert all(json.loads(body[m.key_start : m.value_start].rstrip(b" \t\r\n:")) == m.key for m in members)


@given(_values(), _white)
def test_a_value_ends_where_it_ends(written: str, after: str) -> None:
    value = written.encode()
    assert value_end(b"[" + value + after.encode() + b"]", 1) == 1 + len(value)


@given(_arrays(), _white)
def test_elements_are_found_where_they_stand(array: tuple[list[str], str], before: str) -> None:
    values, written = array
    opening = before.encode() + b'{"x":'
    body = opening + written.encode() + b' , "y":[] }'
    spans = array_elements(body, len(opening))
    assert [body[span.start : span.end].decode() for span in spans] == values
    assert spans == array_elements(body, len(opening), len(opening) + len(written.encode()))


@given(_objects(), st.sets(st.integers(0, 3)))
def test_cutting_members_is_deleting_them_and_touches_nothing_else(written: str, chosen: set[int]) -> None:
    body = written.encode()
    members = object_members(body)
    kept = [member for number, member in enumerate(members) if number not in chosen]
    cut = without(body, [member.whole for number, member in enumerate(members) if number in chosen])
    assert _pairs(cut) == [pair for number, pair in enumerate(_pairs(body)) if number not in chosen]
    remaining = object_members(cut)
    assert [cut[m.key_start : m.value_end] for m in remaining] == [body[m.key_start : m.value_end] for m in kept]
    if not chosen.intersection(range(len(members))):
        assert cut == body


@given(_arrays(), st.sets(st.integers(0, 4)))
def test_cutting_elements_is_deleting_them(array: tuple[list[str], str], chosen: set[int]) -> None:
    values, written = array
    body = written.encode()
    spans = array_elements(body)
    cut = without(body, [span for number, span in enumerate(spans) if number in chosen])
    left = [cut[span.start : span.end].decode() for span in array_elements(cut)]
    assert left == [value for number, value in enumerate(values) if number not in chosen]


@given(_objects(), _names, _values(1), _white)
def test_a_member_is_added_at_the_end(written: str, key: str, value: str, after: str) -> None:
    body = (written + after).encode()
    longer = with_member(body, key, value.encode())
    assert _pairs(longer) == [*_pairs(body), *_pairs(f"{{{json.dumps(key)}:{value}}}".encode())]
    assert without(longer, [object_members(longer)[-1].whole]) == body


@pytest.mark.parametrize(
    ("cut", "left"),
    [
        ({0}, b'{ "b": 2,\n "c": 3 }'),
        ({1}, b'{ "a" : 1 , "c": 3 }'),
        ({2}, b'{ "a" : 1 , "b": 2 }'),
        ({0, 1}, b'{ "c": 3 }'),
        ({1, 2}, b'{ "a" : 1  }'),
        ({0, 2}, b'{ "b": 2 }'),
        ({0, 1, 2}, b"{  }"),
    ],
)
def test_one_comma_goes_with_each_member(cut: set[int], left: bytes) -> None:
    body = b'{ "a" : 1 , "b": 2,\n "c": 3 }'
    members = object_members(body)
    assert without(body, [members[number].whole for number in cut]) == left


def test_what_stands_inside_of_a_cut_goes_with_it() -> None:
    body = b'[{"a":[1,2]},3]'
    inner = elements_of(body, "a", 1, 12)[0][1]
    assert without(body, [inner, array_elements(body)[0]]) == b"[3]"


def test_duplicates_are_all_listed_even_if_one_begins_like_the_other() -> None:
    body = b'{"a":12,"\\u0061":"x","a":[1,2],"a":1}'
    values = [body[member.value_start : member.value_end] for member in object_members(body)]
    assert values == [b"12", b'"x"', b"[1,2]", b"1"]


def test_the_elements_of_every_duplicate_are_numbered_on_their_own() -> None:
    body = b' {"a":[1,2],"b":[3],"a":"no list","a":[4]} '
    assert [(number, body[span.start : span.end]) for number, span in elements_of(body, "a")] == [
        (0, b"1"),
        (1, b"2"),
        (0, b"4"),
    ]


@pytest.mark.parametrize("body", [b"[]", b'"a"', b"1", b"null", b"{}"])
def test_where_no_list_is_there_are_no_elements(body: bytes) -> None:
    assert elements_of(body, "a") == []


def test_values_change_in_their_places() -> None:
    body = b'{"a": 1, "b": [2, 3]}'
    first, second = object_members(body)
    assert replace_value(body, first.value, b"null") == b'{"a": null, "b": [2, 3]}'
    assert replaced(body, [(second.value, b'"y"'), (first.value, b'"x"')]) == b'{"a": "x", "b": "y"}'


def test_a_member_is_added_to_an_inner_object() -> None:
    body = b'{"o": { "x":1 } , "n": {}}'
    outer = object_members(body)
    assert with_member(body, "y", b"2", outer[0].value_end) == b'{"o": { "x":1,"y":2 } , "n": {}}'
    assert with_member(body, "y", b"2", outer[1].value_end) == b'{"o": { "x":1 } , "n": {"y":2}}'


@pytest.mark.parametrize("body", [b"[]", b"{", b'"model"', b'{"\xff":1}', b"[" * 5000 + b"]" * 5000])
def test_what_is_no_object_is_one_kind_of_error(body: bytes) -> None:
    with pytest.raises(WireError):
        object_members(body)


def test_what_is_no_array_is_an_error() -> None:
    with pytest.raises(WireError, match="a JSON array"):
        array_elements(b"{}")


@pytest.mark.parametrize("body", [b"[1", b'{"a":"', b'"a\\"'])
def test_a_value_without_an_end_is_an_error(body: bytes) -> None:
    with pytest.raises(WireError, match="ends too early"):
        value_end(body, 0)


@pytest.mark.parametrize(
    "value",
    [
        b'"' + b"x" * 3_000_000 + b'"',
        b'"' + b'\\"' * 1_500_000 + b'"',
        b'"' + b"\\\\" * 1_500_000 + b'"',
        b"[" + b"[]," * 300_000 + b"1]",
        b"[" * 900 + b"]" * 900,
        b"1" * 4000,
        b" " * 3_000_000 + b"1" + b" " * 3_000_000,
    ],
    ids=["plain text", "quotes", "backslashes", "many", "deep", "a long number", "white space"],
)
def test_large_values_are_walked_over(value: bytes) -> None:
    body = b'{"a":1,"b":' + value + b',"c":[' + value + b"]}"
    inner = value.strip()
    members = object_members(body)
    assert [member.key for member in members] == ["a", "b", "c"]
    assert body[members[1].value_start : members[1].value_end] == inner
    assert value_end(body, members[1].value_start) == members[1].value_end
    assert len(array_elements(body, members[2].value_start)) == 1
    cut = without(body, [members[2].whole, members[1].whole])
    assert cut.strip() == b'{"a":1}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"model":"a","n":1.0}', b'{"model":"b","n":1.0}'),
        (b'{ "n" : 1e400 , "model" :\n"a" }', b'{ "n" : 1e400 , "model" :\n"b" }'),
        (b'{"x":{"model":"a"},"model":"a"}', b'{"x":{"model":"a"},"model":"b"}'),
        (b'{"model":"a","x":{"model":"a"}}', b'{"model":"b","x":{"model":"a"}}'),
        (b'{"model":"a","x":"\\"model\\":\\"a\\""}', b'{"model":"b","x":"\\"model\\":\\"a\\""}'),
        (b'{"model":"old","model":"a"}', b'{"model":"old","model":"b"}'),
        (b'{"mod\\u0065l":"a","n": 1}', b'{"mod\\u0065l":"b","n": 1}'),
        (b'{"model":"a","mod\\u0065l":"a"}', b'{"model":"a","mod\\u0065l":"b"}'),
        (b' {\t"model" : "a" , "x":"\\n"}', b' {\t"model" : "b" , "x":"\\n"}'),
        (b'{"model":"a\\"","n":1}', b'{"model":"b","n":1}'),
        (b'{"model":"b"}', b'{"model":"b"}'),
    ],
)
def test_only_the_model_changes(body: bytes, expected: bytes) -> None:
    assert replace_text(body, "model", "b") == expected


def test_a_body_without_the_member_is_an_error() -> None:
    with pytest.raises(WireError, match=r"^model: expected text, found nothing"):
        replace_text(b"{}", "model", "b")


@pytest.mark.parametrize("body", [b"[]", b"{", b'"model"'])
def test_what_is_no_object_is_an_error(body: bytes) -> None:
    with pytest.raises(WireError):
        with_stream(body, stream=True)


_members = st.recursive(st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner, max_size=3), max_leaves=6)


@given(
    st.dictionaries(st.sampled_from(["model", "x", 'mo"del', "model2"]), _members, max_size=4),
    st.text(max_size=4),
)
def test_every_other_member_keeps_its_value(body: dict[str, object], name: str) -> None:
    document = {**body, "model": "a"}
    spliced = replace_text(encode(document), "model", name)  # type: ignore[arg-type]  # hypothesis values are JSON
    assert decode(spliced) == {**document, "model": name}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"n" : 1.0 }', b'{"n" : 1.0,"stream":true }'),
        (b"{}", b'{"stream":true}'),
        (b'{"stream" : false , "n":1}', b'{"stream" : true , "n":1}'),
        (b'{"stream":null,"stre\\u0061m":0}', b'{"stream":true,"stre\\u0061m":true}'),
        (b'{"x":{"stream":false}}', b'{"x":{"stream":false},"stream":true}'),
    ],
)
def test_a_request_is_made_to_stream(body: bytes, expected: bytes) -> None:
    assert with_stream(body, True) == expected


def test_a_request_is_made_not_to_stream() -> None:
    assert with_stream(b'{"stream": true}', False) == b'{"stream": false}'
