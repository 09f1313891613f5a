"""Placeholders: the `?` of statements as the numbered parameters of PostgreSQL."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import count

# Texts, quoted names and comments, in which a `?` is not a placeholder; then a placeholder.
_TOKEN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\?""", re.DOTALL)
# Statements whose text depends on a number of values have a few hundred forms.
_MAX_STATEMENTS = 2048


@lru_cache(_MAX_STATEMENTS)
def numbered(statement: str) -> bytes:
    """The statement with `$1`, `$2` and so on in place of each `?`."""
    numbers = count(1)
    return _TOKEN.sub(lambda token: f"${next(numbers)}" if token[0] == "?" else token[0], statement).encode()
