"""Fitted numbers of the estimate, read from table.json once, on first use. tools/fit_tokens.py writes the file: keys
with the same value are grouped, and values are fractions of a token."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec
from msgspec import Struct

from dragoman.wire.package_data import read_data


class Classes(Struct, frozen=True, kw_only=True):
    """Character classes beyond ASCII that the tokenizer distinguishes, as ranges of a regular expression."""

    upper: str
    lower: str
    # Letters without case, and marks.
    other: str
    digits: str


class TokenTable(Struct, frozen=True, kw_only=True):
    """The number of tokens that start at a character, by its neighbours."""

    # One token is this many parts.
    unit: int
    # The factor of the sum: an underestimate is worse than an overestimate.
    lift: float
    classes: Classes
    pieces: Mapping[str, int]
    # A character between two others. At the end of a piece, a character after another.
    triples: Mapping[str, int]
    pairs: Mapping[str, int]
    characters: Mapping[str, int]
    blocks: Mapping[int, int]
    firsts: Mapping[str, int]
    first_blocks: Mapping[int, int]


class _Written(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    unit: int
    lift: float
    classes: Classes
    pieces: dict[int, list[str]]
    triples: dict[int, list[str]]
    pairs: dict[int, list[str]]
    characters: dict[int, list[str]]
    blocks: dict[int, list[str]]
    firsts: dict[int, list[str]]
    first_blocks: dict[int, list[str]]


def read_table(text: bytes) -> TokenTable:
    written = msgspec.json.decode(text, type=_Written)
    return TokenTable(
        unit=written.unit,
        lift=written.lift,
        classes=written.classes,
        pieces=_by_key(written.pieces),
        triples=_by_key(written.triples),
        pairs=_by_key(written.pairs),
        characters=_by_key(written.characters),
        blocks={int(name): value for name, value in _by_key(written.blocks).items()},
        firsts=_by_key(written.firsts),
        first_blocks={int(name): value for name, value in _by_key(written.first_blocks).items()},
    )


def _by_key(groups: Mapping[int, list[str]]) -> dict[str, int]:
    return {key: value for value, keys in groups.items() for key in keys}


@cache
def fitted_table() -> TokenTable:
    return read_table(read_data("dragoman.tokens", "table.json"))
