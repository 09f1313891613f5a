"""AWS's framing is read however it is cut, and broken frames are noticed; botocore's reader is the second opinion."""

from __future__ import annotations

import struct
import zlib

import pytest
from botocore.eventstream import EventStreamBuffer  # type: ignore[import-untyped]  # botocore has no types
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import BadResponse, Truncated
from dragoman.providers.eventstream import LIMIT, EventStreamMessage, EventStreamReader, read_headers
from tests.providers.imitation import aws_exception, aws_frame, aws_header, aws_message, chunk

STREAM = chunk(b'{"type":"ping"}') + aws_message([], b"") + aws_exception("throttlingException", "slow dówn")


def read(pieces: list[bytes]) -> list[EventStreamMessage]:
    reader = EventStreamReader()
    messages = [message for piece in pieces for message in reader.feed(piece)]
    reader.close()
    return messages


def test_botocore_reads_the_same_messages() -> None:
    buffer = EventStreamBuffer()
    buffer.add_data(STREAM)
    assert [(message.headers, message.payload) for message in read([STREAM])] == [
        (dict(theirs.headers), theirs.payload) for theirs in buffer
    ]


def test_any_cut_gives_the_same_messages() -> None:
    whole = read([STREAM])
    assert len(whole) == 3
    for cut in range(len(STREAM) + 1):
        assert read([STREAM[:cut], STREAM[cut:]]) == whole
    assert read([STREAM[at : at + 1] for at in range(len(STREAM))]) == whole


@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 50))
def test_any_payloads_in_any_pieces_come_back(payloads: list[bytes], size: int) -> None:
    stream = b"".join(aws_message([(":n", str(number))], payload) for number, payload in enumerate(payloads))
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert read(pieces) == [EventStreamMessage({":n": str(number)}, payload) for number, payload in enumerate(payloads)]


def test_a_stream_that_ends_within_a_message_is_truncated() -> None:
    ends = {0}
    for message in (chunk(b'{"type":"ping"}'), aws_message([], b""), aws_exception("throttlingException", "slow dówn")):
        ends.add(max(ends) + len(message))
    for cut in range(len(STREAM)):
        reader = EventStreamReader()
        reader.feed(STREAM[:cut])
        if cut in ends:
            reader.close()
        else:
            with pytest.raises(Truncated):
                reader.close()


def test_one_changed_bit_anywhere_is_noticed() -> None:
    frame = chunk(b'{"type":"ping"}')
    for at in range(len(frame)):
        for bit in range(8):
            broken = bytearray(frame)
            broken[at] ^= 1 << bit
            reader = EventStreamReader()
            with pytest.raises(BadResponse):
                reader.feed(bytes(broken))


def test_messages_before_a_broken_one_are_delivered_first() -> None:
    good, broken = chunk(b'{"type":"ping"}'), bytearray(chunk(b'{"type":"ping"}'))
    broken[-1] ^= 1
    reader = EventStreamReader()
    assert len(reader.feed(good + bytes(broken) + good)) == 1
    for attempt in (lambda: reader.feed(b""), lambda: reader.feed(good), reader.close):
        with pytest.raises(BadResponse):
            attempt()


def prelude(total: int, headers: int) -> bytes:
    lengths = struct.pack(">II", total, headers)
    return lengths + struct.pack(">I", zlib.crc32(lengths)) + bytes(4)


@pytest.mark.parametrize(
    ("total", "headers"),
    [(LIMIT + 1, 0), (0xFFFFFFFF, 0), (15, 0), (0, 0), (20, 5), (16, 0xFFFFFFFF), (1024 * 1024, 128 * 1024 + 1)],
)
def test_lengths_that_cannot_be_or_go_beyond_the_limit_are_refused_at_once(total: int, headers: int) -> None:
    with pytest.raises(BadResponse):
        EventStreamReader().feed(prelude(total, headers))


def test_a_message_at_the_limit_is_read_and_one_beyond_is_not() -> None:
    frame = aws_message([], bytes(84))
    assert len(EventStreamReader(limit=100).feed(frame)) == 1
    with pytest.raises(BadResponse):
        EventStreamReader(limit=99).feed(frame)


def test_headers_that_are_no_text_are_skipped_by_their_length() -> None:
    raw = b"".join(
        (
            aws_header("true", 0, b""),
            aws_header("false", 1, b""),
            aws_header("byte", 2, b"\1"),
            aws_header("short", 3, bytes(2)),
            aws_header("integer", 4, bytes(4)),
            aws_header("long", 5, bytes(8)),
            aws_header("octets", 6, b"\0\3abc"),
            aws_header("timestamp", 8, bytes(8)),
            aws_header("uuid", 9, bytes(16)),
            aws_header("text", 7, b"\0\2\xc3\xa9"),
        )
    )
    assert read_headers(raw) == {"text": "é"}
    buffer = EventStreamBuffer()
    buffer.add_data(aws_frame(raw, b""))
    assert next(iter(buffer)).headers["text"] == "é"


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\5ab", id="a name cut short"),
        pytest.param(b"\1a", id="no type"),
        pytest.param(aws_header("a", 10, b""), id="an unknown type"),
        pytest.param(aws_header("a", 7, b"\0"), id="half a length"),
        pytest.param(aws_header("a", 7, b"\0\5abc"), id="a value cut short"),
        pytest.param(aws_header("a", 5, bytes(7)), id="a number cut short"),
        pytest.param(aws_header("a", 7, b"\0\1\xff"), id="text that is not UTF-8"),
        pytest.param(aws_header("a", 7, b"\0\1b") * 2, id="a name twice"),
    ],
)
def test_headers_that_cannot_be_read_are_refused(raw: bytes) -> None:
    with pytest.raises(BadResponse):
        EventStreamReader().feed(aws_frame(raw, b""))


def test_a_large_message_in_many_pieces_is_read() -> None:
    payload = bytes(range(256)) * 16 * 1024
    frame = aws_message([(":message-type", "event")], payload)
    pieces = [frame[at : at + 4096] for at in range(0, len(frame), 4096)]
    assert read(pieces) == [EventStreamMessage({":message-type": "event"}, payload)]
