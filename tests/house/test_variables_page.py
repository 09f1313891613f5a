"""docs/variables.md has every variable that is read, and nothing that is not; each has a test that uses it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tools.variables_page import PAGE, READ, named, page, undescribed

ROOT = Path(__file__).parents[2]


@cache
def _tests() -> str:
    own = Path(__file__)
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py") if path != own)


def test_pitfall_668_one_page_has_them_all_and_follows_from_the_code() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_pitfall_667_what_is_read_is_described() -> None:
    assert undescribed() == []


def test_pitfall_667_what_is_described_is_read() -> None:
    assert [name for name in READ if name not in named()] == []


@pytest.mark.parametrize("name", READ)
def test_pitfall_667_a_test_uses_it(name: str) -> None:
    assert name in _tests() or name.lower() in _tests()
