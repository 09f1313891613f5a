"""Tokenizer: OpenAI's vocabularies from the extra `tokenizer`, without downloads, loaded on first use (about 0.1 s)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Protocol

# An unpaired surrogate cannot be encoded. A replacement character also counts as one sign.
_REPLACEMENT = "replace"


class Vocabulary(Enum):
    O200K = "o200k_base"
    CL100K = "cl100k_base"


class _Counts(Protocol):
    def count(self, text: str) -> int: ...


@cache
def _package() -> ModuleType | None:
    try:
        return import_module("rs_bpe.bpe")
    except ImportError:
        return None


@cache
def _counter(vocabulary: Vocabulary) -> Callable[[str], int] | None:
    package = _package()
    if package is None:
        return None
    makers: Mapping[Vocabulary, Callable[[], _Counts]] = {
        Vocabulary.O200K: package.openai.o200k_base,
        Vocabulary.CL100K: package.openai.cl100k_base,
    }
    return makers[vocabulary]().count


def count_by_tokenizer(vocabulary: Vocabulary, texts: list[str]) -> int | None:
    counter = _counter(vocabulary)
    return None if counter is None else sum(counter(_without_surrogates(text)) for text in texts)


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", _REPLACEMENT).decode()
    return text
