"""Terminal output: tables, colours and progress for the capabilities of a stream (`dragoman/terminal.py`, decision 28).
Each stream is judged separately. On a terminal tables fit the width; elsewhere tabs separate unshortened values."""

from __future__ import annotations

import itertools
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TextIO

from msgspec import Struct

from dragoman import terminal
from dragoman.model.jsonvalue import JsonObject
from dragoman.terminal import Choice, is_dumb

AUTO: Choice = "auto"
CHOICES: tuple[Choice, ...] = (AUTO, "always", "never")
WIDTH = 100
_NARROWEST = 20

_GAP = "  "
_BELOW = "      "
# Width that a column keeps before it wraps below its row.
_BESIDE = 24
# A long cell is wrapped after a blank; a word longer than a line, after one of these marks.
_WORD = re.compile(r"\S+\s*")
_PIECE = re.compile(r"[^/._ ,;-]*[/._ ,;-]|[^/._ ,;-]+")

_AFTER_STYLED = ("", " ", ",", ";", ":")

# Colour codes: https://man7.org/linux/man-pages/man4/console_codes.4.html
BOLD, RED, GREEN, YELLOW = "1", "31", "32", "33"
_ASCII = str.maketrans(
    {"·": ".", "→": "->", "–": "-", "—": "-", "─": "-", "…": "...", "×": "x", "≥": ">=", "│": "|", "├": "|", "└": "`"}
)


class OutputScreen(Struct, frozen=True, kw_only=True):
    terminal: bool = False
    width: int = WIDTH
    colour: bool = False
    unicode: bool = True
    encoding: str = "utf-8"

    def painted(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self.colour and style and text else text

    def displayable(self, text: str) -> str:
        """The text with symbols that the stream can show."""
        return text if self.unicode else text.translate(_ASCII)

    def encode(self, text: str) -> bytes:
        """The text in the stream's encoding. Characters outside it are escaped."""
        return self.displayable(text).encode(self.encoding, "backslashreplace")


def printable(text: str) -> str:
    """The text without control sequences: names in a table may come from outside."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in text])


def text_of(row: JsonObject, name: str) -> str:
    """A member of a document in printable form, because it comes from another gateway."""
    value = row.get(name)
    return "" if value is None else printable(str(value))


class Column(Struct, frozen=True, kw_only=True):
    heading: str
    # Numbers are aligned right.
    right: bool = False
    # The width to which it may shrink by wrapping; 0 means never narrower than its content.
    least: int = 0
    # Whether it moves below its row on narrow terminals.
    below: bool = False
    # The colour of a cell, by the words at its start.
    styles: Mapping[str, str] = {}


def screen_of(stream: TextIO, choice: Choice = AUTO, environ: Mapping[str, str] = os.environ) -> OutputScreen:
    """The capabilities of a stream, by the stream, the environment, and the option for colour."""
    seen = terminal.screen_of(stream, environ, choice)
    columns = seen.columns()
    return OutputScreen(
        terminal=columns is not None,
        width=WIDTH if columns is None else max(columns, _NARROWEST),
        colour=seen.colours,
        unicode=seen.unicode,
        encoding=stream.encoding or "utf-8",
    )


def wrapped(screen: OutputScreen, text: str, indent: str = "", *, whole_words: bool = False) -> list[str]:
    """Wrap a sentence on a terminal; elsewhere it stays one line. `indent` begins all lines but the first.
    `whole_words` leaves long URLs and paths uncut, so that they can be copied."""
    if not screen.terminal:
        return [text]
    lines = textwrap.wrap(
        text, screen.width, subsequent_indent=indent, break_on_hyphens=False, break_long_words=not whole_words
    )
    return lines or [text]


def table(screen: OutputScreen, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a table as lines. Text from outside cannot control the terminal."""
    cells = [[printable(screen.displayable(cell)) for cell in row] for row in rows]
    headings = [column.heading for column in columns]
    if not screen.terminal:
        painted = [
            [screen.painted(cell, _style(at, cell)) for at, cell in zip(columns, row, strict=True)] for row in cells
        ]
        return ["\t".join(row) for row in ([screen.painted(heading, BOLD) for heading in headings], *painted)]
    beside, below = _arranged(screen.width, columns, cells)
    sizes = _sizes(screen.width, [columns[at] for at in beside], [[row[at] for at in beside] for row in cells])
    lines = list(_line(screen, columns, beside, sizes, headings, BOLD))
    for row in cells:
        lines += _line(screen, columns, beside, sizes, row)
        words = "; ".join(row[at].strip() for at in below if row[at].strip())
        lines += textwrap.wrap(words, screen.width, initial_indent=_BELOW, subsequent_indent=_BELOW)
    return lines


def _arranged(width: int, columns: Sequence[Column], rows: list[list[str]]) -> tuple[list[int], list[int]]:
    """The columns that fit side by side, and the others, which wrap below, the last ones first."""
    needed = [_natural(column, [row[at] for row in rows]) for at, column in enumerate(columns)]
    fixed = [
        min(size, column.least or (_BESIDE if column.below else size))
        for size, column in zip(needed, columns, strict=True)
    ]
    beside = list(range(len(columns)))
    below: list[int] = []
    for at in reversed(range(len(columns))):
        if not columns[at].below:
            continue
        others = sum(fixed[other] + len(_GAP) for other in beside if other != at)
        if others + fixed[at] > width:
            beside.remove(at)
            below.insert(0, at)
    return beside, below


def _natural(column: Column, cells: Sequence[str]) -> int:
    return max(map(terminal.cells, (column.heading, *cells)))


def _sizes(width: int, columns: Sequence[Column], rows: list[list[str]]) -> list[int]:
    """The width of each column: as needed, or less for columns that can wrap, the widest first."""
    sizes = [_natural(column, [row[at] for row in rows]) for at, column in enumerate(columns)]
    least = [
        max(column.least or (_BESIDE if column.below else size), terminal.cells(column.heading))
        for column, size in zip(columns, sizes, strict=True)
    ]
    excess = sum(sizes) + len(_GAP) * (len(sizes) - 1) - width
    while excess > 0:
        spare = [at for at, size in enumerate(sizes) if size > least[at]]
        if not spare:
            break
        widest = max(spare, key=lambda at: sizes[at])
        sizes[widest] -= 1
        excess -= 1
    return sizes


def _line(
    screen: OutputScreen,
    columns: Sequence[Column],
    beside: list[int],
    sizes: list[int],
    row: Sequence[str],
    style: str = "",
) -> Iterator[str]:
    """One row, on as many lines as its longest cell takes."""
    pieces = [folded(row[at], size) for at, size in zip(beside, sizes, strict=True)]
    styles = [style or _style(columns[at], row[at]) for at in beside]
    for cells in itertools.zip_longest(*pieces, fillvalue=""):
        padded = []
        for at, size, cell, style_of in zip(beside, sizes, cells, styles, strict=True):
            blanks = " " * max(size - terminal.cells(cell), 0)
            text = screen.painted(cell, style_of)
            padded.append(blanks + text if columns[at].right else text + blanks)
        yield _GAP.join(padded).rstrip()


def _style(column: Column, cell: str) -> str:
    text = cell.strip()
    for start, style in column.styles.items():
        if text.startswith(start) and text[len(start) : len(start) + 1] in _AFTER_STYLED:
            return style
    return ""


def folded(cell: str, size: int) -> list[str]:
    """A cell in as many lines as needed, all with its indent. An ID that fits is not cut."""
    if terminal.cells(cell) <= size:
        return [cell]
    indent = " " * min(len(cell) - len(cell.lstrip()), size // 2)
    lines = [indent]
    for piece in _pieces(cell.strip(), size - len(indent)):
        if terminal.cells(lines[-1]) + terminal.cells(piece.rstrip()) > size and lines[-1] != indent:
            lines.append(indent)
        lines[-1] += piece
        while terminal.cells(lines[-1].rstrip()) > size:
            cut = _fits(lines[-1], size)
            lines[-1:] = [lines[-1][:cut], indent + lines[-1][cut:]]
    return [line.rstrip() for line in lines]


def _pieces(text: str, size: int) -> Iterator[str]:
    for word in _WORD.findall(text):
        if terminal.cells(word.rstrip()) <= size:
            yield word
        else:
            yield from _PIECE.findall(word)


def _fits(text: str, size: int) -> int:
    """The number of characters that fit into a width; at least one more than the indent."""
    cut = len(text) - len(text.lstrip()) + 1
    while cut < len(text) and terminal.cells(text[: cut + 1]) <= size:
        cut += 1
    return cut


@contextmanager
def progress(stream: TextIO | None = None, environ: Mapping[str, str] = os.environ) -> Iterator[Callable[[str], None]]:
    """Show running work on standard error if it takes long; nothing without a terminal."""
    out = stream or sys.stderr
    screen = screen_of(out, environ=environ)
    dumb = is_dumb(environ)

    def show_step(step: str) -> None:
        text = screen.displayable(printable(step))
        if not screen.terminal:
            return
        out.write(f"{text}\n" if dumb else f"\r{text[: screen.width - 1]}\x1b[K")
        out.flush()

    try:
        yield show_step
    finally:
        if screen.terminal and not dumb:
            # The line is erased at the end: later output begins in its place.
            out.write("\r\x1b[K")
            out.flush()
