"""Renaming the model without touching another byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.wire.json import decode, encode
from dragoman.wire.splice import replace_text, with_stream


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


_values = st.recursive(st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner, max_size=3), max_leaves=6)


@given(st.dictionaries(st.sampled_from(["model", "x", 'mo"del', "model2"]), _values, max_size=4), st.text(max_size=4))
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
