"""Terminal: a stream's width, colour and characters beyond ASCII. Each stream is judged by itself: only one of standard
output and standard error may be a file. The functions are pure; `screen_of` queries the system."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, TextIO, TypeAlias

from msgspec import Struct

# The values of `--color`.
Choice: TypeAlias = Literal["auto", "always", "never"]
_USUAL_COLUMNS = 80


class Screen(Struct, frozen=True, kw_only=True):
    """Properties of the terminal behind a stream."""

    colours: bool = False
    unicode: bool = True
    # The present width, which changes with the window; None without a terminal, so that lines need no limit.
    columns: Callable[[], int | None] = lambda: None


def screen_of(stream: TextIO, environ: Mapping[str, str], choice: Choice = "auto") -> Screen:
    """The capabilities of a stream."""
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
    """Whether symbols beyond ASCII are shown."""
    # Python treats the C locale as UTF-8; a user who sets it means ASCII.
    plain = is_dumb(environ) or environ.get("LC_ALL") in ("C", "POSIX")
    return not (looked_at and plain) and encoding.lower().replace("_", "-") in ("utf-8", "utf8")


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether a terminal supports no control sequences. Without TERM, none are assumed."""
    return environ.get("TERM", "") in ("", "dumb", "unknown")


def columns_of(size: int, environ: Mapping[str, str]) -> int:
    """The width of a terminal that reports `size`: the user's setting wins, and 0 means unknown."""
    text = environ.get("COLUMNS", "")
    width = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    return width or size or _USUAL_COLUMNS


def descriptor_of(stream: TextIO) -> int | None:
    """The file descriptor behind a stream; None if there is none."""
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None


def cells(text: str) -> int:
    """The columns of a text: some letters take two, and combining marks none."""
    if text.isascii():
        return len(text)
    return sum(map(_cell, text))


def cut(text: str, room: int, mark: str = "…") -> str:
    """The part of a text that fits; the mark shows that it was cut."""
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
                # The terminal is gone, and no message can reach it.
                return before
        return before

    return columns
