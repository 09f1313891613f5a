"""Instants, read and written."""

from __future__ import annotations

import pytest

from dragoman.rules.timestamps import format_instant, parse_instant

NOW = 1_700_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T12:00:00Z", 951825600),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T23:13:20.5+01:00", NOW + 0.5),
        ("2100-03-01T00:00:00Z", 4107542400),
        ("tomorrow", None),
        ("2023-13-01T00:00:00Z", None),
    ],
)
def test_instants(text: str, seconds: float | None) -> None:
    assert parse_instant(text) == seconds
    if seconds is not None and text.endswith("Z"):
        assert format_instant(int(seconds)) == text
