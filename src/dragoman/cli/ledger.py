"""The ledger on a terminal: a table for people, JSON for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dragoman import translate
from dragoman.translate import LossLine
from dragoman.wire.json import encode_text

_HEADINGS = ("FATE", "FEATURE", "AT", "NOTE")


def as_json(losses: Sequence[LossLine]) -> str:
    """The ledger as one JSON array."""
    return encode_text(translate.as_json(losses))


def as_table(losses: Sequence[LossLine], width: int = 100) -> str:
    """The ledger as a table; the notes are wrapped to the width."""
    if not losses:
        return "nothing was lost"
    rows = [tuple(map(printable, (loss["fate"], loss["feature"], loss["at"], loss["note"]))) for loss in losses]
    sizes = [max(len(row[column]) for row in (_HEADINGS, *rows)) for column in range(3)]
    sizes[2] = min(sizes[2], max(12, width // 3))
    room = max(20, width - sum(sizes) - 6)
    lines: list[str] = []
    for row in (_HEADINGS, *rows):
        cells = [textwrap.wrap(cell, size) or [""] for cell, size in zip(row, (*sizes, room), strict=True)]
        for index in range(max(len(cell) for cell in cells)):
            texts = [cell[index] if index < len(cell) else "" for cell in cells]
            padded = [text.ljust(size) for text, size in zip(texts, sizes, strict=False)]
            lines.append("  ".join([*padded, texts[3]]).rstrip())
    return "\n".join(lines)


def printable(text: str) -> str:
    """The text without what a terminal obeys instead of showing: names in a ledger may be a stranger's."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() else char.encode("unicode_escape").decode() for char in text])
