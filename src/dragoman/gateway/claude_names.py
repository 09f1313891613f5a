"""Claude names: what Claude Code does to names of models, taken back before they are looked up.

By `[1m]` at the end its users say that a model takes a million tokens; that is not part of the name. In its choice of
models it shows only names that have `claude` or `anthropic` in them; others are listed for it under one that has.
"""

from __future__ import annotations

import re

SUFFIX = "[1m]"
# With no hyphen behind it: what begins with `claude-` it takes for a model whose window it knows.
PREFIX = "claude:"
# How it calls itself when it asks for models.
_PROGRAM = "claude-code/"
_is_shown = re.compile("claude|anthropic", re.IGNORECASE).search


def lookup_name(name: str) -> str:
    return name.removesuffix(SUFFIX).removeprefix(PREFIX)


def needs_alias(name: str, program: str) -> bool:
    """Whether a program that asks for models would not show this one."""
    return program.startswith(_PROGRAM) and not _is_shown(name)


def alias(name: str) -> str:
    return PREFIX + name


def title(name: str) -> str:
    """What people are shown instead: the model, and whose it is."""
    provider, slash, model = name.partition("/")
    return f"{model} ({provider})" if slash else name
