"""Model families: vocabulary, correction factor and token price of pictures. Unpublished values are assumed high,
because agents that get too small a number compact too late."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from dragoman.tokens.tokenizer import Vocabulary


class Tools(Enum):
    TYPESCRIPT = "typescript"
    JSON = "json"


class Tiles(Struct, frozen=True, kw_only=True):
    """Pictures are scaled down and billed by tiles of 512 pixels."""

    base: int
    tile: int


class Patches(Struct, frozen=True, kw_only=True):
    """Pictures are billed by patches of 32 pixels, up to a maximum, times a factor."""

    max_patches: int
    factor: float = 1.0


class Area(Struct, frozen=True, kw_only=True):
    """Pictures are scaled down to a longest edge and billed by their pixels, up to `max_tokens`."""

    edge: int
    max_tokens: int


class Family(Struct, frozen=True, kw_only=True):
    """Counting rules for models with the same name prefix."""

    vocabulary: Vocabulary = Vocabulary.O200K
    # Tokens of the model per token of the vocabulary.
    factor: float = 1.0
    tools: Tools = Tools.TYPESCRIPT
    # Tokens of the preface that the provider adds if there are tools.
    tools_preface: int = 12
    picture: Tiles | Patches | Area = Tiles(base=85, tile=170)


_CLAUDE = Family(factor=1.2, tools=Tools.JSON, tools_preface=346, picture=Area(edge=1568, max_tokens=1600))
# Since Opus 4.7 the tokenizer yields up to a third more tokens, and pictures keep more of their pixels.
_NEWER_CLAUDE = Family(factor=1.5, tools=Tools.JSON, tools_preface=346, picture=Area(edge=2576, max_tokens=4784))
_OTHERS = Family(factor=1.1, tools=Tools.JSON)
_OLDER = Family(vocabulary=Vocabulary.CL100K)
_GPT5 = Family(picture=Tiles(base=70, tile=140))
_GPT5_NEWER = Family(picture=Patches(max_patches=2500))
_REASONING = Family(picture=Tiles(base=75, tile=150))

_FAMILIES: dict[str, Family] = {
    "claude-": _NEWER_CLAUDE,
    **{f"claude-{name}-{version}": _CLAUDE for name in ("opus", "sonnet", "haiku") for version in ("4", "4-", "3")},
    **{f"claude-{name}-4-{minor}": _NEWER_CLAUDE for name in ("opus", "sonnet", "haiku") for minor in "789"},
    "claude-3": _CLAUDE,
    "claude-2": _CLAUDE,
    "claude-instant": _CLAUDE,
    "gpt-3": _OLDER,
    "gpt-4": _OLDER,
    "gpt-4o": Family(),
    "gpt-4o-mini": Family(picture=Tiles(base=2833, tile=5667)),
    "gpt-4.": Family(),
    "gpt-4.1-mini": Family(picture=Patches(max_patches=1536, factor=1.62)),
    "gpt-4.1-nano": Family(picture=Patches(max_patches=1536, factor=2.46)),
    "gpt-5": _GPT5,
    "gpt-5-mini": Family(picture=Patches(max_patches=1536, factor=1.62)),
    "gpt-5-nano": Family(picture=Patches(max_patches=1536, factor=2.46)),
    **{f"gpt-5.{minor}": _GPT5_NEWER for minor in "456789"},
    "gpt-": _GPT5_NEWER,
    "chatgpt-": Family(),
    "codex-": _GPT5,
    "gpt-oss": Family(),
    "o1": _REASONING,
    "o3": _REASONING,
    "o4": Family(picture=Patches(max_patches=1536, factor=1.72)),
    "computer-use": Family(picture=Tiles(base=65, tile=129)),
    "text-embedding-": _OLDER,
}
_MAX_PREFIX_LENGTH = max(map(len, _FAMILIES))


def family_of(model: str) -> Family:
    """The family of a model, whose name may have its vendor before it (`anthropic.claude-…`, `openai/gpt-…`)."""
    name = model.lower().rpartition("/")[2]
    for maker in ("anthropic.", "openai."):
        before, separator, rest = name.partition(maker)
        name = rest if separator and len(before) <= len("apac.") else name
    for length in range(min(_MAX_PREFIX_LENGTH, len(name)), 0, -1):
        family = _FAMILIES.get(name[:length])
        if family is not None:
            return family
    return _OTHERS
