"""The blocks of the pages: what stands in them, and where."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from tests.docs.bare import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(Struct, frozen=True, kw_only=True):
    """A fenced block: its page, the words behind its fence, the line of its first text, and the text."""

    page: str
    kind: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(kind: str, pages: list[Path] = PAGES) -> list[Block]:
    """All blocks of a kind, page by page."""
    found = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        for match in _FENCED.finditer(text):
            if match[1].strip() == kind:
                line = text.count("\n", 0, match.start(2)) + 1
                found.append(Block(page=page.relative_to(ROOT).as_posix(), kind=kind, line=line, text=match[2]))
    return found
