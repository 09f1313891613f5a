"""Pages that must not be forgotten: what is there is named, what is named is there, and every page can be found."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import cli

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src/dragoman"
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
_links = re.compile(r"\]\(([^)\s]+)\)").findall
# Names of files of this repository, as pages write them in their text.
_named_files = re.compile(r"`((?:src|tests|tools|docs|examples|bench|requirements)/[\w./-]*[\w/])`").findall
_named_modules = re.compile(r"`((?:\w+/)*\w+\.py)`").findall
MODULES = [
    path.relative_to(ROOT)
    for folder in ("src", "tests", "tools", "bench", "examples", "docs")
    for path in (ROOT / folder).rglob("*.py")
]
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
# Decisions and the change log tell of their time.
OF_TODAY = [page for page in PAGES if page.parent != DOCS / "decisions" and page.name != "CHANGELOG.md"]
# What is written down of protocols names files of others, too.
OF_OURS = [page for page in OF_TODAY if page.parent != DOCS / "internals"]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def _linked(page: Path) -> Iterator[tuple[Path, str]]:
    """The files that a page links to, and the headings there."""
    for link in _links(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in link:
            file, _, anchor = link.partition("#")
            yield (page.parent / file).resolve() if file else page, anchor


def _led_to(page: Path) -> Iterator[Path]:
    return (path for path, _ in _linked(page))


def _anchors(page: Path) -> set[str]:
    """The headings of a page as links name them."""
    headings = re.findall(r"^#{1,6} (.+)$", _FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    written = {name for heading in headings for name in re.findall(r'<a id="([^"]+)"></a>', heading)}
    return written | {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_pitfall_669_links_lead_somewhere(page: Path) -> None:
    assert [str(path) for path in _led_to(page) if not path.exists()] == []


@each_page
def test_pitfall_669_headings_that_are_linked_to_are_there(page: Path) -> None:
    linked = [(path, anchor) for path, anchor in _linked(page) if anchor]
    assert [f"{path.name}#{anchor}" for path, anchor in linked if anchor not in _anchors(path)] == []


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: str(page.relative_to(ROOT)))
def test_pitfall_669_files_that_a_page_names_are_there(page: Path) -> None:
    named = _named_files(_FENCED.sub("", page.read_text(encoding="utf-8")))
    # `src/dragoman/X/y.py` stands for any.
    assert [name for name in named if "/X/" not in name and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", OF_OURS, ids=lambda page: str(page.relative_to(ROOT)))
def test_pitfall_669_modules_that_a_page_names_are_there(page: Path) -> None:
    """Pages name modules by the end of their path, from the folder that they are about."""
    ends = {"/".join(path.parts[-many:]) for path in MODULES for many in range(1, len(path.parts) + 1)}
    named = _named_modules(_FENCED.sub("", page.read_text(encoding="utf-8")))
    assert [name for name in named if "/X/" not in name and name not in ends] == []


def test_pitfall_670_a_request_to_copy_and_the_way_to_all_pages_are_where_people_begin() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert "$ curl " in "\n".join(index.splitlines()[:12])
    assert re.search(r"^## Get started$.*^## Guides$.*^## Reference$", index, re.MULTILINE | re.DOTALL)
    first_screen = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:70])
    assert "$ curl " in first_screen
    assert "(docs/README.md)" in first_screen


def test_pitfall_670_every_page_of_a_person_stands_behind_one_door() -> None:
    behind = [path for path in _led_to(DOCS / "README.md") if path.parent == DOCS]
    assert sorted(page for page in DOCS.glob("*.md") if page.name != "README.md") == sorted(behind)


# What people search for: the words of shells, clients and the gateway itself.
SEEN = (
    "Auth conflict",
    "is not a model this version of Claude Code recognizes",
    "Model metadata for … not found",
    "A firewall or proxy may be blocking it",
    "stream closed before response.completed",
    "Connection refused",
    "command not found: dragoman",
    "Address already in use",
    "It does not take the key",
    "This Host is not allowed here",
    "prompt is too long",
)


@pytest.mark.parametrize("seen", SEEN)
def test_pitfall_671_the_sentence_that_people_see_is_a_heading_with_a_way_out(seen: str) -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    (section,) = (part for part in page.split("\n## ")[1:] if part.startswith(seen))
    assert len(section) > 100
    assert "`" in section or "```" in section


@pytest.mark.parametrize("client", ["claude-code", "codex", "opencode"])
def test_pitfall_672_the_page_of_an_agent_says_which_version_was_looked_at_and_what_it_does(client: str) -> None:
    page = (DOCS / f"clients/{client}.md").read_text(encoding="utf-8")
    assert re.search(r"[Mm]easured with [A-Z][\w ]+ \d+\.\d+", page)
    # Its own limits: windows that it assumes, names that it filters, files that it reads.
    assert re.search(r"^## (Limits|Good to know)$", page, re.MULTILINE)


def test_every_page_can_be_found_from_the_readme() -> None:
    seen: set[Path] = set()
    open_pages = [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        # Beside a folder's own page its files are listed.
        open_pages += sorted(page.parent.glob("*.md")) if page == DOCS / "decisions/README.md" else []
        for path in _led_to(page):
            open_pages += sorted(path.glob("*.md")) if path.is_dir() else [path] if path.suffix == ".md" else []
    lost = [page for page in DOCS.rglob("*.md") if page not in seen]
    assert [str(page.relative_to(ROOT)) for page in lost] == []


def test_decisions_are_numbered_without_gaps_and_say_where_they_stand() -> None:
    decisions = sorted((DOCS / "decisions").glob("[0-9]*.md"))
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


def test_every_folder_of_tests_is_a_floors_or_on_the_map() -> None:
    known = {path.name for path in SOURCES.iterdir() if path.is_dir()} | {"data"}
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.*") if path.parent.name != "__pycache__"}
    assert sorted(name for name in folders - known if f"`tests/{name}/`" not in _architecture()) == []


def test_floors_stand_on_the_map_as_the_contract_has_them() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    held = [floor for layer in reversed(contracts[0]["layers"]) for floor in layer.split(" | ")]
    drawn = [name.removesuffix(".py").rstrip("/") for name in re.findall(r"`([^`]+)`", _named_in("Layers"))]
    assert drawn == held


def _named_in(heading: str) -> str:
    """The first cells of the first table below a heading."""
    _, _, behind = _architecture().partition(f"\n## {heading}\n")
    return "\n".join(re.findall(r"^\| ([^|]*`[^|]+) \|", re.split("\n##", behind)[0], re.M))


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    told = set(re.findall(r"`dragoman ([a-z]+)[^`]*`(?=.* \|)", _table_of_commands()))
    assert told == set(cli.COMMANDS)


def _table_of_commands() -> str:
    return (DOCS / "cli.md").read_text(encoding="utf-8").partition("| Command | Purpose |")[2].partition("\n\n")[0]
