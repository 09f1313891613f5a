"""Heads of replies: whole, dated, and impossible to split."""

from __future__ import annotations

from email.utils import formatdate, parsedate_to_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.http import response_head
from dragoman.http.response_head import CLOCK, CLOSE, Clock, compose, length_line


def lines(head: bytes) -> list[bytes]:
    assert head.endswith(b"\r\n\r\n")
    return head[:-4].split(b"\r\n")


def test_a_head_has_status_headers_date_and_framing() -> None:
    said = lines(compose(200, [(b"content-type", b"text/plain"), (b"x-a", b"b")], CLOSE + length_line(12)))
    assert said[:3] == [b"HTTP/1.1 200 OK", b"content-type: text/plain", b"x-a: b"]
    assert said[3].startswith(b"date: ")
    assert said[4:] == [b"connection: close", b"content-length: 12"]


@pytest.mark.parametrize(
    ("status", "line"),
    [(404, b"HTTP/1.1 404 Not Found"), (529, b"HTTP/1.1 529 "), (999, b"HTTP/1.1 999 ")],
)
def test_every_status_has_a_line(status: int, line: bytes) -> None:
    assert lines(compose(status, [], b""))[0] == line


def test_a_handler_cannot_frame_a_body_by_itself() -> None:
    own = [(b"Content-Length", b"5"), (b"transfer-encoding", b"x"), (b"connection", b"upgrade"), (b"date", b"never")]
    assert len(lines(compose(200, own, length_line(0)))) == 3


def test_a_value_cannot_end_its_line_and_a_bad_name_is_left_out() -> None:
    said = lines(compose(200, [(b"x-a", b"b\r\nset-cookie: c\0"), (b"x\r\ny", b"d"), (b"x-e", b"f")], b""))
    assert said[1:3] == [b"x-a: b  set-cookie: c ", b"x-e: f"]
    assert len(said) == 4


@given(st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=12)), max_size=4))
def test_whatever_the_headers_hold_there_is_one_line_for_each_at_most(headers: list[tuple[bytes, bytes]]) -> None:
    head = compose(200, headers, length_line(0))
    assert head.count(b"\r\n\r\n") == 1
    assert head.count(b"\n") == head.count(b"\r") == len(lines(head)) + 1
    assert len(lines(head)) <= len(headers) + 3
    assert b"\0" not in head


def test_the_date_is_a_date_and_made_once_a_second() -> None:
    line = CLOCK.now()
    assert parsedate_to_datetime(line[6:-2].decode()).year >= 2024
    assert CLOCK.now() is line or CLOCK.now() != line


@given(second=st.integers(1, 4_102_444_800))
def test_the_date_is_that_of_the_standard_library(second: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(response_head, "time", lambda: second + 0.5)
        assert Clock().now() == f"date: {formatdate(second, usegmt=True)}\r\n".encode()
