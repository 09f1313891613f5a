"""Sizes: how much a model takes and says, for clients that would have to guess."""

from __future__ import annotations

import re

from msgspec import Struct

from dragoman.errors import UsageError

_UNITS = {"": 1, "k": 1000, "m": 1_000_000}
_is_size = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([km]?)", re.ASCII | re.IGNORECASE).fullmatch
_MAX_TOKENS = 10**9
# The part of a window that is left for an answer where nobody knows how much is said at most.
_PART = 4


class Sizes(Struct, frozen=True, kw_only=True):
    """Tokens; None is unknown."""

    window: int | None = None
    cap: int | None = None

    @property
    def output(self) -> int | None:
        """How much to ask for at most, so that there is room for what is asked."""
        if self.window is None or (self.cap is not None and self.cap < self.window):
            return self.cap
        return max(self.window // _PART, 1)


def read_tokens(text: str, option: str) -> int:
    """A number of tokens as people write it: 128k, 1m, 32768."""
    match = _is_size(text.strip().replace("_", ""))
    tokens = round(float(match[1]) * _UNITS[match[2].lower()]) if match is not None else 0
    if not 0 < tokens <= _MAX_TOKENS:
        raise UsageError(f"{option} is a number of tokens, for example {option} 32768 or {option} 128k")
    return tokens
