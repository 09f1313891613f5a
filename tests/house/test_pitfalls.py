"""Every pitfall has a test by its number, or a reason why not."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def listed(page: Path) -> set[int]:
    return {int(number) for number in re.findall(r"^(\d+)\. \*\*", page.read_text(encoding="utf-8"), re.MULTILINE)}


def known() -> set[int]:
    return set().union(*(listed(page) for page in (ROOT / "docs/internals").glob("pitfalls*.md")))


def covered() -> set[int]:
    found: set[int] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for numbers in re.findall(r"def test_pitfall((?:_\d{3})+)_", path.read_text(encoding="utf-8")):
            found.update(int(number) for number in numbers.strip("_").split("_"))
    return found


def excused() -> dict[int, str]:
    text = (ROOT / "docs/internals/pitfalls-not-covered.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+?) \|$", text, re.MULTILINE)
    return {int(number): reason for number, reason in rows}


def test_the_page_lists_all_212() -> None:
    assert listed(ROOT / "docs/internals/pitfalls.md") == set(range(1, 213))


def test_every_pitfall_is_tested_or_excused() -> None:
    missing = known() - covered() - set(excused())
    assert not missing, f"no test named after pitfalls {sorted(missing)}"


def test_excuses_have_reasons_and_are_needed() -> None:
    excuses = excused()
    assert all(len(reason) > 20 for reason in excuses.values())
    assert not set(excuses) & covered(), "tested after all: take them off the page"


def test_no_test_names_a_pitfall_that_does_not_exist() -> None:
    assert covered() <= known()
