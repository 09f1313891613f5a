"""Navigation: which page stands where on the site, read from the links of docs/README.md and of the folders' own pages.

The pages stay plain Markdown that any reader shows; what the generator wants besides is added while it reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
INDEX = "docs/README"
# Pages that lead to all others of their folder.
FOLDERS = ("docs/decisions/README", "docs/internals/README")
# What a page leads to besides.
BESIDE = {"docs/internals/benchmarks": ["bench/results/translation"]}
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]+\.md)[^)]*\)")
_WRITTEN_ANCHOR = re.compile(r'^(#+ )<a id="([^"]+)"></a>', re.MULTILINE)


def doors() -> dict[str, list[str]]:
    """The headings of the index, and the pages that each leads to, as the generator names them."""
    text = (ROOT / f"{INDEX}.md").read_text(encoding="utf-8")
    _, *pieces = _HEADING.split(text)
    return {
        heading: [_name(INDEX, link) for link in _LINK.findall(piece)]
        for heading, piece in zip(pieces[::2], pieces[1::2], strict=True)
    }


def below(folder: str) -> list[str]:
    """The other pages of a folder, in order."""
    pages = sorted((ROOT / folder).parent.glob("*.md"))
    return [name for page in pages if (name := page.relative_to(ROOT).with_suffix("").as_posix()) != folder]


def shown() -> Iterator[str]:
    """Every page that can be reached at the side."""
    for pages in doors().values():
        yield from pages
    for folder in FOLDERS:
        yield from below(folder)
    for pages in BESIDE.values():
        yield from pages


def with_navigation(name: str, text: str) -> str:
    """A page as the generator is to read it: with its part of the navigation, and with anchors in its own form."""
    text = _WRITTEN_ANCHOR.sub(r"(\2)=\n\1", text)
    if name == INDEX:
        return text + "".join(_tree(pages, heading) for heading, pages in doors().items())
    pages = below(name) if name in FOLDERS else BESIDE.get(name)
    return text + _tree(pages) if pages else text


def _tree(pages: list[str], caption: str = "") -> str:
    options = [":hidden:", *([f":caption: {caption}"] if caption else [])]
    lines = ["", "```{toctree}", *options, "", *(f"/{page}" for page in pages), "```", ""]
    return "\n".join(lines)


def _name(page: str, link: str) -> str:
    """The page that a link on another page means."""
    parts: list[str] = []
    for part in (PurePosixPath(page).parent / link).with_suffix("").parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)
