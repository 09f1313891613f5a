"""Long texts are counted in pieces, very long ones by a sample, and both come close to the whole."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.model.jsonvalue import JsonObject
from dragoman.tokens.estimate import estimator
from dragoman.tokens.families import family_of
from dragoman.tokens.request import count_request, count_texts
from dragoman.tokens.sample import COUNTED, PIECE, sample_of
from dragoman.tokens.tokenizer import Vocabulary, count_by_tokenizer
from tests.step_counting import count_steps

LINES = "".join(f"{number}: the quick brown fox jumps over the lazy dog.\n" for number in range(20_000))
WORDS = LINES.replace("\n", " ")
SOLID = "0123456789abcdef" * 50_000
SHAPES = pytest.mark.parametrize(
    "text", [LINES, WORDS, SOLID, " " * 500_000, "\n" * 500_000], ids=lambda text: text[:8]
)


@SHAPES
def test_pieces_are_the_text_and_none_is_long(text: str) -> None:
    sample = sample_of([text])
    assert "".join(sample.pieces) == text
    assert max(map(len, sample.pieces)) <= PIECE
    assert sample.scale == 1.0


@SHAPES
def test_pieces_count_as_the_text_does(text: str) -> None:
    pieces = sample_of([text]).pieces
    whole = estimator().count([text])
    assert abs(estimator().count(pieces) - whole) <= len(pieces)
    exact = count_by_tokenizer(Vocabulary.O200K, [text])
    counted = count_by_tokenizer(Vocabulary.O200K, pieces)
    assert exact is None or counted is None or abs(counted - exact) <= len(pieces)


@given(st.lists(st.text(max_size=40), max_size=20))
def test_short_texts_are_counted_as_they_are(texts: list[str]) -> None:
    assert sample_of(texts).pieces == texts


@pytest.mark.parametrize("size", [1, 100, 5_000, 3_000_000])
def test_of_very_long_texts_a_spread_sample_is_counted(size: int) -> None:
    everything = (LINES + SOLID + WORDS) * 3
    everything = everything[: 200_000 * size] if size == 1 else everything
    texts = [everything[at : at + size] for at in range(0, len(everything), size)]
    sample = sample_of(texts)
    counted = sum(map(len, sample.pieces))
    assert counted <= COUNTED
    assert counted * sample.scale == pytest.approx(len(everything))
    if len(everything) > COUNTED:
        assert counted > COUNTED * 0.95


@pytest.mark.parametrize("times", [1, 2, 8, 30])
def test_the_sample_comes_close_to_the_whole_and_grows_with_it(times: int) -> None:
    family = family_of("gpt-4o")
    one = count_texts([LINES + SOLID], family).tokens
    many = count_texts([LINES + SOLID] * times, family).tokens
    assert many == pytest.approx(one * times, rel=0.02)
    assert many <= count_texts([LINES + SOLID] * (times + 1), family).tokens


def test_a_count_of_thirty_megabytes_is_not_much_more_work_than_one_of_two() -> None:
    def work(times: int) -> Callable[[], int]:
        body: JsonObject = {"messages": [{"role": "user", "content": LINES * times}]}
        return lambda: count_request(body, "claude-opus-5").tokens

    assert work(30)() > 5_000_000
    # Of both as many pieces are counted, none of them long.
    assert count_steps(work(30)) <= 1.1 * count_steps(work(2))
