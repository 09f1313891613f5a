"""The headers of our own are all on one page, and that page names none that nobody reads or writes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_HEADER = re.compile(r"x-dragoman-[a-z]+")


def _named(paths: list[Path]) -> set[str]:
    return {name for path in paths for name in _HEADER.findall(path.read_text(encoding="utf-8"))}


def test_every_header_of_our_own_is_told_and_every_one_that_is_told_exists() -> None:
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| `(x-dragoman-[a-z]+)", page, re.MULTILINE))
    assert told == _named(sorted((ROOT / "src").rglob("*.py")))
