"""The tokenizer is used if it is installed, is right about the samples, and is not missed if it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from dragoman.tokens import tokenizer
from dragoman.tokens.tokenizer import Vocabulary, count_by_tokenizer

SAMPLES = Path(__file__).parents[1] / "data/tokens"
TRUE: dict[str, dict[str, int]] = json.loads((SAMPLES / "counts.json").read_text(encoding="utf-8"))


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No tokenizer is installed."""

    def missing(name: str) -> ModuleType:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(tokenizer, "import_module", missing)
    tokenizer._package.cache_clear()
    tokenizer._counter.cache_clear()
    yield
    tokenizer._package.cache_clear()
    tokenizer._counter.cache_clear()


def test_the_tests_have_a_tokenizer() -> None:
    assert count_by_tokenizer(Vocabulary.O200K, [""]) == 0


@pytest.mark.parametrize("name", TRUE)
@pytest.mark.parametrize("vocabulary", Vocabulary, ids=lambda vocabulary: vocabulary.value)
def test_the_true_counts_are_the_tokenizers(vocabulary: Vocabulary, name: str) -> None:
    text = (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")
    assert count_by_tokenizer(vocabulary, [text]) == TRUE[name][vocabulary.value]


def test_several_texts_are_added() -> None:
    assert count_by_tokenizer(Vocabulary.O200K, []) == 0
    assert count_by_tokenizer(Vocabulary.O200K, ["hello", " world", ""]) == 2


def test_half_a_surrogate_pair_is_counted_and_not_an_error() -> None:
    assert count_by_tokenizer(Vocabulary.O200K, ["a\ud800b"]) == count_by_tokenizer(Vocabulary.O200K, ["a?b"])


@pytest.mark.usefixtures("without")
def test_without_the_extra_nothing_is_counted() -> None:
    assert count_by_tokenizer(Vocabulary.O200K, ["hello"]) is None
