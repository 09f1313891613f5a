"""Models are told apart by how their names begin."""

from __future__ import annotations

import pytest

from dragoman.tokens.families import Area, Patches, Tiles, Tools, family_of
from dragoman.tokens.tokenizer import Vocabulary

OLDER_CLAUDE = (1.2, Area(edge=1568, max_tokens=1600))
NEWER_CLAUDE = (1.5, Area(edge=2576, max_tokens=4784))


@pytest.mark.parametrize(
    ("model", "factor", "picture"),
    [
        ("claude-3-5-sonnet-20241022", *OLDER_CLAUDE),
        ("claude-sonnet-4-20250514", *OLDER_CLAUDE),
        ("claude-opus-4-5", *OLDER_CLAUDE),
        ("claude-sonnet-4-6", *OLDER_CLAUDE),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", *OLDER_CLAUDE),
        ("anthropic/claude-haiku-4-5", *OLDER_CLAUDE),
        ("claude-opus-4-7", *NEWER_CLAUDE),
        ("claude-opus-5", *NEWER_CLAUDE),
        ("claude-something-new", *NEWER_CLAUDE),
        ("gpt-4o-2024-08-06", 1.0, Tiles(base=85, tile=170)),
        ("gpt-4o-mini", 1.0, Tiles(base=2833, tile=5667)),
        ("gpt-4.1-mini-2025-04-14", 1.0, Patches(max_patches=1536, factor=1.62)),
        ("gpt-5", 1.0, Tiles(base=70, tile=140)),
        ("openai/gpt-5.1-codex", 1.0, Tiles(base=70, tile=140)),
        ("gpt-5-nano", 1.0, Patches(max_patches=1536, factor=2.46)),
        ("gpt-5.4", 1.0, Patches(max_patches=2500)),
        ("gpt-7", 1.0, Patches(max_patches=2500)),
        ("o3", 1.0, Tiles(base=75, tile=150)),
        ("o4-mini", 1.0, Patches(max_patches=1536, factor=1.72)),
        ("GPT-4o", 1.0, Tiles(base=85, tile=170)),
        ("llama3.3:70b", 1.1, Tiles(base=85, tile=170)),
        ("", 1.1, Tiles(base=85, tile=170)),
    ],
)
def test_a_model_is_known_by_the_beginning_of_its_name(model: str, factor: float, picture: object) -> None:
    family = family_of(model)
    assert (family.factor, family.picture) == (factor, picture)


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4-turbo", "gpt-3.5-turbo-0125", "text-embedding-3-large"])
def test_older_models_have_the_older_vocabulary(model: str) -> None:
    assert family_of(model).vocabulary is Vocabulary.CL100K


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1", "gpt-5.2", "o1", "claude-opus-5", "mistral-large"])
def test_all_others_have_the_newer_one(model: str) -> None:
    assert family_of(model).vocabulary is Vocabulary.O200K


def test_tools_are_told_as_each_family_is_used_to() -> None:
    assert family_of("gpt-5").tools is Tools.TYPESCRIPT
    assert family_of("claude-opus-5").tools is Tools.JSON


def test_no_family_is_assumed_to_need_less_than_the_vocabulary() -> None:
    assert all(family_of(name).factor >= 1 for name in ("claude-x", "gpt-x", "x", "o1"))
