"""Names and the patterns that they match."""

from __future__ import annotations

import pytest

from dragoman.config.nesting import Patterns

PATTERNS = ("claude-*", "claude-opus-*", "*-local", "claude-*-local", "plain", "*")


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("claude-sonnet", "claude-*"),
        ("claude-opus-5", "claude-opus-*"),
        ("claude-x-local", "claude-*-local"),
        ("phi-local", "*-local"),
        ("claude-", "claude-*"),
        ("plain", "*"),
        ("", "*"),
    ],
)
def test_the_longest_literal_prefix_wins_then_the_longest_end(name: str, pattern: str) -> None:
    assert Patterns(PATTERNS).match(name) == pattern
    assert Patterns(reversed(PATTERNS)).match(name) == pattern


def test_a_name_may_match_nothing() -> None:
    assert Patterns(PATTERNS[:-1]).match("other") is None
    assert Patterns(("ab*ba",)).match("aba") is None
