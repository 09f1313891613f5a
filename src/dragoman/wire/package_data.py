"""Package data: files that are installed beside the modules of a package."""

from __future__ import annotations

from pkgutil import get_data


def read_data(package: str, name: str) -> bytes:
    """Read a file of a package. `importlib.resources` does the same, but loads `zipfile` and 20 other modules."""
    data = get_data(package, name)
    if data is None:
        raise FileNotFoundError(f"{package} has no {name}")
    return data
