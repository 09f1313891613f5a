"""Pages that must not be forgotten: what is there is named, what is named is there, and every page can be found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import cli

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src/dragoman"
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
_links = re.compile(r"\]\(([^)#\s]+)[^)]*\)").findall


def _led_to(page: Path) -> Iterator[Path]:
    """The files that a page links to."""
    for link in _links(page.read_text(encoding="utf-8")):
        if "://" not in link:
            yield (page.parent / link).resolve()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert [str(path) for path in _led_to(page) if not path.exists()] == []


def test_every_page_can_be_found_from_the_readme() -> None:
    seen: set[Path] = set()
    open_pages = [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        for path in _led_to(page):
            open_pages += sorted(path.glob("*.md")) if path.is_dir() else [path] if path.suffix == ".md" else []
    lost = [page for page in DOCS.rglob("*.md") if page not in seen]
    assert [str(page.relative_to(ROOT)) for page in lost] == []


def test_every_page_of_a_client_is_in_their_index() -> None:
    listed = {path.name for path in _led_to(DOCS / "clients/README.md")}
    assert {page.name for page in (DOCS / "clients").glob("*.md")} - listed == {"README.md"}


def test_decisions_are_numbered_without_gaps_and_say_where_they_stand() -> None:
    decisions = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        text = path.read_text(encoding="utf-8")
        assert text.startswith(f"# {int(path.name[:4])}. "), path.name
        assert re.search(r"^(Status: |## Status$)", text, re.M), path.name


def _architecture() -> str:
    return (DOCS / "architecture.md").read_text(encoding="utf-8")


def test_every_floor_is_on_the_map() -> None:
    floors = [path for path in SOURCES.iterdir() if path.name not in ("__init__.py", "__main__.py")]
    names = [f"`{path.name}/`" if path.is_dir() else f"`{path.name}`" for path in floors if path.suffix in ("", ".py")]
    assert [name for name in sorted(names) if name not in _architecture() and name != "`__pycache__/`"] == []


def test_every_room_of_the_gateway_is_on_the_map_and_none_that_is_gone() -> None:
    _, _, behind = _architecture().partition("## The gateway's rooms")
    named = set(
        re.findall(r"`([a-z_/]+\.py)`", "\n".join(re.findall(r"^\| (`[^|]+) \|", behind.partition("\n## ")[0], re.M)))
    )
    rooms = (SOURCES / "gateway").rglob("*.py")
    assert named == {str(path.relative_to(SOURCES / "gateway")) for path in rooms if path.name != "__init__.py"}


def test_every_command_is_in_the_readme() -> None:
    told = set(re.findall(r"^\| `dragoman ([a-z]+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.M))
    assert told == {command.__name__.rpartition(".")[2] for command in cli.COMMANDS}
