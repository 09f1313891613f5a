"""A few members of large JSON, without reading the rest."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw, Struct

from dragoman.model.request_features import ConversationStart
from dragoman.wire.peek import (
    NULL,
    conversation_start_in,
    has_value,
    length,
    listed,
    number,
    peeked,
    text_in,
)

TEXTS = msgspec.json.Decoder(list[str])


@pytest.mark.parametrize("text", [b"null", b"[]", b"{}", b'""', b"false"])
def test_what_is_empty_says_nothing(text: bytes) -> None:
    assert not has_value(Raw(text))


@pytest.mark.parametrize("text", [b"true", b"0", b"[1]", b'{"a":1}', b'"auto"', b'"a long text"'])
def test_what_is_there_says_something(text: bytes) -> None:
    assert has_value(Raw(text))


def test_what_is_not_there_has_no_length() -> None:
    assert length(NULL) == 0
    assert length(Raw(b'"abc"')) == 5


def test_only_lists_have_elements_and_only_such_as_can_be_read() -> None:
    assert listed(Raw(b'["a","b"]'), TEXTS) == ["a", "b"]
    assert not listed(Raw(b'"a"'), TEXTS)
    assert not listed(Raw(b"[1]"), TEXTS)
    assert not listed(Raw(b""), TEXTS)
    assert peeked(b'["a"', TEXTS) is None


def test_numbers_are_whole_and_of_a_size() -> None:
    assert number(Raw(b"64")) == 64
    for text in (b"1.0", b"-1", b"null", b'"64"', b"9" * 40):
        assert number(Raw(text)) is None


def test_texts_stand_alone_or_in_parts() -> None:
    assert text_in(Raw(b'"a\\nb"')) == "a\nb"
    assert text_in(Raw(b'[{"type":"text","text":"a","cache_control":{}},{"type":"image"},{"text":"b"}]')) == "ab"
    assert text_in(NULL) == text_in(Raw(b"7")) == text_in(Raw(b'[{"text":1}]')) == ""


class _Said(Struct):
    role: str
    text: str


def test_a_conversation_opens_with_the_users_first_words() -> None:
    told = [("system", "Be brief."), ("system", "And now?"), ("user", "Hello!"), ("user", "And now?")]
    said = [_Said(role=role, text=text) for role, text in told]
    assert conversation_start_in(said) == ConversationStart(instructions="Be brief.", text="Hello!")
    assert conversation_start_in(said, "Be kind.") == ConversationStart(instructions="Be kind.", text="Hello!")
    assert conversation_start_in(said[:2]) == ConversationStart()
