"""Compiles src/dragoman/providers/catalogue.toml to catalogue.json, which the package reads; a test compares the two.

python tools/catalogue_table.py
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from msgspec import json

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from dragoman.providers.catalogue import SOURCE, read  # noqa: E402 - the paths above come first


def main() -> int:
    """Write the compiled catalogue."""
    text = SOURCE.read_text(encoding="utf-8")
    # A mistake in it shows here, and not at the next start.
    read(text)
    SOURCE.with_suffix(".json").write_bytes(json.encode(tomllib.loads(text)) + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
