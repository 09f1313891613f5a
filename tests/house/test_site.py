"""The site has every page, in one navigation that readers of the repository have as well; its tools are pinned."""

from __future__ import annotations

import re
from pathlib import Path

from tools.site.navigation import BESIDE, FOLDERS, INDEX, below, doors, shown, with_navigation

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def test_every_page_is_in_the_navigation_once() -> None:
    every = {page.relative_to(ROOT).with_suffix("").as_posix() for page in PAGES} - {INDEX}
    found = sorted(shown())
    assert found == sorted(every | {page for pages in BESIDE.values() for page in pages})


def test_the_doors_are_the_headings_of_the_index() -> None:
    assert list(doors()) == ["Get started", "Guides", "Reference", "Library", "Contribute"]
    assert doors()["Reference"][0] == "docs/configuration"


def test_the_index_and_the_folders_get_a_tree_and_other_pages_stay_as_they_are() -> None:
    assert "/docs/quickstart\n" in with_navigation(INDEX, "# Pages\n")
    assert with_navigation(FOLDERS[0], "").count("\n/docs/decisions/") == len(below(FOLDERS[0]))
    assert with_navigation("docs/quickstart", "# Start\n") == "# Start\n"


def test_anchors_that_a_page_writes_itself_are_told_to_the_generator() -> None:
    assert with_navigation("docs/quirks", '## <a id="zai"></a>Z.ai (GLM)\n') == "(zai)=\n## Z.ai (GLM)\n"


def test_no_page_is_written_for_the_generator_alone() -> None:
    assert [page.name for page in PAGES if re.search(r"^(```|:::)\{", page.read_text(encoding="utf-8"), re.M)] == []


def test_its_tools_are_pinned_and_no_other_recipe_installs_them() -> None:
    pins = (ROOT / "requirements/site.txt").read_text(encoding="utf-8")
    lines = [line for line in pins.splitlines() if line and not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    assert "sphinx" not in (ROOT / "requirements/dev.txt").read_text(encoding="utf-8").lower()
