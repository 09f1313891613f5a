"""Transcripts lose nothing: what they show can be read back, and two that are told apart are different."""

from __future__ import annotations

import pytest

from tests.playbooks.printing import Names, Reply, lines_of, message_lines

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def read_back(lines: list[str]) -> bytes:
    """The bytes that a transcript shows."""
    text = "".join(line[2:].removesuffix("¬") + ("" if line.endswith("¬") else "\n") for line in lines)
    plain = "".join(chr(ord(c) - 0x2400) if 0x2400 <= ord(c) < 0x2420 else c for c in text)
    return plain.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"data: {}\n\n",
        b"data: {}\r\n\r\n",
        b"no end",
        b"  blanks  \n ",
        "Grüße\t".encode(),
        b"\xff\x00\x1b[31m",
        b"a\n\nb",
    ],
)
def test_bytes_can_be_read_back(data: bytes) -> None:
    assert read_back(lines_of(data)) == data


def test_what_a_transcript_uses_for_itself_cannot_pass_for_what_was_said() -> None:
    with pytest.raises(AssertionError):
        lines_of("¬".encode())


def test_a_head_is_shown_without_its_line_endings() -> None:
    assert message_lines(b"POST / HTTP/1.1\r\nhost: a\r\n\r\n{}") == ["| POST / HTTP/1.1", "| host: a", "|", "| {}¬"]


def test_chunks_are_shown_as_what_they_hold() -> None:
    reply = Reply()
    assert reply.lines(HEAD + b"5\r\nword\n\r\n")[-2:] == ["+ a chunk of 5", "| word"]
    assert reply.lines(b"2\r\nab\r\n0\r\n\r\n") == ["+ a chunk of 2", "| ab¬", "+ the last chunk"]


@pytest.mark.parametrize("framed", [b"05\r\nword\n\r\n", b"5\r\nword\n", b"6\r\nword\n\r\n", b"word"])
def test_framing_that_is_not_as_it_should_be_is_shown_as_it_is(framed: bytes) -> None:
    reply = Reply()
    reply.lines(HEAD)
    assert read_back(reply.lines(framed)) == framed


def test_tokens_are_named_in_the_order_in_which_they_are_seen() -> None:
    names = Names()
    first, second = names.token(24), names.token(48)
    assert (len(first), len(second)) == (24, 48)
    shown = names.named(f"{second} {first} {second}").split()
    assert shown == ["1".rjust(48, "0"), "2".rjust(24, "0"), "1".rjust(48, "0")]
