"""What items that grow have in common."""

from __future__ import annotations

import pytest

from dragoman.model.losses import Ledger
from dragoman.protocols.openai_responses.open_item import ItemContext, OpenItem, OpenPiece, beyond
from dragoman.protocols.openai_responses.open_items import open_item
from tests.protocols.openai_responses.asking import MINT, asked_abroad


def test_a_piece_knows_what_the_deltas_left_out() -> None:
    piece = OpenPiece()
    assert piece.missing("abc") == "abc"
    piece.pieces.append("ab")
    assert piece.missing("abc") == "c"
    assert piece.missing("ab") == piece.missing("xyz") == ""


def test_an_item_of_an_unknown_kind_comes_whole() -> None:
    context = ItemContext(asked_abroad(), MINT, Ledger())
    assert type(open_item(context, 7, {})) is OpenItem


@pytest.mark.parametrize(
    ("told", "whole", "rest"),
    [
        ("ab", "abc", "c"),
        ("a b", "ab c", " c"),
        ("a\n", "a b", "b"),
        ("a b\n", "a b", ""),
        ("a", "a\n", "\n"),
        ("a  b", "a b\n", ""),
        ("abc", "a", ""),
        ("abc", "abd", None),
    ],
)
def test_item_8_white_space_makes_no_other_text(told: str, whole: str, rest: str | None) -> None:
    assert beyond(told, whole) == rest
