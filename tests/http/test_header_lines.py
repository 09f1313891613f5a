"""Header lines: read alike the first time and later, and only so many are remembered."""

from __future__ import annotations

from dragoman.http.header_lines import MAX_LINE_BYTES, MAX_LINES, HeaderLines


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
