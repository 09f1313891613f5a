"""Terminal properties of a stream: width, colour and characters beyond ASCII. Standard output and standard error are
judged separately, because only one of them may be a file. All functions but `screen_of` are pure."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, TextIO, TypeAlias

from msgspec import Struct

Choice: TypeAlias = Literal["auto", "always", "never"]
_USUAL_COLUMNS = 80


class Screen(Struct, frozen=True, kw_only=True):
    colours: bool = False
    unicode: bool = True
    # Returns the width, which changes with the window; None without a terminal, so that lines have no limit.
    columns: Callable[[], int | None] = lambda: None


def screen_of(stream: TextIO, environ: Mapping[str, str], choice: Choice = "auto") -> Screen:
    looked_at = stream.isatty()
    return Screen(
        colours=in_colour(looked_at, environ, choice),
        unicode=beyond_ascii(looked_at, environ, stream.encoding or "utf-8"),
        columns=_measure(descriptor_of(stream), environ) if looked_at else lambda: None,
    )


def in_colour(looked_at: bool, environ: Mapping[str, str], choice: Choice = "auto") -> bool:
    """Whether to use colour: as requested, otherwise on terminals only, unless the user objects."""
    if choice != "auto":
        return choice == "always"
    # https://no-color.org: present, and not empty.
    return looked_at and not environ.get("NO_COLOR") and not is_dumb(environ)


def beyond_ascii(looked_at: bool, environ: Mapping[str, str], encoding: str) -> bool:
    # Python treats the C locale as UTF-8; a user who sets it means ASCII.
    plain = is_dumb(environ) or environ.get("LC_ALL") in ("C", "POSIX")
    return not (looked_at and plain) and encoding.lower().replace("_", "-") in ("utf-8", "utf8")


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether a terminal supports no control sequences. Without TERM, none are assumed."""
    return environ.get("TERM", "") in ("", "dumb", "unknown")


def columns_of(size: int, environ: Mapping[str, str]) -> int:
    """The width of a terminal that reports `size`. The user's setting wins, and 0 means unknown."""
    text = environ.get("COLUMNS", "")
    width = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    return width or size or _USUAL_COLUMNS


def descriptor_of(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


def cells(text: str) -> int:
    """The columns that a text takes: some letters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


def cut(text: str, room: int, mark: str = "…") -> str:
    """Cut a text to `room` columns. The mark shows that it was cut."""
    if cells(text) <= room:
        return text
    if room <= len(mark):
        return mark[: max(room, 0)]
    room -= len(mark)
    if text.isascii():
        return text[:room] + mark
    taken = 0
    for at, letter in enumerate(text):
        taken += _cell(letter)
        if taken > room:
            return text[:at] + mark
    return text


@lru_cache(4096)
def _cell(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def _measure(descriptor: int | None, environ: Mapping[str, str]) -> Callable[[], int]:
    """Returns the width at each call, because windows change; a call takes less than a microsecond."""
    before = columns_of(0, environ)

    def columns() -> int:
        nonlocal before
        if descriptor is not None:
            try:
                before = columns_of(os.get_terminal_size(descriptor).columns, environ)
            except OSError:
                # The terminal is gone.
                return before
        return before

    return columns
