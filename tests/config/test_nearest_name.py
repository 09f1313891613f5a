"""The nearest name, for the remedy of a mistake."""

from __future__ import annotations

import pytest

from dragoman.config.nearest_name import nearest

CHOICES = ("serve", "sessions", "Launch")
MEANT = {"sevre": "serve", "SERVE": "serve", "session": "sessions", "lanch": "Launch", "x": None, "": None}


@pytest.mark.parametrize(("name", "expected"), MEANT.items())
def test_the_name_that_was_probably_meant(name: str, expected: str | None) -> None:
    assert nearest(name, CHOICES) == expected
