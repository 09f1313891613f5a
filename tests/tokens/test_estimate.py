"""The estimate is near the tokenizer for every kind of text, hardly ever below it, and its work is bounded."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.tokens.estimate import Estimator, estimator
from dragoman.tokens.table import fitted_table

SAMPLES = Path(__file__).parents[1] / "data/tokens"
TRUE: dict[str, dict[str, int]] = json.loads((SAMPLES / "counts.json").read_text(encoding="utf-8"))


def text_of(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")


def error_of(name: str) -> float:
    return estimator().count([text_of(name)]) / TRUE[name]["o200k_base"] - 1


def test_every_sample_has_a_true_count() -> None:
    assert set(TRUE) == {path.stem for path in SAMPLES.glob("*.txt")}
    assert len(TRUE) > 40


@pytest.mark.parametrize("name", TRUE)
def test_no_kind_of_text_is_far_off(name: str) -> None:
    assert -0.10 <= error_of(name) <= 0.25


def test_the_median_error_is_small() -> None:
    assert statistics.median(abs(error_of(name)) for name in TRUE) <= 0.05


def test_samples_that_were_held_back_are_not_far_below_either() -> None:
    wide = json.loads((SAMPLES / "wide.json").read_text(encoding="utf-8"))
    assert statistics.median(row["middle"] for row in wide.values()) <= 0.05
    assert len(wide) > 100
    assert all(row["lowest"] >= -0.10 for row in wide.values())


def test_nothing_takes_no_tokens_and_texts_add_up() -> None:
    count = estimator().count
    assert count([]) == count([""]) == 0
    assert count(["x"]) >= 1
    whole, halves = count([text_of("english")] * 10), count([text_of("english")] * 5)
    assert abs(whole - 2 * halves) <= 1


@given(st.text())
def test_pieces_are_the_text(text: str) -> None:
    assert "".join(estimator().pieces(text)) == text


@given(st.text(min_size=1))
def test_any_text_takes_tokens_and_not_more_than_its_octets(text: str) -> None:
    octets = len(text.encode("utf-8", "surrogatepass"))
    assert 1 <= estimator().count([text]) <= 1.1 * octets + 2


@pytest.mark.parametrize(
    "text",
    [
        "a" * 300_000,
        " " * 300_000,
        "\n" * 300_000,
        " \n" * 150_000,
        "-" * 300_000,
        "漢" * 300_000,
        "1" * 300_000,
        "aB" * 150_000,
    ],
    ids=["a letter", "spaces", "lines", "blank lines", "a rule", "an ideograph", "a digit", "changing case"],
)
def test_long_runs_are_cut_into_no_more_pieces_than_characters(text: str) -> None:
    assert 1 <= len(estimator().pieces(text)) <= len(text)
    assert estimator().count([text]) > 0


class Watched(Estimator):
    """Counts how often a piece is scored."""

    __slots__ = ("scored",)

    def __init__(self) -> None:
        super().__init__(fitted_table())
        self.scored = 0

    def score(self, piece: str) -> int:
        self.scored += 1
        return super().score(piece)


def test_a_piece_is_scored_once_however_often_it_occurs() -> None:
    once, often = Watched(), Watched()
    once.count([text_of("german")])
    often.count([text_of("german")] * 50)
    assert 0 < once.scored == often.scored
    assert once.scored < len(set(once.pieces(text_of("german"))))


def test_unknown_scripts_count_by_their_octets_and_not_as_nothing() -> None:
    assert estimator().count(["𐎀𐎁𐎂𐎃𐎄" * 20]) >= 150
