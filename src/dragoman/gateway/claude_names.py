"""Claude names: `[1m]`, by which Claude Code's users claim a million tokens, is taken off a model's name. It lists only
names that contain `claude` or `anthropic`; others get an alias that does."""

from __future__ import annotations

import re

SUFFIX = "[1m]"
# With no hyphen behind it: what begins with `claude-` it takes for a model whose window it knows.
PREFIX = "claude:"
# The start of its user agent when it requests models.
_PROGRAM = "claude-code/"
_is_shown = re.compile("claude|anthropic", re.IGNORECASE).search


def lookup_name(name: str) -> str:
    return name.removesuffix(SUFFIX).removeprefix(PREFIX)


def needs_alias(name: str, program: str) -> bool:
    """Whether this client would not show the name."""
    return program.startswith(_PROGRAM) and not _is_shown(name)


def alias(name: str) -> str:
    return PREFIX + name


def title(name: str) -> str:
    """The title for people: the model and its owner."""
    provider, slash, model = name.partition("/")
    return f"{model} ({provider})" if slash else name
