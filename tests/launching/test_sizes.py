"""Sizes of models, as people write them and as clients are told."""

from __future__ import annotations

import pytest

from dragoman.errors import DragomanError
from dragoman.launching.clients import Sizes, read_tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("32768", 32768),
        ("128k", 128_000),
        ("128K", 128_000),
        (" 1m ", 1_000_000),
        ("1.5M", 1_500_000),
        ("200 k", 200_000),
        ("60_000", 60_000),
        ("0.5k", 500),
    ],
)
def test_tokens_are_read_as_people_write_them(text: str, tokens: int) -> None:
    assert read_tokens(text, "--context") == tokens


@pytest.mark.parametrize("text", ["", "0", "-5", "much", "1g", "k", "128kb", "1e6", "0.0001", "99999m", "\u0661k"])
def test_what_is_no_number_of_tokens_is_told_with_an_example(text: str) -> None:
    with pytest.raises(DragomanError, match="--context is a number of tokens, for example --context 32768"):
        read_tokens(text, "--context")


@pytest.mark.parametrize(
    ("window", "cap", "output"),
    [
        (None, None, None),
        (None, 4096, 4096),
        (32768, None, 8192),
        (200_000, 64_000, 64_000),
        (8192, 8192, 2048),
        (8192, 64_000, 2048),
        (3, None, 1),
    ],
)
def test_an_answer_leaves_room_for_the_question(window: int | None, cap: int | None, output: int | None) -> None:
    assert Sizes(window=window, cap=cap).output == output
