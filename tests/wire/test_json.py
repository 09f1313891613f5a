"""JSON in and out: spelling, depth, and one kind of error."""

from __future__ import annotations

import pytest

from dragoman.errors import WireError
from dragoman.model.jsonvalue import JsonValue, Number
from dragoman.wire.json import decode, decode_lenient, decode_object, encode, encode_text


@pytest.mark.parametrize(
    "text", ["1.0", "1e400", "10.50", "-0.0", "9007199254740993", "123456789012345678901234567890", '{"b":1,"a":2}']
)
def test_pitfall_052_numbers_and_order_keep_their_spelling(text: str) -> None:
    assert encode_text(decode(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"NaN",
        b'"\\ud800"',
        b'"\xff"',
        b"[" * 100_000 + b"]" * 100_000,
        b"1" * 5000,
        b"\xef\xbb\xbf{}",
        b"01",
    ],
)
def test_what_is_not_json_is_one_kind_of_error(text: bytes) -> None:
    with pytest.raises(WireError):
        decode(text)


BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "it is empty"),
    "blanks": (b" \n", "it is empty"),
    "half a text": (b'{"a":\n  [1', "it breaks off at line 2, column 5"),
    "a comma that is missing": (b'{"a": [\n 1 2]}', "expected ',' or ']' at line 2, column 4"),
    "a comma too many": (b'{"a":1,}', "a comma before '}' at line 1, column 8"),
    "a name without quotes": (b"{a:1}", "expected a name in double quotes at line 1, column 2"),
    "a value that is missing": (b'{"a":}', "a character that cannot stand there at line 1, column 6"),
    "more than one text": (b'{"a":1} x', "something after its end at line 1, column 10"),
    "letters beyond ASCII before it": ('{"ä":"世界",}'.encode(), "a comma before '}' at line 1, column 11"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_with_a_text_is_told_with_line_and_column(case: str) -> None:
    text, words = BROKEN[case]
    for given in (text, text.decode()):
        with pytest.raises(WireError) as caught:
            decode(given)
        assert str(caught.value) == f"this is not JSON: {words}"


def test_nothing_of_a_broken_text_is_in_the_error() -> None:
    for text in (b'{"a": "secret" "secret"}', b'["secret', b"[secret]", b'{"secret": 01}', b'"\\xsecret"'):
        with pytest.raises(WireError) as caught:
            decode(text)
        assert "secret" not in str(caught.value)


def test_the_last_of_duplicate_members_counts() -> None:
    assert decode('{"a":1,"a":2}') == {"a": 2}


@pytest.mark.parametrize("body", ["[]", '"x"', "1", "null"])
def test_a_document_must_be_an_object(body: str) -> None:
    with pytest.raises(WireError, match="expected an object"):
        decode_object(body)


@pytest.mark.parametrize("value", ["\ud800", {"a": "\udc00"}])
def test_a_lone_surrogate_cannot_be_written(value: JsonValue) -> None:
    with pytest.raises(WireError, match="lone surrogate"):
        encode(value)


def test_a_provider_may_stream_lone_surrogates() -> None:
    assert decode_lenient(b'{"a":"\\ud83d"}') == {"a": "\ufffd"}
    assert decode_lenient(b'{"a":"\xff"}') == {"a": "\ufffd"}
    assert decode_lenient(b'{"n":1.50,"a":"\\ud83d"}') == {"n": Number("1.50"), "a": "\ufffd"}
    assert decode_lenient(b'{"a":"\\\\ud800 \\ud83d\\ude00 \\ude00"}') == {"a": "\\ud800 \U0001f600 \ufffd"}
    with pytest.raises(WireError):
        decode_lenient(b"{")
