"""Chunks that are like the one before: only their text is read, and nothing but a text may differ."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.events import Event, PartGrew, TextDelta
from dragoman.model.jsonvalue import JsonValue
from dragoman.model.losses import Ledger
from dragoman.protocols.openai_chat.stream_decoder import ChatStreamDecoder
from dragoman.protocols.openai_chat.stream_fast_path import ChunkFastPath
from dragoman.protocols.registry import codec_of
from dragoman.translate import derived_mint, translation_context
from dragoman.wire.json import read_json
from dragoman.wire.sse import Frame


def chunk(text: str, *, name: str = "content", model: str = "m", spaced: bool = False, **more: JsonValue) -> bytes:
    choice = {"index": 0, "delta": {name: text}, "finish_reason": None}
    separators = None if spaced else (",", ":")
    return json.dumps({"id": "x", "model": model, "choices": [choice], **more}, separators=separators).encode()


def learned(data: bytes, name: str = "content") -> ChunkFastPath:
    likeness = ChunkFastPath()
    likeness.lessons = 1
    likeness.learn(data, read_json(data), name)
    return likeness


def decoder() -> ChatStreamDecoder:
    return ChatStreamDecoder(translation_context(None, codec_of("openai-chat")), derived_mint(b""), Ledger())


def told(data: list[bytes], *, lessons: int) -> list[Event]:
    reader = decoder()
    reader._fast_path.lessons = lessons
    return [event for each in data for event in reader.feed(Frame(None, each))]


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("text", ["b", ' "quoted" \\ and\nmore', "\u00e9\U0001f600", '","content":"', "}]}"])
def test_the_text_of_a_chunk_that_is_alike_is_read(text: str, spaced: bool) -> None:
    likeness = learned(chunk("a", spaced=spaced))
    assert likeness.is_ready
    assert likeness.text(chunk(text, spaced=spaced)) == text


@pytest.mark.parametrize(
    "data",
    [
        chunk("b", model="n"),
        chunk("b", usage={"total_tokens": 1}),
        chunk("b").replace(b"null", b'"stop"'),
        chunk("b").replace(b'"b"', b"null"),
        chunk("b").replace(b'"b"', b'"b","refusal":"no"'),
        chunk("b").replace(b'"b"', b'"\\ud83d"'),
        chunk("b").replace(b'"b"', b'"\xff"'),
        chunk("b")[:-3],
        chunk(""),
        b"{}",
    ],
)
def test_any_other_chunk_is_left_to_be_read(data: bytes) -> None:
    assert learned(chunk("a")).text(data) == ""


@pytest.mark.parametrize(
    "data",
    [
        # The text stands there twice, and the first place is another's.
        chunk("m"),
        # Spelled otherwise than it is written here.
        chunk("a").replace(b'"a"', b'"\\u0061"'),
        # Of two members of one name the last counts.
        chunk("a").replace(b'"a"', b'"a","content":"a"'),
    ],
)
def test_nothing_is_learned_where_it_is_not_certain_what_the_text_is(data: bytes) -> None:
    assert not learned(data).is_ready


def test_lessons_end_where_every_chunk_is_another() -> None:
    reader = decoder()
    for number in range(20):
        reader.feed(Frame(None, chunk("a", nonce=f"n{number}")))
    assert reader._fast_path.lessons == 0


def test_what_is_not_alike_is_read_and_then_nothing_is_known() -> None:
    reader = decoder()
    for text in "abcde":
        assert not reader._fast_path.is_ready
        reader.feed(Frame(None, chunk(text)))
    assert reader._fast_path.is_ready
    reader.feed(Frame(None, chunk("think", name="reasoning_content")))
    assert not reader._fast_path.is_ready
    assert reader.feed(Frame(None, chunk("d")))[-1] == PartGrew(2, TextDelta("d"))


TEXTS = st.text(max_size=5) | st.sampled_from(["a", "m", "x", "content", '"'])
CHUNKS = st.builds(
    chunk,
    TEXTS,
    name=st.sampled_from(["content", "reasoning_content", "refusal"]),
    model=st.sampled_from(["m", "m", "m", "a"]),
)


@given(st.lists(CHUNKS, max_size=12), st.integers(1, 16))
def test_a_stream_tells_the_same_however_much_is_learned(data: list[bytes], lessons: int) -> None:
    assert told(data, lessons=lessons) == told(data, lessons=0)
