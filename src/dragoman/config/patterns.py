"""Patterns: which line of `[models]` a name belongs to, by what stands before and after the line's `*`."""

from __future__ import annotations

from collections.abc import Iterable


class Patterns:
    """Names with one `*` each; those without one match nothing here."""

    def __init__(self, patterns: Iterable[str]) -> None:
        entries = [(*pattern.partition("*"), pattern) for pattern in patterns]
        # The most particular first.
        entries = sorted((entry for entry in entries if entry[1]), key=lambda entry: (-len(entry[0]), -len(entry[2])))
        self._parts = tuple((before, after, pattern) for before, _, after, pattern in entries)

    def match(self, name: str) -> str | None:
        """The pattern with the longest literal prefix that a name matches."""
        for before, after, pattern in self._parts:
            if len(name) >= len(before) + len(after) and name.startswith(before) and name.endswith(after):
                return pattern
        return None
