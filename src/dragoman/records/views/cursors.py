"""Cursors: where a page of a list begins. A cursor is a place in an order and gives no rights: the conditions of a
query are the same with any cursor."""

from __future__ import annotations

import re

from dragoman.errors import UsageError

_CURSOR = re.compile(r"([0-9]{1,18})-([0-9]{1,18})", re.ASCII)


def format_cursor(time: int, number: int) -> str:
    """The cursor behind a row of this time and number."""
    return f"{time}-{number}"


def read_cursor(text: str) -> tuple[int, int]:
    """The time and number in a cursor."""
    match = _CURSOR.fullmatch(text)
    if match is None:
        raise UsageError("before: take the cursor of the page before")
    return int(match[1]), int(match[2])
