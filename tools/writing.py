"""How the pages that follow from the code are written, or checked with `--check`."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(page: Path, fresh: str) -> int:
    """Write the page; with `--check` only say, as the exit status, whether it is what would be written."""
    if "--check" not in sys.argv[1:]:
        page.write_text(fresh, encoding="utf-8")
        return 0
    if page.exists() and page.read_text(encoding="utf-8") == fresh:
        return 0
    print(f"docs/{page.name} is out of date: run `make docs`", file=sys.stderr)
    return 1
