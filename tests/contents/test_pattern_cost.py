"""Patterns of users are judged before they are used."""

from __future__ import annotations

import pytest

from dragoman.contents.pattern_cost import CostlyPattern, check_pattern


@pytest.mark.parametrize(
    "pattern",
    [
        "ACME-[0-9]{8}",
        "(?:foo|bar)-[a-z0-9]{16,64}",
        "(?i)secret: [^\\s]{1,200}",
        "[a-z]{1,64}@example\\.com",
        "(?<![0-9])[0-9]{4}(?:[ -]?[0-9]{4}){3}(?![0-9])",
        "x{2,9}+y",
        "(?>aa|b){1,20}c",
    ],
)
def test_patterns_that_take_linear_time(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a+)+b", "bounds"),
        ("a*", "bounds"),
        ("[a-z]+", "bounds"),
        ("x.*y", "bounds"),
        ("(?:a{1,10}){1,10}b", "too long"),
        ("(?:aa|a|b){1,40}c", "too long"),
        ("a{0,99}a{0,99}a{0,99}b", "too long"),
        ("(?:a?){30}a{30}", "too long"),
        ("(a)(?:x|b)*(?(1)c|d)", "bounds"),
        ("(a)?b(?(1)c|d)", "too long"),
        ("a{1,2000}", "bounds"),
        ("a?", "empty text"),
        ("", "1 to"),
        ("(", "no regular expression"),
        ("ä", "ASCII"),
        ("a" * 501, "1 to"),
    ],
)
def test_patterns_that_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(CostlyPattern, match=reason):
        check_pattern(pattern)
