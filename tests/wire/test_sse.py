"""The event-stream reader against a plain line parser, for every cut and line end."""

import itertools
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import WireError
from dragoman.wire.sse import DONE, Frame, SseReader, comment, frame, silent_end


def read(*chunks: bytes, limit: int = 1 << 20) -> list[Frame]:
    reader = SseReader(limit=limit)
    frames = [found for chunk in chunks for found in reader.feed(chunk)]
    return frames + reader.close()


def read_plainly(stream: bytes) -> list[Frame]:
    """The rules of S14 written down once more, slowly, over the whole stream."""
    frames: list[Frame] = []
    event, data = "", list[bytes]()
    lines = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))
    for line in [*lines, b""]:
        if not line:
            if data:
                frames.append(Frame(event or None, b"\n".join(data)))
            event, data = "", []
            continue
        name, colon, value = line.partition(b":")
        if colon and value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            data.append(value)
        if name == b"event":
            event = value.decode("utf-8", "replace")
    return frames


CASES: dict[str, tuple[bytes, list[Frame]]] = {
    "a data line and a blank line": (b'data: {"a":1}\n\n', [Frame(None, b'{"a":1}')]),
    "a named event": (b"event: ping\ndata: {}\n\n", [Frame("ping", b"{}")]),
    "the space after the colon is optional": (b"event:ping\ndata:{}\n\n", [Frame("ping", b"{}")]),
    "only one space is taken": (b"data:  x\n\n", [Frame(None, b" x")]),
    "carriage returns alone": (b"event: a\rdata: 1\r\rdata: 2\r\r", [Frame("a", b"1"), Frame(None, b"2")]),
    "carriage return and line feed": (
        b"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n",
        [Frame("a", b"1"), Frame(None, b"2")],
    ),
    "mixed line ends": (b"event: a\rdata: 1\r\n\ndata: 2\n\r\n", [Frame("a", b"1"), Frame(None, b"2")]),
    "several data lines are joined": (b"data: a\ndata\ndata:\ndata: b\n\n", [Frame(None, b"a\n\n\nb")]),
    "a name with data on both sides": (b"data: a\nevent: e\ndata: b\n\n", [Frame("e", b"a\nb")]),
    "a byte order mark is skipped": (b"\xef\xbb\xbfdata: a\n\n", [Frame(None, b"a")]),
    "a later byte order mark is text": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Frame(None, b"a")]),
    "comments are skipped": (b": PROCESSING\n\n:\n\n: x\ndata: a\n: y\n\n", [Frame(None, b"a")]),
    "id, retry and unknown fields are skipped": (b"id: 7\nretry: 10\nmood: good\ndata: a\n\n", [Frame(None, b"a")]),
    "a longer field name is another field": (b"database: x\ndata: a\n\n", [Frame(None, b"a")]),
    "an event without data is not delivered": (b"event: ping\n\ndata: a\n\n", [Frame(None, b"a")]),
    "an empty data line is data": (b"data:\n\ndata\n\ndata: \n\n", [Frame(None, b"")] * 3),
    "an empty name is no name": (b"event: \ndata: a\n\nevent\ndata: b\n\n", [Frame(None, b"a"), Frame(None, b"b")]),
    "the last name wins": (b"event: a\nevent: b\ndata: 1\n\n", [Frame("b", b"1")]),
    "blank lines mean nothing": (b"\n\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n", [Frame(None, b"a"), Frame(None, b"b")]),
    "the end of the stream ends an event": (b"data: a\n\nevent: e\ndata: b", [Frame(None, b"a"), Frame("e", b"b")]),
    "the end of the stream after a line": (b"data: a\n", [Frame(None, b"a")]),
    "separators of other alphabets are text": (
        "data: a\u2028b\u2029c\u0085d\x0b\x0c\x1c\n\n".encode(),
        [Frame(None, "a\u2028b\u2029c\u0085d\x0b\x0c\x1c".encode())],
    ),
    "bytes that are not UTF-8 stay": (b"event: \xff\ndata: \xff\xfe\n\n", [Frame("\ufffd", b"\xff\xfe")]),
    "nothing": (b"", []),
    "half a byte order mark": (b"\xef\xbb", []),
}


@pytest.mark.parametrize(("stream", "expected"), CASES.values(), ids=CASES.keys())
def test_a_stream_reads_the_same_whole_and_cut(stream: bytes, expected: list[Frame]) -> None:
    assert read_plainly(stream) == expected
    assert read(stream) == expected
    assert read(*(bytes([byte]) for byte in stream)) == expected
    for cut in range(len(stream) + 1):
        assert read(stream[:cut], b"", stream[cut:]) == expected


PIECES = st.sampled_from(
    [
        *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n"),
        *(b"data: ", b"data:", b"data", b"event: ", b"event:", b"id: 1", b"retry: 2", b":", b": hi", b" ", b"x"),
        *(b'data: {"a":"b"}\n\n', b"event: e\ndata: {}\n\n", b"event: e\r\ndata: {}\r\n\r\n"),
        *(b"\xef\xbb\xbf", b"\xef", b"\xc2\x85", b"\xe2\x80\xa8", b"\xff"),
    ]
)


def cut_at(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [stream[start:end] for start, end in itertools.pairwise(edges)]


@given(st.lists(PIECES, max_size=24).map(b"".join), st.lists(st.integers(0, 400), max_size=8))
def test_any_stream_reads_as_the_plain_parser_reads_it(stream: bytes, cuts: list[int]) -> None:
    assert read(*cut_at(stream, cuts)) == read_plainly(stream)


def read_until_broken(chunks: list[bytes], limit: int) -> tuple[list[Frame], bool]:
    reader = SseReader(limit=limit)
    frames: list[Frame] = []
    try:
        for chunk in chunks:
            frames += reader.feed(chunk)
        frames += reader.close()
    except WireError:
        return frames, True
    return frames, False


@given(st.lists(PIECES, max_size=16).map(b"".join), st.lists(st.integers(0, 400), max_size=8), st.integers(1, 24))
def test_the_limit_strikes_at_the_same_event_for_every_cut(stream: bytes, cuts: list[int], limit: int) -> None:
    assert read_until_broken(cut_at(stream, cuts), limit) == read_until_broken([stream], limit)


@given(st.lists(PIECES, max_size=16).map(b"".join), st.sampled_from([b"\r", b"\r\n"]), st.integers(1, 24))
def test_line_ends_do_not_count_against_the_limit(stream: bytes, line_end: bytes, limit: int) -> None:
    plain = stream.replace(b"\r", b"")
    assert read_until_broken([plain.replace(b"\n", line_end)], limit) == read_until_broken([plain], limit)


def test_a_frame_is_delivered_with_the_byte_that_ends_it() -> None:
    reader = SseReader()
    assert reader.feed(b"data: a\n") == []
    assert reader.feed(b"\n") == [Frame(None, b"a")]
    assert reader.feed(b"data: b\r\n") == []
    assert reader.feed(b"\r") == [Frame(None, b"b")]
    assert reader.feed(b"\n") == []
    assert reader.close() == []


def test_an_event_at_the_limit_is_read() -> None:
    assert read(b"data: 4\n", b"\n", limit=7) == [Frame(None, b"4")]


def test_an_event_over_the_limit_names_the_limit() -> None:
    reader = SseReader(limit=7)
    with pytest.raises(WireError, match=r"event stream: expected events of at most 7 bytes, found a longer one"):
        reader.feed(b"data: 45")


def test_frames_before_a_long_event_are_delivered_and_every_later_call_fails() -> None:
    reader = SseReader(limit=7)
    assert reader.feed(b"data: 1\n\ndata: 234\n\ndata: 5\n\n") == [Frame(None, b"1")]
    for _ in range(2):
        with pytest.raises(WireError):
            reader.feed(b"data: 6\n\n")
    with pytest.raises(WireError):
        reader.close()


def test_many_comments_are_no_long_event() -> None:
    assert read(*[b": keep-alive\n\n"] * 100, b"data: a\n\n", limit=16) == [Frame(None, b"a")]


SILENT: dict[str, tuple[bytes, int]] = {
    "comments": (b":\n\n: a\n\n", 8),
    "blank lines": (b"\n\n\n", 3),
    "empty data": (b"data\n\ndata:\n\ndata: \n\n", 21),
    "names without data": (b"event: error\n\nid: 1\nevent: x\n\n", 30),
    "empty data among fields": (b"event: x\ndata:\nid: 1\n\n", 22),
    "data that is a space": (b":\n\ndata:  \n\n", 3),
    "two lines of empty data": (b":\n\ndata\ndata\n\n", 3),
    "data after another field": (b":\n\nevent: x\n:\ndata: {}\n\n", 3),
    "half an event": (b":\n\n:\n", 3),
    "an event that is too long": (b":\n\n:" + b"x" * 100 + b"\n\n", 3),
}


@pytest.mark.parametrize(("stream", "end"), SILENT.values(), ids=SILENT)
def test_events_that_say_nothing_end_where_one_says_something(stream: bytes, end: int) -> None:
    assert silent_end(stream, 0, 50) == end


def test_a_large_event_in_many_reads_is_read_once() -> None:
    payload = b"x" * (4 << 20)
    stream = b"event: big\ndata: " + payload + b"\n\n"
    chunks = [stream[start : start + 1024] for start in range(0, len(stream), 1024)]
    assert read(*chunks, limit=8 << 20) == [Frame("big", payload)]


def test_an_event_of_many_lines_takes_little_more_than_its_size() -> None:
    """16 MiB of two letters each took 250 MB, and one step that nobody could interrupt."""
    block = b"xy\n" * 700_000 + b"data: a\n" + b"event: b\ndata\ndata: c"
    tracemalloc.start()
    try:
        frames = read(block, b"\n\n", limit=len(block))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert frames == [Frame("b", b"a\n\nc")]
    # The reader holds it, and gives it on in one piece.
    assert most < 5 * len(block)


def test_frames_are_written_as_the_providers_write_them() -> None:
    assert frame(b"{}") == b"data: {}\n\n"
    assert frame(b"{}", "ping") == b"event: ping\ndata: {}\n\n"
    assert frame(b"{}", "") == b"data: {}\n\n"
    assert frame(b"[DONE]") == DONE
    assert comment("keep-alive") == b": keep-alive\n\n"


def test_line_ends_cannot_break_out_of_what_is_written() -> None:
    assert frame(b"a\nb\r\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"
    assert read(frame(b"{}", "a\n\ndata: forged\r")) == [Frame("a  data: forged ", b"{}")]
    assert read(comment("a\n\ndata: forged\n\n"), frame(b"1")) == [Frame(None, b"1")]


def test_a_lone_surrogate_in_a_name_is_replaced() -> None:
    assert frame(b"{}", "a\ud800") == b"event: a?\ndata: {}\n\n"


NAMES = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1)


@given(st.lists(st.tuples(NAMES, st.binary().map(lambda data: data.replace(b"\r", b"")))))
def test_what_is_written_reads_back(written: list[tuple[str | None, bytes]]) -> None:
    stream = comment("hello") + b"".join(frame(data, event) for event, data in written)
    assert read(stream) == [Frame(event, data) for event, data in written]
