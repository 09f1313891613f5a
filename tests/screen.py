"""What a person sees of a terminal's output: text without its colours, and nothing else that a terminal would obey."""

from __future__ import annotations

import re

from dragoman.terminal import cells

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def as_seen(line: str) -> str:
    """A line without its colours; whatever else a terminal obeys is an error."""
    text = COLOUR.sub("", line)
    assert text.isprintable(), repr(line)
    # Colours that were begun are ended: the next line has its own.
    assert COLOUR.findall(line)[-1:] in ([], ["\x1b[0m"]), repr(line)
    return text


def fits(lines: list[str], columns: int) -> bool:
    """Whether no line goes on beyond the edge."""
    return all(cells(as_seen(line)) <= columns for line in lines)
