"""Database location: where a gateway stores its data, the path of a file or `MEMORY`."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

# The value of `storage.path` without a file.
MEMORY = ":memory:"
DatabaseLocation: TypeAlias = str


def is_persistent(location: DatabaseLocation) -> bool:
    """Whether data outlives the process, and other processes see it."""
    return location not in ("", MEMORY)


def database_exists(location: DatabaseLocation) -> bool:
    """Whether there is a database: the first start makes the file."""
    return is_persistent(location) and Path(location).exists()
