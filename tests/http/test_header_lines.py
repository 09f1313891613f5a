"""Header lines: read and written alike the first time and later, and only so many are cached."""

from __future__ import annotations

import pytest

from dragoman.http.header_lines import MAX_LINE_BYTES, MAX_LINES, MAX_WRITTEN_LINES, HeaderLines, WrittenLines


def written(header: tuple[bytes, bytes]) -> bytes:
    if header[0] == b"host":
        raise ValueError("refused")
    return b"%b: %b\r\n" % header


def test_a_line_is_a_lower_case_name_and_a_bare_value_however_often_it_comes() -> None:
    lines = HeaderLines()
    for _ in range(2):
        assert lines[b"X-Two: \t a: B \t"] == (b"x-two", b"a: B")
        assert lines[b"X-Two:"] == (b"x-two", b"")
        assert lines[b"x-two:b"] == (b"x-two", b"b")
    assert lines[b"X-Two:"] is lines[b"X-Two:"]


def test_a_tab_after_a_coding_is_left_as_the_parser_sees_it() -> None:
    lines = HeaderLines()
    assert lines[b"Transfer-Encoding: \t chunked "] == (b"transfer-encoding", b"chunked")
    assert lines[b"Transfer-Encoding: chunked\t"] == (b"transfer-encoding", b"chunked\t")


def test_a_connection_remembers_so_many_lines_of_so_many_bytes() -> None:
    lines = HeaderLines()
    for number in range(10 * MAX_LINES):
        assert lines[b"a: %d" % number] == (b"a", b"%d" % number)
        assert len(lines) <= MAX_LINES
    long = b"a: " + b"b" * MAX_LINE_BYTES
    assert lines[long] == (b"a", long[3:])
    assert long not in lines


def test_written_lines_are_cached_up_to_so_many_of_so_many_bytes() -> None:
    lines = WrittenLines(written)
    for number in range(3 * MAX_WRITTEN_LINES):
        assert lines[b"a", b"%d" % number] == b"a: %d\r\n" % number
        assert len(lines) <= MAX_WRITTEN_LINES
    assert lines[b"a", b"1"] is lines[b"a", b"1"]
    long = (b"a", b"b" * MAX_LINE_BYTES)
    assert lines[long] == b"a: %b\r\n" % long[1]
    assert long not in lines


def test_a_header_that_was_refused_is_refused_again() -> None:
    lines = WrittenLines(written)
    for _ in range(2):
        with pytest.raises(ValueError, match="refused"):
            lines[b"host", b"a"]
    assert not lines
