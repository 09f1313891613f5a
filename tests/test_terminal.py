"""What a stream can show is told from what is handed in, each stream by itself."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios

import pytest

from dragoman.terminal import Choice, beyond_ascii, cells, columns_of, cut, in_colour, screen_of

KNOWN = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("looked_at", "environ", "choice", "coloured"),
    [
        (True, KNOWN, "auto", True),
        (False, KNOWN, "auto", False),
        (True, {**KNOWN, "NO_COLOR": "1"}, "auto", False),
        (True, {**KNOWN, "NO_COLOR": ""}, "auto", True),
        (True, {"TERM": "dumb"}, "auto", False),
        (True, {}, "auto", False),
        (False, {"NO_COLOR": "1", "TERM": "dumb"}, "always", True),
        (True, KNOWN, "never", False),
    ],
)
def test_pitfall_615_colour_is_for_terminals_and_for_those_who_ask(
    looked_at: bool, environ: dict[str, str], choice: Choice, coloured: bool
) -> None:
    assert in_colour(looked_at, environ, choice) is coloured


@pytest.mark.parametrize(
    ("looked_at", "environ", "encoding", "is_shown"),
    [
        (True, KNOWN, "utf-8", True),
        (True, KNOWN, "UTF8", True),
        (False, KNOWN, "utf_8", True),
        (True, KNOWN, "ascii", False),
        (True, KNOWN, "iso-8859-1", False),
        (True, {"TERM": "dumb"}, "utf-8", False),
        (True, {**KNOWN, "LC_ALL": "C"}, "utf-8", False),
        (False, {"TERM": "dumb", "LC_ALL": "C"}, "utf-8", True),
    ],
)
def test_pitfall_619_letters_beyond_ascii_are_for_those_who_can_show_them(
    looked_at: bool, environ: dict[str, str], encoding: str, is_shown: bool
) -> None:
    assert beyond_ascii(looked_at, environ, encoding) is is_shown


@pytest.mark.parametrize(
    ("size", "told", "columns"),
    [
        (132, "90", 90),
        (132, "", 132),
        (132, "wide", 132),
        (0, "90", 90),
        (0, "", 80),
        (0, "0", 80),
        (0, "-5", 80),
        (0, "wide", 80),
        (0, "9" * 5000, 80),
    ],
)
def test_a_terminal_is_as_wide_as_the_user_says_or_itself_or_as_usual(size: int, told: str, columns: int) -> None:
    assert columns_of(size, {"COLUMNS": told}) == columns


def test_a_stream_that_nobody_looks_at_has_no_edge() -> None:
    screen = screen_of(io.StringIO(), {"COLUMNS": "80"})
    assert (screen.columns(), screen.colours, screen.unicode) == (None, False, True)


def test_a_window_may_be_made_wider_and_go_away() -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as stream:
        screen = screen_of(stream, KNOWN)
        assert screen.colours
        assert screen.columns() == 80
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 140, 0, 0))
        assert screen.columns() == 140
        os.close(ours)
        assert screen.columns() == 140


@pytest.mark.parametrize(("text", "taken"), [("", 0), ("abc", 3), ("模型", 4), ("e\u0301", 1), ("é→…", 3), ("🙂", 2)])
def test_a_text_takes_as_many_columns_as_a_person_sees(text: str, taken: int) -> None:
    assert cells(text) == taken


@pytest.mark.parametrize(
    ("text", "room", "left"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdef", 5, "abcd…"),
        ("abcdef", 1, "…"),
        ("abcdef", 0, ""),
        ("abcdef", -3, ""),
        ("模型模型", 8, "模型模型"),
        ("模型模型", 7, "模型模…"),
        ("模型模型", 6, "模型…"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
    ],
)
def test_what_has_no_room_is_cut_with_a_mark(text: str, room: int, left: str) -> None:
    assert cut(text, room) == left
    assert cells(cut(text, room, "..")) <= max(room, 0)
