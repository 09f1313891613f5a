"""Sampling of long texts for token counting. A tokenizer call cannot be interrupted, so each gets a short piece. Text
that exceeds every context window is sampled in evenly spaced pieces."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from msgspec import Struct

# Characters of one piece, and of all counted pieces.
PIECE = 16 * 1024
COUNTED = 1024 * 1024


class Sample(Struct, frozen=True):
    pieces: list[str]
    scale: float


def sample_of(texts: list[str]) -> Sample:
    """Cut texts into pieces, and sample very long ones."""
    total = sum(map(len, texts))
    if total <= COUNTED:
        return Sample([piece for text in texts for piece in _pieces(text)], 1.0)
    picked = list(_picked(texts, ceil(total * PIECE / COUNTED)))
    return Sample(picked, total / sum(map(len, picked)))


def _pieces(text: str) -> Iterator[str]:
    """Cut a text between lines or words, where a tokenizer cuts it, too."""
    at = 0
    while len(text) - at > PIECE:
        end = at + PIECE
        low = end - PIECE // 4
        # A space belongs to the word after it, a line feed to the line before.
        end = text.rfind("\n", low, end) + 1 or max(text.rfind(" ", low, end), 0) or end
        yield text[at:end]
        at = end
    yield text[at:] if at else text


def _picked(texts: list[str], distance: int) -> Iterator[str]:
    """Pieces at even distances of all texts together. A piece may span several short texts."""
    begins = 0
    piece = 0
    for text in texts:
        ends = begins + len(text)
        while piece < ends:
            yield text[max(piece - begins, 0) : piece + PIECE - begins]
            if piece + PIECE > ends:
                break
            piece += distance
        begins = ends
