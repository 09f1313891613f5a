"""Token estimate without a tokenizer. Text is split like GPT-4o's tokenizer does: words with the sign or space before
them, up to three digits, runs of signs, white space. Known pieces have their count. For others, each character adds the
average number of tokens that start between its two neighbours. Accuracy: docs/token-counting.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from math import ceil
from operator import mul

from dragoman.tokens.table import TokenTable, fitted_table

_SHORTENED = "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
# Tokens of a character in an unknown block, whose bytes rarely share a token.
_UNKNOWN_CHARACTERS = 2
# Below this code point a first character is one token, except for characters in the table.
_LATIN_END = 0x250
# Neighbours alone underestimate long words: each letter beyond the seventh adds an eightieth, for up to sixteen
# letters.
_LONG, _MAX_EXTRA_LETTERS, _LONG_SHARE = 7, 16, 80


class _Triples(dict[str, int]):
    """The fraction of a token at the middle of three characters, or at the last of two."""

    def __init__(self, table: TokenTable) -> None:
        super().__init__(table.triples)
        self._pairs, self._characters, self._blocks = table.pairs, table.characters, table.blocks
        self._unknown = _UNKNOWN_CHARACTERS * table.unit

    def __missing__(self, around: str) -> int:
        """Rare triples share the mean of their pair, rare pairs that of their character, rare characters that of their
        block."""
        parts = self._pairs.get(around[:2])
        if parts is None:
            middle = around[1]
            parts = self._characters.get(middle)
            if parts is None:
                parts = self._blocks.get(ord(middle) >> 8, self._unknown)
        return parts


class _Costs(dict[str, int]):
    """The fractions of a token in a piece. Pieces that are not in the table are not cached: they are user text."""

    def __init__(self, table: TokenTable, score: Callable[[str], int]) -> None:
        super().__init__(table.pieces)
        self._score = score

    def __missing__(self, piece: str) -> int:
        return self._score(piece)


class _Firsts(dict[str, int]):
    def __init__(self, table: TokenTable) -> None:
        super().__init__({chr(code): table.unit for code in range(_LATIN_END)} | dict(table.firsts))
        self._blocks, self._unknown = table.first_blocks, _UNKNOWN_CHARACTERS * table.unit

    def __missing__(self, first: str) -> int:
        return self._blocks.get(ord(first) >> 8, self._unknown)


class Estimator:
    __slots__ = ("_around", "_costs", "_firsts", "_table", "pieces")

    def __init__(self, table: TokenTable) -> None:
        self._table = table
        self._costs = _Costs(table, self.score).__getitem__
        self._around = _Triples(table).__getitem__
        self._firsts = _Firsts(table)
        self.pieces: Callable[[str], list[str]] = _pattern(table).findall

    def count(self, texts: Iterable[str]) -> int:
        counted: Counter[str] = Counter()
        for text in texts:
            counted.update(self.pieces(text))
        parts: int = sum(map(mul, map(self._costs, counted), counted.values()))
        return ceil(parts * self._table.lift / self._table.unit)

    def score(self, piece: str) -> int:
        length = len(piece)
        parts = self._firsts[piece[0]] + sum(map(self._around, [piece[at : at + 3] for at in range(length - 1)]))
        if length > _LONG and piece.isascii() and piece[-1].isalpha():
            parts += parts * min(length - _LONG, _MAX_EXTRA_LETTERS) // _LONG_SHARE
        return parts


def _pattern(table: TokenTable) -> re.Pattern[str]:
    classes = table.classes
    upper = f"A-Z{classes.upper}{classes.other}"
    lower = f"a-z{classes.lower}{classes.other}"
    letters = f"A-Za-z{classes.upper}{classes.lower}{classes.other}"
    digits = f"0-9{classes.digits}"
    return re.compile(
        rf"[^\r\n{letters}{digits}]?(?:[{upper}]*[{lower}]+|[{upper}]+)(?:{_SHORTENED})?"
        rf"|[{digits}]{{1,3}}"
        rf"| ?[^\s{letters}{digits}]+[\r\n/]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


@cache
def estimator() -> Estimator:
    return Estimator(fitted_table())
