"""Numbers for people are rounded, and never to what they are not."""

from __future__ import annotations

import pytest

from dragoman.cli import formatting


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0"),
        (9999, "9999"),
        (10_000, "10.0k"),
        (99_949, "99.9k"),
        (99_950, "100k"),
        (999_499, "999k"),
        (999_500, "1.0M"),
    ],
)
def test_tokens_take_five_letters(count: int, words: str) -> None:
    assert formatting.tokens(count) == words
    assert formatting.tokens(count, exact=True) == str(count)


@pytest.mark.parametrize(
    ("nano", "unpriced", "words", "exact"),
    [
        (0, 0, "$0.00", "$0.00"),
        (0, 3, "unpriced", "unpriced"),
        (1, 0, "<$0.0001", "$0.000000001"),
        (38_000, 1, "≥ $0.000038", "≥ $0.000038"),
        (4_200_000, 0, "$0.0042", "$0.0042"),
        (396_000_000, 0, "$0.396", "$0.396"),
        (1_923_456_789, 0, "$1.92", "$1.923456789"),
        (1_923_456_789, 3, "≥ $1.92", "≥ $1.923456789"),
    ],
)
def test_pitfall_557_what_is_not_known_is_not_nothing(nano: int, unpriced: int, words: str, exact: str) -> None:
    assert formatting.format_cost(nano, unpriced) == words
    assert formatting.format_cost(nano, unpriced, exact=True) == exact


@pytest.mark.parametrize(
    ("micro", "words"),
    [
        (-5, "0ms"),
        (310_000, "310ms"),
        (1_250_000, "1.2s"),
        (59_949_999, "59.9s"),
        (61_000_000, "1m 1s"),
        (3_723_000_000, "1h 2m"),
        (90_000_000_000, "1d 1h"),
    ],
)
def test_lengths_of_time_have_two_units_at_most(micro: int, words: str) -> None:
    assert formatting.span(micro) == words


def test_things_are_counted() -> None:
    assert [formatting.counted(number, "loss", "losses") for number in (0, 1, 2)] == ["0 losses", "1 loss", "2 losses"]
    assert formatting.counted(2, "turn") == "2 turns"
