"""Frames that look like the one before: only their text is read, and nothing but a text may differ."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.events import Event, PartGrew, TextDelta, TextRun
from dragoman.model.jsonvalue import JsonValue
from dragoman.model.losses import Ledger
from dragoman.protocols.openai_chat.stream_decoder import ChatStreamDecoder
from dragoman.protocols.registry import codec_of
from dragoman.rules.text_runs import FrameForm, PassingText, TextFrames, encode_run
from dragoman.translate import derived_mint, translation_context
from dragoman.wire.sse import Frame, frame


def chunk(text: str, *, name: str = "content", model: str = "m", spaced: bool = False, **more: JsonValue) -> bytes:
    choice = {"index": 0, "delta": {name: text}, "finish_reason": None}
    separators = None if spaced else (",", ":")
    return json.dumps({"id": "x", "model": model, "choices": [choice], **more}, separators=separators).encode()


def decoder() -> ChatStreamDecoder:
    return ChatStreamDecoder(translation_context(None, codec_of("openai-chat")), derived_mint(b""), Ledger())


def learned(*data: bytes) -> TextFrames:
    """What a decoder has learned from its second chunk on: the first one opens the part."""
    reader = decoder()
    for each in data:
        reader.feed(Frame(None, each))
    return reader.text_frames


def read(frames: TextFrames, stream: bytes) -> tuple[str, int] | None:
    found = frames.read(stream, 0, len(stream))
    return None if found is None else (found[0].text, found[1])


def emitted(data: list[bytes], *, lessons: int) -> list[Event]:
    reader = decoder()
    reader.text_frames.lessons = lessons
    return [event for each in data for event in reader.feed(Frame(None, each))]


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("text", ["b", ' "quoted" \\ and\nmore', "é", '","content":"', "}]}", "/"])
def test_frames_that_look_alike_are_read_at_once(text: str, spaced: bool) -> None:
    frames = learned(chunk("a", spaced=spaced), chunk("a", spaced=spaced))
    stream = frame(chunk(text, spaced=spaced)) + frame(chunk("c", spaced=spaced))
    assert read(frames, stream + frame(b"{}")) == (text + "c", len(stream))


def test_strings_are_written_as_encoders_write_them() -> None:
    frames = learned(chunk("a"), chunk("a"))
    stream = b"".join(frame(chunk("#").replace(b"#", text)) for text in (rb"\u0041\/", rb"\n", "é".encode()))
    found = frames.read(stream, 0, len(stream))
    assert found is not None
    assert found[0] == TextRun("A/\né", strings=[b"A/", rb"\n", "é".encode()])
    assert encode_run(found[0], b"<", b">") == '<"A/"><"\\n"><"é">'.encode()


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
def test_any_other_frame_is_left_to_be_read(data: bytes) -> None:
    assert read(learned(chunk("a"), chunk("a")), frame(data) + frame(chunk("b"))) is None


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
    assert not learned(chunk("a"), data).is_ready


def test_what_varies_and_tells_nothing_may_differ() -> None:
    frames = learned(*[chunk("a", obfuscation="Xy")] * 2)
    stream = frame(chunk("b", obfuscation="")) + frame(chunk("c", obfuscation="abc")[:-1] + b"   }")
    assert read(frames, stream) == ("bc", len(stream))


def test_a_run_is_no_longer_than_an_event_may_be() -> None:
    frames, one = learned(chunk("a"), chunk("a")), frame(chunk("b"))
    found = frames.read(one * 9, 0, 3 * len(one) + 1)
    assert found is not None
    assert found[1] == 3 * len(one)


def test_lessons_end_where_every_frame_is_another() -> None:
    assert learned(*[chunk("a", nonce=f"n{number}") for number in range(50)]).lessons == 0


def test_what_does_not_look_alike_is_read_and_then_nothing_is_known() -> None:
    reader = decoder()
    for text in "ab":
        assert not reader.text_frames.is_ready
        reader.feed(Frame(None, chunk(text)))
    assert reader.text_frames.is_ready
    reader.feed(Frame(None, chunk("think", name="reasoning_content")))
    assert not reader.text_frames.is_ready
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
    assert emitted(data, lessons=lessons) == emitted(data, lessons=0)


def passing(*, number: int | None = None, limit: int = 1000) -> PassingText:
    frames = learned(chunk("a"), chunk("a"))
    assert frames.has_one_form
    return frames.passing(FrameForm(b"<", b">", number, b"!" if number is not None else b""), limit)


def test_plain_text_passes_between_the_bytes_of_another_form() -> None:
    text = passing()
    assert text.passed(frame(chunk("one"))) == b"<one>"
    assert (
        text.passed(frame(chunk("zwei é".encode().decode()).replace(b"\\u00e9", "é".encode()))) == "<zwei é>".encode()
    )
    run = text.take()
    assert run is not None and (run.text, run.strings) == ("onezwei é", [b"one", "zwei é".encode()])
    assert text.take() is None


@pytest.mark.parametrize(("number", "expected"), [(None, b"<a><b c>"), (3, b"<a>3!<b c>4!")])
def test_several_frames_pass_at_once(number: int | None, expected: bytes) -> None:
    text = passing(number=number)
    assert text.passed(frame(chunk("a")) + frame(chunk("b c"))) == expected
    run = text.take()
    assert run is not None and (run.text, run.strings) == ("ab c", [b"a", b"b c"])


def test_frames_that_have_numbers_get_them_in_order() -> None:
    text = passing(number=9)
    assert [text.passed(frame(chunk(word))) for word in ("a", '"', "b")] == [b"<a>9!", None, b"<b>10!"]


@pytest.mark.parametrize(
    "data",
    [
        frame(chunk("")),
        frame(chunk('"')),
        frame(chunk("\n")),
        frame(chunk("#")).replace(b"#", b"\xff"),
        frame(chunk("#")).replace(b"#", b"\x7f"),
        frame(chunk("#")).replace(b"#", b'a"}'),
        frame(chunk("a")) + frame(chunk("")),
        frame(chunk("a")) + frame(chunk('"')),
        frame(chunk("#")).replace(b"#", b"\xc3") + frame(chunk("#")).replace(b"#", b"\xa9"),
        frame(chunk("a")) + frame(b"{}") + frame(chunk("b")),
        frame(chunk("a"))[:-1],
        frame(chunk("a", model="other")),
        frame(chunk("a" * 1000)),
        b"",
    ],
)
def test_anything_else_does_not_pass(data: bytes) -> None:
    text = passing()
    assert text.passed(data) is None
    assert text.take() is None


def test_text_that_passed_is_taken_before_it_is_much() -> None:
    text = passing()
    passed = 0
    while text.passed(frame(chunk("word"))) is not None:
        passed += 1
    run = text.take()
    assert run is not None and len(run.strings) == passed < 1000
    assert text.passed(frame(chunk("word"))) == b"<word>"


def test_frames_in_which_more_varies_have_no_one_form() -> None:
    form = [chunk("a", obfuscation=letters) for letters in ("x", "yz")]
    assert not learned(*form).has_one_form
